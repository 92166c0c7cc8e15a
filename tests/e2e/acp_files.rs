//! The files of a client of `patchbay acp`: skills that change files read the editor's unsaved text, and write through the client.

use std::fs;

use patchbay_tests::{
    acp::{Peer, prompt, said, updates},
    binary::Patchbay,
};
use serde_json::{Value, json};

const EDIT: &str = r#"call files__edit {"path": "a.txt", "old": "saved", "new": "edited"}"#;

/// A workspace with a file that the skill `files` may write.
fn with_file() -> Patchbay {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.txt", "saved on disk\n");
    let granted = patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    patchbay
}

fn offering(patchbay: &Patchbay, reads: bool, writes: bool) -> (Peer, String) {
    let fs = json!({"fs": {"readTextFile": reads, "writeTextFile": writes}});
    let mut peer = Peer::with_capabilities(patchbay, &fs);
    let session = peer.session(patchbay, 1);
    (peer, session)
}

fn path(patchbay: &Patchbay) -> Value {
    json!(patchbay.workspace().canonicalize().unwrap().join("a.txt"))
}

fn on_disk(patchbay: &Patchbay) -> String {
    fs::read_to_string(patchbay.workspace().join("a.txt")).unwrap()
}

#[test]
fn unsaved_text_is_read_from_the_client_and_written_to_it() {
    let patchbay = with_file();
    let (mut peer, session) = offering(&patchbay, true, true);
    peer.request(2, "session/prompt", prompt(&session, &format!("{EDIT}\nthen say Done.")));
    let read = peer.asked("fs/read_text_file");
    assert_eq!(read["params"], json!({"sessionId": session, "path": path(&patchbay)}));
    peer.respond(&read, json!({"content": "not saved\n"}));
    // `/undo` needs the current content, which only the client knows.
    let kept = peer.asked("fs/read_text_file");
    peer.respond(&kept, json!({"content": "not saved\n"}));
    let write = peer.asked("fs/write_text_file");
    assert_eq!(write["params"], json!({"sessionId": session, "path": path(&patchbay), "content": "not edited\n"}));
    peer.respond(&write, Value::Null);
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    let seen = peer.take();
    assert!(said(&seen).ends_with("Done."));
    assert_eq!(updates(&seen, "tool_call")[0]["kind"], "edit", "as the tool declares");
    // The client saves the file, not Patchbay.
    assert_eq!(on_disk(&patchbay), "saved on disk\n");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn what_the_client_does_not_offer_uses_the_disk() {
    let patchbay = with_file();
    let (mut peer, session) = offering(&patchbay, true, false);
    peer.request(2, "session/prompt", prompt(&session, EDIT));
    let read = peer.asked("fs/read_text_file");
    peer.respond(&read, json!({"content": "saved in the editor\n"}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    assert_eq!(on_disk(&patchbay), "edited in the editor\n");
    let asked = peer.take().into_iter().filter(|message| message.get("id").is_some()).count();
    assert_eq!(asked, 1, "the client is asked for nothing else");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn replaced_file_is_shown_with_its_old_text() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.txt", "old\n");
    patchbay.write("workspace/.gitignore", "hidden.txt\n");
    patchbay.write("workspace/hidden.txt", "secret\n");
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    for (id, (file, old)) in
        (2..).zip([("a.txt", Some(json!("old\n"))), ("new.txt", Some(Value::Null)), ("hidden.txt", None)])
    {
        peer.take();
        let write = format!(r#"call files__write {{"path": "{file}", "text": "new\n"}}"#);
        peer.request(id, "session/prompt", prompt(&session, &write));
        // The client sees the call before the question.
        let shown = peer.until(|message| message["params"]["update"]["sessionUpdate"] == "tool_call");
        let content = &shown["params"]["update"]["content"];
        assert!(old.is_none() || content[0]["newText"] == "new\n", "{file}: {shown}");
        assert_eq!(content[0].get("oldText").cloned(), old, "{file}: {shown}");
        let question = peer.asked("session/request_permission");
        peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "no"}}));
        assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    }
    assert_eq!(on_disk(&patchbay), "old\n");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn replaced_file_is_shown_as_the_editor_has_it() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.txt", "saved on disk\n");
    let (mut peer, session) = offering(&patchbay, true, true);
    let write = r#"call files__write {"path": "a.txt", "text": "new\n"}"#;
    // Returns the old text of the change that the client displays.
    let mut shown_old = |id: i64, mut answer: Value| {
        peer.take();
        peer.request(id, "session/prompt", prompt(&session, write));
        let ended = loop {
            let message = peer.next_message();
            match message["method"].as_str() {
                // Read once for the displayed change, and once by the tool.
                Some("fs/read_text_file") => {
                    assert_eq!(message["params"], json!({"sessionId": session, "path": path(&patchbay)}));
                    answer["jsonrpc"] = json!("2.0");
                    answer["id"] = message["id"].clone();
                    peer.message(&answer);
                }
                Some("session/request_permission") => {
                    peer.respond(&message, json!({"outcome": {"outcome": "selected", "optionId": "no"}}));
                }
                Some(_) => {}
                None => break message,
            }
        };
        assert_eq!(ended["result"]["stopReason"], "end_turn");
        updates(&peer.take(), "tool_call")[0]["content"][0].get("oldText").cloned()
    };
    let refused = json!({"error": {"code": -32603, "message": "the buffer is locked"}});
    assert_eq!(shown_old(2, refused), None);
    // On a slow machine a response may arrive too late to be displayed.
    let unsaved = json!({"result": {"content": "not saved\n"}});
    let shown = (3..13).find_map(|id| shown_old(id, unsaved.clone()));
    assert_eq!(shown, Some(json!("not saved\n")));
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn failed_request_for_a_file_fails_the_tool_and_a_cancelled_turn_withdraws_it() {
    let patchbay = with_file();
    let (mut peer, session) = offering(&patchbay, true, true);
    peer.request(2, "session/prompt", prompt(&session, EDIT));
    let read = peer.asked("fs/read_text_file");
    let error = json!({"code": -32603, "message": "the buffer is locked"});
    peer.message(&json!({"jsonrpc": "2.0", "id": read["id"], "error": error}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    let seen = peer.take();
    let last = updates(&seen, "tool_call_update").last().unwrap().to_string();
    assert!(last.contains("failed") && last.contains("the buffer is locked"), "{last}");
    assert_eq!(on_disk(&patchbay), "saved on disk\n");
    peer.request(3, "session/prompt", prompt(&session, EDIT));
    let read = peer.asked("fs/read_text_file");
    peer.notify("session/cancel", json!({"sessionId": session}));
    // The messages may arrive in any order.
    let is_withdrawal = |message: &Value| message["method"] == "$/cancel_request";
    let is_answer = |message: &Value| message.get("method").is_none();
    let first = peer.until(|message| is_withdrawal(message) || is_answer(message));
    let (withdrawn, answer) = match is_answer(&first) {
        true => (peer.until(is_withdrawal), first),
        false => (first, peer.until(is_answer)),
    };
    assert_eq!(withdrawn["params"]["requestId"], read["id"]);
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert_eq!(peer.prompt(4, &session, "say Again."), "end_turn");
    assert_eq!(peer.leave(), Some(0));
}

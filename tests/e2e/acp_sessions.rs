//! Sessions of `patchbay acp`, with one or several agents: how they are listed, loaded, resumed and closed, which work a cancelled
//! prompt stops, questions to the user, and the order of messages to a client.

use patchbay_tests::{
    acp::{Peer, in_workspace, prompt, said, updates},
    binary::Patchbay,
    calls::relaying,
};
use serde_json::{Value, json};

/// A tool call that asks the user for permission.
const WRITE: &str = r#"call files__write {"path": "made.txt", "text": "x"}"#;

/// Returns the parameters of `session/load` and `session/resume`.
fn existing(patchbay: &Patchbay, session: &str) -> Value {
    let mut params = in_workspace(patchbay);
    params["sessionId"] = json!(session);
    params
}

/// Loads a session in another process and returns the messages before the response, and those after it up to the session's
/// title.
fn load(patchbay: &Patchbay, session: &str) -> (Vec<Value>, Vec<Value>) {
    let mut peer = Peer::initialized(patchbay);
    let params = existing(patchbay, session);
    let answer = peer.call(1, "session/load", params);
    assert!(answer["result"].is_object(), "{answer}");
    let replayed = peer.take();
    peer.until(|message| message["params"]["update"]["sessionUpdate"] == "session_info_update");
    let after = peer.take();
    assert_eq!(peer.leave(), Some(0));
    (replayed, after)
}

/// Returns the messages of a replay, with `> ` before user messages.
fn conversation(replayed: &[Value]) -> Vec<String> {
    let line = |update: &Value| {
        let text = update["content"]["text"].as_str().unwrap_or_default().trim();
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "user_message_chunk" => Some(format!("> {text}")),
            "agent_message_chunk" => Some(text.to_owned()),
            _ => None,
        }
    };
    replayed.iter().filter_map(|message| line(&message["params"]["update"])).collect()
}

/// Returns each tool call with its final state.
fn calls(replayed: &[Value]) -> Vec<(String, String)> {
    let mut calls: Vec<(String, String)> = Vec::new();
    for message in replayed {
        let update = &message["params"]["update"];
        let [id, status] = ["toolCallId", "status"].map(|key| update[key].as_str().unwrap_or_default().to_owned());
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "tool_call" => calls.push((id, status)),
            "tool_call_update" if !status.is_empty() => {
                calls.iter_mut().filter(|(of, _)| *of == id).for_each(|(_, last)| last.clone_from(&status));
            }
            _ => {}
        }
    }
    calls
}

#[test]
fn loaded_fork_has_what_it_inherits_and_cards_for_the_others() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    for (id, line) in (2..).zip(["say One.", "/fork \"say Two.\"", "/switch root", "say Three."]) {
        assert_eq!(peer.prompt(id, &session, line), "end_turn", "{line}");
    }
    let agents = peer.say(9, &session, json!([{"type": "text", "text": "/agents"}]));
    let child = agents.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    assert_eq!(peer.prompt(10, &session, &format!("/switch {child}")), "end_turn");
    assert_eq!(peer.leave(), Some(0));
    let (replayed, after) = load(&patchbay, &session);
    let said = conversation(&replayed);
    assert_eq!(said[..4], ["> say One.", "One.", "> say Two.", "Two."], "{said:?}");
    assert!(!said.iter().any(|line| line.contains("Three.")), "{said:?}");
    // The root's turn after the fork.
    let calls = calls(&replayed);
    assert!(matches!(&calls[..], [(id, status)] if id.starts_with("turn-") && status == "completed"), "{calls:?}");
    let shown = updates(&replayed, "tool_call_update");
    assert!(shown.iter().any(|update| update.to_string().contains("Three.")), "{shown:?}");
    assert_eq!(updates(&after, "session_info_update")[0]["title"], "say One.");
    // With the root in view, it is the other way round: its own turn is in the conversation, and the child's is not.
    let mut peer = Peer::initialized(&patchbay);
    let params = existing(&patchbay, &session);
    peer.call(1, "session/resume", params);
    assert_eq!(peer.prompt(2, &session, "/switch root"), "end_turn");
    assert_eq!(peer.leave(), Some(0));
    let said = conversation(&load(&patchbay, &session).0);
    assert!(said.iter().any(|line| line == "Three.") && !said.iter().any(|line| line == "Two."), "{said:?}");
}

#[test]
fn loaded_turns_that_failed_say_why() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    assert_eq!(peer.prompt(2, &session, "fail invalid-request never"), "end_turn");
    let error = said(&peer.take());
    assert!(error.starts_with("Error: "), "{error}");
    assert_eq!(peer.leave(), Some(0));
    let shown = conversation(&load(&patchbay, &session).0);
    assert_eq!(shown, ["> fail invalid-request never", &error]);
}

#[test]
fn loaded_skills_are_shown_once_without_their_instructions() {
    let patchbay = Patchbay::quick();
    let skill = |name: &str, first: &str| {
        patchbay.skill(name, &format!("command: {name}"), &format!("{first}\nInstructions for $INPUT"));
    };
    skill("planner", "say Planned.");
    skill("broken", "fail invalid-request never");
    let ran = patchbay.run(&["exec", "--keep-going", "/planner a house", "/broken it", "/planner"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let shown = conversation(&load(&patchbay, &patchbay.last_session()).0);
    let expected = [
        "> /skill planner a house",
        "Planned.",
        "> /skill broken it",
        "Error: demo: demo fails as requested: invalid-request",
        "> /skill planner",
        "Skill 'planner' is in the conversation. Your next message is its input.",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn loaded_answers_have_their_thoughts_and_no_guessed_changes() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.txt", "old\n");
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]).code, Some(0));
    let write = r#"call files__write {"path": "a.txt", "text": "new\n"}"#;
    assert_eq!(patchbay.exec(&["/model demo-1/low", write]).code, Some(0));
    let (replayed, _) = load(&patchbay, &patchbay.last_session());
    let thoughts = updates(&replayed, "agent_thought_chunk");
    assert!(thoughts[0]["content"]["text"].as_str().unwrap().starts_with("Thinking at level low"), "{thoughts:?}");
    // A stored call does not contain the earlier text of the file, so no diff is shown.
    let call = updates(&replayed, "tool_call")[0];
    assert_eq!((&call["rawInput"]["text"], call.get("content")), (&json!("new\n"), None), "{call}");
    assert!(!Value::from(replayed).to_string().contains(r#""type":"diff""#));
}

#[test]
fn lines_of_an_earlier_process_are_shown_and_not_sent() {
    let patchbay = Patchbay::quick();
    assert_eq!(patchbay.exec(&["say First."]).code, Some(0));
    let (session, database) = (patchbay.last_session(), patchbay.database("patchbay.db"));
    let queue = "INSERT INTO queued_lines (session, position, agent, line, content) \
                 SELECT ?, 0, uuid, ?, 'say Left over.' FROM agents";
    for (id, method) in [(1, "session/load"), (2, "session/resume")] {
        database.execute(queue, [&*session, &format!("0192f7a1-0000-7000-8000-00000000000{id}")]).unwrap();
        let open = || {
            let mut peer = Peer::initialized(&patchbay);
            let params = existing(&patchbay, &session);
            let answer = peer.call(1, method, params);
            assert!(answer["result"].is_object(), "{answer}");
            peer
        };
        let waiting =
            || -> u32 { database.query_row("SELECT count(*) FROM queued_lines", (), |row| row.get(0)).unwrap() };
        // An editor that opens the session and sends nothing.
        assert_eq!(open().leave(), Some(0));
        assert_eq!(waiting(), 1, "{method}");
        let mut peer = open();
        let said = peer.say(2, &session, json!([{"type": "text", "text": "say New."}]));
        assert_eq!(said, "1 waiting line was not sent:\n\nsay Left over.\n\nNew.", "{method}");
        assert_eq!(peer.leave(), Some(0));
        assert_eq!(waiting(), 0, "{method}");
    }
}

#[test]
fn notices_of_the_start_come_with_the_first_prompt() {
    let mut patchbay = Patchbay::quick();
    let workspace = patchbay.workspace();
    patchbay.set("HOME", workspace.to_str().unwrap());
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let said = peer.say(2, &session, json!([{"type": "text", "text": "say Hi."}]));
    assert!(said.starts_with("this workspace is or contains your home folder") && said.ends_with("\n\nHi."), "{said}");
    assert_eq!(peer.say(3, &session, json!([{"type": "text", "text": "say Again."}])), "Again.");
    assert_eq!(peer.leave(), Some(0));
    // Clients that display notices receive them immediately.
    let mut peer = Peer::with_capabilities(&patchbay, &json!({"session": {"notices": {}}}));
    peer.session(&patchbay, 1);
    let notice = peer.until(|message| message["params"]["update"]["sessionUpdate"] == "notice");
    assert!(notice["params"]["update"]["title"].as_str().unwrap().contains("home folder"), "{notice}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn sessions_without_a_line_are_not_listed_and_unknown_ones_deleted_without_an_error() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let sessions: Vec<String> = (1..=3).map(|id| peer.session(&patchbay, id)).collect();
    assert_eq!(peer.prompt(4, &sessions[1], "say Something."), "end_turn");
    let listed = peer.call(5, "session/list", json!({}));
    let ids: Vec<&Value> = listed["result"]["sessions"].as_array().unwrap().iter().map(|it| &it["sessionId"]).collect();
    assert_eq!(ids, [&json!(sessions[1])], "{listed}");
    for (id, session) in [(6, "00000000-0000-7000-8000-000000000000"), (7, "no id")] {
        let answer = peer.call(id, "session/delete", json!({"sessionId": session}));
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn fork_is_answered_before_the_first_words_of_the_child() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    for id in 2..8 {
        peer.take();
        assert_eq!(peer.prompt(id, &session, "/fork \"say Here.\""), "end_turn");
        let shown = said(&peer.take());
        assert!(shown.starts_with("Forked child ") && shown.ends_with("Here."), "{shown}");
        assert!(shown.contains("\n\nYou are now talking to it; /switch parent goes back.\n\n"), "{shown}");
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn sole_prompt_that_is_given_up_stops_everything_that_it_began() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let fork = r#"call fork {"prompt": "hang"}"#;
    peer.request(2, "session/prompt", prompt(&session, &format!("{fork}\nthen say Forked.")));
    peer.until(|message| message.to_string().contains("Forked."));
    peer.notify("$/cancel_request", json!({"requestId": 2}));
    peer.assert_error(2, -32800);
    let calls = calls(&peer.take());
    assert!(calls.iter().all(|(_, status)| matches!(&**status, "completed" | "failed")), "{calls:?}");
    assert_eq!(peer.prompt(3, &session, "say Again."), "end_turn");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn one_of_several_prompts_is_given_up_alone() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    peer.request(2, "session/prompt", prompt(&session, &format!("{WRITE}\nthen say First.")));
    let question = peer.asked("session/request_permission");
    peer.request(3, "session/prompt", prompt(&session, "say Never said."));
    peer.notify("$/cancel_request", json!({"requestId": 3}));
    peer.assert_error(3, -32800);
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "once"}}));
    let answer = peer.answer();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(2), &json!("end_turn")));
    let shown = said(&peer.take());
    assert!(shown.contains("First.") && !shown.contains("Never"), "{shown}");
    // One request is already answered; the other two ids are unknown.
    for id in [json!(2), json!(77), json!("x")] {
        peer.notify("$/cancel_request", json!({"requestId": id}));
    }
    assert_eq!(peer.prompt(4, &session, "say Still here."), "end_turn");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn running_prompt_is_given_up_alone_and_the_next_one_runs() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    peer.request(2, "session/prompt", prompt(&session, "say First begins.\nhang"));
    peer.until(|message| message.to_string().contains("begins."));
    peer.request(3, "session/prompt", prompt(&session, "say Second."));
    peer.notify("$/cancel_request", json!({"requestId": 2}));
    peer.assert_error(2, -32800);
    let answer = peer.answer();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(3), &json!("end_turn")));
    let shown = said(&peer.take());
    assert!(shown.ends_with("Second.") && !shown.contains("not sent"), "{shown}");
    assert_eq!(peer.leave(), Some(0));
}

/// When the prompt is cancelled, its line `/fork` has ended, but the child's turn is still running.
#[test]
fn fork_prompt_that_is_given_up_stops_the_turn_of_its_child() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    peer.request(2, "session/prompt", prompt(&session, "/fork \"say Child begins.\nhang\""));
    peer.until(|message| message.to_string().contains("begins."));
    // The line waits for the turn of the child, which is now in view.
    peer.request(3, "session/prompt", prompt(&session, "say Next."));
    peer.notify("$/cancel_request", json!({"requestId": 2}));
    peer.assert_error(2, -32800);
    let answer = peer.answer();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(3), &json!("end_turn")));
    let shown = said(&peer.take());
    assert!(shown.ends_with("Next.") && !shown.contains("not sent"), "{shown}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn cancelled_prompt_does_not_wait_for_a_later_one() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    peer.request(2, "session/prompt", prompt(&session, "say Begins.\nhang"));
    peer.until(|message| message.to_string().contains("Begins."));
    peer.notify("session/cancel", json!({"sessionId": session}));
    // The prompt stays open until its question is answered.
    peer.request(3, "session/prompt", prompt(&session, WRITE));
    // The messages may arrive in any order.
    let is_answer = |message: &Value| message.get("method").is_none();
    let is_question = |message: &Value| message["method"] == "session/request_permission";
    let first = peer.until(|message| is_answer(message) || is_question(message));
    let (cancelled, question) = match is_answer(&first) {
        true => (first, peer.until(is_question)),
        false => (peer.until(is_answer), first),
    };
    assert_eq!((&cancelled["id"], &cancelled["result"]["stopReason"]), (&json!(2), &json!("cancelled")));
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "no"}}));
    let answer = peer.answer();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(3), &json!("end_turn")));
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn cancelled_fork_is_answered_when_its_child_has_stopped() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let fork = r#"/fork "call files__write {"path": "made.txt", "text": "x"}""#;
    peer.request(2, "session/prompt", prompt(&session, fork));
    peer.asked("session/request_permission");
    peer.notify("session/cancel", json!({"sessionId": session}));
    peer.request(3, "session/prompt", prompt(&session, "say Next."));
    let answer = peer.answer();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(2), &json!("cancelled")));
    let calls = calls(&peer.take());
    assert!(matches!(&calls[..], [(_, status)] if status == "failed"), "{calls:?}");
    let answer = peer.answer();
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(3), &json!("end_turn")));
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn question_without_an_answer_ends_with_cancel_and_close() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    for (id, end) in [(10, "session/cancel"), (20, "session/close")] {
        let session = peer.session(&patchbay, id);
        peer.request(id + 1, "session/prompt", prompt(&session, WRITE));
        let question = peer.asked("session/request_permission");
        let session = json!({"sessionId": session});
        match end {
            "session/cancel" => peer.notify(end, session),
            _ => peer.request(id + 2, end, session),
        }
        // The messages may arrive in any order.
        let is_withdrawal = |message: &Value| message["method"] == "$/cancel_request";
        let is_answer = |message: &Value| message["id"] == id + 1 && message.get("method").is_none();
        let first = peer.until(|message| is_withdrawal(message) || is_answer(message));
        let (withdrawn, answer) = match is_answer(&first) {
            true => (peer.until(is_withdrawal), first),
            false => (first, peer.until(is_answer)),
        };
        assert_eq!(
            (&withdrawn["params"]["requestId"], &answer["result"]["stopReason"]),
            (&question["id"], &json!("cancelled"))
        );
        assert!(!patchbay.workspace().join("made.txt").exists(), "{end}");
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn question_keeps_title_and_change_of_its_tool_call() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    peer.request(2, "session/prompt", prompt(&session, WRITE));
    let question = peer.asked("session/request_permission");
    let asked = &question["params"]["toolCall"];
    assert_eq!(asked["title"], "files__write made.txt");
    let text = asked["content"][0]["content"]["text"].as_str().unwrap();
    assert!(
        text.starts_with("the bundled skill 'files' asks for 'workspace-write'\n\n```\nCreate made.txt: +1?\n```"),
        "{asked}"
    );
    let made = patchbay.workspace().canonicalize().unwrap().join("made.txt");
    let diff = json!({"type": "diff", "path": made, "oldText": null, "newText": "x"});
    assert_eq!(&asked["content"].as_array().unwrap()[1..], std::slice::from_ref(&diff));
    peer.take();
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "once"}}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    let seen = peer.take();
    let updates = updates(&seen, "tool_call_update");
    let restored: Vec<&&Value> = updates.iter().filter(|update| update["title"].is_string()).collect();
    assert_eq!(restored.len(), 1, "{updates:?}");
    assert_eq!((&restored[0]["toolCallId"], &restored[0]["title"]), (&asked["toolCallId"], &asked["title"]));
    assert!(restored[0]["content"].as_array().unwrap().contains(&diff), "{updates:?}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn question_of_a_command_is_a_tool_call_that_ends() {
    let patchbay = Patchbay::quick();
    let relay = relaying("calc__eval", r#"{"expression": "1"}"#);
    patchbay.add_command("relay", &relay, "capabilities: [{name: tools}]\n");
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    for (id, option, expected) in [(2, "no", "failed"), (3, "once", "completed")] {
        peer.request(id, "session/prompt", prompt(&session, "/relay {}"));
        let question = peer.asked("session/request_permission");
        peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": option}}));
        assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
        let calls = calls(&peer.take());
        let call = question["params"]["toolCall"]["toolCallId"].as_str().unwrap().to_owned();
        assert_eq!(calls, [(call, expected.to_owned())]);
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn open_session_that_is_opened_again_still_asks() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    for (id, method) in [(2, "session/resume"), (4, "session/load")] {
        let params = existing(&patchbay, &session);
        let answer = peer.call(id, method, params);
        assert!(answer["result"].is_object(), "{method}: {answer}");
        peer.request(id + 1, "session/prompt", prompt(&session, WRITE));
        let question = peer.asked("session/request_permission");
        peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "no"}}));
        assert_eq!(peer.answer()["result"]["stopReason"], "end_turn", "{method}");
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn closed_session_takes_no_prompt_and_can_be_opened_at_once() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let params = existing(&patchbay, &session);
    for id in (10..50).step_by(10) {
        // Sent without waiting for the responses.
        peer.request(id, "session/close", json!({"sessionId": session}));
        peer.request(id + 1, "session/prompt", prompt(&session, "say Late."));
        peer.request(id + 2, "session/resume", params.clone());
        let mut answers: Vec<Value> = (0..3).map(|_| peer.answer()).collect();
        answers.sort_by_key(|answer| answer["id"].as_i64());
        assert!(answers[0]["result"].is_object() && answers[2]["result"].is_object(), "{answers:?}");
        assert_eq!(answers[1]["error"]["code"], -32002, "{answers:?}");
        assert_eq!(peer.prompt(id + 3, &session, "say Again."), "end_turn");
    }
    assert!(!said(&peer.take()).contains("Late."));
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn session_of_exec_is_loaded() {
    let patchbay = Patchbay::quick();
    assert_eq!(patchbay.exec(&["say Kept.", "/calc 6 * 7"]).code, Some(0));
    let session = patchbay.last_session();
    let (replayed, after) = load(&patchbay, &session);
    assert_eq!(conversation(&replayed), ["> say Kept.", "Kept.", "> /calc 6 * 7", "42"]);
    assert_eq!(updates(&after, "session_info_update")[0]["title"], "say Kept.");
}

#[test]
fn kill_names_the_agent_that_one_talks_to() {
    let patchbay = Patchbay::quick();
    assert_eq!(patchbay.exec(&["/fork"]).code, Some(0));
    let (session, database) = (patchbay.last_session(), patchbay.database("patchbay.db"));
    let newest = "SELECT uuid FROM agents ORDER BY created_at DESC, ordinal DESC";
    let child: String = database.query_row(newest, (), |row| row.get(0)).unwrap();
    let queue = "INSERT INTO queued_lines (session, position, agent, line, content) VALUES (?, 0, ?, ?, 'say never')";
    database.execute(queue, [&*session, &child, "0192f7a1-0000-7000-8000-000000000001"]).unwrap();
    let mut peer = Peer::initialized(&patchbay);
    let params = existing(&patchbay, &session);
    peer.call(1, "session/resume", params);
    let said = peer.say(2, &session, json!([{"type": "text", "text": "/kill"}]));
    let root: String =
        database.query_row("SELECT uuid FROM agents WHERE parent_uuid IS NULL", (), |row| row.get(0)).unwrap();
    let expected = format!(
        "1 waiting line was not sent:\n\nsay never\n\nKilled 1 agent: {child}\n\nYou are now talking to {}.",
        &root[..8]
    );
    assert_eq!(said, expected);
    assert_eq!(peer.leave(), Some(0));
}

//! `/capture` and `/cancel`: captured lines are kept for `/fork` and never reach a model in another way.

use patchbay_core::MessageKind;
use patchbay_sandbox::Limits;
use patchbay_session::Approval;
use patchbay_tests::{
    format::CHAT,
    play::{Answering, Play, with_local_model},
    server::Server,
    session_events::wait_for_end,
};

/// A server in place of a model. It records every request and answers `Yes.`
fn recording() -> Server {
    Server::always(CHAT.answer_with(&["Yes."]))
}

#[tokio::test(flavor = "multi_thread")]
async fn captured_lines_become_the_prompt_of_the_child() {
    let server = recording();
    let play = Play::with(with_local_model(&server, 100_000), Limits::default()).await;
    let root = play.session.view();
    play.assert_line("/capture", "capture_started", "Capturing. End with /fork or /cancel.").await;
    assert!(play.session.is_capturing());
    let task = ["Enumerate all the *.md files,", "count their words and build", " a summary table."];
    for (line, count) in task.iter().zip(["1 line", "2 lines", "3 lines"]) {
        play.assert_line(line, "captured", &format!("Captured ({count}).")).await;
    }
    assert_eq!(play.texts(root, MessageKind::Capture), task);
    assert_eq!(server.requests(), [] as [String; 0]);
    let child = play.fork("").await;
    play.idle().await;
    assert_eq!(play.said(child), [task.join("\n")]);
    assert_eq!(play.turns(child), [("person".to_owned(), "done".to_owned(), "answered".to_owned())]);
    let [request] = &server.requests()[..] else { panic!("one request of the child") };
    assert!(request.contains("Enumerate all the *.md files,\\ncount their words and build\\n a summary table."));
    // Capturing ended with the fork; the parent never reads the captured text.
    play.switch(root).await;
    assert!(!play.session.is_capturing());
    assert_eq!(play.finish("Hello").await.message, "Yes.");
    let requests = server.requests();
    assert!(requests.len() == 2 && !requests[1].contains("Enumerate"), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_work_while_capturing_and_are_not_captured() {
    let play = Play::new().await;
    let root = play.session.view();
    play.run("/capture").await;
    let active = "Error: already capturing. Use /fork to send or /cancel to discard.";
    play.assert_line("/capture", "capture_active", active).await;
    play.run("One").await;
    for (line, code) in [
        ("/agents", "agents_listed"),
        ("/skills", "skills_empty"),
        ("/model demo-big", "model_set"),
        ("/nope", "unknown_command"),
        ("/mail-check", "mail_empty"),
        ("/history", "history_empty"),
    ] {
        assert_eq!(play.run(line).await.code.as_str(), code, "{line}");
    }
    let prompt = "Error: a prompt cannot be given while capturing; the captured text is the prompt.";
    play.assert_line("/fork \"Go\"", "invalid_args", prompt).await;
    play.assert_line("/fork --model nope", "unknown_model", &play.text("/model nope").await).await;
    play.assert_line("Two", "captured", "Captured (2 lines).").await;
    assert_eq!(play.texts(root, MessageKind::Capture), ["One", "Two"]);
    let child = play.fork("--model demo-1").await;
    play.idle().await;
    assert_eq!(play.answers(child), ["You said: One\nTwo"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_keeps_the_lines_visible_and_sends_nothing() {
    let server = recording();
    let play = Play::with(with_local_model(&server, 100_000), Limits::default()).await;
    let root = play.session.view();
    play.assert_line("/cancel", "capture_inactive", "Error: not capturing.").await;
    play.run("/capture").await;
    play.run("Captured words").await;
    play.assert_line("/cancel", "capture_cancelled", "Capture cancelled.").await;
    play.assert_line("/cancel", "capture_inactive", "Error: not capturing.").await;
    assert_eq!(play.texts(root, MessageKind::Capture), ["Captured words"]);
    assert_eq!(play.finish("Hello").await.message, "Yes.");
    // The next capture does not contain them.
    play.run("/capture").await;
    play.assert_line("New words", "captured", "Captured (1 line).").await;
    play.fork("").await;
    play.idle().await;
    let requests = server.requests();
    assert!(requests.len() == 2 && requests.iter().all(|request| !request.contains("Captured words")));
    assert!(requests[1].contains("New words"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_without_captured_lines_makes_an_idle_child() {
    let play = Play::new().await;
    let root = play.session.view();
    play.run("/capture").await;
    let child = play.fork("").await;
    play.idle().await;
    assert_eq!((play.rows(child).await, play.turns(child)), (vec![], vec![]));
    play.switch(root).await;
    play.assert_line("/cancel", "capture_inactive", "Error: not capturing.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capture_belongs_to_one_agent_and_ends_with_it() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    play.run("/capture").await;
    play.run("For a grandchild").await;
    play.switch(root).await;
    assert!(!play.session.is_capturing());
    assert_eq!(play.finish("Hello").await.message, "You said: Hello");
    play.switch(child).await;
    assert!(play.session.is_capturing());
    play.assert_line("and more", "captured", "Captured (2 lines).").await;
    play.run("/kill").await;
    assert!(!play.session.is_capturing());
    let again = play.fork("").await;
    play.idle().await;
    assert_eq!(play.rows(again).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn capture_survives_a_restart() {
    let play = Play::new().await;
    play.run("/capture").await;
    play.run("One").await;
    let play = play.restarted().await;
    assert!(play.session.is_capturing());
    play.assert_line("Two", "captured", "Captured (2 lines).").await;
    let child = play.fork("").await;
    play.idle().await;
    assert_eq!(play.answers(child), ["You said: One\nTwo"]);
    let play = play.restarted().await;
    play.run("/switch root").await;
    assert!(!play.session.is_capturing());
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_captured_while_a_turn_runs() {
    let play = Play::new().await;
    let root = play.session.view();
    let running = play.hang("say I work.\nhang").await;
    play.run("/capture").await;
    play.assert_line("Do this.", "captured", "Captured (1 line).").await;
    assert_eq!(play.session.queue().lines, []);
    let child = play.fork("").await;
    play.wait_until("the child answers", async || play.answers(child) == ["You said: Do this."]).await;
    play.switch(root).await;
    play.session.stop_turn();
    assert_eq!(wait_for_end(running).await.code.as_str(), "turn_cancelled");
}

/// A captured line does not reach a model through the conversation, a retry, a summary, a child, a change of model, mail or a
/// restart.
#[tokio::test(flavor = "multi_thread")]
async fn captured_lines_are_in_no_request() {
    let server = recording();
    // The context window is so small that conversations are summarised.
    let play = Play::with(with_local_model(&server, 500), Limits::default()).await;
    let root = play.session.view();
    for line in ["One", "Two", "Three", "/capture", "The walrus sings", "/agents", "/cancel", "Four", "Five"] {
        play.finish(line).await;
    }
    play.run("/capture").await;
    play.run("The walrus dances").await;
    // Meanwhile, mail begins a turn of the agent whose lines are being captured.
    play.finish(&format!("/mail-send {root} \"Wake up\"")).await;
    let play = play.restarted().await;
    play.run("/cancel").await;
    play.finish("Six").await;
    let child = play.fork("\"Seven\"").await;
    play.idle().await;
    play.finish(&format!("/mail-send {root} \"And you?\"")).await;
    play.run("/model demo-1").await;
    play.session.set_approver(Answering::new(Approval::Once));
    play.finish("call set_agent_model {\"agentId\": \"$self\", \"model\": \"local-1\"}\nthen say Done.").await;
    play.finish("call fork {\"prompt\": \"Eight\"}").await;
    play.run("/switch root").await;
    play.run("/retry").await;
    let requests = server.requests();
    assert!(requests.iter().any(|request| request.contains("Summarise the conversation so far.")));
    assert!(requests.iter().any(|request| request.contains("Notification: You have 1 unread message")));
    for text in ["One", "Five", "Six", "Seven", "Eight"] {
        assert!(requests.iter().any(|request| request.contains(text)), "{text}");
    }
    assert!(requests.len() > 12, "{}", requests.len());
    assert!(requests.iter().all(|request| !request.contains("walrus")));
    assert_eq!(play.texts(root, MessageKind::Capture), ["The walrus sings", "The walrus dances"]);
    assert_eq!(play.texts(child, MessageKind::Capture), [] as [String; 0]);
}

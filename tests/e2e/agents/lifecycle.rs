//! The life of a child that a model forks: its report to the parent, whatever ends its turn, and its work afterwards.

use patchbay_core::{AgentId, MessageKind};
use patchbay_session::AgentState;
use patchbay_tests::play::Play;
use serde_json::json;

/// Has the agent in view fork a child and returns the child, whose turn may still run.
async fn child_of(play: &Play, prompt: &str) -> AgentId {
    let before = play.ids().await;
    let outcome = play.line(&format!("call fork {}", json!({"prompt": prompt}))).await;
    assert_eq!(outcome.code.as_str(), "answered", "{}", outcome.message);
    play.ids().await.into_iter().find(|id| !before.contains(id)).expect("a child")
}

fn turn(cause: &str, state: &str, code: &str) -> (String, String, String) {
    (cause.to_owned(), state.to_owned(), code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn child_reports_its_last_text_and_stays_idle() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = child_of(&play, "call mail_check {}\nthen say  It is 42. \n").await;
    play.idle().await;
    assert_eq!(play.mails(root).await, [r#"{"status":"idle","success":true,"summary":"It is 42."}"#]);
    assert_eq!(play.inbox(root).await[0].from, child);
    assert_eq!(play.agent(child).await.state, AgentState::Idle);
    // More work by mail, and another report.
    play.play(&format!("call mail_send {{\"to\": \"{child}\", \"message\": \"Do more\"}}")).await;
    assert_eq!(play.turns(child), [turn("fork", "done", "answered"), turn("mail", "done", "answered")]);
    let mails = play.mails(root).await;
    let said = "You said: [Notification: You have 1 unread message in your inbox]";
    assert_eq!(mails[1], format!(r#"{{"status":"idle","success":true,"summary":"{said}"}}"#));
    assert!(play.inbox(child).await[0].body == "Do more" && mails.len() == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn summary_is_at_most_2000_characters() {
    let play = Play::new().await;
    let root = play.session.view();
    child_of(&play, "repeat 1001 \u{e4}b").await;
    play.idle().await;
    let mail = play.mails(root).await.remove(0);
    let summary = serde_json::from_str::<serde_json::Value>(&mail).unwrap()["summary"].as_str().unwrap().to_owned();
    assert_eq!((summary.chars().count(), summary.matches("\u{e4}b").count()), (2_000, 667));
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_child_reports_what_came_and_the_error() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = child_of(&play, "say One two three.\nfail server never after 2").await;
    play.idle().await;
    let mails = play.mails(root).await;
    let report: serde_json::Value = serde_json::from_str(&mails[0]).unwrap();
    assert_eq!(report["error"], "demo: demo fails as requested: server", "{mails:?}");
    assert_eq!(
        mails,
        [r#"{"status":"idle","success":false,"summary":"One two","error":"demo: demo fails as requested: server"}"#]
    );
    assert_eq!(play.turns(child), [turn("fork", "done", "provider_server")]);
    assert_eq!(play.agent(child).await.state, AgentState::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_child_is_reported_unless_the_parent_killed_it() {
    let play = Play::new().await;
    let root = play.session.view();
    let hangs = "say Half done.\nhang";
    let child = child_of(&play, hangs).await;
    play.wait_until(async || has_partial(&play, child, "Half done.").await).await;
    play.line(&format!("/kill {child}")).await;
    play.idle().await;
    let killed = r#"{"status":"dead","success":false,"summary":"Half done.","error":"killed"}"#;
    assert_eq!(play.mails(root).await, [killed]);
    assert_eq!(play.turns(child), [turn("fork", "interrupted", "agent_dead")]);
    // The parent learns nothing new from its own call.
    let child = child_of(&play, hangs).await;
    play.wait_for_state(child, AgentState::Working).await;
    play.play(&format!("call kill {{\"uuid\": \"{child}\"}}")).await;
    assert_eq!(play.mails(root).await.len(), 1);
    // An idle child has reported before.
    let child = child_of(&play, "say Done.").await;
    play.idle().await;
    play.line(&format!("/kill {child}")).await;
    play.idle().await;
    assert_eq!(play.mails(root).await.len(), 2);
    // A parent that dies too is not told.
    let child = play.fork("/fork").await;
    child_of(&play, hangs).await;
    play.line(&format!("/kill {child}")).await;
    play.idle().await;
    assert_eq!(play.mails(child).await, [] as [String; 0]);
    assert_eq!(play.mails(root).await.len(), 2);
}

/// Whether the words `text` of an answer that hangs are stored.
async fn has_partial(play: &Play, agent: AgentId, text: &str) -> bool {
    let partial = play.host.store().partial_answers(play.session.id(), patchbay_agent::join_pieces).await.unwrap();
    partial.iter().any(|row| row.agent == agent && row.content == text)
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_that_a_person_began_is_not_reported() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = child_of(&play, "say Done.").await;
    play.idle().await;
    let before = play.mails(root).await;
    play.switch(child).await;
    play.play("say To a person.").await;
    play.play("fail server never").await;
    let running = play.hang("say Wait.\nhang").await;
    play.session.stop_turn();
    patchbay_tests::session_events::wait_for_end(running).await;
    play.idle().await;
    assert_eq!(play.mails(root).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_child_is_reported_and_wakes_no_agent() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = child_of(&play, "say So far.\nhang").await;
    play.wait_until(async || has_partial(&play, child, "So far.").await).await;
    play.switch(child).await;
    assert!(play.session.stop_turn());
    play.idle().await;
    let report = r#"{"status":"idle","success":false,"summary":"So far.","error":"Cancelled. What came is kept."}"#;
    assert_eq!(play.mails(root).await, [report]);
    assert_eq!(play.agent(child).await.state, AgentState::Held);
    assert!(play.texts(root, MessageKind::User).await.len() == 1, "the parent was not woken");
    assert_eq!(play.turns(child), [turn("fork", "done", "turn_cancelled")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_of_a_process_that_ended_are_reported_when_the_session_is_resumed() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = child_of(&play, "say So far.\nhang").await;
    play.wait_until(async || has_partial(&play, child, "So far.").await).await;
    // What a killed process leaves: the turn is open, and the answer is in pieces.
    let database = play.patchbay.database("patchbay.db");
    let copy = play.patchbay.folder().join("copy.db");
    database.execute("VACUUM INTO ?", [copy.to_str().unwrap()]).unwrap();
    drop(database);
    let Play { patchbay, host, session } = play;
    let id = session.id();
    session.close().await;
    drop((session, host));
    for tail in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(patchbay.home().join(format!("data/patchbay.db{tail}")));
    }
    std::fs::rename(&copy, patchbay.home().join("data/patchbay.db")).unwrap();
    let host = patchbay_tests::host::host(&patchbay, patchbay_tests::play::quick_demo());
    let session = host.resume(id).await.unwrap();
    let play = Play { patchbay, host, session };
    let report = r#"{"status":"idle","success":false,"summary":"So far.","error":"The process ended during this turn. What came is kept."}"#;
    assert_eq!(play.mails(root).await, [report]);
    assert_eq!(play.turns(child), [turn("fork", "interrupted", "turn_interrupted")]);
    assert_eq!(play.answers(child).await, ["So far."]);
    let notices = play.texts(child, MessageKind::Notice).await;
    assert_eq!(notices, ["Error: The process ended during this turn. What came is kept."]);
    play.idle().await;
    for agent in [root, child] {
        assert_eq!(play.agent(agent).await.state, AgentState::Held);
    }
    // The parent reads the report after the first message.
    play.play("hello").await;
    let said = play.texts(root, MessageKind::User).await;
    assert_eq!(said[1..], ["hello", "[Notification: You have 1 unread message in your inbox]"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_may_report_before_its_children_do() {
    let play = Play::new().await;
    let root = play.session.view();
    // The child forks a grandchild and reports; the grandchild's report wakes it, and it reports again.
    let below = json!({"prompt": "pause 400\nsay Deep."}).to_string();
    let prompt = format!(
        "call fork {below}\nthen say My child works.\non mail call mail_check {{}}\n\
         on mail then call mail_read {{\"number\": $mail1}}\non mail then say It said: $message1"
    );
    let child = child_of(&play, &prompt.replace("$mail1", "$$mail1").replace("$message1", "$$message1")).await;
    play.idle().await;
    let deep = r#"{"status":"idle","success":true,"summary":"Deep."}"#;
    assert_eq!(play.mails(child).await, [deep]);
    let second = json!({"s": format!("It said: {deep}")}).to_string();
    let second = second.strip_prefix("{\"s\":").unwrap().strip_suffix('}').unwrap();
    assert_eq!(
        play.mails(root).await,
        [
            r#"{"status":"idle","success":true,"summary":"My child works."}"#.to_owned(),
            format!(r#"{{"status":"idle","success":true,"summary":{second}}}"#)
        ]
    );
}

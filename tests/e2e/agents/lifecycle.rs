//! The life of a child that a model forked: its report to the parent, however its turn ends, and its work afterwards.

use patchbay_core::MessageKind;
use patchbay_sandbox::Limits;
use patchbay_session::AgentState;
use patchbay_tests::{
    play::{Play, quick_demo},
    session_events::wait_for_end,
};
use serde_json::json;

fn turn(cause: &str, state: &str, code: &str) -> (String, String, String) {
    (cause.to_owned(), state.to_owned(), code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn child_reports_its_last_text_and_stays_idle() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.call_fork("call mail_check {}\nthen say  It is 42. \n").await;
    play.idle().await;
    assert_eq!(play.mails(root).await, [r#"{"status":"idle","success":true,"summary":"It is 42."}"#]);
    assert_eq!(play.inbox(root).await[0].from, child);
    assert_eq!(play.agent(child).await.state, AgentState::Idle);
    // Mail brings more work, and another report.
    play.finish(&format!("call mail_send {{\"to\": \"{child}\", \"message\": \"Do more\"}}")).await;
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
    play.call_fork("repeat 1001 \u{e4}b").await;
    play.idle().await;
    let mail = play.mails(root).await.remove(0);
    let summary = serde_json::from_str::<serde_json::Value>(&mail).unwrap()["summary"].as_str().unwrap().to_owned();
    assert_eq!((summary.chars().count(), summary.matches("\u{e4}b").count()), (2_000, 667));
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_child_reports_what_came_and_the_error() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.call_fork("say One two three.\nfail server never after 2").await;
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
    let child = play.call_fork(hangs).await;
    play.wait_for_partial("Half done.").await;
    play.run(&format!("/kill {child}")).await;
    play.idle().await;
    let killed = r#"{"status":"dead","success":false,"summary":"Half done.","error":"killed"}"#;
    assert_eq!(play.mails(root).await, [killed]);
    assert_eq!(play.turns(child), [turn("fork", "interrupted", "agent_dead")]);
    // The parent learns nothing new from its own call.
    let child = play.call_fork(hangs).await;
    play.wait_for_state(child, AgentState::Working).await;
    play.finish(&format!("call kill {{\"uuid\": \"{child}\"}}")).await;
    assert_eq!(play.mails(root).await.len(), 1);
    // An idle child has already reported.
    let child = play.call_fork("say Done.").await;
    play.idle().await;
    play.run(&format!("/kill {child}")).await;
    play.idle().await;
    assert_eq!(play.mails(root).await.len(), 2);
    // A parent that is killed with its child gets no report.
    let child = play.fork("").await;
    play.call_fork(hangs).await;
    play.run(&format!("/kill {child}")).await;
    play.idle().await;
    assert_eq!(play.mails(child).await, [] as [String; 0]);
    assert_eq!(play.mails(root).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_that_a_person_began_is_not_reported() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.call_fork("say Done.").await;
    play.idle().await;
    let before = play.mails(root).await;
    play.switch(child).await;
    play.finish("say To a person.").await;
    play.finish("fail server never").await;
    let running = play.hang("say Wait.\nhang").await;
    play.session.stop_turn();
    wait_for_end(running).await;
    play.idle().await;
    assert_eq!(play.mails(root).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_child_is_reported_and_wakes_no_agent() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.call_fork("say So far.\nhang").await;
    play.wait_for_partial("So far.").await;
    play.switch(child).await;
    assert!(play.session.stop_turn());
    play.idle().await;
    let report =
        r#"{"status":"idle","success":false,"summary":"So far.","error":"Cancelled. The partial answer is kept."}"#;
    assert_eq!(play.mails(root).await, [report]);
    assert_eq!(play.agent(child).await.state, AgentState::Held);
    assert!(play.said(root).len() == 1, "the parent was not woken");
    assert_eq!(play.turns(child), [turn("fork", "done", "turn_cancelled")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_of_a_process_that_ended_are_reported_when_the_session_is_resumed() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.call_fork("say So far.\nhang").await;
    play.wait_for_partial("So far.").await;
    // The state after the process was killed: the turn is open, and only parts of the answer are stored.
    let (killed, id) = (play.killed_home(), play.session.id());
    play.session.close().await;
    let play = Play::resume(killed, id, quick_demo(), Limits::default()).await;
    let report = r#"{"status":"idle","success":false,"summary":"So far.","error":"The process ended during this turn. The partial answer is kept."}"#;
    assert_eq!(play.mails(root).await, [report]);
    assert_eq!(play.turns(child), [turn("fork", "interrupted", "turn_interrupted")]);
    assert_eq!(play.answers(child), ["So far."]);
    let notices = play.texts(child, MessageKind::Notice);
    assert_eq!(notices, ["Error: The process ended during this turn. The partial answer is kept."]);
    play.idle().await;
    for agent in [root, child] {
        assert_eq!(play.agent(agent).await.state, AgentState::Held);
    }
    // The parent reads the report after the first message.
    play.finish("hello").await;
    let said = play.said(root);
    assert_eq!(said[1..], ["hello", "[Notification: You have 1 unread message in your inbox]"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_may_report_before_its_children_do() {
    let play = Play::new().await;
    let root = play.session.view();
    // The child forks a grandchild and reports. The grandchild's report wakes the child, which reports again.
    let below = json!({"prompt": "pause 400\nsay Deep."}).to_string();
    let prompt = format!(
        "call fork {below}\nthen say My child works.\non mail call mail_check {{}}\n\
         on mail then call mail_read {{\"number\": $mail1}}\non mail then say It said: $message1"
    );
    let child = play.call_fork(&prompt.replace("$mail1", "$$mail1").replace("$message1", "$$message1")).await;
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

//! Mail: the commands, the notification that wakes an agent, and what an inbox keeps.

use std::sync::mpsc;

use patchbay_core::AgentId;
use patchbay_sandbox::Limits;
use patchbay_session::AgentState;
use patchbay_tests::{
    binary::Patchbay,
    format::CHAT,
    play::{Play, named, with_local_model},
    server::Server,
    session_events::wait_for_end,
};

#[test]
fn mail_commands_check_their_arguments() {
    let patchbay = Patchbay::new();
    let mut live = patchbay.live(&[]);
    let agents = live.answer("/agents");
    let root = agents.data()["agents"][0]["agent"].as_str().unwrap().to_owned();
    let long = "x".repeat(65_537);
    for (line, code, text) in [
        ("/mail-send", "invalid_args", "Error: /mail-send requires an agent and a quoted message."),
        ("/mail-send ROOT", "invalid_args", "Error: /mail-send requires an agent and a quoted message."),
        ("/mail-send ROOT Hello", "invalid_args", "Error: the message must be quoted: /mail-send UUID \"text\"."),
        ("/mail-send ROOT \"Hello", "unclosed_quote", "Error: unclosed quote in '\"Hello'."),
        ("/mail-send ROOT \"Hello\" there", "invalid_args", "Error: unexpected text after the message: 'there'."),
        ("/mail-send ROOT \"\"", "invalid_args", "Error: message body cannot be empty."),
        ("/mail-send ROOT \" \"", "invalid_args", "Error: message body cannot be empty."),
        ("/mail-send 00000000 \"Hello\"", "agent_not_found", "Error: agent '00000000' was not found."),
        ("/mail-send ROOT \"LONG\"", "mail_too_long", "Error: message of 65537 bytes is over the limit of 65536."),
        ("/mail-check all", "invalid_args", "Error: /mail-check does not accept arguments."),
        ("/mail-check", "mail_empty", "No messages."),
        ("/mail-read", "invalid_args", "Error: /mail-read requires a message number."),
        ("/mail-read abc", "invalid_args", "Error: 'abc' is not a message number."),
        ("/mail-read -1", "invalid_args", "Error: '-1' is not a message number."),
        ("/mail-read 9", "mail_not_found", "Error: message 9 not found."),
        ("/mail-delete", "invalid_args", "Error: /mail-delete requires a message number."),
        ("/mail-delete abc", "invalid_args", "Error: 'abc' is not a message number."),
        ("/mail-delete 9", "mail_not_found", "Error: message 9 not found."),
        ("/mail-filter", "invalid_args", "Error: /mail-filter requires --from UUID."),
        ("/mail-filter ROOT", "invalid_args", "Error: /mail-filter requires --from UUID."),
        ("/mail-filter --from", "invalid_args", "Error: /mail-filter requires --from UUID."),
        ("/mail-filter --from 00000000", "agent_not_found", "Error: agent '00000000' was not found."),
        ("/mail-filter --from ROOT", "mail_empty", "No messages from SHORT."),
    ] {
        let answer = live.answer(&line.replace("ROOT", &root).replace("LONG", &long));
        assert_eq!((answer.code(), answer.message()), (code, &*text.replace("SHORT", &root[..8])), "{line}");
    }
}

/// Returns a session whose two agents do not start turns by themselves. The root is in view.
async fn held() -> (Play, AgentId, AgentId) {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    play.switch(root).await;
    play.session.stop_all();
    (play, root, child)
}

/// Replaces times with `TIME` and agents with numbers.
fn shown(text: &str, agents: &[AgentId]) -> String {
    let mut rest = named(text, agents);
    let mut shown = String::new();
    while let Some((before, after)) = rest.split_once(" (20") {
        let (time, after) = after.split_once(')').unwrap();
        // The format is `2026-11-21 20:04`.
        let digits: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(digits, "00-00-00 00:00");
        shown += &format!("{before} (TIME)");
        rest = after.to_owned();
    }
    shown + &rest
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_lists_unread_first_then_newest_first() {
    let (play, root, child) = held().await;
    let agents = [root, child];
    let sent = format!("Mail sent to {child}.");
    let long = "A line that is longer than fifty characters, so that it is cut off";
    for body in ["First", "Second", &format!("Third \"quoted\"\nand more: {long}")] {
        play.assert_line(&format!("/mail-send {child} \"{body}\""), "mail_sent", &sent).await;
    }
    play.assert_line("/mail-check", "mail_empty", "No messages.").await;
    play.switch(child).await;
    let one = play.run("/mail-read 2").await;
    assert_eq!((one.code.as_str(), &*shown(&one.line(), &agents)), ("mail_read", "From: <1> (TIME)\n\nSecond"));
    let listed = play.run("/mail-check").await;
    assert_eq!(listed.code.as_str(), "mail_listed");
    assert_eq!(
        shown(&listed.line(), &agents),
        "Inbox (3 messages, 2 unread):\n  3. [unread] from <1> (TIME): Third \"quoted\" and more: A line that is longer tha\u{2026}\n  \
         1. [unread] from <1> (TIME): First\n  2. from <1> (TIME): Second"
    );
    let data = serde_json::to_value(listed.data).unwrap();
    assert_eq!((&data["unread"], &data["messages"][0]["number"]), (&2.into(), &3.into()));
    play.run("/mail-read 1").await;
    play.run("/mail-read 3").await;
    let read = shown(&play.text("/mail-check").await, &agents);
    assert!(read.starts_with("Inbox (3 messages, 0 unread):\n  3. from <1> (TIME): Third"), "{read}");
    // Numbers are never reused.
    play.assert_line("/mail-delete 3", "mail_deleted", "Message deleted.").await;
    play.assert_line("/mail-read 3", "mail_not_found", "Error: message 3 not found.").await;
    play.run(&format!("/mail-send {child} \"From myself\"")).await;
    let listed = shown(&play.text("/mail-check").await, &agents);
    assert!(
        listed.starts_with("Inbox (3 messages, 1 unread):\n  4. [unread] from <2> (TIME): From myself\n"),
        "{listed}"
    );
    for number in [1, 2, 4] {
        play.run(&format!("/mail-delete {number}")).await;
    }
    play.assert_line("/mail-check", "mail_empty", "No messages.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_is_filtered_by_sender() {
    let (play, root, child) = held().await;
    let agents = [root, child];
    play.run(&format!("/mail-send {child} \"One\"")).await;
    play.run(&format!("/mail-send {child} \"Two\"")).await;
    play.switch(child).await;
    play.run("/mail-read 1").await;
    play.run(&format!("/mail-send {child} \"Note\"")).await;
    let filtered = shown(&play.text(&format!("/mail-filter --from {root}")).await, &agents);
    assert_eq!(
        filtered,
        "Inbox (2 messages from <1>, 1 unread):\n  2. [unread] from <1> (TIME): Two\n  1. from <1> (TIME): One"
    );
    let filtered = shown(&play.text(&format!("/mail-filter --from {}", child.short())).await, &agents);
    assert_eq!(filtered, "Inbox (1 message from <2>, 1 unread):\n  3. [unread] from <2> (TIME): Note");
    play.switch(root).await;
    let none = play.run(&format!("/mail-filter --from {child}")).await;
    assert_eq!((none.code.as_str(), &*shown(&none.line(), &agents)), ("mail_empty", "No messages from <2>."));
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_to_a_dead_agent_is_refused() {
    let (play, root, child) = held().await;
    play.run(&format!("/kill {child}")).await;
    let dead = format!("Error: recipient agent '{child}' is dead.");
    play.assert_line(&format!("/mail-send {child} \"Hello\""), "agent_dead", &dead).await;
    assert_eq!((play.session.view(), play.inbox(child).await), (root, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_wakes_an_idle_agent_with_a_notification() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    play.finish(
        "on mail call mail_check {}\non mail then call mail_read {\"number\": $mail1}\non mail then say $message1",
    )
    .await;
    play.switch(root).await;
    play.finish(&format!("/mail-send {child} \"Good day\"")).await;
    let said = play.said(child);
    assert_eq!(said[1..], ["[Notification: You have 1 unread message in your inbox]"]);
    assert_eq!(play.answers(child), ["Waiting for mail.", "Good day"]);
    let mut results = play.results(child).await;
    let sent_at = results[0]["result"]["messages"][0]["sent_at"].clone();
    assert_eq!(sent_at.as_str().unwrap().len(), "2026-11-21 20:04".len());
    assert_eq!(
        results.remove(0),
        serde_json::json!({"tool_success": true, "result": {"unread": 0, "messages": [
            {"number": 1, "from": root, "sent_at": sent_at, "read": true, "preview": "Good day"}]}})
    );
    assert_eq!(
        results.remove(0),
        serde_json::json!({"tool_success": true, "result":
            {"number": 1, "from": root, "sent_at": sent_at, "message": "Good day"}})
    );
    // The notification showed the same content.
    let shown = serde_json::json!({"number": 1, "from": root, "sent_at": sent_at, "message": "Good day"});
    assert_eq!(play.notified(child), [shown]);
    // A turn that mail started is reported to the parent.
    assert_eq!(play.turns(child)[1], ("mail".to_owned(), "done".to_owned(), "answered".to_owned()));
    assert_eq!(play.mails(root).await, [r#"{"status":"idle","success":true,"summary":"Good day"}"#]);
    // The parent was woken by the report; the root reports to no agent.
    assert_eq!(play.said(root), ["[Notification: You have 1 unread message in your inbox]"]);
    assert_eq!(play.mails(child).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn notification_counts_all_unread_mail_once_for_each_batch() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let running = play.hang("say Busy.\nhang").await;
    play.switch(root).await;
    let long = "Two.".repeat(2_000);
    for text in ["One", &long, "Three"] {
        play.run(&format!("/mail-send {child} \"{text}\"")).await;
    }
    play.switch(child).await;
    play.session.stop_turn();
    wait_for_end(running).await;
    play.idle().await;
    assert_eq!(play.said(child).len(), 1, "a stopped agent is not woken");
    // A message to the agent ends the stop. Its mail is delivered after the turn.
    play.finish("say I am back.").await;
    let three = "[Notification: You have 3 unread messages in your inbox]";
    assert_eq!(play.notifications(child), [three]);
    // Mail that the notification shows in full counts as read. Truncated mail stays unread, and is only counted again together with
    // new mail.
    let read =
        |mails: Vec<patchbay_store::MailRow>| mails.iter().map(|mail| (mail.number, mail.read)).collect::<Vec<_>>();
    assert_eq!(read(play.inbox(child).await), [(2, false), (3, true), (1, true)]);
    play.finish("say Nothing new.").await;
    assert_eq!(play.notifications(child), [three]);
    play.finish(&format!("/mail-send {child} \"Four\"")).await;
    let two = "[Notification: You have 2 unread messages in your inbox]";
    assert_eq!(play.notifications(child), [three, two]);
    let shown: Vec<_> =
        play.notified(child).iter().map(|mail| (mail["number"].as_u64(), mail["more_bytes"].as_u64())).collect();
    assert_eq!(shown, [(Some(1), None), (Some(2), Some(8_000 - 4_096)), (Some(3), None), (Some(4), None)]);
    let texts = play.texts(child, patchbay_core::MessageKind::User);
    assert!(texts.last().unwrap().ends_with("\n1 more unread message is not shown; mail_check lists it."), "{texts:?}");
    // `/mail-read` shows all of it.
    assert!(play.text("/mail-read 2").await.ends_with(&long));
    assert_eq!(play.agent(child).await.unread, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_runs_before_mail() {
    let (release, released) = mpsc::channel::<()>();
    let answer = CHAT.answer_with(&["Yes."]);
    // The first response waits until `release` is dropped; later responses are immediate.
    let server = Server::new(move |_| {
        let _ = released.recv();
        answer.clone()
    });
    let play = Play::with(with_local_model(&server, 100_000), Limits::default()).await;
    let agent = play.session.view();
    let running = play.session.submit("First.");
    play.wait_for_state(agent, AgentState::Working).await;
    play.run(&format!("/mail-send {agent} \"To myself\"")).await;
    let queued = play.session.submit("Second.");
    drop(release);
    wait_for_end(running).await;
    wait_for_end(queued).await;
    play.idle().await;
    let said = play.said(agent);
    assert_eq!(said[1..], ["Second.", "[Notification: You have 1 unread message in your inbox]"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_inbox_refuses_mail() {
    let play = Play::limited(|limits| limits.mails = 2).await;
    let agent = play.session.view();
    play.session.stop_all();
    for _ in 0..2 {
        play.run(&format!("/mail-send {agent} \"Hello\"")).await;
    }
    let full = format!("Error: the inbox of agent '{agent}' is full (2 messages).");
    play.assert_line(&format!("/mail-send {agent} \"Hello\""), "limit_mail", &full).await;
    play.run("/mail-delete 1").await;
    play.assert_line(&format!("/mail-send {agent} \"Hello\""), "mail_sent", &format!("Mail sent to {agent}.")).await;
    assert_eq!(play.inbox(agent).await[0].number, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_of_exactly_the_limit_is_kept_over_a_restart() {
    let (play, root, child) = held().await;
    let body = "\u{e4}".repeat(32_768);
    play.assert_line(&format!("/mail-send {child} \"{body}\""), "mail_sent", &format!("Mail sent to {child}.")).await;
    let play = play.restarted().await;
    play.idle().await;
    assert!(play.mails(child).await == [body] && play.turns(child).is_empty());
    assert_eq!(play.agent(child).await.unread, 1);
    // A user message to any agent ends the hold of a resumed session.
    play.finish("hello").await;
    assert_eq!(play.said(child), ["[Notification: You have 1 unread message in your inbox]"]);
    assert_eq!(play.session.view(), root);
}

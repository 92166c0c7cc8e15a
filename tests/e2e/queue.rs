//! Lines that wait for their turn: their order, how they are taken back, and when they are held.

use std::sync::{Arc, mpsc::channel};

use patchbay_core::{DequeueReason, EventKind, MessageKind};
use patchbay_provider::Settings;
use patchbay_session::{LineInput, QueueView, Received, Session, Submitted};
use patchbay_tests::{
    binary::Patchbay,
    format::CHAT,
    host::host,
    play::with_local_model,
    server::Server,
    session_events::{stored_texts, wait_for_answer_start, wait_for_end, wait_for_event},
};

/// A message whose answer takes two minutes unless it is stopped.
const LONG: &str = "repeat 6000 word";

async fn session(patchbay: &Patchbay) -> Arc<Session> {
    host(patchbay, Settings::default()).new_session(&patchbay.workspace()).await.unwrap()
}

async fn code(line: Submitted) -> String {
    wait_for_end(line).await.code.to_string()
}

/// Submits a message with a long answer and waits until the answer starts.
async fn long_turn(session: &Arc<Session>) -> Submitted {
    let mut events = session.subscribe(session.last_seq() + 1);
    let running = session.submit(LONG);
    wait_for_answer_start(&mut events).await;
    running
}

/// Submits a line and waits until it is stored among the waiting lines.
async fn queued(session: &Arc<Session>, line: &str) -> Submitted {
    let mut events = session.subscribe(session.last_seq() + 1);
    let submitted = session.submit(line);
    let id = submitted.id();
    wait_for_event(&mut events, |kind| matches!(kind, EventKind::LineQueued { line, .. } if *line == id)).await;
    submitted
}

fn texts(queue: &QueueView) -> Vec<&str> {
    queue.lines.iter().map(|line| line.text.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_during_a_turn_wait_and_run_in_order() {
    let patchbay = Patchbay::new();
    // No answer arrives until all lines are waiting.
    let (open, gate) = channel::<()>();
    let server = Server::new(move |_| {
        let _ = gate.recv();
        CHAT.answer_with(&["Done."])
    });
    let host = host(&patchbay, with_local_model(&server, 100_000));
    let session = host.new_session(&patchbay.workspace()).await.unwrap();
    let mut events = session.subscribe(1);
    let running = session.submit("zero");
    let lines = [queued(&session, "one").await, queued(&session, " two\n").await, queued(&session, "three").await];
    let queue = session.queue();
    assert_eq!((texts(&queue), queue.held), (vec!["one", " two\n", "three"], false));
    assert_eq!(queue.lines[0].id, lines[0].id());
    // Commands that do not start a turn run immediately.
    assert_eq!(code(session.submit("/providers")).await, "providers_listed");
    assert_eq!(code(session.submit("/history")).await, "history_listed");
    assert_eq!(session.queue(), queue);
    drop(open);
    assert_eq!(code(running).await, "answered");
    for line in lines {
        assert_eq!(code(line).await, "answered");
    }
    assert_eq!(stored_texts(&session, MessageKind::User).await, ["zero", "one", " two\n", "three"]);
    assert_eq!(session.queue(), QueueView::default());
    let mut began = 0;
    while let Some(Received::Event(event)) = events.try_next().await.unwrap() {
        began += usize::from(matches!(event.kind, EventKind::LineDequeued { reason: DequeueReason::Began, .. }));
        assert!(!matches!(event.kind, EventKind::QueueHeld { .. }));
    }
    assert_eq!(began, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_line_can_be_taken_back() {
    let patchbay = Patchbay::new();
    let host = host(&patchbay, Settings::default());
    let session = host.new_session(&patchbay.workspace()).await.unwrap();
    let running = long_turn(&session).await;
    let (back, stopped, kept) =
        (queued(&session, "back").await, queued(&session, "stopped").await, queued(&session, "kept").await);
    let id = back.id();
    assert_eq!(session.take_back(id).await.as_deref(), Some("back"));
    let outcome = wait_for_end(back).await;
    assert_eq!(
        (outcome.code.as_str(), &*outcome.line()),
        ("line_taken_back", "Taken back. Nothing of this line was kept.")
    );
    assert_eq!(session.take_back(id).await, None);
    assert_eq!(session.take_back(running.id()).await, None, "its turn runs");
    assert!(session.stop(stopped.id()));
    assert_eq!(code(stopped).await, "turn_cancelled");
    assert_eq!(texts(&session.queue()), ["kept"]);
    let rows = host.store().queued_lines(session.id()).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.text.as_str()).collect::<Vec<_>>(), ["kept"]);
    session.stop(running.id());
    wait_for_end(running).await;
    assert!(session.release_queue());
    assert_eq!(code(kept).await, "answered");
    assert_eq!(stored_texts(&session, MessageKind::User).await, [LONG, "kept"]);
    assert_eq!(host.store().queued_lines(session.id()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_is_held_after_a_stop() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let mut events = session.subscribe(1);
    let running = long_turn(&session).await;
    let waiting = queued(&session, "later").await;
    assert!(!session.release_queue(), "it is not held");
    session.stop(running.id());
    assert_eq!(code(running).await, "turn_cancelled");
    wait_for_event(&mut events, |kind| *kind == EventKind::QueueHeld { held: true }).await;
    assert!(session.queue().held && !session.is_answering());
    // The model can be changed while lines are held.
    assert_eq!(code(session.submit("/model demo-big")).await, "model_set");
    assert_eq!(stored_texts(&session, MessageKind::User).await, [LONG]);
    assert!(session.release_queue());
    wait_for_event(&mut events, |kind| *kind == EventKind::QueueHeld { held: false }).await;
    assert_eq!(code(waiting).await, "answered");
    assert!(!session.release_queue(), "nothing waits");
}

/// With a single thread, no command ends before all lines are submitted.
#[tokio::test]
async fn lines_after_a_change_of_the_model_wait_for_it() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let changed = session.submit("/model demo-big");
    let (said, back) = (session.submit("show context"), session.submit("back"));
    let id = back.id();
    assert_eq!(session.take_back(id).await.as_deref(), Some("back"));
    assert_eq!((code(changed).await, code(back).await), ("model_set".to_owned(), "line_taken_back".to_owned()));
    let context = wait_for_end(said).await.message;
    assert!(context.contains("model: demo-big\n"), "{context}");
    // The same applies to commands that start a turn.
    assert_eq!(code(session.submit("fail server never")).await, "provider_server");
    let (changed, again) = (session.submit("/model demo-small"), session.submit("/retry"));
    assert_eq!((code(changed).await, code(again).await), ("model_set".to_owned(), "provider_server".to_owned()));
    assert_eq!(session.queue(), QueueView::default());
}

#[tokio::test]
async fn lines_are_held_if_the_command_before_them_is_stopped() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let (changed, said) = (session.submit("/model demo-big"), session.submit("show context"));
    assert!(session.stop(changed.id()));
    assert_eq!(code(changed).await, "turn_cancelled");
    assert_eq!((texts(&session.queue()), session.queue().held), (vec!["show context"], true));
    assert!(session.release_queue());
    assert!(wait_for_end(said).await.message.contains("model: demo-1\n"));
    // A command that fails changes nothing.
    let (failed, said) = (session.submit("/model nonsense"), session.submit("hello"));
    assert_eq!((code(failed).await, code(said).await), ("unknown_model".to_owned(), "answered".to_owned()));
}

/// With a single thread, the turn does not fail before both lines are submitted.
#[tokio::test]
async fn message_after_a_failed_turn_runs_behind_held_lines() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let failing = session.submit("repeat 60 word\nfail server never after 50");
    let waiting = queued(&session, "first").await;
    assert_eq!(code(failing).await, "provider_server");
    assert_eq!((texts(&session.queue()), session.queue().held), (vec!["first"], true));
    let next = session.submit("second");
    assert_eq!((code(waiting).await, code(next).await), ("answered".to_owned(), "answered".to_owned()));
    assert_eq!(stored_texts(&session, MessageKind::User).await[1..], ["first", "second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_lines_are_held_after_a_restart() {
    let patchbay = Patchbay::new();
    patchbay.skill("guide", "command: guide\nsummary: Shows the way", "say The way to $INPUT.");
    let session = session(&patchbay).await;
    let running = long_turn(&session).await;
    let (one, two) = (queued(&session, "one").await, queued(&session, "/guide the sea").await);
    session.close().await;
    assert_eq!(code(running).await, "turn_cancelled");
    for line in [one, two] {
        let outcome = wait_for_end(line).await;
        let words = "The session is closed. This line waits in it until the session is resumed.";
        assert_eq!((outcome.code.as_str(), &*outcome.line()), ("line_waits", words));
    }
    let resumed = host(&patchbay, Settings::default()).resume(session.id()).await.unwrap();
    let queue = resumed.queue();
    assert_eq!((texts(&queue), queue.held), (vec!["one", "/guide the sea"], true));
    // A line of a script runs before the held lines, which remain held.
    assert_eq!(code(resumed.submit_input(LineInput { ahead: true, ..LineInput::from("script") })).await, "answered");
    assert_eq!(resumed.queue(), queue);
    let last = resumed.submit("last");
    assert_eq!(code(last).await, "answered");
    assert_eq!(stored_texts(&resumed, MessageKind::User).await, [LONG, "script", "one", "last"]);
    assert_eq!(stored_texts(&resumed, MessageKind::Skill).await, ["say The way to the sea."]);
    resumed.close().await;
    let again = host(&patchbay, Settings::default()).resume(session.id()).await.unwrap();
    assert_eq!(again.queue(), QueueView::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_command_is_resolved_when_its_turn_begins() {
    let patchbay = Patchbay::new();
    patchbay.skill("guide", "command: guide\nsummary: Shows the way", "say The way to $INPUT.");
    patchbay.skill("gone", "command: gone\nsummary: Leaves", "say $INPUT.");
    let session = session(&patchbay).await;
    let running = long_turn(&session).await;
    let (guided, gone) = (queued(&session, "/guide the sea").await, queued(&session, "/skill gone away").await);
    patchbay.skill("guide", "command: guide\nsummary: Shows the way", "say Another way to $INPUT.");
    std::fs::remove_dir_all(patchbay.home().join("config/skills/gone")).unwrap();
    assert_eq!(code(session.submit("/reload_skills")).await, "skills_reloaded");
    session.stop(running.id());
    wait_for_end(running).await;
    session.release_queue();
    assert_eq!(wait_for_end(guided).await.message, "Another way to the sea.");
    assert_eq!(code(gone).await, "skill_not_found");
    assert_eq!(session.queue(), QueueView::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn full_queue_refuses_further_lines() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let running = long_turn(&session).await;
    let waiting: Vec<Submitted> = (0..100).map(|number| session.submit(&format!("message {number}"))).collect();
    let refused = wait_for_end(session.submit("one too many")).await;
    let words = "Error: 100 lines wait for their turns; more than 100 cannot wait. Nothing of this line was kept; send it \
                 again when the queue is shorter.";
    assert_eq!((refused.code.as_str(), &*refused.line()), ("queue_full", words));
    assert_eq!(session.queue().lines.len(), 100);
    for line in waiting {
        session.take_back(line.id()).await;
    }
    let half = "x".repeat(600_000);
    let first = queued(&session, &half).await;
    let refused = wait_for_end(session.submit(&half)).await;
    let words = "Error: with this line, 1200000 bytes would wait for their turns; the limit is 1048576. Nothing of this line \
                 was kept; send it again when the queue is shorter.";
    assert_eq!((refused.code.as_str(), &*refused.line()), ("queue_full", words));
    let too_long = "x".repeat((1 << 20) + 1);
    assert_eq!(code(session.submit(&too_long)).await, "line_too_long");
    assert_eq!(session.queue().lines.len(), 1);
    session.close().await;
    assert_eq!(code(first).await, "line_waits");
    drop(running);
}

/// With a single thread, nothing runs between two lines that are submitted without waiting.
#[tokio::test]
async fn retry_runs_before_the_held_lines() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    assert_eq!(code(session.submit("/model claude-sonnet-4-5")).await, "model_set");
    let (failing, waiting) = (session.submit("Hello!"), session.submit("And you?"));
    assert_eq!(code(failing).await, "missing_credentials");
    assert_eq!(texts(&session.queue()), ["And you?"]);
    assert_eq!(code(session.submit("/model demo-1")).await, "model_set");
    assert_eq!(wait_for_end(session.submit("/retry")).await.message, "You said: Hello!");
    assert_eq!(wait_for_end(waiting).await.message, "You said: And you?");
    assert_eq!(stored_texts(&session, MessageKind::User).await, ["Hello!", "And you?"]);
    // Lines that are submitted while `/retry` finds no message run after it.
    let (nothing, after) = (session.submit("/retry"), session.submit("After."));
    assert_eq!((code(nothing).await, code(after).await), ("nothing_unanswered".to_owned(), "answered".to_owned()));
    // Without a message to send again, the queue does not change.
    let running = long_turn(&session).await;
    let waiting = queued(&session, "later").await;
    session.stop(running.id());
    wait_for_end(running).await;
    let queue = session.queue();
    for command in ["/retry", "/drop"] {
        assert_eq!(code(session.submit(command)).await, "nothing_unanswered");
        assert_eq!((session.queue(), queue.held), (queue.clone(), true));
    }
    session.release_queue();
    assert_eq!(code(waiting).await, "answered");
    // Neither command works during a turn.
    let running = long_turn(&session).await;
    for (line, words) in [
        (
            "/retry",
            "Error: cannot retry while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.",
        ),
        (
            "/drop",
            "Error: cannot drop a message while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.",
        ),
    ] {
        let refused = wait_for_end(session.submit(line)).await;
        assert_eq!((refused.code.as_str(), &*refused.line()), ("turn_running", words));
    }
    session.stop(running.id());
    wait_for_end(running).await;
}

#[test]
fn unanswered_message_is_retried_and_dropped() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "command: guide\nsummary: Shows the way", "fail server never\nsay Go to $INPUT.");
    let lines =
        ["one", "/retry", "fail server never", "/retry", "/drop", "/drop", "/guide there", "/drop", "show context"];
    let answers = patchbay.answers(&lines);
    let codes: Vec<_> = answers.iter().map(|answer| answer.code()).collect();
    assert_eq!(
        codes,
        [
            "answered",
            "nothing_unanswered",
            "provider_server",
            "provider_server",
            "message_dropped",
            "nothing_unanswered",
            "provider_server",
            "message_dropped",
            "answered"
        ]
    );
    assert_eq!(answers[1].message(), "Error: there is no message without an answer.");
    assert_eq!(answers[4].message(), "Dropped: fail server never");
    assert_eq!(answers[7].message(), "Dropped: /skill guide");
    // The message is stored once, and is not sent after it was dropped.
    let kinds: Vec<_> = answers[3].rows().iter().map(|(kind, _)| kind.to_string()).collect();
    assert_eq!(kinds, ["notice", "command"]);
    let context = answers[8].message();
    assert!(context.contains("messages: 3") && !context.contains("fail"), "{context}");
}

#[test]
fn history_shows_the_last_exchanges() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "command: guide\nsummary: Shows the way", "Go there.");
    let lines =
        ["/history", "say One.", "say Two.", "fail server never", "/guide", "say Three.", "/history", "/history 2"];
    let answers = patchbay.answers(&lines);
    assert_eq!((answers[0].code(), answers[0].message()), ("history_empty", "There are no messages."));
    let all = "> say One.\nOne.\n\n> say Two.\nTwo.\n\n> fail server never\n(no answer)\n\n> /skill guide\n> say Three.\nThree.";
    assert_eq!((answers[6].code(), answers[6].message()), ("history_listed", all));
    assert_eq!(answers[6].data()["exchanges"], 4);
    let last = "\u{2026} earlier messages are left out\n\n> fail server never\n(no answer)\n\n> /skill guide\n> say Three.\nThree.";
    assert_eq!(answers[7].message(), last);
    let session = patchbay.last_session();
    let lines = ["/history 0", "/history many", "/history 101"];
    for answer in patchbay.answers_in(&["--session", &session], &lines) {
        assert_eq!(
            (answer.code(), answer.message()),
            ("invalid_args", "Error: /history requires a number from 1 to 100.")
        );
    }
}

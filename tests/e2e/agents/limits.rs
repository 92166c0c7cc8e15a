//! The limits of agents: their number and depth, how often mail wakes them, and their requests and tokens.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use patchbay_core::{AgentId, Code, Event, EventKind, MessageKind};
use patchbay_session::{AgentState, Received, SessionLimits};
use patchbay_tests::{
    format::CHAT,
    play::{Play, with_local_model},
    server::Server,
    session_events::{wait_for_answer_start, wait_for_end},
};

#[tokio::test(flavor = "multi_thread")]
async fn session_has_at_most_64_living_agents() {
    let play = Play::new().await;
    let root = play.session.view();
    for _ in 1..64 {
        play.switch(root).await;
        play.fork("").await;
    }
    let child = play.session.view();
    let full = "Error: this session has 64 living agents. Kill one first (limits.agents).";
    play.assert_line("/fork", "limit_agents", full).await;
    assert_eq!(play.session.view(), child);
    // The tool returns the same text. Dead agents do not count.
    play.switch(root).await;
    play.finish("call fork {\"prompt\": \"say Hello\"}").await;
    let refused = play.results(root).await.pop().unwrap();
    assert_eq!((&refused["error"], &refused["error_code"]), (&full["Error: ".len()..].into(), &"limit_agents".into()));
    play.run(&format!("/kill {child}")).await;
    play.fork("").await;
    assert_eq!(play.ids().await.len(), 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_is_at_most_8_levels_deep() {
    let play = Play::new().await;
    for _ in 0..8 {
        play.fork("").await;
    }
    let deepest = play.session.view();
    let text =
        format!("agent '{deepest}' is 8 levels below the root; its children would be too deep (limits.agent_depth).");
    play.assert_line("/fork", "limit_depth", &format!("Error: {text}")).await;
    play.finish("call fork {\"prompt\": \"say Hello\"}").await;
    let refused = play.results(deepest).await.pop().unwrap();
    assert_eq!((&refused["error"], &refused["error_code"]), (&text.into(), &"limit_depth".into()));
    assert_eq!(play.agent(deepest).await.depth, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_wakes_an_agent_20_times_until_a_message() {
    let play = Play::new().await;
    let agent = play.session.view();
    let mut events = play.session.subscribe(1);
    // Each turn that a mail starts sends the next mail.
    play.finish("call mail_send {\"to\": \"$self\", \"message\": \"Again\"}\non mail call mail_send {\"to\": \"$self\", \"message\": \"Again\"}")
        .await;
    let notified = play.notifications(agent);
    let one = "[Notification: You have 1 unread message in your inbox]";
    assert_eq!(notified, [one; 20]);
    assert_eq!(play.mails(agent).await.len(), 21);
    let mut notices = Vec::new();
    while let Some(received) = events.try_next().await.unwrap() {
        if let Received::Event(event) = received
            && let EventKind::Notice { text } = event.kind
        {
            notices.push(text);
        }
    }
    let limit = format!(
        "Agent {} was woken by mail 20 times since your last message; its mail is waiting. Send any message to continue.",
        agent.short()
    );
    notices.retain(|text| text.contains("was woken"));
    assert_eq!(notices, [limit]);
    // Commands do not count as messages; a message to any agent does.
    play.run("/skills").await;
    play.run(&format!("/mail-send {agent} \"Wake up\"")).await;
    play.idle().await;
    assert_eq!(play.notifications(agent).len(), 20);
    play.fork("").await;
    play.finish("hello").await;
    let notified = play.notifications(agent);
    let batch = "[Notification: You have 2 unread messages in your inbox]";
    assert_eq!((notified.len(), &*notified[20]), (40, batch), "one for the mail that waited");
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_all_agents_are_limited_until_a_message() {
    let play = Play::limited(|limits| limits.tree_requests = 3).await;
    let root = play.session.view();
    let limit = "Error: the agents of this session made 3 requests since your last message (limits.tree_requests). Send \
                 any message to continue.";
    let calls = "call mail_check {}\nthen call mail_check {}\nthen call mail_check {}\nthen say done";
    play.assert_line(calls, "limit_requests", limit).await;
    assert!(play.ok("hello").await.message.ends_with("You said: hello"));
    // Two requests of the child, and the first of the parent.
    let before = play.texts(root, MessageKind::Notice).len();
    let outcome = play
        .finish("call fork {\"prompt\": \"call mail_check {}\\nthen say Done.\"}\nthen pause 300\nthen say $child1")
        .await;
    let child = play.children().await[0];
    let of_root = play.texts(root, MessageKind::Notice).split_off(before);
    let notices = [of_root, play.texts(child, MessageKind::Notice)].concat();
    assert!(notices.iter().any(|notice| notice == limit), "{notices:?} {}", outcome.message);
    assert_eq!(play.finish("hello").await.code.as_str(), "answered");
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_agent_is_woken_when_the_tokens_are_used_up() {
    let play = Play::limited(|limits| limits.session_tokens = 1).await;
    let root = play.session.view();
    play.finish("hello").await;
    let child = play.fork("").await;
    assert_eq!(play.finish("hello").await.code.as_str(), "limit_tokens");
    play.finish(&format!("/mail-send {root} \"Wake up\"")).await;
    assert_eq!(play.said(root), ["hello"]);
    assert_eq!((play.agent(root).await.unread, play.turns(child).len()), (1, 1));
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_answer_each_other_come_to_rest() {
    let play = Play::limited(|limits| limits.wakes = 3).await;
    let root = play.session.view();
    let answer = "on mail call mail_send {\\\"to\\\":\\\"$$parent\\\",\\\"message\\\":\\\"ping\\\"}";
    play.ok(&format!(
        "call fork {{\"prompt\":\"{answer}\"}}\non mail call mail_send {{\"to\":\"$child1\",\"message\":\"pong\"}}"
    ))
    .await;
    play.idle().await;
    let child = play.children().await[0];
    let (of_root, of_child) = (play.notifications(root).len(), play.notifications(child).len());
    // Two mails from the root that arrive before the child checks its inbox wake it once.
    assert!(of_root == 3 && (2..=3).contains(&of_child), "{of_root} and {of_child}");
    assert!(play.agent(root).await.unread > 0);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn overloaded_provider_is_sent_fewer_requests_at_once() {
    let (release, released) = mpsc::channel::<()>();
    let arrived = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&arrived);
    // The first request is refused; later requests wait until `release` is dropped.
    let server = Server::new(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => CHAT.refusal(429, "slow down", Some(0)),
        _ => {
            let _ = released.recv();
            CHAT.answer_with(&["Yes."])
        }
    });
    let limits = SessionLimits { concurrent_requests: 2, ..SessionLimits::default() };
    let play = Play::with(with_local_model(&server, 100_000), limits).await;
    let mut events = play.session.subscribe(1);
    let first = play.session.submit("First.");
    play.wait_until("it is sent again", async || arrived.load(Ordering::SeqCst) == 2).await;
    let child = play.fork("").await;
    let second = play.session.submit("Second.");
    // The limit of two concurrent requests is halved, so the second request waits.
    play.wait_for_state(child, AgentState::Waiting).await;
    drop(release);
    for line in [first, second] {
        assert_eq!(wait_for_end(line).await.code, Code::Answered);
    }
    let mut limits = Vec::new();
    while let Some(received) = events.try_next().await.unwrap() {
        if let Received::Event(Event { agent, kind: EventKind::RequestWaits { limit }, .. }) = received {
            limits.push((agent, limit.map(|limit| limit.to_string())));
        }
    }
    let waited = Some("local accepts 1 request at a time".to_owned());
    assert_eq!(limits, [(child, waited), (child, None)]);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_place_goes_to_the_turn_of_a_person_first() {
    let play = Play::limited(|limits| limits.concurrent_requests = 1).await;
    let root = play.session.view();
    let woken = play.fork("").await;
    play.ok("/switch root").await;
    let mut events = play.session.subscribe(play.session.last_seq() + 1);
    let hanging = play.fork("\"say I hang.\nhang\"").await;
    // It is answering, and therefore has the only permit.
    wait_for_answer_start(&mut events).await;
    play.ok("/switch root").await;
    play.ok(&format!("/mail-send {woken} \"work\"")).await;
    play.wait_for_state(woken, AgentState::Waiting).await;
    let line = play.session.submit("say I hang, too.\nhang");
    play.wait_for_state(root, AgentState::Waiting).await;
    let list = play.ok("/agents").await.message;
    let state =
        |agent: AgentId| list.lines().find(|line| line.contains(&agent.short().to_string())).unwrap().to_owned();
    assert!(state(root).contains(" waiting "), "{list}");
    assert!(state(woken).contains(" waiting "), "{list}");
    assert!(state(hanging).contains(" working "), "{list}");
    play.ok(&format!("/kill {hanging}")).await;
    // The user's turn keeps the permit until it is stopped. If the other request had been first, it would not be waiting now.
    play.wait_for_state(root, AgentState::Working).await;
    assert_eq!(play.agent(woken).await.state, AgentState::Waiting);
    assert!(play.session.stop_turn());
    assert_eq!(wait_for_end(line).await.code, Code::TurnCancelled);
    play.idle().await;
    assert_eq!(play.texts(woken, MessageKind::Assistant).len(), 1);
    play.check();
}

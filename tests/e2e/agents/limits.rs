//! The limits of agents: how many, how deep, how often mail wakes them, and how many requests they make.

use patchbay_core::{EventKind, MessageKind};
use patchbay_session::Received;
use patchbay_tests::play::Play;

#[tokio::test(flavor = "multi_thread")]
async fn session_has_at_most_64_living_agents() {
    let play = Play::new().await;
    let root = play.session.view();
    for _ in 1..64 {
        play.switch(root).await;
        play.fork("/fork").await;
    }
    let child = play.session.view();
    let full = "Error: this session has 64 living agents. Kill one first (limits.agents).";
    play.assert_line("/fork", "limit_agents", full).await;
    assert_eq!(play.session.view(), child);
    // The tool says the same; agents that are dead do not count.
    play.switch(root).await;
    play.play("call fork {\"prompt\": \"say Hello\"}").await;
    let refused = play.results(root).await.pop().unwrap();
    assert_eq!((&refused["error"], &refused["error_code"]), (&full["Error: ".len()..].into(), &"limit_agents".into()));
    play.line(&format!("/kill {child}")).await;
    play.fork("/fork").await;
    assert_eq!(play.ids().await.len(), 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_is_at_most_8_levels_deep() {
    let play = Play::new().await;
    for _ in 0..8 {
        play.fork("/fork").await;
    }
    let deepest = play.session.view();
    let text =
        format!("agent '{deepest}' is 8 levels below the root; its children would be too deep (limits.agent_depth).");
    play.assert_line("/fork", "limit_depth", &format!("Error: {text}")).await;
    play.play("call fork {\"prompt\": \"say Hello\"}").await;
    let refused = play.results(deepest).await.pop().unwrap();
    assert_eq!((&refused["error"], &refused["error_code"]), (&text.into(), &"limit_depth".into()));
    assert_eq!(play.agent(deepest).await.depth, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_wakes_an_agent_20_times_until_a_message() {
    let play = Play::new().await;
    let agent = play.session.view();
    let mut events = play.session.subscribe(1);
    // Each turn that mail begins sends the next mail.
    play.play("call mail_send {\"to\": \"$self\", \"message\": \"Again\"}\non mail call mail_send {\"to\": \"$self\", \"message\": \"Again\"}")
        .await;
    let notified = async || {
        let texts = play.texts(agent, MessageKind::User).await;
        texts.iter().filter(|text| text.starts_with("[Notification")).count()
    };
    assert_eq!(notified().await, 20);
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
        "Agent {} was woken by mail 20 times since your last message; its mail waits. Say anything to go on.",
        agent.short()
    );
    notices.retain(|text| text.contains("was woken"));
    assert_eq!(notices, [limit]);
    // A command is no message; a message to any agent is.
    play.line("/skills").await;
    play.line(&format!("/mail-send {agent} \"Wake up\"")).await;
    play.idle().await;
    assert_eq!(notified().await, 20);
    play.fork("/fork").await;
    play.play("hello").await;
    assert_eq!(notified().await, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_all_agents_are_limited_until_a_message() {
    let play = Play::limited(|limits| limits.tree_requests = 3).await;
    let root = play.session.view();
    let outcome = play
        .play("call fork {\"prompt\": \"call mail_check {}\\nthen say Done.\"}\nthen pause 300\nthen say $child1")
        .await;
    // Two requests of the child, and the first of the parent.
    let limit = "Error: the agents of this session made 3 requests since your last message (limits.tree_requests). Say \
                 anything to go on.";
    let child = *play.ids().await.last().unwrap();
    let notices = [play.texts(root, MessageKind::Notice).await, play.texts(child, MessageKind::Notice).await].concat();
    assert!(notices.iter().any(|notice| notice == limit), "{notices:?} {}", outcome.message);
    assert_eq!(play.play("hello").await.code.as_str(), "answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_agent_is_woken_when_the_tokens_are_used_up() {
    let play = Play::limited(|limits| limits.session_tokens = 1).await;
    let root = play.session.view();
    play.play("hello").await;
    let child = play.fork("/fork").await;
    assert_eq!(play.play("hello").await.code.as_str(), "limit_tokens");
    play.play(&format!("/mail-send {root} \"Wake up\"")).await;
    assert_eq!(play.texts(root, MessageKind::User).await, ["hello"]);
    assert_eq!((play.agent(root).await.unread, play.turns(child).len()), (1, 1));
}

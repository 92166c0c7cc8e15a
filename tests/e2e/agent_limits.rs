//! The limits of the agents of a session: wake-ups, requests, places, tokens.

use patchbay_core::{AgentId, Code, EventKind};
use patchbay_sandbox::Limits;
use patchbay_session::{AgentState, Received, Subscription};
use patchbay_tests::{
    agents::Agents,
    session_events::{wait_for_answer_start, wait_for_end},
};

/// Returns the notices so far.
async fn notices(events: &mut Subscription) -> Vec<String> {
    let mut notices = Vec::new();
    while let Some(received) = events.try_next().await.unwrap() {
        if let Received::Event(event) = received
            && let EventKind::Notice { text } = event.kind
        {
            notices.push(text);
        }
    }
    notices
}

fn notifications(agents: &Agents, agent: AgentId) -> Vec<String> {
    let texts = agents.texts(agent, "user");
    texts.into_iter().filter(|text| text.starts_with("[Notification: ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_wakes_an_agent_so_often_until_the_next_message() {
    let agents = Agents::new(Limits { wakes: 2, ..Limits::default() }).await;
    let child = agents.fork("").await;
    agents.ok("/switch root").await;
    let mut events = agents.session.subscribe(agents.session.last_seq() + 1);
    for number in 1..=5 {
        agents.ok(&format!("/mail-send {child} \"mail {number}\"")).await;
        agents.idle().await;
    }
    let one = "[Notification: You have 1 unread message in your inbox]";
    let two = "[Notification: You have 2 unread messages in your inbox]";
    assert_eq!(notifications(&agents, child), [one, two]);
    let words = format!(
        "Agent {} was woken by mail 2 times since your last message; its mail waits. Say anything to go on.",
        child.short()
    );
    assert_eq!(notices(&mut events).await, [words], "once");
    // Commands do not count.
    agents.ok("/agents").await;
    agents.idle().await;
    assert_eq!(notifications(&agents, child).len(), 2);
    agents.ok("go on").await;
    agents.idle().await;
    let all = "[Notification: You have 5 unread messages in your inbox]";
    assert_eq!(notifications(&agents, child)[2..], [all], "one for the batch");
    agents.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_answer_each_other_come_to_rest() {
    let agents = Agents::new(Limits { wakes: 3, ..Limits::default() }).await;
    let root = agents.session.view();
    let answer = "on mail call mail_send {\\\"to\\\":\\\"$parent\\\",\\\"message\\\":\\\"ping\\\"}"
        .replace("$parent", "$$parent");
    agents
        .ok(&format!(
            "call fork {{\"prompt\":\"{answer}\"}}\non mail call mail_send {{\"to\":\"$child1\",\"message\":\"pong\"}}"
        ))
        .await;
    agents.idle().await;
    let child = agents.children().await[0];
    let (of_root, of_child) = (notifications(&agents, root).len(), notifications(&agents, child).len());
    // Two mails of the root that come before the child looks for mail wake it once.
    assert!(of_root == 3 && (2..=3).contains(&of_child), "{of_root} and {of_child}");
    assert!(agents.agent(root).await.unread > 0);
    agents.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_all_agents_are_counted_until_the_next_message() {
    let agents = Agents::new(Limits { tree_requests: 3, ..Limits::default() }).await;
    let calls = "call mail_check {}\nthen call mail_check {}\nthen call mail_check {}\nthen say done";
    let outcome = agents.run(calls).await;
    let words = "Error: the agents of this session made 3 requests since your last message (limits.tree_requests). Say anything \
                 to go on.";
    assert_eq!((outcome.code.as_str(), &*outcome.line()), ("limit_requests", words));
    assert!(agents.ok("hello").await.message.ends_with("You said: hello"));
    // The requests of children count too.
    // Of five requests, three are made: the root's turn or the child's ends, or both.
    agents.run("call fork {\"prompt\":\"call mail_check {}\\nthen call mail_check {}\"}").await;
    agents.idle().await;
    let child = agents.children().await[0];
    let turn = "SELECT count(*) FROM turns WHERE code = 'limit_requests'";
    let ended: i64 = agents.patchbay.database("patchbay.db").query_row(turn, [], |row| row.get(0)).unwrap();
    assert!(ended >= 2, "{child} or the root was stopped too");
    agents.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_place_goes_to_the_turn_of_a_person_first() {
    let agents = Agents::new(Limits { concurrent_requests: 1, ..Limits::default() }).await;
    let root = agents.session.view();
    let woken = agents.fork("").await;
    agents.ok("/switch root").await;
    let mut events = agents.session.subscribe(agents.session.last_seq() + 1);
    let hanging = agents.fork("\"say I hang.\nhang\"").await;
    // It answers, so that it has the place.
    wait_for_answer_start(&mut events).await;
    agents.ok("/switch root").await;
    agents.ok(&format!("/mail-send {woken} \"work\"")).await;
    agents.wait_until("it waits", async || agents.agent(woken).await.state == AgentState::Waiting).await;
    let line = agents.session.submit("say I hang, too.\nhang");
    agents.wait_until("the root waits", async || agents.agent(root).await.state == AgentState::Waiting).await;
    let list = agents.ok("/agents").await.message;
    let state =
        |agent: AgentId| list.lines().find(|line| line.contains(&agent.short().to_string())).unwrap().to_owned();
    assert!(state(root).contains(" running waiting "), "{list}");
    assert!(state(woken).contains(" running waiting "), "{list}");
    assert!(state(hanging).contains(" running working "), "{list}");
    agents.ok(&format!("/kill {hanging}")).await;
    // The person's turn keeps the place until it is stopped, so the other would not wait any more if it had been first.
    agents.wait_until("the root answers", async || agents.agent(root).await.state == AgentState::Working).await;
    assert_eq!(agents.agent(woken).await.state, AgentState::Waiting);
    assert!(agents.session.stop_turn());
    assert_eq!(wait_for_end(line).await.code, Code::TurnCancelled);
    agents.idle().await;
    assert_eq!(agents.texts(woken, "assistant").len(), 1);
    agents.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_woken_at_the_ceiling_of_tokens() {
    let agents = Agents::new(Limits { session_tokens: 1, ..Limits::default() }).await;
    let child = agents.fork("").await;
    agents.ok("/switch root").await;
    agents.ok("hello").await;
    assert_eq!(agents.code("and now?").await, "limit_tokens");
    agents.ok(&format!("/mail-send {child} \"work\"")).await;
    agents.idle().await;
    assert_eq!(agents.texts(child, "user"), [""; 0]);
    assert_eq!(agents.agent(child).await.unread, 1);
    agents.check();
}

//! State that all agents of a session share (persona, snapshot, answers to questions, request permits), and state that a running
//! turn keeps.

use std::sync::{Arc, atomic::Ordering};

use patchbay_core::EventKind;
use patchbay_sandbox::Limits;
use patchbay_session::{AgentState, Approver, SessionLimits};
use patchbay_tests::{
    guest::Guest,
    host::HostLimits,
    play::{AllowsForSession, Play, quick_demo},
    session_events::{wait_for_end, wait_for_event},
};

use crate::asking::keeper;

/// Calls a tool that asks, and describes the second request of the turn.
const TWO_REQUESTS: &str = "call keeper__run {}\nthen show context";

/// Installs the skill `keeper`, whose tool asks one question. Returns the object that answers it.
async fn with_keeper(play: &Play) -> Arc<AllowsForSession> {
    play.patchbay.add_command("keeper", &keeper(), "capabilities: [{name: kv, reason: keeps your notes}]\n");
    play.run("/reload_skills").await;
    let approver = Arc::new(AllowsForSession::default());
    play.session.set_approver(Arc::clone(&approver) as Arc<dyn Approver>);
    approver
}

#[tokio::test(flavor = "multi_thread")]
async fn running_turn_keeps_its_persona_and_snapshot() {
    let play = Play::new().await;
    let root = play.session.view();
    play.patchbay.write("home/config/agents/pirate/SOUL.md", "You are a pirate.\n");
    let approver = with_keeper(&play).await;
    let child = play.fork("").await;
    let running = play.session.submit(TWO_REQUESTS);
    play.wait_for_state(child, AgentState::Asking).await;
    play.switch(root).await;
    play.patchbay.add_command("echo", &Guest::default(), "");
    assert_eq!(play.run("/reload_skills").await.code.as_str(), "skills_reloaded");
    assert_eq!(play.run("/agent pirate").await.code.as_str(), "agent_set");
    approver.released.notify_one();
    let shown = wait_for_end(running).await.message;
    assert!(shown.contains("tools: call_tool, find_tools, fork, ") && !shown.contains("echo__run"), "{shown}");
    assert!(!shown.contains("You are a pirate."), "{shown}");
    // They belong to the session: the next turn of every agent uses the new ones.
    for agent in [root, child] {
        play.switch(agent).await;
        let shown = play.finish("show context").await.message;
        assert!(shown.contains("echo__run") && shown.contains("You are a pirate."), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn override_holds_from_the_next_request_of_a_running_turn() {
    let play = Play::new().await;
    let root = play.session.view();
    let approver = with_keeper(&play).await;
    let child = play.fork("").await;
    let running = play.session.submit(TWO_REQUESTS);
    play.wait_for_state(child, AgentState::Asking).await;
    play.switch(root).await;
    play.run(&format!("call set_agent_model {{\"agentId\": \"{child}\", \"model\": \"big\"}}")).await;
    approver.released.notify_one();
    let shown = wait_for_end(running).await.message;
    assert!(shown.contains("model: demo-big\n"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_whose_tool_runs_occupies_no_place_for_requests() {
    // The tool never returns by itself.
    let calls = Limits { fuel: 1_000_000_000_000_000, time_ms: 600_000, ..Limits::default() };
    let session = SessionLimits { concurrent_requests: 1, ..SessionLimits::default() };
    let play = Play::with(quick_demo(), HostLimits { calls, session }).await;
    let root = play.session.view();
    play.patchbay.add_command("spin", &Guest::reporting_and_spinning(), "");
    play.run("/reload_skills").await;
    let mut events = play.session.subscribe(play.session.last_seq() + 1);
    let child = play.fork("").await;
    let running = play.session.submit("call spin__run {}");
    wait_for_event(&mut events, |kind| matches!(kind, EventKind::Progress { .. })).await;
    play.switch(root).await;
    assert_eq!(play.run("say I answer.").await.message, "I answer.");
    play.switch(child).await;
    assert!(play.session.stop_turn());
    assert_eq!(wait_for_end(running).await.code.as_str(), "turn_cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_for_the_session_holds_for_all_agents() {
    let mut play = Play::limited(|limits| limits.concurrent_requests = 1).await;
    let root = play.session.view();
    let approver = with_keeper(&play).await;
    let child = play.fork("").await;
    let running = play.session.submit("call keeper__run {}");
    play.wait_for_state(child, AgentState::Asking).await;
    let listed = play.text("/agents").await;
    assert!(listed.contains(" asking ") && listed.contains(" s \"call keeper__run {}\" → Store the key "), "{listed}");
    // No permit is held while a question is open.
    play.switch(root).await;
    assert_eq!(play.run("say I answer.").await.message, "I answer.");
    approver.released.notify_one();
    assert_eq!(wait_for_end(running).await.code.as_str(), "answered");
    let stored = |result: &serde_json::Value| (result["tool_success"].clone(), result["result"].clone());
    assert_eq!(stored(&play.results(child).await[0]), (true.into(), "stored".into()));
    play.finish("call keeper__run {}").await;
    let grandchild = play.fork("").await;
    play.finish("call keeper__run {}").await;
    for agent in [root, grandchild] {
        assert_eq!(stored(&play.results(agent).await[0]), (true.into(), "stored".into()));
    }
    assert_eq!(approver.asked.load(Ordering::SeqCst), 1);
    // The answer is kept only while this process has the session open. A resumed session asks again; here it has no approver.
    play.session.close().await;
    play.session = play.host.resume(play.session.id()).await.unwrap();
    play.finish("call keeper__run {}").await;
    assert_eq!(play.results(grandchild).await[1]["tool_success"], false);
}

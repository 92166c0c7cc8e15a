//! Stopping: which turns are stopped, which agents are then held, and what ends the hold.

use std::time::Instant;

use patchbay_session::AgentState;
use patchbay_tests::{PATIENCE, play::Play, session_events::wait_for_end};

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_the_view_holds_that_agent_alone() {
    let play = Play::new().await;
    let root = play.session.view();
    let one = play.hang("say One.\nhang").await;
    let child = play.fork("").await;
    let two = play.hang("say Two.\nhang").await;
    assert_eq!(play.session.working_agents(), 2);
    assert!(play.session.stop_turn());
    assert_eq!(wait_for_end(two).await.code.as_str(), "turn_cancelled");
    assert!(!play.session.stop_turn(), "no turn of the view runs");
    assert_eq!(play.agent(child).await.state, AgentState::Held);
    assert_eq!(play.agent(root).await.state, AgentState::Working);
    // Neither a message to another agent nor a command ends the hold.
    play.run(&format!("/mail-send {child} \"Hello\"")).await;
    let third = play.fork("").await;
    play.run("hello").await;
    play.switch(child).await;
    for command in ["/skills", "/agents", "/model demo-1", "/mail-check"] {
        play.run(command).await;
    }
    assert_eq!(play.agent(child).await.state, AgentState::Held);
    assert_eq!(play.said(child), ["say Two.\nhang"]);
    // A message to this agent does.
    assert_eq!(play.run("hello").await.code.as_str(), "answered");
    // The agent is idle for a moment before its mail wakes it.
    play.wait_until("its mail wakes it", async || play.said(child).len() == 3).await;
    play.wait_for_state(child, AgentState::Idle).await;
    let said = play.said(child);
    assert_eq!(said[1..], ["hello", "[Notification: You have 1 unread message in your inbox]"]);
    play.switch(root).await;
    play.session.stop_turn();
    wait_for_end(one).await;
    assert_eq!(play.agent(third).await.state, AgentState::Idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_the_session_holds_all_until_any_message() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let two = play.hang("say Two.\nhang").await;
    let queued = play.session.submit("say Later.");
    play.wait_until("a line waits", async || play.session.queue().lines.len() == 1).await;
    let idle = play.fork("").await;
    play.switch(root).await;
    let one = play.hang("say One.\nhang").await;
    assert_eq!(play.session.stop_all(), 2);
    for line in [one, two] {
        assert_eq!(wait_for_end(line).await.code.as_str(), "turn_cancelled");
    }
    play.run(&format!("/mail-send {idle} \"Hello\"")).await;
    play.idle().await;
    for agent in [root, child, idle] {
        assert_eq!(play.agent(agent).await.state, AgentState::Held);
    }
    assert_eq!(play.turns(idle), []);
    play.switch(idle).await;
    play.finish("hello").await;
    assert_eq!(wait_for_end(queued).await.message, "Later.");
    assert_eq!(play.said(idle), ["hello", "[Notification: You have 1 unread message in your inbox]"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_that_has_just_begun_is_stopped_and_counted() {
    let play = Play::new().await;
    for round in 0..20 {
        let line = play.session.submit("pause 60000");
        // No pause: most stops come before the first rows of the turn are stored.
        let end = Instant::now() + PATIENCE;
        while !play.session.is_answering() {
            assert!(Instant::now() < end, "no turn begins");
        }
        match round % 2 {
            0 => assert_eq!(play.session.stop_all(), 1, "round {round}"),
            _ => assert!(play.session.stop_turn(), "round {round}"),
        }
        assert_eq!(wait_for_end(line).await.code.as_str(), "turn_cancelled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn model_command_is_refused_during_a_turn_and_works_with_a_held_queue() {
    let play = Play::new().await;
    let running = play.hang("say One.\nhang").await;
    let words =
        "Error: cannot switch model while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.";
    play.assert_line("/model demo-big", "turn_running", words).await;
    let queued = play.session.submit("show context");
    play.wait_until("a line waits", async || play.session.queue().lines.len() == 1).await;
    play.session.stop_turn();
    wait_for_end(running).await;
    assert!(play.session.queue().held);
    assert_eq!(play.run("/model demo-big").await.code.as_str(), "model_set");
    play.session.release_queue();
    assert!(wait_for_end(queued).await.message.contains("model: demo-big\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_session_runs_nothing_before_the_first_message() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let running = play.hang("say So far.\nhang").await;
    let queued = play.session.submit("say Later.");
    // A queued line is stored a moment later.
    let stored = async || play.host.store().queued_lines(play.session.id()).await.unwrap().len();
    play.wait_until("the line is stored", async || stored().await == 1).await;
    play.switch(root).await;
    play.run("/capture").await;
    play.run("A task").await;
    play.run(&format!("/mail-send {child} \"Hello\"")).await;
    let play = play.restarted().await;
    drop((running, queued));
    play.idle().await;
    for agent in [root, child] {
        assert_eq!(play.agent(agent).await.state, AgentState::Held);
    }
    assert!(play.session.is_capturing());
    assert_eq!(play.agent(child).await.unread, 1);
    assert_eq!(play.answers(child), ["So far."]);
    // Commands and captured lines do not count as messages.
    play.run("More of the task").await;
    play.run("/cancel").await;
    play.switch(child).await;
    assert_eq!(play.session.queue().lines[0].text, "say Later.");
    assert!(play.session.queue().held);
    assert_eq!(play.said(child), ["say So far.\nhang"]);
    play.finish("hello").await;
    assert_eq!(
        play.said(child),
        ["say So far.\nhang", "say Later.", "hello", "[Notification: You have 1 unread message in your inbox]"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_session_stops_all_and_keeps_what_came() {
    let play = Play::new().await;
    let root = play.session.view();
    let one = play.hang("say One.\nhang").await;
    let child = play.fork("").await;
    let two = play.hang("say Two.\nhang").await;
    let play = play.restarted().await;
    drop((one, two));
    assert_eq!((play.answers(root), play.answers(child)), (vec!["One.".into()], vec!["Two.".into()]));
    assert_eq!(play.turns(root)[0].1, "done");
    assert_eq!(play.session.working_agents(), 0);
}

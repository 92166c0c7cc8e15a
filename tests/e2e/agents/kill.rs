//! `/kill`: which agents it kills, in which order it lists them, and where the view moves.

use std::time::{Duration, Instant};

use patchbay_core::MessageKind;
use patchbay_tests::{
    play::{Play, named},
    session_events::wait_for_end,
};

#[tokio::test(flavor = "multi_thread")]
async fn kill_ends_the_descendants_in_the_order_of_their_making() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let first = play.fork("").await;
    let deep = play.fork("").await;
    play.switch(child).await;
    let second = play.fork("").await;
    play.switch(root).await;
    let other = play.fork("").await;
    let killed = play.run(&format!("/kill {}", child.short())).await;
    assert_eq!(killed.code.as_str(), "killed");
    assert_eq!(named(&killed.line(), &[child, first, deep, second]), "Killed 4 agents: <1>, <2>, <3>, <4>");
    assert_eq!(serde_json::to_value(killed.data).unwrap()["killed"][3], second.to_string());
    assert_eq!(play.ids().await, [root, other]);
    assert_eq!(play.session.view(), other, "the view was not inside");
    let already = format!("Error: agent '{deep}' is already dead.");
    play.assert_line(&format!("/kill {deep}"), "agent_dead", &already).await;
    // Without an argument, it kills the agent in view, and the view moves to its parent.
    play.assert_line("/kill", "killed", &format!("Killed 1 agent: {other}")).await;
    assert_eq!(play.session.view(), root);
    for argument in ["", &root.to_string()] {
        play.assert_line(&format!("/kill {argument}"), "kill_root", "Error: cannot kill the root agent.").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn view_moves_to_the_nearest_living_ancestor() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let below = play.fork("").await;
    let deepest = play.fork("").await;
    let killed = play.text(&format!("/kill {below}")).await;
    assert_eq!(named(&killed, &[below, deepest]), "Killed 2 agents: <1>, <2>");
    assert_eq!(play.session.view(), child);
    assert_eq!(play.finish("say I am there.").await.message, "I am there.");
    let play = play.restarted().await;
    assert_eq!((play.session.view(), play.ids().await), (child, vec![root, child]));
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_hangs_is_killed_at_once() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let running = play.hang("say The partial answer is kept.\nhang").await;
    let waiting = play.session.submit("And then?");
    // A queued line is stored a moment later, and so is the text that has arrived.
    let queued = async || play.host.store().queued_lines(play.session.id()).await.unwrap().len();
    play.wait_until("the line is stored", async || queued().await == 1).await;
    play.wait_for_partial("The partial answer is kept.").await;
    let began = Instant::now();
    let killed = play.run("/kill").await;
    let outcome = wait_for_end(running).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(&*killed.line(), format!("Killed 1 agent: {child}"));
    assert_eq!(outcome.code.as_str(), "agent_dead");
    // The partial answer is stored, the turn is interrupted, and the waiting line is given back.
    assert_eq!(play.texts(child, MessageKind::Assistant), ["The partial answer is kept."]);
    assert_eq!(play.turns(child), [("person".to_owned(), "interrupted".to_owned(), "agent_dead".to_owned())]);
    assert_eq!(killed.killed_lines(), ["And then?"]);
    assert_eq!(wait_for_end(waiting).await.code.as_str(), "line_taken_back");
    assert_eq!(play.host.store().queued_lines(play.session.id()).await.unwrap(), []);
    assert_eq!((play.session.view(), play.mails(root).await), (root, vec![]));
}

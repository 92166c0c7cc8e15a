//! Agents after the process has ended: nothing is running, everything is stored, and a user message lets an agent continue.

use std::time::Duration;

use patchbay_core::MessageKind;
use patchbay_session::{AgentState, SessionLimits};
use patchbay_tests::{
    play::{Play, quick_demo},
    session_events::{stored_texts, wait_for_end},
};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_after_a_restart_until_a_message() {
    let limits = || SessionLimits { concurrent_requests: 64, ..SessionLimits::default() };
    let play = Play::with(quick_demo(), limits()).await;
    let root = play.session.view();
    let on_mail = "on mail call mail_check {}";
    let running = play.call_fork("say half of it\nhang").await;
    let waiting = play.call_fork("hang").await;
    play.ok(&format!("/mail-send {running} \"unread\"")).await;
    let capturing = play.fork("").await;
    for line in ["/capture", "kept for later"] {
        play.ok(line).await;
    }
    play.ok("/switch root").await;
    let busy = play.session.submit(&format!("hang\n{on_mail}"));
    let queued = play.session.submit("later");
    let texts = || play.session.queue().lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
    let (store, id) = (play.host.store(), play.session.id());
    let running_turns = || play.patchbay.query_one::<i64>("SELECT count(*) FROM turns WHERE state = 'running'", []);
    // Once this holds, nothing more is written.
    play.wait_until("three turns, a line and half of an answer are stored", async || {
        let queued = store.queued_lines(id).await.unwrap();
        let partial = store.partial_answers(id, patchbay_agent::join_pieces).await.unwrap();
        running_turns() == 3 && !queued.is_empty() && partial.iter().any(|row| row.content == "half of it")
    })
    .await;
    assert_eq!((texts(), play.session.working_agents()), (vec!["later".to_owned()], 3));

    let patchbay = play.killed_home();
    play.session.close().await;
    drop((busy, queued, play));
    // As if the second child's turn had been committed with the fork but had not begun.
    let began = "UPDATE turns SET state = 'waiting' WHERE agent = ? AND state = 'running'";
    assert_eq!(patchbay.database("patchbay.db").execute(began, [waiting.to_string()]).unwrap(), 1);
    let play = Play::resume(patchbay, id, quick_demo(), limits()).await;

    let last = play.session.last_seq();
    play.idle().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((play.session.last_seq(), play.session.working_agents()), (last, 0));
    let living = play.living().await;
    assert_eq!(living.len(), 4);
    assert!(living.iter().all(|agent| agent.state == AgentState::Held), "{living:?}");
    assert_eq!(play.session.view(), root);
    assert_eq!(play.texts(running, MessageKind::Assistant), ["half of it"]);
    assert_eq!((play.agent(running).await.unread, play.agent(root).await.unread), (1, 2));
    let queue = play.session.queue();
    assert_eq!((queue.held, queue.lines.len(), &*queue.lines[0].text), (true, 1, "later"));
    play.check();
    // Commands do not start a turn.
    play.ok("/agents").await;
    play.switch(capturing).await;
    assert!(play.session.is_capturing());
    assert_eq!(play.ok("and this").await.message, "Captured (2 lines).");
    play.idle().await;
    assert_eq!(play.said(running).len(), 1);

    play.ok("/switch root").await;
    let line = play.session.submit("go on");
    assert_eq!(wait_for_end(line).await.message, "You said: go on");
    play.idle().await;
    let said = play.said(root);
    assert!(said.windows(2).any(|pair| pair == ["later", "go on"]), "{said:?}");
    assert_eq!(play.said(running)[1..], ["[Notification: You have 1 unread message in your inbox]"]);
    let told = said.iter().filter(|text| text.starts_with("[Notification: ")).count();
    assert!(told >= 1, "the root was told of its children: {said:?}");
    play.switch(capturing).await;
    let child = play.fork("").await;
    play.idle().await;
    assert_eq!(play.said(child), ["kept for later\nand this"]);
    assert!(
        !stored_texts(&play.session, MessageKind::Assistant)
            .await
            .iter()
            .any(|text| { text.contains("kept for later") && !text.starts_with("You said: kept for later\nand this") })
    );
    play.check();
}

//! Agents after the process ended: nothing runs, everything is there, and a person's message lets it go on.

use std::time::Duration;

use patchbay_sandbox::Limits;
use patchbay_session::AgentState;
use patchbay_tests::{
    agents::Agents,
    host::host_with,
    play::quick_demo,
    session_events::{stored_texts, wait_for_end},
};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_after_a_restart_until_a_message() {
    let limits = || Limits { concurrent_requests: 64, ..Limits::default() };
    let agents = Agents::new(limits()).await;
    let root = agents.session.view();
    let on_mail = "on mail call mail_check {}";
    agents.ok("call fork {\"prompt\":\"say half of it\\nhang\"}").await;
    agents.ok("call fork {\"prompt\":\"hang\"}").await;
    let (running, waiting) = (agents.children().await[0], agents.children().await[1]);
    agents.ok(&format!("/mail-send {running} \"unread\"")).await;
    let capturing = agents.fork("").await;
    for line in ["/capture", "kept for later"] {
        agents.ok(line).await;
    }
    agents.ok("/switch root").await;
    let busy = agents.session.submit(&format!("hang\n{on_mail}"));
    let queued = agents.session.submit("later");
    let texts = || agents.session.queue().lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
    let (store, id) = (agents.host.store(), agents.session.id());
    let running_turns = || -> i64 {
        let query = "SELECT count(*) FROM turns WHERE state = 'running'";
        agents.patchbay.database("patchbay.db").query_row(query, [], |row| row.get(0)).unwrap()
    };
    // After that, nothing is written.
    agents
        .wait_until("three turns, a line and half of an answer are stored", async || {
            let queued = store.queued_lines(id).await.unwrap();
            let partial = store.partial_answers(id, patchbay_agent::join_pieces).await.unwrap();
            running_turns() == 3 && !queued.is_empty() && partial.iter().any(|row| row.content == "half of it")
        })
        .await;
    assert_eq!((texts(), agents.session.working_agents()), (vec!["later".to_owned()], 3));

    let patchbay = agents.killed_home();
    agents.session.close().await;
    drop((busy, queued, agents));
    // The second child's turn had been committed with the fork, and had not begun.
    let began = "UPDATE turns SET state = 'waiting' WHERE agent = ? AND state = 'running'";
    assert_eq!(patchbay.database("patchbay.db").execute(began, [waiting.to_string()]).unwrap(), 1);
    let host = host_with(&patchbay, quick_demo(), limits());
    let session = host.resume(id).await.unwrap();
    let agents = Agents { patchbay, host, session };

    let last = agents.session.last_seq();
    agents.idle().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((agents.session.last_seq(), agents.session.working_agents()), (last, 0));
    let living = agents.living().await;
    assert_eq!(living.len(), 4);
    assert!(living.iter().all(|agent| agent.state == AgentState::Held), "{living:?}");
    assert_eq!(agents.session.view(), root);
    assert_eq!(agents.texts(running, "assistant"), ["half of it"]);
    assert_eq!((agents.agent(running).await.unread, agents.agent(root).await.unread), (1, 2));
    let queue = agents.session.queue();
    assert_eq!((queue.held, queue.lines.len(), &*queue.lines[0].text), (true, 1, "later"));
    agents.check();
    // Commands begin nothing.
    agents.ok("/agents").await;
    agents.ok(&format!("/switch {capturing}")).await;
    assert!(agents.session.is_capturing());
    assert_eq!(agents.ok("and this").await.message, "Captured (2 lines).");
    agents.idle().await;
    assert_eq!(agents.texts(running, "user").len(), 1);

    agents.ok("/switch root").await;
    let line = agents.session.submit("go on");
    assert_eq!(wait_for_end(line).await.message, "You said: go on");
    agents.idle().await;
    let said = agents.texts(root, "user");
    assert!(said.windows(2).any(|pair| pair == ["later", "go on"]), "{said:?}");
    assert_eq!(agents.texts(running, "user")[1..], ["[Notification: You have 1 unread message in your inbox]"]);
    let told = said.iter().filter(|text| text.starts_with("[Notification: ")).count();
    assert!(told >= 1, "the root was told of its children: {said:?}");
    agents.ok(&format!("/switch {capturing}")).await;
    let child = agents.fork("").await;
    agents.idle().await;
    assert_eq!(agents.texts(child, "user"), ["kept for later\nand this"]);
    assert!(
        !stored_texts(&agents.session, patchbay_core::MessageKind::Assistant)
            .await
            .iter()
            .any(|text| { text.contains("kept for later") && !text.starts_with("You said: kept for later\nand this") })
    );
    agents.check();
}

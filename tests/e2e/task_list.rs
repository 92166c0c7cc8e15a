//! The tool `task_list`: how the terminal and an ACP client show a model's plan.

use patchbay_tests::{
    acp::{Peer, updates},
    binary::Patchbay,
    play::Play,
    terminal::{CTRL_D, ENTER, Terminal},
};
use serde_json::{Value, json};

const CTRL_T: &str = "\x14";

/// A call that lists tasks with these states.
fn list(tasks: &[(&str, &str)]) -> String {
    let task = |(content, status): &(&str, &str)| json!({"content": content, "status": status});
    format!("call task_list {}", json!({"tasks": tasks.iter().map(task).collect::<Vec<_>>()}))
}

fn some() -> String {
    list(&[("Read the logs", "completed"), ("Write the tests", "in_progress"), ("Tidy up", "pending")])
}

#[tokio::test(flavor = "multi_thread")]
async fn list_is_kept_with_its_agent() {
    let play = Play::new().await;
    let root = play.session.view();
    play.ok(&some()).await;
    let tasks = play.session.tasks().await.unwrap();
    let contents: Vec<&str> = tasks.iter().map(|task| task.content.as_str()).collect();
    assert_eq!(contents, ["Read the logs", "Write the tests", "Tidy up"]);
    let result = play.results(root).await;
    assert_eq!(result[0]["result"], json!({"tasks": 3, "completed": 1}));
    // Neither a child nor the agent that continues from before the message has a list.
    play.fork("").await;
    assert_eq!(play.session.tasks().await.unwrap(), []);
    play.switch(root).await;
    play.ok("/rewind 1").await;
    assert_eq!(play.session.tasks().await.unwrap(), []);
    play.switch(root).await;
    let play = play.restarted().await;
    assert_eq!(play.session.tasks().await.unwrap(), tasks);
    // Refused calls change nothing.
    let long = "x".repeat(201);
    let many = vec![("x", "pending"); 51];
    for refused in [list(&[(&long, "pending")]), list(&[("x", "begun")]), list(&[("", "pending")]), list(&many)] {
        play.ok(&refused).await;
        assert_eq!(play.results(root).await.last().unwrap()["error_code"], "invalid_input", "{refused}");
    }
    assert_eq!(play.session.tasks().await.unwrap(), tasks);
    play.ok(&list(&[])).await;
    assert_eq!(play.session.tasks().await.unwrap(), []);
    play.check();
}

#[test]
fn row_shows_the_task_and_ctrl_t_the_list() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press(CTRL_T);
    terminal.wait_for_text("The model has listed no tasks.");
    terminal.press(&some());
    terminal.press(ENTER);
    terminal.wait_for_text("1/3 Write the tests");
    terminal.wait_until_idle();
    terminal.wait_for_containing(": 1 of 3 done");
    terminal.press(CTRL_T);
    for row in ["✓ Read the logs", "→ Write the tests", "  Tidy up"] {
        terminal.wait_for_text(row);
    }
    terminal.press(CTRL_T);
    terminal.wait_for_text("1/3 Write the tests");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    let terminal = Terminal::open(&patchbay, &["--session", &patchbay.last_session()]);
    terminal.wait_for_text("1/3 Write the tests");
    terminal.press("/fork");
    terminal.press(ENTER);
    terminal.wait_for_containing("Forked child");
    terminal.wait_until("the row has gone", || !terminal.lines().iter().any(|line| line == "1/3 Write the tests"));
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// Returns the entries of each plan that a client received.
fn plans(messages: &[Value]) -> Vec<Value> {
    updates(messages, "plan").into_iter().map(|update| update["entries"].clone()).collect()
}

#[test]
fn clients_get_a_plan() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let entry = |content: &str, status: &str| json!({"content": content, "priority": "medium", "status": status});
    let entries = json!([
        entry("Read the logs", "completed"),
        entry("Write the tests", "in_progress"),
        entry("Tidy up", "pending"),
    ]);
    for (id, line, expected) in [
        (2, some(), vec![entries.clone()]),
        // The same list again, then a view without a list, and back.
        (3, some(), vec![]),
        (4, "/fork".to_owned(), vec![json!([])]),
        (5, "/switch root".to_owned(), vec![entries.clone()]),
    ] {
        peer.take();
        assert_eq!(peer.prompt(id, &session, &line), "end_turn", "{line}");
        assert_eq!(plans(&peer.take()), expected, "{line}");
    }
    assert_eq!(peer.leave(), Some(0));
    let mut peer = Peer::initialized(&patchbay);
    let mut params = patchbay_tests::acp::in_workspace(&patchbay);
    params["sessionId"] = json!(session);
    let answer = peer.call(1, "session/load", params);
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(plans(&peer.take()), [entries]);
    assert_eq!(peer.leave(), Some(0));
}

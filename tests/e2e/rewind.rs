//! `/rewind`: the conversation returns to the point before a message, in a new agent, and optionally so do the files.

use std::fs;

use patchbay_core::AgentId;
use patchbay_session::AgentState;
use patchbay_tests::{
    binary::{Patchbay, Ran},
    play::Play,
    terminal::{CTRL_C, CTRL_D, ENTER, ESC, Terminal, UP},
};
use serde_json::json;

use crate::undo::{FILES, again, changed_files, kill_when, patchbay, tree, with_files, write};

/// Returns the texts of the conversation that an agent's model receives.
async fn texts(play: &Play, agent: AgentId) -> Vec<String> {
    let rows = play.host.store().conversation(agent).await.unwrap();
    rows.into_iter().map(|row| row.content).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn root_goes_on_as_a_new_agent() {
    let play = Play::new().await;
    let root = play.session.view();
    assert_eq!(play.ok("/rewind").await.message, "There are no messages to go back to.");
    for line in ["say one", "/skills", "say two", "say three"] {
        play.ok(line).await;
    }
    let list = "1. say one\n2. say two\n3. say three\nTo go back to before one of them: /rewind N, with the files: /rewind N --files";
    assert_eq!(play.ok("/rewind").await.message, list);
    for (line, code) in
        [("/rewind 0", "message_not_found"), ("/rewind 4", "message_not_found"), ("/rewind x", "invalid_args")]
    {
        assert_eq!(play.code(line).await, code, "{line}");
    }
    assert_eq!(play.session.view(), root);

    let outcome = play.ok("/rewind 2").await;
    let new = play.session.view();
    let (shown, old) = (new.short(), root.short());
    assert_eq!(
        outcome.message,
        format!(
            "Back to before message 2: say two\nYou are now talking to {shown}. {old} is held; /switch {old} returns to it."
        )
    );
    let rewound = outcome.rewound().unwrap();
    assert_eq!((rewound.agent, rewound.rewound, &*rewound.text), (new, root, "say two"));
    let (agent, held) = (play.agent(new).await, play.agent(root).await);
    assert_eq!((agent.parent, agent.state, held.state), (Some(root), AgentState::Idle, AgentState::Held));
    assert_eq!(texts(&play, new).await, ["say one", "one"]);
    play.ok("say other").await;
    assert_eq!(texts(&play, new).await, ["say one", "one", "say other", "other"]);
    assert_eq!(texts(&play, root).await, ["say one", "one", "say two", "two", "say three", "three"]);
    // The request begins with the same bytes as the old agent's requests, and then introduces the new agent.
    let context = play.text("show context").await;
    let told = [
        format!("You are the agent {root}. You have no parent."),
        format!("You are the agent {new}. Your parent is {root}."),
    ];
    for (number, told, said) in [(1, &told[0], "say one"), (3, &told[1], "say other")] {
        // In between, the first message has the facts about the session's start.
        let message = context.lines().find(|line| line.starts_with(&format!("{number} user: "))).unwrap();
        let [first, last] = [told.len(), said.len()].map(|length| format!("text({length})"));
        assert!(message.contains(&first) && message.ends_with(&last), "{message}: {context}");
    }

    // The old agent continues where it was, and the new one can be rewound as well.
    play.switch(root).await;
    assert_eq!(play.text("say four").await, "four");
    play.switch(new).await;
    play.ok("/rewind 1").await;
    let third = play.session.view();
    assert_eq!((play.agent(third).await.parent, texts(&play, third).await), (Some(root), vec![]));
    play.check();

    let play = play.restarted().await;
    assert_eq!(play.session.view(), third);
    play.ok("say again").await;
    assert_eq!(texts(&play, third).await, ["say again", "again"]);
    assert_eq!(texts(&play, new).await[..3], ["say one", "one", "say other"]);
    play.check();
}

/// A child's continuation is its sibling, also from a message that the child inherited. Messages from a
/// model's tool are not listed.
#[tokio::test(flavor = "multi_thread")]
async fn child_goes_on_beside_it() {
    let play = Play::new().await;
    let root = play.session.view();
    play.ok("say one").await;
    let child = play.fork("\"say two\"").await;
    play.idle().await;
    play.ok("/rewind 2").await;
    let second = play.session.view();
    assert_eq!(
        (play.agent(second).await.parent, texts(&play, second).await),
        (Some(root), vec!["say one".into(), "one".into()])
    );
    play.ok("/rewind 1").await;
    let third = play.session.view();
    assert_eq!((play.agent(third).await.parent, texts(&play, third).await), (Some(root), vec![]));
    // The agent that it continues may be killed.
    play.ok(&format!("/kill {child}")).await;
    play.ok(&format!("/kill {second}")).await;
    play.ok("say three").await;
    play.switch(root).await;
    let of_tool = play.call_fork("say four").await;
    play.idle().await;
    play.switch(of_tool).await;
    let listed = play.ok("/rewind").await.message;
    assert!(listed.starts_with("1. say one\nTo go back"), "{listed}");
    play.check();
    let play = play.restarted().await;
    play.switch(third).await;
    assert_eq!(texts(&play, third).await, ["say three", "three"]);
    assert_eq!(play.ok(&format!("/kill {third}")).await.code.as_str(), "killed");
    assert_eq!(play.session.view(), root);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn continuations_count_in_no_limit() {
    let play = Play::limited(|limits| (limits.agents, limits.agent_depth) = (3, 1)).await;
    let root = play.session.view();
    play.ok("say one").await;
    for _ in 0..3 {
        play.ok("/rewind 1").await;
        play.ok("say one").await;
    }
    let last = play.session.view();
    let child = play.fork("").await;
    assert_eq!(play.agent(child).await.parent, Some(last));
    assert_eq!(play.code("/fork").await, "limit_depth");
    play.ok("/rewind 1").await;
    assert_eq!(play.code("/fork").await, "limit_depth");
    let play = play.restarted().await;
    assert_eq!(play.code("/fork").await, "limit_depth");
    play.switch(last).await;
    play.fork("").await;
    play.switch(root).await;
    assert_eq!(play.code("/fork").await, "limit_agents");
    play.check();
}

/// The old agent keeps its children and their reports. An agent that continues the root reports to no agent.
#[tokio::test(flavor = "multi_thread")]
async fn reports_go_to_who_forked() {
    let play = Play::new().await;
    let root = play.session.view();
    play.ok("say one").await;
    play.finish("call fork {\"prompt\": \"say child\"}").await;
    let mails = play.mails(root).await.len();
    assert_eq!(mails, 1);
    play.ok("/rewind 1").await;
    let new = play.session.view();
    play.finish("call fork {\"prompt\": \"say other\"}").await;
    assert_eq!((play.mails(new).await.len(), play.mails(root).await.len()), (1, mails));
    assert_eq!(play.turns(new).len(), 2, "the report has woken it");
    // Mail to the old agent waits, because that agent is held.
    play.ok(&format!("/mail-send {root} \"Hello\"")).await;
    play.idle().await;
    assert_eq!((play.mails(root).await.len(), play.agent(root).await.state), (mails + 1, AgentState::Held));
    play.check();
    // It also waits after a restart, when a message to another agent releases the other held agents.
    let play = play.restarted().await;
    play.ok("say on").await;
    play.ok(&format!("/mail-send {root} \"Hello\"")).await;
    play.idle().await;
    assert_eq!((play.mails(root).await.len(), play.agent(root).await.state), (mails + 2, AgentState::Held));
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn running_turn_is_not_left() {
    let play = Play::new().await;
    let root = play.session.view();
    play.ok("say one").await;
    let running = play.hang("say Two.\nhang").await;
    let words =
        "Error: cannot go back while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.";
    for line in ["/rewind 1", "/rewind 1 --files", "/rewind 1 --files-only"] {
        play.assert_line(line, "turn_running", words).await;
    }
    // The list can still be shown.
    assert!(play.ok("/rewind").await.message.starts_with("1. say one\n2. say Two. hang\n"));
    // A waiting line stays with the old agent.
    let waiting = play.session.submit("say three");
    play.session.stop_turn();
    running.await;
    play.ok("/rewind 2").await;
    assert_ne!(play.session.view(), root);
    play.ok("say four").await;
    play.switch(root).await;
    assert_eq!(play.session.queue().lines.len(), 1);
    play.session.release_queue();
    assert_eq!(waiting.await.message, "three");
}

fn text(patchbay: &Patchbay, name: &str) -> String {
    fs::read_to_string(patchbay.workspace().join(name)).unwrap_or_default()
}

#[test]
fn files_go_back_with_the_conversation_or_alone() {
    let patchbay = patchbay();
    patchbay.write("workspace/a.txt", "old\n");
    let tool = format!("/tool files__write {}", json!({"path": "b.txt", "text": "b\n"}));
    let child = format!("call fork {}", json!({"prompt": write("child.txt", "child\n")}));
    let turn = format!("{}\n{child}", write("a.txt", "2\n"));
    let ran = patchbay.exec(&[&write("a.txt", "1\n"), &turn, &tool, &write("a.txt", "3\n")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let after = tree(&patchbay);
    assert_eq!(after.len(), 3);

    // Rewinds the conversation only.
    let ran = again(&patchbay, &["/rewind 2", "/rewind"]);
    assert!(ran.out.contains("\nTo go back to before one of them") && !ran.out.contains("2. call"), "{ran:?}");
    assert_eq!(tree(&patchbay), after);
    // Rewinds the files only: the changes by the turn, its child, the command and the later turn, in one step.
    let root =
        patchbay.answers_in(&["--session", &patchbay.last_session()], &["/switch root"])[0].data()["agent"].clone();
    let ran = again(&patchbay, &["/rewind 2 --files-only"]);
    assert!(ran.out.starts_with("Restored 3 files.\nChanged a.txt: +1 −1\n"), "{ran:?}");
    assert_eq!(tree(&patchbay).keys().collect::<Vec<_>>(), ["a.txt"]);
    assert_eq!(text(&patchbay, "a.txt"), "1\n");
    let redo = ran.out.lines().find_map(|line| line.strip_prefix("To redo it: ")).unwrap();
    // A second rewind changes nothing and can still be undone. The model is told about it.
    let ran = again(&patchbay, &["/rewind 2 --files-only", "hi"]);
    assert!(ran.out.starts_with("The files already have their earlier contents."), "{ran:?}");
    assert!(
        ran.out.contains("[The user undid file changes: 3 files restored to earlier contents: 'a.txt', "),
        "{ran:?}"
    );
    let ran = again(&patchbay, &[redo]);
    assert_eq!(tree(&patchbay), after, "{ran:?}");
    // Rewinds both. A file that was edited by hand stays as it is. Afterwards nothing is left to restore.
    patchbay.write("workspace/b.txt", "by hand\n");
    let answers = patchbay.answers_in(&["--session", &patchbay.last_session()], &["/rewind 1 --files", "/rewind"]);
    let (said, data) = (answers[0].message(), answers[0].data());
    assert!(said.contains("\nRestored 2 files.\n") && said.contains("\nNot undone:\n- b.txt: changed since"), "{said}");
    assert_eq!((&data["rewound"], &data["refused"]), (&root, &json!(["b.txt"])));
    assert_eq!((text(&patchbay, "a.txt"), text(&patchbay, "b.txt")), ("old\n".to_owned(), "by hand\n".to_owned()));
    assert_eq!(answers[1].message(), "There are no messages to go back to.");
    let ran = again(&patchbay, &["say hi", "/rewind 1 --files-only", "/rewind 1 --files"]);
    assert!(ran.err.contains("no files were changed since message 1."), "{ran:?}");
    assert!(ran.out.contains("\nNo files were changed since then."), "{ran:?}");
}

/// Undos since the message are reverted as well, even an undo of a change from before the message.
#[test]
fn undone_changes_are_on_the_way_back() {
    let patchbay = patchbay();
    patchbay.write("workspace/a.txt", "old\n");
    let lines =
        [write("a.txt", "1\n"), write("a.txt", "2\n"), "/undo".to_owned(), "/undo".to_owned(), write("a.txt", "3\n")];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(patchbay.exec(&lines).code, Some(0));
    let ran = again(&patchbay, &["/rewind 2 --files-only"]);
    assert!(ran.out.starts_with("Restored 1 file.\n"), "{ran:?}");
    assert_eq!(text(&patchbay, "a.txt"), "1\n");
    let redo = ran.out.lines().find_map(|line| line.strip_prefix("To redo it: ")).unwrap();
    again(&patchbay, &[redo]);
    assert_eq!(text(&patchbay, "a.txt"), "3\n");
    assert_eq!(again(&patchbay, &["/rewind 1 --files"]).code, Some(0));
    assert_eq!(text(&patchbay, "a.txt"), "old\n");
}

/// A kill in the middle leaves either the old agent in view, or the new one with all files restored. The command can be repeated.
#[test]
fn kills_in_the_middle_lose_nothing() {
    let (patchbay, calls) = with_files();
    let before = tree(&patchbay);
    let changed = || changed_files(&patchbay);
    for kill_at in [1, 20, FILES] {
        assert_eq!(patchbay.exec(&["say one", &calls]).code, Some(0));
        let session = patchbay.last_session();
        assert_eq!(changed(), FILES);
        kill_when(&patchbay, &["exec", "--session", &session, "/rewind 2 --files"], || changed() + kill_at <= FILES);
        let agents =
            patchbay.answers_in(&["--session", &session], &["/agents"])[0].data()["agents"].as_array().unwrap().len();
        if agents == 1 {
            let ran = patchbay.run(&["exec", "--session", &session, "/rewind 2 --files"]);
            assert_eq!(ran.code, Some(0), "{ran:?}");
        }
        let mut after = tree(&patchbay);
        // A kill can leave the temporary file of a write.
        after.retain(|name, _| name.ends_with(".txt"));
        assert!(after == before, "killed at {kill_at}: {} files are changed", changed());
        let ran = patchbay.run(&["exec", "--session", &session, "/rewind", "say on"]);
        assert!(ran.out.starts_with("1. say one\nTo go back") && ran.out.ends_with("on\n"), "{ran:?}");
    }
}

/// Files that an undo could not restore can be restored later by the number of the change.
#[test]
fn refused_files_can_be_undone_later() {
    let patchbay = patchbay();
    for name in ["mine.txt", "two.txt"] {
        patchbay.write(&format!("workspace/{name}"), "old\n");
    }
    let turn = format!("{}\n{}", write("mine.txt", "new\n"), write("two.txt", "new\n"));
    assert_eq!(patchbay.exec(&["say one", &write("first.txt", "1\n"), &turn]).code, Some(0));
    patchbay.write("workspace/mine.txt", "edited by hand\n");
    let Ran { out, .. } = again(&patchbay, &["/undo"]);
    assert!(out.contains("Not undone:\n- mine.txt: changed since"), "{out}");
    assert!(out.contains("\nTo undo the rest later: /undo 2\nTo redo it: /undo 3\n"), "{out}");
    // Without a number, the change before it is next.
    assert!(again(&patchbay, &["/undo"]).out.starts_with("Undid change 1: 1 file.\nDeleted first.txt"));
    let ran = again(&patchbay, &["/undo 2"]);
    assert!(ran.err.contains("change 2 was not undone:\n- mine.txt: changed since"), "{ran:?}");
    patchbay.write("workspace/mine.txt", "new\n");
    let ran = again(&patchbay, &["/diff 2", "/undo 2", "/undo 2"]);
    assert!(ran.out.starts_with("Change 2: 1 file.\n") && ran.out.contains("\nUndid change 2: 1 file.\n"), "{ran:?}");
    assert!(ran.err.contains("change 2 is already undone."), "{ran:?}");
    assert_eq!((text(&patchbay, "mine.txt"), text(&patchbay, "two.txt")), ("old\n".to_owned(), "old\n".to_owned()));
    // An undo of an undo restores the changes.
    again(&patchbay, &["/undo 3"]);
    assert_eq!((text(&patchbay, "mine.txt"), text(&patchbay, "two.txt")), ("old\n".to_owned(), "new\n".to_owned()));
}

#[test]
fn esc_twice_lists_the_messages() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    for (line, answer) in [("say one", "one"), ("say two", "two")] {
        terminal.press(line);
        terminal.press(ENTER);
        terminal.wait_for_text(answer);
        terminal.wait_until_idle();
    }
    terminal.press(ESC);
    terminal.wait_for_containing("Esc again lists your messages, to go back to one.");
    terminal.press(ESC);
    terminal.wait_for_text("2  say two");
    terminal.wait_for_text("1  say one");
    terminal.press(UP);
    terminal.press(UP);
    terminal.press(ENTER);
    terminal.wait_for_containing("Back to before message 2: say two");
    // The message is in the composer again, and the new agent receives it.
    terminal.wait_for_prefix("> say two");
    terminal.press(" and three");
    terminal.press(ENTER);
    terminal.wait_for_text("two and three");
    terminal.wait_until_idle();
    terminal.press("/rewind");
    terminal.press(ENTER);
    terminal.wait_for_text("2. say two and three");
    terminal.press("draft");
    terminal.press(ESC);
    terminal.press(ESC);
    terminal.wait_for_prefix("> draft");
    terminal.press(CTRL_C);
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

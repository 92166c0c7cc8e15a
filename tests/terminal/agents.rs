//! Moments with several agents, of which one is in view and each other one has a line: switching, capturing, killing, leaving.

use std::{io::Write as _, process::Stdio};

use patchbay_tests::{
    binary::ran,
    calls::relaying,
    terminal::{CTRL_D, ENTER, ESC, Terminal, paste},
};

use crate::stage::{Stage, Window};

/// Opens a terminal in which the root and its child are working. The child is in view.
fn two_that_work(stage: &Stage) -> Window {
    let terminal = stage.stalled("The database moves ");
    terminal.press("/fork \"What does it cost?\"\r");
    terminal.wait_for_text("> What does it cost?");
    terminal.wait_for_prefix("The database moves");
    terminal.wait_for_prefix("* openai-compatible:local-1 · a");
    terminal.wait_for_containing(" is in view; it is");
    terminal
}

/// Waits until the root is in view again after [`two_that_work`], with its running answer.
fn wait_for_third_answer(terminal: &Terminal) {
    terminal.wait_until("the answer of the root is shown again", || {
        terminal.all_rows().iter().filter(|row| row.starts_with("The database moves")).count() == 3
    });
}

/// `/fork` moves the view to the child, whose answer is shown. The child pauses before it answers, so it is still working when the
/// view moves.
pub(crate) fn fork(stage: &Stage) {
    let terminal = stage.open(stage.home("[providers.demo]\noptions = { delay-ms = \"500\" }\n"));
    terminal.press("say The shop has a database.\r");
    terminal.wait_for_text("The shop has a database.");
    terminal.wait_until_idle();
    terminal.press("/fork \"say It moves in three steps.\"\r");
    terminal.wait_for_text("It moves in three steps.");
    terminal.wait_until_idle();
    terminal.press("/agents\r");
    terminal.wait_for_containing(" idle \"say ");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

/// A child ends its turn while the user types. This prints one line and leaves the composer's text alone. Its mail wakes the
/// parent.
pub(crate) fn child_done(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press(&paste(
        "call fork {\"prompt\": \"pause 5000\\nsay The logs are clean.\"}\nthen say A child reads the logs.\non mail say I \
         have a report.",
    ));
    terminal.press(ENTER);
    terminal.wait_for_text("A child reads the logs.");
    terminal.press("and then");
    terminal.wait_for_containing(" is done: The logs are clean.");
    terminal.wait_for_text("I have a report.");
    terminal.wait_for_text("> and then");
    terminal.wait_until("nothing runs", || !terminal.lines().iter().any(|line| line.starts_with("* ")));
    stage.screen(&terminal);
}

/// Switching shows the agent's last exchange, and its running answer continues. Esc stops only this agent.
pub(crate) fn switch(stage: &Stage) {
    let terminal = two_that_work(stage);
    terminal.press("/switch root\r");
    terminal.wait_for_prefix("Switched to");
    wait_for_third_answer(&terminal);
    terminal.wait_for_containing("1 other works");
    terminal.wait_for_prefix("* openai-compatible:local-1 · a");
    stage.screen(&terminal);
    terminal.press(ESC);
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_for_containing("1 other works");
}

/// Esc also stops a turn that mail started, not a line of this terminal.
pub(crate) fn stop_woken(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press(&paste("call fork {\"prompt\": \"say Done.\"}\nthen say A child works.\non mail hang"));
    terminal.press(ENTER);
    terminal.wait_for_containing(" is done: Done.");
    terminal.wait_for_text("A child works.");
    terminal.wait_for_prefix("* demo:demo-1 · ");
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    terminal.press(ESC);
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_until("nothing runs", || !terminal.lines().iter().any(|line| line.starts_with("* ")));
}

pub(crate) fn capturing(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press("/capture\r");
    terminal.wait_for_text("(capturing) >");
    for (line, answer) in [("say It moves", "Captured (1 line)."), ("in three steps.", "Captured (2 lines).")] {
        terminal.press(line);
        terminal.press(ENTER);
        terminal.wait_for_text(answer);
    }
    stage.screen(&terminal);
    terminal.press("/fork\r");
    terminal.wait_for_text("It moves");
    terminal.wait_for_prompt();
}

/// `/kill` moves the view to the parent and returns the waiting lines.
pub(crate) fn kill(stage: &Stage) {
    let terminal = two_that_work(stage);
    terminal.press("And when?\r");
    terminal.wait_for_text("queued: And when?");
    terminal.press("/kill\r");
    terminal.wait_for_text("> And when?");
    wait_for_third_answer(&terminal);
    terminal.wait_for_prefix("* openai-compatible:local-1 · a");
    stage.screen(&terminal);
}

/// Ctrl+D asks for confirmation once while agents are working.
pub(crate) fn quit(stage: &Stage) {
    let mut terminal = two_that_work(stage);
    terminal.press(CTRL_D);
    terminal.wait_for_prefix("2 agents are working. Ctrl+D");
    stage.screen(&terminal);
    // Another key cancels the question.
    terminal.press("x\u{7f}");
    terminal.wait_until("the question is gone", || {
        !terminal.lines().iter().any(|line| line.starts_with("2 agents are working."))
    });
    terminal.press(CTRL_D);
    terminal.wait_for_prefix("2 agents are working. Ctrl+D");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_end(), 0);
    terminal.wait_for_text("Stopped 2 agents.");
    terminal.wait_for_prefix("The session is kept.");
}

/// Another agent's question is announced, and names the agent once the user opens it.
pub(crate) fn other_asks(stage: &Stage) {
    let patchbay = stage.demo();
    let ask = relaying("calc__eval", r#"{"expression":"6 * 7"}"#);
    patchbay.add_command("ask", &ask, "capabilities: [{name: tools}]\n");
    let terminal = stage.open(patchbay);
    terminal.press(&paste(
        "call fork {\"prompt\": \"pause 5000\\ncall ask__run {}\"}\nthen say A child asks.\non mail say I have a report.",
    ));
    terminal.press(ENTER);
    terminal.wait_for_text("A child asks.");
    terminal.wait_for_containing(" asks: Call calc__eval?");
    // The question leaves the composer alone until the user opens it.
    terminal.wait_for_containing("(Tab answers)");
    terminal.press("\t");
    terminal.wait_for_prefix("for agent ");
    stage.screen(&terminal);
    assert!(terminal.written().contains('\u{7}'), "the bell did not ring");
    terminal.press("\x03");
    terminal.wait_for_prefix("Not allowed: Call calc__eval");
    terminal.wait_for_text("I have a report.");
}

/// `/agents` while a child waits for an answer shows each agent's state and task, and the child's question.
pub(crate) fn listed(stage: &Stage) {
    let patchbay = stage.demo();
    let ask = relaying("calc__eval", r#"{"expression":"6 * 7"}"#);
    patchbay.add_command("ask", &ask, "capabilities: [{name: tools}]\n");
    let terminal = stage.open(patchbay);
    terminal.press(&paste("call fork {\"prompt\": \"pause 5000\\ncall ask__run {}\"}\nthen say A child asks."));
    terminal.press(ENTER);
    terminal.wait_for_text("A child asks.");
    terminal.wait_for_containing("(Tab answers)");
    terminal.press("/agents\r");
    terminal.wait_for_containing(" asking ");
    stage.screen(&terminal);
}

/// With lines from a pipe, the text of the agent in view goes to standard output and other texts to standard error. Agents finish
/// at the end.
pub(crate) fn pipe(stage: &Stage) {
    let patchbay = stage.demo();
    let mut child = patchbay.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let line = b"call fork {\"prompt\": \"pause 500\\nsay The logs are clean.\"}\n";
    child.stdin.take().unwrap().write_all(line).unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains(": done: The logs are clean.\n"), "{ran:?}");
    assert!(!ran.out.contains("done") && !ran.out.contains("\nThe logs are clean.\n"), "{ran:?}");
}

/// The answer of an agent that was out of view for a while is printed in full and only once.
pub(crate) fn away(stage: &Stage) {
    let terminal = stage.open(stage.home("[providers.demo]\noptions = { delay-ms = \"150\" }\n"));
    terminal.press("/fork \"repeat 100 la\"\r");
    terminal.wait_for_prefix("la la la");
    terminal.press("/switch root\r");
    terminal.wait_for_prefix("Switched to");
    terminal.press(&format!("/switch {}\r", child_in(&terminal)));
    terminal.wait_until("the view is back", || {
        terminal.all_rows().iter().filter(|row| row.starts_with("Switched to")).count() == 2
    });
    terminal.wait_for_prefix("* demo:demo-1 · answering");
    terminal.wait_until_idle();
    let rows = terminal.all_rows().join(" ");
    let (_, after) = rows.rsplit_once("Switched to ").unwrap();
    assert!(after.contains(" working."), "{after}");
    // One of them is in the message.
    assert_eq!(after.split([' ', '\n']).filter(|word| *word == "la").count(), 101, "{after}");
}

/// Returns the short id of the forked child.
fn child_in(terminal: &Terminal) -> String {
    let rows = terminal.all_rows().join(" ");
    let (_, after) = rows.split_once("Forked child ").unwrap();
    after.chars().take(8).collect()
}

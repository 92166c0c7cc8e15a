//! Moments of tools: they run, succeed, fail, and require permission.

use std::{
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    calls::relaying,
    guest::Guest,
    terminal::{CTRL_C, ENTER, ESC, Terminal, paste},
};

use crate::{answering::assert_harmless, stage::Stage};

/// The busy row names the tool and its progress.
pub(crate) fn running(stage: &Stage) {
    let patchbay = stage
        .home("[providers.demo]\noptions = { delay-ms = \"0\" }\n[limits]\nfuel = 9000000000000\ntime_ms = 600000\n");
    patchbay.add_command("spin", &Guest::reporting_and_spinning(), "");
    let terminal = stage.open(patchbay);
    terminal.press("call spin__run {\"done\": 7}\r");
    terminal.wait_for_prefix("→ spin__run ");
    terminal.wait_for_prefix("* demo:demo-1 · spin__run ");
    if stage.columns > 40 {
        terminal.wait_for_containing(" · {\"done\":7} · ");
    }
    stage.screen(&terminal);
    terminal.press(ESC);
    terminal.wait_for_prefix("Stopped after ");
}

pub(crate) fn succeeded(stage: &Stage) {
    let patchbay = stage.demo();
    patchbay.add_command("lines", &Guest::answering("alpha\nbeta\ngamma"), "");
    let terminal = stage.open(patchbay);
    terminal.press(&paste("call calc__eval {\"expression\": \"2^100 / 3\"}\ncall lines__run {}\nthen say It is done."));
    terminal.press(ENTER);
    terminal.wait_for_text("It is done.");
    terminal.wait_until_idle();
    terminal.press("/show 2\r");
    terminal.wait_for_text("gamma");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

pub(crate) fn failed(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press(&paste("call calc__eval {\"expression\": \"1 MB - 2\"}\nthen say It cannot be done."));
    terminal.press(ENTER);
    terminal.wait_for_text("It cannot be done.");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

/// Escape sequences in a result are shown as text or removed, even by `/show`.
pub(crate) fn hostile(stage: &Stage) {
    let patchbay = stage.demo();
    let text = "a\x1b]0;OWNED\x07\n\x1b[2J\x1b[3J\x1b[Hb\n\x1b]52;c;T1dORUQ=\x07c \u{9b}2J \x1bc \x1b[31m \u{202e}d";
    patchbay.add_command("attack", &Guest::answering(text), "");
    let terminal = stage.open(patchbay);
    terminal.press(&paste("call attack__run {}\nthen say The end."));
    terminal.press(ENTER);
    terminal.wait_for_text("The end.");
    terminal.wait_until_idle();
    terminal.press("/show 1\r");
    terminal.wait_until_idle();
    terminal.press("/attack\r");
    terminal.wait_until_idle();
    stage.screen(&terminal);
    assert_harmless(&terminal);
}

/// A call without a grant asks. Keys that were typed ahead go to the composer, and the question waits until the composer is empty.
pub(crate) fn question(stage: &Stage) {
    let ask = relaying("calc__eval", r#"{"expression":"6 * 7"}"#);
    let asked = || {
        let patchbay = stage.demo();
        patchbay.add_command("ask", &ask, "capabilities: [{name: tools}]\n");
        let terminal = stage.open(patchbay);
        terminal.press("/ask\r");
        terminal.wait_for_prefix("Call calc__eval?");
        terminal.press("1");
        thread::sleep(Duration::from_secs(2));
        terminal
    };
    // On a busy machine, the key may arrive after the interval in which keys are ignored, and is then an answer. The test tries
    // again.
    let terminal = (0..20).map(|_| asked()).find(|terminal| is_question_open(terminal)).unwrap();
    terminal.wait_for_prefix("Clear your text to answer");
    terminal.press(CTRL_C);
    terminal.wait_for_prefix("1 once");
    stage.screen(&terminal);
    answer(&terminal, "1");
    terminal.wait_for_text("42");
    terminal.wait_until_idle();
    terminal.press("/ask\r");
    terminal.wait_for_prefix("Call calc__eval?");
    answer(&terminal, ESC);
    terminal.wait_for_prefix("Error: skill 'ask' may not use");
    terminal.wait_until_idle();
    // The question about a grant is only asked once.
    terminal.press("/ask\r");
    terminal.wait_for_prefix("Call calc__eval?");
    answer(&terminal, "3");
    terminal.wait_for_prefix("Allowed in this workspace from now on");
    terminal.wait_until_idle();
    terminal.press("/ask\r");
    terminal.wait_until("three calls have succeeded", || {
        terminal.all_rows().iter().filter(|row| *row == "42").count() == 3
    });
}

fn is_question_open(terminal: &Terminal) -> bool {
    terminal.lines().iter().any(|line| line.starts_with("1 once") || line.starts_with("Clear your text to answer"))
}

const SHIFT_TAB: &str = "\x1b[Z";

/// Types a key after the interval in which a question ignores keys. A busy program may have read earlier keys late and ignore this
/// one as well, so it is typed again if necessary.
fn answer(terminal: &Terminal, key: &str) {
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(600));
        terminal.press(key);
        let pressed = Instant::now();
        while is_question_open(terminal) && pressed.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(10));
        }
        if !is_question_open(terminal) {
            // Keys that arrived too early are in the composer. Ctrl+U removes them.
            terminal.press("\x15");
            return;
        }
    }
    panic!("the question is not answered:\n{}", terminal.lines().join("\n"));
}

/// Shift+Tab cycles through the modes, which the status row names. In plan mode nothing is changed, and the model is told.
pub(crate) fn modes(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press(SHIFT_TAB);
    terminal.wait_for_prefix("edits · ");
    terminal.press(&paste("call files__write {\"path\": \"a.txt\", \"text\": \"a\\n\"}\nthen say It is written."));
    terminal.press(ENTER);
    terminal.wait_for_text("It is written.");
    terminal.wait_until_idle();
    terminal.press(SHIFT_TAB);
    terminal.wait_for_prefix("plan · ");
    terminal.press(&paste("call files__write {\"path\": \"b.txt\", \"text\": \"b\\n\"}\nthen say It is planned."));
    terminal.press(ENTER);
    terminal.wait_for_text("It is planned.");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

/// An edit is shown as the lines that it changes.
pub(crate) fn diff(stage: &Stage) {
    let patchbay = stage.demo();
    patchbay.write("workspace/shop.txt", "open\nclosed\n");
    let terminal = stage.open(patchbay);
    let edit = r#"call files__edit {"path":"shop.txt","old":"closed\n","new":"open, too\n"}"#;
    terminal.press(&paste(&format!("{edit}\nthen say It is done.")));
    terminal.press(ENTER);
    terminal.wait_for_prefix("Overwrite shop.txt: +1 −1?");
    // The question shows the diff as well.
    for line in ["2 - closed", "2 + open, too"] {
        terminal.wait_for_text(line);
    }
    answer(&terminal, "2");
    terminal.wait_for_text("It is done.");
    terminal.wait_until_idle();
    for line in ["- closed", "+ open, too"] {
        terminal.wait_for_text(line);
    }
    stage.screen(&terminal);
}

/// The model runs a failing test in the cage, edits a file, and runs the test again.
#[cfg(target_os = "linux")]
pub(crate) fn programs(stage: &Stage) {
    let patchbay = stage.demo();
    patchbay
        .write("workspace/check.sh", "grep -q open shop.txt && echo passed && exit\necho the shop is closed\nexit 1\n");
    patchbay.write("workspace/shop.txt", "closed\n");
    let terminal = stage.open(patchbay);
    let (run, edit) = (
        r#"call terminal__run {"command":"sh","args":["check.sh"]}"#,
        r#"call files__edit {"path":"shop.txt","old":"closed\n","new":"open\n"}"#,
    );
    terminal.press(&paste(&format!("{run}\n{edit}\n{run}\nthen say It passes.")));
    terminal.press(ENTER);
    terminal.wait_for_prefix("Run sh check.sh?");
    answer(&terminal, "2");
    terminal.wait_for_prefix("Overwrite shop.txt: +1 −1?");
    answer(&terminal, "1");
    terminal.wait_for_text("It passes.");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

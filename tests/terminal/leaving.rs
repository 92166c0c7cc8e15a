//! Moments at the end: leaving, resuming, signals, and runs without a terminal that can be drawn on.

use std::{io::Write as _, process::Stdio};

use patchbay_tests::{
    binary::ran,
    terminal::{CTRL_D, CTRL_Z, ENTER},
};

use crate::stage::Stage;

/// Turns off unambiguous keys, bracketed paste, focus reports and attributes, and restores the title.
const RESTORED: [&str; 6] = ["\x1b[<1u", "\x1b[?2004l", "\x1b[?1004l", "\x1b[0m", "\x1b[?25h", "\x1b[23;2t"];

/// Leaving prints how to continue, and removes the live area.
pub(crate) fn leave(stage: &Stage) {
    let mut terminal = stage.open(stage.demo());
    terminal.press("Good day\r");
    terminal.wait_for_text("You said: Good day");
    terminal.wait_until_idle();
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_end(), 0);
    terminal.wait_for_prefix("The session is kept.");
    stage.screen(&terminal);
    let written = terminal.written();
    for sequence in RESTORED {
        assert!(written.contains(sequence), "{sequence:?} is not written");
    }
}

/// A resumed session shows the last exchange, with the answer in its usual form, and how much came before it.
pub(crate) fn resume(stage: &Stage) {
    let patchbay = stage.demo();
    patchbay.run(&["exec", "one", "say The **database** moves in three steps."]);
    let terminal = stage.open_with(patchbay, &["-c"]);
    terminal.wait_for_text("… 2 earlier messages: /history");
    terminal.wait_for_containing("The database moves");
    assert!(terminal.cell("database moves").bold(), "the answer is not rendered");
    stage.screen(&terminal);
}

/// Ctrl+Z gives the terminal back to the shell. After `fg` the draft is still there.
pub(crate) fn suspend(stage: &Stage) {
    let script =
        "set -m\npatchbay\necho stopped with $?\nread -r line\necho the shell read $line\nfg\necho left with $?";
    let mut terminal = stage.script(stage.demo(), script);
    terminal.wait_for_prompt();
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    assert!(!terminal.is_cooked(), "the front does not run in raw mode");
    terminal.press(CTRL_Z);
    terminal.wait_for_text("stopped with 148");
    assert!(terminal.is_cooked(), "the shell has a terminal in raw mode");
    assert!(terminal.written().contains("\x1b[?2004l"), "bracketed paste is still on");
    terminal.press("hello\r");
    terminal.wait_for_text("the shell read hello");
    terminal.wait_for_text("> a draft");
    terminal.wait_until("raw mode is on again", || !terminal.is_cooked());
    terminal.press("\x03");
    terminal.wait_for_prompt();
    terminal.press(CTRL_D);
    terminal.wait_for_text("left with 0");
    terminal.wait_for_end();
    assert!(terminal.is_cooked(), "the terminal is left in raw mode");
}

/// Signals that end the program restore the terminal, even while an answer streams.
pub(crate) fn signals(stage: &Stage) {
    for (signal, code) in [("TERM", 143), ("HUP", 129)] {
        let mut terminal = stage.stalled("The database moves ");
        assert!(!terminal.is_cooked(), "the front does not run in raw mode");
        terminal.signal(signal);
        assert_eq!(terminal.wait_for_end(), code, "SIG{signal}");
        assert!(terminal.is_cooked(), "SIG{signal} leaves the terminal in raw mode");
        let written = terminal.written();
        let (_, after) = written.rsplit_once("\x1b[?2004h").unwrap();
        for sequence in RESTORED {
            assert!(after.contains(sequence), "SIG{signal}: {sequence:?} is not written");
        }
        let rows = terminal.lines();
        assert!(rows.iter().any(|row| row.starts_with("The database moves")), "what came is lost: {rows:?}");
        stage.screen(&terminal);
    }
}

/// A terminal that cannot be drawn on gets plain lines.
pub(crate) fn dumb(stage: &Stage) {
    let mut patchbay = stage.demo();
    patchbay.set("TERM", "dumb");
    let terminal = stage.script(patchbay, "patchbay");
    terminal.wait_for_prompt();
    terminal.press("/calc 6 * 7");
    terminal.press(ENTER);
    terminal.wait_for_text("42");
    terminal.wait_for_prompt();
    stage.screen(&terminal);
    terminal.press("/quit\r");
    terminal.wait_for_prefix("The session is kept.");
    let written = terminal.written();
    assert!(!written.contains('\x1b'), "a sequence is written: {written:?}");
}

/// Lines from a pipe are answered without escape sequences.
pub(crate) fn pipe(stage: &Stage) {
    let patchbay = stage.demo();
    let mut child = patchbay.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"say **Done.**\n/calc 6 * 7\n").unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!((ran.code, &*ran.out), (Some(0), "**Done.**\n42\n"), "{ran:?}");
}

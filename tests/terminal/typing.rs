//! Moments before a line is entered: the start, the menu, completion, several lines, pasted text, the history.

use std::fs;

use patchbay_tests::terminal::{
    ALT_ENTER, CTRL_C, CTRL_D, CTRL_G, CTRL_J, CTRL_L, CTRL_R, DOWN, ENTER, RIGHT, SHIFT_ENTER, TAB, UP, paste,
};

use crate::stage::Stage;

/// The first start says how to find everything else. Later starts only name the session and the model.
pub(crate) fn start(stage: &Stage) {
    let patchbay = stage.demo();
    fs::remove_file(patchbay.home().join("state/history")).unwrap();
    let terminal = stage.script(patchbay, "patchbay; exec patchbay");
    terminal.wait_for_prompt();
    stage.screen(&terminal);
    terminal.press(CTRL_D);
    let count = |start: &str| terminal.all_rows().iter().filter(|row| row.starts_with(start)).count();
    terminal.wait_until("it is started again", || count("Patchbay 0.") == 2);
    terminal.wait_for_prompt();
    assert_eq!((count("Using demo-1"), count("? lists the keys")), (2, 1), "{:?}", terminal.all_rows());
}

/// `/` opens the menu, and further letters narrow it.
pub(crate) fn menu(stage: &Stage) {
    let patchbay = stage.demo();
    let terminal = stage.open(patchbay);
    terminal.press("/");
    terminal.wait_for_prefix("… ");
    terminal.press("s");
    terminal.wait_for_text("> /s");
    terminal.wait_until("the menu is filtered", || !terminal.lines().iter().any(|line| line.starts_with("/agent")));
    stage.screen(&terminal);
    assert!(!terminal.lines().iter().any(|line| line.starts_with("/model")), "{:?}", terminal.lines());
}

/// The usage follows the completed command in faint text.
pub(crate) fn completed(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    // Another command begins with the same letters.
    terminal.press("/mo");
    terminal.press(TAB);
    terminal.wait_for_text("> /mode");
    terminal.press("l");
    terminal.press(TAB);
    terminal.wait_for_prefix("> /model MODEL");
    assert!(terminal.cell("/model MODEL").bold(), "the command is not bold");
    assert!(terminal.cell("MODEL").dim(), "the usage is not faint");
    stage.screen(&terminal);
}

pub(crate) fn models(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press("/model demo");
    terminal.wait_for_prefix("demo-1");
    stage.screen(&terminal);
}

/// Down and Up move through the menu, or through the history if there is no menu.
pub(crate) fn arrows(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press("/calc 1 + 1\r");
    terminal.wait_for_text("2");
    terminal.wait_until_idle();
    terminal.press("/sk");
    terminal.wait_for_prefix("/skills");
    terminal.press(DOWN);
    terminal.press(DOWN);
    terminal.wait_until("the second item is chosen", || {
        terminal.lines().iter().any(|line| line.starts_with("/skill ")) && terminal.cell("/skill ").inverse()
    });
    stage.screen(&terminal);
    terminal.press(UP);
    terminal.press(ENTER);
    terminal.wait_for_prefix("calc - ");
    terminal.wait_for_prompt();
    terminal.press(UP);
    terminal.wait_for_text("> /skills");
    terminal.press(UP);
    terminal.wait_for_text("> /calc 1 + 1");
    terminal.press(DOWN);
    terminal.press(DOWN);
    terminal.wait_for_prompt();
}

/// An unknown command is underlined before it is entered.
pub(crate) fn unknown(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press("/nope");
    terminal.wait_for_text("> /nope");
    assert!(terminal.cell("/nope").underline(), "the command is not underlined");
    terminal.press(ENTER);
    terminal.wait_for_prefix("Error: unknown command '/nope'.");
    stage.screen(&terminal);
}

pub(crate) fn help(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press("?\r");
    terminal.wait_for_prefix("/commands lists all other");
    stage.screen(&terminal);
}

/// Ctrl+J, Alt+Enter, Shift+Enter, and Enter after a backslash insert a line break. Enter sends the text.
pub(crate) fn newlines(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    let keys = [("one", CTRL_J), ("two", ALT_ENTER), ("three", SHIFT_ENTER), ("four", "\\\r"), ("five", "")];
    for (line, key) in keys {
        terminal.press(line);
        terminal.press(key);
    }
    for row in ["> one", "  two", "  three", "  four", "  five"] {
        terminal.wait_for_text(row);
    }
    stage.screen(&terminal);
    terminal.press(ENTER);
    // In Markdown, a single line break is a blank.
    terminal.wait_for_text("You said: one two three four five");
}

/// Terminals with the kitty protocol are asked for unambiguous keys, and send other sequences for Ctrl+J, Alt+Enter, Ctrl+C, Esc
/// and Ctrl+D.
pub(crate) fn kitty_keys(stage: &Stage) {
    let mut terminal = stage.open(stage.demo());
    assert!(terminal.written().contains("\x1b[>1u"), "the protocol is not turned on");
    terminal.press("one\x1b[106;5utwo\x1b[13;3uthree");
    terminal.wait_for_text("  two");
    terminal.wait_for_text("  three");
    terminal.press("\x1b[99;5u");
    terminal.wait_for_prompt();
    terminal.press("/");
    terminal.wait_for_prefix("… ");
    terminal.press("\x1b[27u");
    terminal.wait_until("the menu is closed", || !terminal.lines().iter().any(|line| line.starts_with("… ")));
    terminal.press("\x7f");
    terminal.wait_for_prompt();
    terminal.press("\x1b[100;5u");
    assert_eq!(terminal.wait_for_end(), 0);
    assert!(terminal.written().contains("\x1b[<1u"), "the protocol is not turned off");
}

/// `@` offers the files of the workspace that `.gitignore` does not hide; Tab inserts the path, whose file is attached.
pub(crate) fn files(stage: &Stage) {
    let patchbay = stage.demo();
    for path in ["src/notes.md", "src/other/notes.txt", "out/notes.md", ".git/notes"] {
        patchbay.write(&format!("workspace/{path}"), "Note.");
    }
    patchbay.write("workspace/.gitignore", "out/\n");
    let terminal = stage.open(patchbay);
    terminal.press("compare @notes");
    terminal.wait_for_text("@src/notes.md");
    terminal.wait_for_text("@src/other/notes.txt");
    stage.screen(&terminal);
    let lines = terminal.lines();
    assert!(!lines.iter().any(|line| line.starts_with("@out/") || line.starts_with("@.git")), "{lines:?}");
    terminal.press(TAB);
    terminal.wait_for_text("> compare @src/notes.md");
    terminal.press(ENTER);
    terminal.wait_for_containing("Attached: src/notes.md");
    terminal.wait_until_idle();
}

pub(crate) fn pasted(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    let text: String = (1..=50).map(|number| format!("line {number}\n")).collect();
    terminal.press(&paste(&text));
    terminal.wait_for_text("> [paste 1: 50 lines]");
    terminal.press(ENTER);
    terminal.wait_until("all lines are sent", || terminal.all_rows().join(" ").contains("line 48 line 49 line 50"));
    terminal.wait_until_idle();
    let all = terminal.all_rows();
    for row in ["> line 1", "line 3", "… 47 more lines"] {
        assert!(all.iter().any(|shown| shown == row), "{row:?} is missing: {all:?}");
    }
    // Pasting the same text a second time shows it in full.
    terminal.press(&paste(&text));
    terminal.wait_for_text("> [paste 1: 50 lines]");
    stage.screen(&terminal);
    terminal.press(&paste(&text));
    terminal.wait_for_text("  line 50");
    terminal.press(CTRL_C);
    terminal.wait_for_prompt();
    // Right does the same.
    terminal.press(&paste(&text));
    terminal.wait_for_text("> [paste 2: 50 lines]");
    terminal.press(RIGHT);
    terminal.wait_for_text("  line 50");
    terminal.press(CTRL_C);
    terminal.wait_for_prompt();
}

pub(crate) fn search(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    for (line, result) in [("/calc 1 + 1", "2"), ("/calc 2 * 3", "6"), ("a message", "You said: a message")] {
        terminal.press(line);
        terminal.press(ENTER);
        terminal.wait_for_text(result);
        terminal.wait_until_idle();
    }
    terminal.press(CTRL_R);
    terminal.press("calc");
    terminal.wait_for_text("search: calc");
    stage.screen(&terminal);
    terminal.press(CTRL_R);
    terminal.press(ENTER);
    terminal.wait_for_text("> /calc 1 + 1");
}

/// Wide characters are typed, deleted and wrapped, and the cursor is in the right column.
pub(crate) fn wide(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press("漢字かな交じり文 ");
    terminal.press(&"日本語".repeat(10));
    terminal.press("x\x7f");
    terminal.press("é終");
    terminal.wait_for_containing("é終");
    stage.screen(&terminal);
    let column = terminal.cursor().1;
    terminal.press("\x7f");
    terminal.wait_until("the cursor goes back by two columns", || terminal.cursor().1 == column - 2);
    terminal.press(ENTER);
    terminal.wait_for_prefix("You said: ");
    terminal.wait_for_prompt();
    let text = terminal.all_rows().concat();
    assert!(text.matches(&"日本語".repeat(3)).count() >= 4, "{text}");
}

/// Ctrl+G opens the text in the editor.
pub(crate) fn editor(stage: &Stage) {
    let mut patchbay = stage.demo();
    patchbay.set("EDITOR", "sed -i s/rough/polished/");
    let terminal = stage.open(patchbay);
    terminal.press("a rough text");
    terminal.wait_for_text("> a rough text");
    terminal.press(CTRL_G);
    terminal.wait_for_text("> a polished text");
    stage.screen(&terminal);
    terminal.press(ENTER);
    terminal.wait_for_text("You said: a polished text");
}

/// Ctrl+L redraws the live area. Finished lines stay, and nothing is duplicated. After a resize it prints the last answer again at
/// the new width.
pub(crate) fn redraw(stage: &Stage) {
    let mut terminal = stage.open(stage.demo());
    terminal.press("hello\r");
    terminal.wait_for_text("You said: hello");
    terminal.wait_until_idle();
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    let before = terminal.wait_for_stillness(str::to_owned);
    let written = terminal.written().len();
    terminal.press(CTRL_L);
    terminal.wait_until("something is written", || terminal.written().len() > written);
    terminal.wait_until("the same is shown", || terminal.wait_for_stillness(str::to_owned) == before);
    let answers = || terminal.all_rows().iter().filter(|row| *row == "You said: hello").count();
    assert_eq!(answers(), 1);
    terminal.resize(stage.columns + 10, 24);
    terminal.wait_until("the answer is printed again", || {
        // Until the program knows the new size, this does not print the answer again.
        terminal.press(CTRL_L);
        terminal.wait_for_stillness(str::to_owned);
        answers() == 2
    });
    terminal.press(CTRL_L);
    terminal.wait_for_stillness(str::to_owned);
    assert_eq!(answers(), 2);
    terminal.press(CTRL_C);
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_end(), 0);
}

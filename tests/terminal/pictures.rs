//! docs/terminal.md: the screens of the main moments, which the tests of this folder compare with the real program.

use std::{env, fmt::Write as _, fs, path::Path};

use crate::stage::recorded;

/// The width of the pictures.
const COLUMNS: u16 = 80;

/// The sections: title, description, and the screens.
const SECTIONS: &[(&str, &str, &[&str])] = &[
    (
        "The start",
        "The first lines name the session and the model that answers; the first start also says how to find everything else. Below is the **live area**: the line \
         that you type (`>`), and the status row with the model and the workspace. Only the live area is ever drawn again. A \
         finished line is printed once; it belongs to your terminal's scrollback.",
        &["start"],
    ),
    (
        "Commands",
        "`/` opens a menu, and letters filter it. Up and Down choose, Enter accepts, Tab completes. A command that exists is bold, \
         one that does not is underlined. Its usage stands behind it until you type the argument.",
        &["menu", "completed", "models"],
    ),
    (
        "Typing",
        "Ctrl+J, Shift+Enter, and Enter after `\\` break the line, and so does Alt+Enter while nothing runs. A long pasted text is one placeholder, and is sent \
         whole; pasting it again shows it. `@` offers files, and attaches the one that you type or choose. Ctrl+R searches what \
         you typed before, Ctrl+G opens the text in `$EDITOR`.",
        &["newlines", "paste", "files", "search"],
    ),
    (
        "While a model answers",
        "The busy row says what runs, for how long, and how to stop it. You can go on typing. Messages wait in a queue in sight and \
         join the turn when the tools that run have ended; with Alt+Enter, they wait for the end of the turn. Up takes the last one \
         back. Commands that need no model run at once.",
        &["draft", "queue", "steered"],
    ),
    (
        "Stopping",
        "Esc stops what runs and keeps the draft. Ctrl+C clears the draft, then stops, then says how to leave. After a stop the \
         queue is held: Enter on an empty line sends it. Ctrl+Enter stops and sends at once.",
        &["stopped", "held"],
    ),
    (
        "Answers",
        "Answers are Markdown. Everything is at column 0, and code is never broken, so that it can be copied: `/copy` copies the \
         last answer, `/copy code` its last block of code.",
        &["markdown", "code", "table"],
    ),
    (
        "Thinking and tools",
        "Thinking folds to one line; `/show thinking` prints it. Each result of a tool has a number, and `/show NUMBER` prints it \
         whole. An edit is shown as the lines that it changes.",
        &["thinking", "tool", "tool_failed", "diff"],
    ),
    (
        "Permissions",
        "If a tool needs something that you have not granted, you are asked. Keys that you typed just before are no answer: they are in your text. \
         Shift+Tab changes the mode, which the status row names: `edits` writes files without a question, `plan` changes nothing.",
        &["question", "modes"],
    ),
    (
        "Agents",
        "`/fork` makes a child of the agent in view and shows it; `/agents` lists all of them. Only the agent in view is shown. Of \
         the others you see one dim line when a turn ends, fails or asks, or when one is killed, never inside what you type or \
         read. `/switch` shows an agent with its last exchange, and the answer that it is writing goes on. The status row says \
         which agent is in view, which other one waits for your answer, how many others work, and its unread mail. `/kill` gives \
         waiting lines back to you.",
        &["fork", "agents", "child_done", "switch", "capturing", "kill", "quit"],
    ),
    (
        "Leaving and coming back",
        "Ctrl+D leaves and says how to go on. `patchbay -c` continues the last session of the workspace and shows the last \
         exchange.",
        &["leave", "resume"],
    ),
];

#[test]
fn document_has_the_screens() {
    let mut text = String::from(
        "# The terminal\n\nThese are windows of the program, 80 columns wide, as its tests see them. `make screens` makes this \
         page. [using.md](using.md) explains what the commands do; `?` and Enter lists the keys.\n",
    );
    for (title, about, screens) in SECTIONS {
        write!(text, "\n## {title}\n\n{about}\n").unwrap();
        for name in *screens {
            let screen = recorded(name, COLUMNS).unwrap_or_else(|| panic!("the screen {name} is not recorded"));
            let (rows, _) = screen.rsplit_once("\n[cursor: ").unwrap();
            assert!(!rows.contains("````"), "{name} would end the block of code");
            write!(text, "\n````text\n{rows}\n````\n").unwrap();
        }
    }
    text.push_str(
        "\n## Other terminals\n\n- `NO_COLOR=1` leaves colours out; bold and faint text stay.\n- With `TERM=dumb` or `--plain`, and \
         without a terminal, lines are read and answers are printed without any drawing.\n- After Ctrl+Z, a signal or a crash \
         the terminal is as it was before.\n",
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/terminal.md");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "docs/terminal.md is not what tests/terminal/screens say; run: make screens");
}

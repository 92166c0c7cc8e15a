//! docs/terminal.md: the screens of the main moments, which the tests of this folder compare with the real program.

use std::{env, fmt::Write as _, fs, path::Path};

use crate::stage::recorded;

/// The width of the pictures.
const COLUMNS: u16 = 80;

/// The sections: title, description, and the screens.
const SECTIONS: &[(&str, &str, &[&str])] = &[
    (
        "The start",
        "The first lines name the session and the model, and the first start also says how to find everything else. Below is the \
         **live area**: the line that you type (`>`), and the status row with the model and the workspace. Only the live area is \
         redrawn. A finished line is printed once and belongs to your terminal's scrollback.",
        &["start"],
    ),
    (
        "Commands",
        "`/` opens a menu, and letters filter it. Up and Down choose, Tab completes the chosen entry; Enter completes it, and runs the command if nothing is missing. Known commands are bold, unknown ones underlined. A known command's usage is shown after it until you type the argument.",
        &["menu", "completed", "models"],
    ),
    (
        "Typing",
        "Ctrl+J, Shift+Enter, and Enter after `\\` insert a line break, and so does Alt+Enter while nothing is running. A long \
         pasted text appears as a placeholder and is sent in full; paste it again right away to expand it. `@` offers files, and attaches \
         the file that you type or choose. Ctrl+R searches earlier input, and Ctrl+G opens the text in `$VISUAL` or `$EDITOR`.",
        &["newlines", "paste", "files", "search"],
    ),
    (
        "While a model answers",
        "The busy row shows what is running, for how long, and how to stop it. You can keep typing. Messages wait in a visible \
         queue and join the turn when the running tools have ended; with Alt+Enter, they wait for the end of the turn. On an empty line, Up takes the last one back. Most commands that need no model do not wait for the turn.",
        &["draft", "queue", "steered"],
    ),
    (
        "Stopping",
        "Esc stops the turn and keeps the draft. Ctrl+C first clears the draft, then stops the turn, and then prints how to \
         leave. After a stop the queue is held: Enter on an empty line sends it. Ctrl+Enter stops the turn and sends the queue and your text immediately.",
        &["stopped", "held"],
    ),
    (
        "Answers",
        "Answers are Markdown. Paragraphs start at column 0, and code is never wrapped, so you can copy it. `/copy` copies the \
         last answer, and `/copy code` its last code block.",
        &["markdown", "code", "table"],
    ),
    (
        "Thinking and tools",
        "Thinking folds to one line; `/show thinking` prints it. Each tool result has a number, and `/show NUMBER` prints the \
         result in full. For an edit, the changed lines are shown.",
        &["thinking", "tool", "tool_failed", "diff"],
    ),
    (
        "Permissions",
        "If a tool needs something that you have not granted, you are asked. Characters that you type just before a question appears, or within 0.4 seconds after, go to your text and do not answer it. Shift+Tab changes the mode; the status row names it unless it is `ask`. In `edits`, tools write most files without a question; in `plan`, tools change nothing.",
        &["question", "modes"],
    ),
    (
        "Agents",
        "`/fork` creates a child of the agent in view and shows it; `/agents` lists all agents. Only the agent in view is shown. \
         For each other agent, one dim line reports that a turn ended, failed or was stopped, that the agent asks something, or that it was killed. These lines never interrupt an answer's paragraph or your typing. `/switch` shows an agent with its last exchange, and an answer in \
         progress continues. With several agents, the status row names the agent in view and any agent that waits for your answer, and counts the agents that work and the unread mail. `/kill` returns waiting lines to you.",
        &["fork", "agents", "child_done", "switch", "capturing", "kill", "quit"],
    ),
    (
        "Leaving and coming back",
        "On an empty line, Ctrl+D leaves and prints the command that continues the session. `patchbay -c` continues the last session of the \
         workspace and shows its last exchange.",
        &["leave", "resume"],
    ),
];

#[test]
fn document_has_the_screens() {
    let mut text = String::from(
        "# The terminal\n\nThese are screens of the program, 80 columns wide, as recorded by its tests. `make screens` generates \
         this page. [using.md](using.md) explains what the commands do; `?` followed by Enter lists the keys.\n",
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
        "\n## Other terminals\n\n- `NO_COLOR=1` turns colours off; bold and faint text remain.\n- With `TERM=dumb` or `--plain`, or if standard input or output is not a \
         terminal, lines are read and answers are printed without any drawing.\n- Ctrl+Z, SIGTERM, SIGHUP and a crash restore the terminal's modes.\n",
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/terminal.md");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "docs/terminal.md is not what tests/terminal/screens say; run: make screens");
}

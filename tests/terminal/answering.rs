//! Moments while a model answers, and its answers: the busy row, the queue, Markdown, stopping, hostile text.

use std::{cell::Cell, fs, thread, time::Duration};

use patchbay_tests::{
    format::{CHAT, KEY, chat_calls},
    server::Step,
    terminal::{ALT_ENTER, CTRL_C, CTRL_ENTER, ENTER, ESC, Terminal, UP, paste},
};
use serde_json::json;

use crate::{
    model::Script,
    stage::{Stage, Window},
};

/// An answer with Markdown constructs.
const MARKDOWN: &str = "# Moving the shop\n\nThe database moves in **three steps**, and the shop stays *open*. \
    The longest one is `pg_restore`, which takes a night.\n\n1. Copy the rows.\n2. Compare both sides:\n   - counts\n   - \
    checksums\n3. Switch over.\n\n> Do not skip the comparison.\n\nSee [the manual](https://example.org/manual).\n";

const CODE: &str = "```rust\nfn main() {\n    let greeting = \"a line of code that is longer than a narrow window\";\n    \
    println!(\"{greeting}\");\n}\n```\n";

const TABLE: &str = "| Step | Minutes | Who |\n| :--- | ---: | :---: |\n| Copy the rows of all tables | 240 | cron |\n| Compare \
    | 15 | you |\n| Switch | 1 | 日本 |\n\nThat is all.\n";

/// Counts the rows of the scrollback and the screen that equal `row`.
fn count(terminal: &Terminal, row: &str) -> usize {
    terminal.all_rows().iter().filter(|shown| *shown == row).count()
}

/// Returns whether a row reports that an answer was stopped. The report is on a line of its own.
fn is_stop(row: &str) -> bool {
    // In a narrow window, the rest is on the next row.
    row.starts_with("Stopped after ") && row.contains(" s; the partial answer")
}

/// Removes the sequences that set attributes and colours.
fn without_styles(written: &str) -> String {
    let mut parts = written.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once('m') {
        Some((codes, rest)) if codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') => text + rest,
        _ => text + "\x1b[" + part,
    })
}

/// The busy row is shown before the first word.
pub(crate) fn busy(stage: &Stage) {
    let terminal = stage.open(stage.model(|| Script::new().stall()));
    terminal.press("Are you there?\r");
    terminal.wait_for_prefix("* openai-compatible:local-1 · ");
    stage.screen(&terminal);
}

/// The last lines of thinking are shown, and one line remains afterwards.
pub(crate) fn thinking(stage: &Stage) {
    let thought = "First.\nThe rows are many.\nA copy takes long.\nThe shop must stay open. ";
    let thinking = stage.open(stage.model(move || Script::new().thinking(thought).stall()));
    thinking.press("How do I move the shop?\r");
    thinking.wait_for_prefix("* openai-compatible:local-1 · t");
    thinking.wait_for_text("A copy takes long.");
    thinking.wait_until("only the end is shown", || !thinking.lines().iter().any(|line| line == "First."));
    let folded = stage.open(stage.model(move || Script::new().thinking(thought).text("Step by step.").end()));
    folded.press("How do I move the shop?\r");
    folded.wait_for_text("Step by step.");
    folded.wait_for_prefix("thought ");
    folded.wait_until_idle();
    stage.screen(&folded);
    folded.press("/show thinking\r");
    folded.wait_for_text("First.");
    folded.wait_for_text("The shop must stay open.");
}

/// Typed text stays in the composer and never enters the answer.
pub(crate) fn draft(stage: &Stage) {
    let terminal = stage.stalled("The database moves ");
    terminal.press("and what does it cost");
    terminal.wait_for_text("> and what does it cost");
    terminal.wait_for_prefix("* openai-compatible:local-1 · a");
    stage.screen(&terminal);
}

/// Entered lines wait where the user sees them. A command that needs no model runs immediately.
pub(crate) fn queue(stage: &Stage) {
    let terminal = stage.stalled("The database moves ");
    for message in ["What does it cost?", "When?", "Who must know?", "And then?"] {
        terminal.press(message);
        terminal.press(ENTER);
        terminal.wait_for_prompt();
    }
    terminal.wait_for_text("queued: 1 more");
    terminal.press("/calc 6 * 7\r");
    terminal.wait_for_text("42");
    terminal.wait_until("the command is not in the busy row", || {
        !terminal.lines().iter().any(|line| line.starts_with("* /calc"))
    });
    stage.screen(&terminal);
}

/// A message joins the turn after the results, and is displayed there. With Alt+Enter it waits until the turn ends.
pub(crate) fn steered(stage: &Stage) {
    let (patchbay, answers) = stage.gated_model();
    let terminal = stage.open(patchbay);
    terminal.press("How far is 20 miles?\r");
    terminal.wait_for_prefix("* openai-compatible:local-1 · ");
    terminal.press("In kilometres, please.\r");
    terminal.wait_for_text("queued: In kilometres, please.");
    terminal.press("And 30 miles?");
    terminal.press(ALT_ENTER);
    terminal.wait_for_text("later: And 30 miles?");
    // A line is stored a moment after it is shown.
    terminal.wait_until("the lines are stored", || {
        terminal.patchbay.query_one::<u32>("SELECT count(*) FROM queued_lines", []) == 2
    });
    let call = chat_calls(&json!([["calc__eval", {"expression": "20 * 1.609344"}]]));
    answers.send(vec![Step::Bytes(call)]).unwrap();
    terminal.wait_for_text("> In kilometres, please.");
    answers.send(Script::new().text("It is 32 km. ").stall()).unwrap();
    terminal.wait_for_prefix("It is 32 km.");
    terminal.wait_for_text("later: And 30 miles?");
    terminal.wait_for_prefix("* openai-compatible:local-1 · a");
    stage.screen(&terminal);
}

/// Up takes the last waiting line back.
pub(crate) fn taken_back(stage: &Stage) {
    let terminal = stage.stalled("The database moves ");
    for message in ["What does it cost?", "When?"] {
        terminal.press(message);
        terminal.press(ENTER);
        terminal.wait_for_text(&format!("queued: {message}"));
    }
    terminal.press(UP);
    terminal.wait_for_text("> When?");
    assert!(!terminal.lines().iter().any(|line| line == "queued: When?"), "{:?}", terminal.lines());
    stage.screen(&terminal);
}

/// Ctrl+Enter, or Alt+Enter on an empty composer, stops the answer and sends the waiting lines.
pub(crate) fn send_now(stage: &Stage) {
    let patchbay = stage.home("[providers.demo]\noptions = { delay-ms = \"30\" }\n");
    let terminal = stage.open(patchbay);
    for (number, draft, key) in [(1, "two", CTRL_ENTER), (2, "", ALT_ENTER)] {
        terminal.press("repeat 5000 x\r");
        terminal.wait_until("the answer is received", || {
            terminal.lines().iter().any(|line| line.starts_with("* demo:demo-1 · answering"))
        });
        terminal.press("one\r");
        terminal.wait_for_text("queued: one");
        terminal.press(draft);
        terminal.press(key);
        terminal.wait_until("what waited is sent", || count(&terminal, "You said: one") == number);
        terminal.wait_until("so is the draft", || count(&terminal, "You said: two") == 1);
        terminal.wait_until_idle();
        let stops = terminal.all_rows().iter().filter(|row| is_stop(row)).count();
        assert_eq!(stops, number, "{:?}", terminal.all_rows());
    }
    assert_eq!(count(&terminal, "You said: two"), 1, "{:?}", terminal.all_rows());
}

/// The delay before a retry is counted down in the busy row, and leaves no trace.
pub(crate) fn retrying(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press("fail rate-limit 10\r");
    // On a busy machine, not every second is seen.
    let seconds_left = || {
        let lines = terminal.lines();
        let left = lines.iter().find_map(|line| line.strip_prefix("* demo:demo-1 · retrying in "))?;
        left.split(' ').next()?.parse::<u32>().ok()
    };
    let first = Cell::new(None);
    terminal.wait_until("the seconds are shown", || {
        first.set(seconds_left());
        first.get().is_some()
    });
    terminal.wait_until("the seconds get fewer", || seconds_left().is_some_and(|now| Some(now) < first.get()));
    terminal.press(ESC);
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_until_idle();
    let all = terminal.all_rows();
    assert!(!all.iter().any(|row| row.contains("etrying")), "{all:?}");
}

/// `/retry` sends an unanswered message again, and `/drop` removes it.
pub(crate) fn dropped(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    let failures = || terminal.all_rows().iter().filter(|row| row.starts_with("Error: demo")).count();
    terminal.press("fail server never\r");
    terminal.wait_until("the message fails", || failures() == 1);
    terminal.wait_until_idle();
    terminal.press("/retry\r");
    terminal.wait_until("it fails again", || failures() == 2);
    terminal.wait_until_idle();
    terminal.press("/drop\r");
    terminal.wait_for_text("> /drop");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

/// Opens a terminal that shows [`CODE`].
fn with_code(stage: &Stage) -> Window {
    let terminal = stage.open(stage.model(|| Script::new().text(CODE).end()));
    terminal.press("Show me code.\r");
    terminal.wait_for_prefix("    println!");
    terminal.wait_until_idle();
    terminal
}

/// An answer and its code are copied by OSC 52; `/history` prints the last exchanges.
pub(crate) fn copied(stage: &Stage) {
    let terminal = with_code(stage);
    for line in ["/copy", "/copy code", "/copy 7", "/history"] {
        terminal.press(line);
        terminal.press(ENTER);
        terminal.wait_for_text(&format!("> {line}"));
        terminal.wait_until_idle();
    }
    stage.screen(&terminal);
    let written = terminal.written();
    // The base64 of "```rust" and "fn main() {".
    for sequence in ["\x1b]52;c;YGBgcnVzdA", "\x1b]52;c;Zm4gbWFpbigpIHs"] {
        assert!(written.contains(sequence), "{sequence:?} is not written");
    }
}

/// Prompts and outputs are marked with their exit states, and links are links. The tab and the title show that something is
/// running. The end of a long turn rings the bell and notifies the desktop if the window has no focus.
pub(crate) fn marks(stage: &Stage) {
    let mut patchbay = stage.model(|| Script::slow(10_500).text("[manual](https://example.org/manual)\n").end());
    patchbay.set("VTE_VERSION", "7900");
    let terminal = stage.open(patchbay);
    terminal.press("\x1b[O");
    terminal.press("Where?\r");
    terminal.wait_for_containing("https://example.org/m");
    terminal.wait_until_idle();
    terminal.press("/nope\r");
    terminal.wait_for_prefix("Error: unknown command '/nope'.");
    terminal.wait_until("the end is marked", || terminal.written().contains("\x1b]133;D;1\x07"));
    let written = terminal.written();
    let order = [
        "\x1b[22;2t",
        "\x1b]2;workspace - Patchbay\x1b\\",
        "\x1b]9;4;3\x1b\\",
        "\x1b]2;* workspace - Patchbay\x1b\\",
        "\x1b]133;A\x07> \x1b]133;B\x07Where?\x1b]133;C\x07\r\n",
        "\x1b]8;;https://example.org/manual\x1b\\",
        "\x1b]133;D;0\x07",
        "\x1b]133;A\x07> \x1b]133;B\x07/nope\x1b]133;C\x07\r\n",
        "Error: unknown command",
        "\x1b]133;D;1\x07",
    ];
    let mut rest = &*written;
    for sequence in order {
        let (_, after) = rest.split_once(sequence).unwrap_or_else(|| panic!("{sequence:?} is missing: {written:?}"));
        rest = after;
    }
    assert!(written.contains("\x1b]9;4;0\x1b\\"), "the tab still shows that something runs");
    let bells = written.matches('\x07').count() - written.matches("\x1b]133;").count();
    assert_eq!(bells, 1, "{written:?}");
    let notifications = written.matches("\x1b]9;Patchbay: the turn is over\x1b\\").count();
    assert_eq!(notifications, 1, "{written:?}");
}

/// After Esc, the queue is held. Enter on an empty composer sends it.
pub(crate) fn held(stage: &Stage) {
    let patchbay = stage.home("[providers.demo]\noptions = { delay-ms = \"30\" }\n");
    let terminal = stage.open(patchbay);
    // The words are equal, so it does not matter how many have arrived.
    terminal.press("repeat 5000 x\r");
    terminal.wait_for_prefix("x x x");
    for message in ["one", "two"] {
        terminal.press(message);
        terminal.press(ENTER);
        terminal.wait_for_text(&format!("queued: {message}"));
    }
    terminal.press(ESC);
    terminal.wait_for_text("held: one");
    terminal.wait_for_prefix("Stopped after ");
    terminal.press(ENTER);
    terminal.wait_for_text("You said: one");
    terminal.wait_for_text("You said: two");
    terminal.wait_for_prompt();
    assert_eq!(["> one", "> two"].map(|row| count(&terminal, row)), [1, 1], "{:?}", terminal.all_rows());
    // The same, with an answer whose length does not depend on time.
    let terminal = stage.stalled("The database moves ");
    terminal.press("What does it cost?\r");
    terminal.wait_for_text("queued: What does it cost?");
    terminal.press(ESC);
    terminal.wait_for_text("held: What does it cost?");
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

pub(crate) fn markdown(stage: &Stage) {
    let terminal = stage.open(stage.model(|| Script::new().text(MARKDOWN).end()));
    terminal.press("How do I move the shop?\r");
    terminal.wait_for_containing("https://example.org/manual");
    terminal.wait_until_idle();
    assert!(terminal.cell("Moving the shop").bold(), "the heading is not bold");
    stage.screen(&terminal);
}

/// Code starts at column 0 and is never wrapped by the program, because users copy it.
pub(crate) fn code(stage: &Stage) {
    let terminal = with_code(stage);
    stage.screen(&terminal);
    let line = "\n    let greeting = \"a line of code that is longer than a narrow window\";\r\n";
    let written = without_styles(&terminal.written());
    assert!(written.contains(line), "{written:?}");
}

pub(crate) fn table(stage: &Stage) {
    let terminal = stage.open(stage.model(|| Script::new().text(TABLE).end()));
    terminal.press("Show me a table.\r");
    terminal.wait_for_text("That is all.");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

pub(crate) fn stopped(stage: &Stage) {
    let terminal = stage.stalled("The database moves in ");
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    terminal.press(ESC);
    terminal.wait_until("the stop is said", || terminal.lines().iter().any(|line| is_stop(line)));
    stage.screen(&terminal);
    assert!(!terminal.written().contains("^["), "a key was echoed");
}

/// Ctrl+C first clears a draft, then stops the answer, then explains how to leave, and then leaves.
pub(crate) fn ctrl_c(stage: &Stage) {
    let mut terminal = stage.stalled("The database moves in ");
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    terminal.press(CTRL_C);
    terminal.wait_for_prompt();
    terminal.wait_for_prefix("* ");
    terminal.press(CTRL_C);
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_until_idle();
    // The presses that stop a turn or clear a draft do not count towards those that leave.
    terminal.press(CTRL_C);
    terminal.wait_for_text("Ctrl+D leaves.");
    terminal.press("draft two");
    terminal.wait_for_text("> draft two");
    terminal.press(&CTRL_C.repeat(2));
    terminal.wait_for_text("Ctrl+D leaves.");
    stage.screen(&terminal);
    terminal.press("x");
    terminal.wait_for_text("> x");
    terminal.press(&CTRL_C.repeat(3));
    assert_eq!(terminal.wait_for_end(), 0);
}

pub(crate) fn failed(stage: &Stage) {
    let terminal = stage.open(stage.demo());
    terminal.press(&paste("say red green blue\nfail server never after 2"));
    terminal.press(ENTER);
    terminal.wait_for_text("red green");
    terminal.wait_for_prefix("Error: ");
    terminal.wait_until_idle();
    stage.screen(&terminal);
}

/// The busy row and the error end with the reason why a connection failed. No word of the error is split.
pub(crate) fn refused(stage: &Stage) {
    // No server uses this port, not even later during the test.
    let origin = "http://127.0.0.1:1/v1";
    let table = format!("[providers.{}]\norigin = \"{origin}\"\nenv = \"{}\"\n", CHAT.provider, CHAT.variable);
    let mut patchbay = stage.home(&format!("default_model = \"{}\"\n{table}", CHAT.model));
    patchbay.set(CHAT.variable, KEY);
    let terminal = stage.open(patchbay);
    terminal.press("Are you there?\r");
    if stage.columns > 80 {
        terminal.wait_for_containing("retrying in ");
        terminal.wait_for_containing(": connection refused");
    }
    terminal.wait_for_prefix("Error: openai-compatible: ");
    terminal.wait_until_idle();
    let error = terminal.lines();
    let error = error.iter().skip_while(|line| !line.starts_with("Error: ")).cloned().collect::<Vec<_>>().join(" ");
    assert!(error.to_lowercase().contains("connection refused"), "{error}");
    assert!(!terminal.all_rows().iter().any(|row| row.contains("retrying")), "{:?}", terminal.all_rows());
}

/// `[terminal]` in `config.toml`: how prose is wrapped, whether colours are used, and how much thinking is kept.
pub(crate) fn configured(stage: &Stage) {
    let prose = "The database moves in three steps, and the shop stays open while they run one after another.";
    let answer = format!("{prose}\n\n{CODE}\nThe end.\n");
    for (settings, shown, hidden) in [
        ("thinking = \"show\"\nwrap = \"terminal\"\ncolour = \"never\"", true, false),
        ("thinking = \"hide\"", false, true),
    ] {
        let answer = answer.clone();
        let patchbay = stage.model(move || Script::new().thinking("The rows are many.").text(&answer).end());
        let config = patchbay.home().join("config/config.toml");
        let before = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{before}[terminal]\n{settings}\n")).unwrap();
        let terminal = stage.open(patchbay);
        terminal.press("How do I move the shop?\r");
        terminal.wait_for_text("The end.");
        terminal.wait_until_idle();
        let written = terminal.written();
        let is_colour = |code: &u16| (30..=49).contains(code) || (90..=107).contains(code);
        assert_eq!(styles(&written).iter().any(is_colour), hidden, "{written:?}");
        assert_eq!(count(&terminal, "The rows are many.") == 1, shown, "{:?}", terminal.all_rows());
        assert!(!terminal.all_rows().iter().any(|row| row.starts_with("thought ")), "{:?}", terminal.all_rows());
        if shown {
            // To the terminal, the paragraph is a single line.
            assert!(without_styles(&written).contains(&format!("{prose}\r\n")), "{written:?}");
            stage.screen(&terminal);
        }
        terminal.press("/show thinking\r");
        terminal.wait_until("the thinking is printed", || count(&terminal, "The rows are many.") > usize::from(shown));
    }
}

/// A long answer is in the scrollback in full, once and in order.
pub(crate) fn long_answer(stage: &Stage) {
    let lines: String = (1..=2_000).map(|number| format!("line number {number}\n\n")).collect();
    let terminal = stage.open(stage.model(move || Script::new().text(&lines).pause_and_end()));
    terminal.press("Count.\r");
    terminal.wait_for_text("line number 2000");
    terminal.wait_until_idle();
    stage.screen(&terminal);
    let all = terminal.all_rows();
    let shown: Vec<&String> = all.iter().filter(|row| row.starts_with("line number ")).collect();
    let expected: Vec<String> = (1..=2_000).map(|number| format!("line number {number}")).collect();
    assert!(shown.iter().zip(&expected).all(|(shown, expected)| *shown == expected), "{shown:?}");
    assert_eq!(shown.len(), expected.len());
}

/// The window gets narrower and wider while an answer streams. Earlier text is still there, and there is one copy of the answer.
pub(crate) fn resize(stage: &Stage) {
    let lines: String = (1..=40).map(|number| format!("answer {number}\n\n")).collect();
    let mut patchbay = stage.model(move || Script::slow(10).text(&lines).end());
    // The tests' terminal does not rewrap lines.
    patchbay.set("XTERM_VERSION", "XTerm(370)");
    let terminal = stage.script(patchbay, "seq -f 'shell %g' 1 60; exec patchbay");
    terminal.wait_for_prompt();
    terminal.press("Count.\r");
    terminal.wait_for_containing("answer 3");
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    for columns in [stage.columns - 10, 30, 50, 25, stage.columns] {
        terminal.resize(columns, 24);
        thread::sleep(Duration::from_millis(120));
    }
    terminal.wait_for_text("answer 40");
    terminal.wait_for_text("> a draft");
    // A row of the live area may remain as a ghost, because the window can change in the middle of a frame.
    terminal.wait_for_stillness(str::to_owned);
    let all = terminal.all_rows();
    for (word, last) in [("shell", 60), ("answer", 40)] {
        let shown: Vec<&str> =
            all.iter().filter(|row| row.starts_with(&format!("{word} "))).map(|row| &**row).collect();
        let expected: Vec<String> = (1..=last).map(|number| format!("{word} {number}")).collect();
        assert_eq!(shown, expected, "{}", all.join("\n"));
    }
}

/// Escape sequences in an answer are shown as text or removed.
pub(crate) fn hostile_answer(stage: &Stage) {
    let hostile = "a\u{1b}]0;OWNED\u{7}b\n\n\u{1b}[2J\u{1b}[3J\u{1b}[Hc\n\n\u{1b}]52;c;T1dORUQ=\u{7}d\n\n```\n\u{9b}2J\u{1b}cx\n```\n\n\
        | \u{1b}[31mred | \u{202e}left |\n| --- | --- |\n\nThe end.\n";
    let terminal = stage.open(stage.model(move || Script::new().thinking("\u{1b}]0;OWNED\u{7}").text(hostile).end()));
    terminal.press("Attack.\r");
    terminal.wait_for_text("The end.");
    terminal.wait_until_idle();
    stage.screen(&terminal);
    assert_harmless(&terminal);
}

/// Asserts that no escape sequence of a model or a tool was written.
pub(crate) fn assert_harmless(terminal: &Terminal) {
    let written = terminal.written();
    for sequence in ["\x1b]0;", "\x1b]52;", "\x1b[2J", "\x1b[3J", "\x1b[H", "\x1bc", "\u{9b}", "\x1b[31m", "\u{202e}"] {
        assert!(!written.contains(sequence), "{sequence:?} was written: {written:?}");
    }
}

/// With NO_COLOR there are attributes but no colours. Without it, code has the terminal's own colours.
pub(crate) fn no_color(stage: &Stage) {
    let answer = format!("# Title\n\n**bold** text\n\n{CODE}\nThe end.\n");
    for (is_set, colours) in [(false, true), (true, false)] {
        let answer = answer.clone();
        let mut patchbay = stage.model(move || Script::new().text(&answer).end());
        if is_set {
            patchbay.set("NO_COLOR", "1");
        }
        let terminal = stage.open(patchbay);
        terminal.press("Show me code.\r");
        terminal.wait_for_text("The end.");
        terminal.press("/skills");
        terminal.wait_for_text("> /skills");
        let written = terminal.written();
        let codes = styles(&written);
        let is_colour = |code: &u16| (30..=49).contains(code) || (90..=107).contains(code);
        assert_eq!(codes.iter().any(is_colour), colours, "NO_COLOR is set: {is_set}; {codes:?}");
        assert!(codes.contains(&1) && codes.contains(&2), "no attributes: {codes:?}");
        // Typed text never has a colour.
        assert_eq!(terminal.cell("/skills").fgcolor(), vt100::Color::Default);
    }
}

/// Returns the parameters of all sequences that set attributes and colours.
fn styles(written: &str) -> Vec<u16> {
    let sequences = written.split("\x1b[").skip(1).filter_map(|part| Some(part.split_once('m')?.0));
    sequences
        .flat_map(|codes| codes.split(';').map(str::parse).collect::<Result<Vec<_>, _>>().unwrap_or_default())
        .collect()
}

//! The interactive terminal as a user works with it: completion, history, notices, several lines at once.

use std::{
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    binary::Patchbay,
    guest::Guest,
    terminal::{CTRL_C, CTRL_D, CTRL_G, ENTER, ESC, TAB, Terminal, UP},
};

#[test]
fn commands_are_completed_hinted_and_run() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press("/cal");
    terminal.press(TAB);
    terminal.wait_for_text("> /calc expression, such as 2^100 or 3 GiB / 100 Mbit/s");
    terminal.press("6 * 7");
    terminal.press(ENTER);
    terminal.wait_for_text("42");
    // Two commands have this prefix: the menu shows both with their descriptions.
    terminal.press("/skil");
    terminal.press(TAB);
    terminal.wait_for_text("/skills  List the skills of this session's snapshot");
    terminal.wait_for_text("/skill   Invoke one skill, and no other");
    terminal.press(CTRL_C);
    terminal.wait_for_text(">");
    // The argument of a command is completed from the snapshot.
    terminal.press("/help pla");
    terminal.press(TAB);
    terminal.wait_for_text("> /help plan_compiler");
    terminal.press(ENTER);
    terminal.wait_for_text("# /help plan_compiler");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// The terminal echoes them and makes Enter a newline, which is Ctrl+J later.
#[test]
fn lines_typed_before_the_prompt_are_sent() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.press("/calc 6 * 7\rsay Good day.\ra draft");
    terminal.wait_for_text("42");
    terminal.wait_for_text("Good day.");
    terminal.wait_for_text("> a draft");
    terminal.press(CTRL_C);
    terminal.wait_for_prompt();
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// An editor that restores the terminal when it is asked to end, and one that does not.
#[test]
fn signal_during_an_editor_ends_it_and_restores_the_terminal() {
    for (polite, signal) in [(true, "TERM"), (true, "HUP"), (false, "TERM")] {
        let mut patchbay = Patchbay::quick();
        let restore = "stty sane; printf '\\033[?1049l'; exit 1";
        let trap = if polite { format!("trap \"{restore}\" TERM HUP") } else { "trap '' TERM HUP".to_owned() };
        let script =
            format!("{trap}\nstty raw -echo\nprintf '\\033[?1049heditor of %s' $$\nwhile :; do sleep 0.05; done\n");
        patchbay.write("editor.sh", script);
        patchbay.set("EDITOR", &format!("/bin/sh {}", patchbay.folder().join("editor.sh").display()));
        let mut terminal = Terminal::open(&patchbay, &[]);
        terminal.wait_for_prompt();
        terminal.press("a draft");
        terminal.wait_for_text("> a draft");
        terminal.press(CTRL_G);
        terminal.wait_for_prefix("editor of ");
        let editor =
            terminal.lines().iter().find_map(|line| line.strip_prefix("editor of ").map(str::to_owned)).unwrap();
        assert!(!terminal.is_cooked());
        terminal.signal(signal);
        terminal.wait_for_end();
        assert!(terminal.is_cooked(), "SIG{signal} leaves the modes of the editor");
        assert!(terminal.written().contains("\x1b[?1049l"), "SIG{signal} leaves the alternate screen");
        let alive = std::process::Command::new("kill").args(["-0", &editor]).output().unwrap();
        assert!(!alive.status.success(), "SIG{signal} leaves the editor");
    }
}

#[test]
fn history_persists_across_terminals() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press("/calc 11 * 11");
    terminal.press(ENTER);
    terminal.wait_for_text("121");
    terminal.press("/quit");
    terminal.press(ENTER);
    assert_eq!(terminal.wait_for_exit(), 0);
    let session = patchbay.last_session();
    let terminal = Terminal::open(&patchbay, &["--session", &session]);
    terminal.wait_for_prompt();
    terminal.press(UP);
    terminal.wait_for_text("> /quit");
    terminal.press(UP);
    terminal.wait_for_text("> /calc 11 * 11");
    terminal.press(ENTER);
    terminal.wait_for_text("121");
    terminal.press(CTRL_D);
    terminal.wait_for_text(&format!("The session is kept. To continue: patchbay --session {}", &session[..8]));
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn each_result_stands_below_its_own_line() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press("/note add Z\r/note list\r/calc 6*7\r/unknown\r");
    terminal.wait_for_containing("unknown command '/unknown'");
    let rows = terminal.all_rows();
    let parts =
        ["> /note add Z", "Note 1 added.", "> /note list", "Z", "> /calc 6*7", "42", "> /unknown", "unknown command"];
    let mut at = 0;
    for part in parts {
        let found = rows[at..].iter().position(|row| row.contains(part)).unwrap_or_else(|| panic!("{part}: {rows:?}"));
        at += found + 1;
    }
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// The guest reports progress and then loops; its limits would allow minutes.
#[test]
fn ctrl_c_cancels_the_running_line_only() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 9000000000000\ntime_ms = 600000\n");
    patchbay.add_command("spin", &Guest::reporting_and_spinning(), "");
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press("/spin {\"round\": 1}");
    terminal.press(ENTER);
    // The progress is in the busy row, behind the seconds.
    terminal.wait_until("the progress is in the busy row", || {
        let is_busy_row = |line: &String| {
            let rest = line.strip_prefix("* /spin {\"round\": 1} · spin__run ");
            let rest = rest.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
            rest.is_some_and(|rest| rest.starts_with(" s · {\"round\":1} · "))
        };
        terminal.lines().iter().any(is_busy_row)
    });
    terminal.press(CTRL_C);
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_for_prompt();
    terminal.press("/calc 2 + 3");
    terminal.press(ENTER);
    terminal.wait_for_text("5");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn provider_changes_are_shown_at_the_prompt() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    let greeting = "Using demo-1, which only echoes. Pick a model with /model; set default_model in config.toml to make it permanent.";
    terminal.wait_for_text(greeting);
    terminal.wait_for_prompt();
    terminal.press("/model gemini-2.5-p");
    terminal.press(TAB);
    terminal.wait_for_text("gemini-2.5-pro/high");
    terminal.press(CTRL_C);
    terminal.wait_for_text(">");
    terminal.press("/calc 6 ");
    terminal.wait_for_text("> /calc 6");
    patchbay.write("home/config/providers/broken.wasm", "none");
    terminal.wait_for_prefix("The file 'broken.wasm' is not a provider, and is ignored: ");
    terminal.wait_for_text("> /calc 6");
    terminal.press("* 7");
    terminal.press(ENTER);
    terminal.wait_for_text("42");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn welcome_omits_model_hint_if_a_default_is_set() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "default_model = \"demo-big\"\n");
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.wait_for_text("Model: demo:demo-big");
    assert!(!terminal.lines().iter().any(|line| line.contains("default_model")), "{:?}", terminal.lines());
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    patchbay.write("home/config/config.toml", "default_model = \"unknown-9\"\n");
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prefix("No model answers yet: default_model of config.toml, 'unknown-9', cannot be used: ");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn welcome_offers_the_models_whose_key_is_there() {
    let mut patchbay = Patchbay::new();
    patchbay.set("ANTHROPIC_API_KEY", "sk-ant-test");
    patchbay.write("home/config/credentials.json", r#"{"xai": {"api_key": "xai-test-key"}}"#);
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.wait_for_text("Your key for Anthropic was found. To use it: /model claude-sonnet-5-5");
    terminal.wait_for_prefix("Your key for xAI was found. To use it: /model grok-");
    // Nothing is switched.
    terminal.wait_for_prefix("Using demo-1, which only echoes.");
    terminal.press("/model claude-sonnet-5-5\r");
    terminal.wait_for_text("✓ Switched to Anthropic claude-sonnet-5-5");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    patchbay.write("home/config/config.toml", "default_model = \"demo-big\"\n");
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_text("Model: demo:demo-big");
    assert!(!terminal.lines().iter().any(|line| line.contains("was found")), "{:?}", terminal.lines());
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn resumed_session_shows_its_model_and_last_exchange() {
    let patchbay = Patchbay::quick();
    patchbay.run(&["exec", "/model demo-1/high", "zeroth words", "say First.", "/calc 1"]);
    let session = patchbay.last_session();
    let terminal = Terminal::open(&patchbay, &["--session", &session]);
    terminal.wait_for_text("Model: demo:demo-1/high");
    terminal.wait_for_text("> say First.");
    terminal.wait_for_text("First.");
    assert!(!terminal.lines().iter().any(|line| line.contains("zeroth words")), "{:?}", terminal.lines());
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    // An interrupted answer, and a message without one.
    patchbay.run(&["exec", "--session", &session, "say red green blue\nfail server never after 2"]);
    let terminal = Terminal::open(&patchbay, &["--session", &session]);
    terminal.wait_for_text("red green");
    terminal.wait_for_text("(interrupted)");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    patchbay.run(&["exec", "--session", &session, "fail server never"]);
    let terminal = Terminal::open(&patchbay, &["--session", &session]);
    terminal.wait_for_text("> fail server never");
    terminal.wait_for_text("(no answer)");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

const DIFFERS: &str = "Skills have changed on disk. Run /reload_skills to use them.";

fn differs(terminal: &Terminal) -> usize {
    terminal.lines().iter().filter(|line| line.as_str() == DIFFERS).count()
}

#[test]
fn changed_skill_files_are_announced_once_in_a_terminal() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    patchbay.write("workspace/notes.txt", "No skill.");
    patchbay.write("home/config/skills/README.md", "No skill either.");
    thread::sleep(Duration::from_secs(2));
    assert_eq!(differs(&terminal), 0, "{:?}", terminal.lines());
    // The skills folder of the workspace did not exist at the start.
    patchbay.write("workspace/.patchbay/skills/local/SKILL.md", "---\nsummary: Local\n---\nDo it.\n");
    terminal.wait_for_text(DIFFERS);
    patchbay.skill("other", "summary: Other", "Do it.");
    thread::sleep(Duration::from_secs(2));
    assert_eq!(differs(&terminal), 1, "{:?}", terminal.lines());
    terminal.press("/help local");
    terminal.press(ENTER);
    terminal.wait_for_text("Error: skill 'local' not found in snapshot.");
    terminal.press("/reload_skills");
    terminal.press(ENTER);
    terminal.wait_for_text("+ other");
    thread::sleep(Duration::from_secs(1));
    patchbay.skill("other", "summary: Changed", "Do it well.");
    let start = Instant::now();
    while differs(&terminal) < 2 {
        assert!(start.elapsed() < PATIENCE, "it is not said again:\n{}", terminal.lines().join("\n"));
        thread::sleep(Duration::from_millis(10));
    }
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// Changes that happened without a terminal are announced when the session is resumed.
#[test]
fn resumed_session_announces_changed_skill_files() {
    let patchbay = Patchbay::new();
    patchbay.skill("other", "summary: Other", "Do it.");
    patchbay.run(&["exec", "/calc 1"]);
    let session = patchbay.last_session();
    patchbay.skill("other", "summary: Changed", "Do it.");
    let terminal = Terminal::open(&patchbay, &["--session", &session]);
    terminal.wait_for_text(DIFFERS);
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// Three messages and a command while an answer streams.
#[test]
fn lines_that_are_entered_during_an_answer_are_all_run() {
    let patchbay = Patchbay::new();
    // Compiles the component in advance: the answer takes six seconds.
    assert_eq!(patchbay.line("/calc 1"), "1");
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press("repeat 300 r\r");
    terminal.wait_for_prefix("* demo:demo-1 · answering");
    for message in ["one", "two", "three"] {
        terminal.press(message);
        terminal.press(ENTER);
        terminal.wait_for_text(&format!("queued: {message}"));
    }
    terminal.press("/calc 6 * 7\r");
    terminal.wait_for_text("42");
    terminal.wait_for_text("queued: one");
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    terminal.wait_for_text("You said: three");
    terminal.wait_for_text("> a draft");
    let lines = terminal.lines();
    let place = |text: &str| lines.iter().position(|line| line == text).unwrap_or_else(|| panic!("{text}: {lines:?}"));
    let order = ["> repeat 300 r", "> one", "You said: one", "> two", "You said: two", "> three", "You said: three"];
    assert!(order.map(place).is_sorted(), "{lines:?}");
    // Nothing clears the screen or the scrollback, sets a scroll region or takes the mouse.
    let written = terminal.written();
    for sequence in ["\x1b[2J", "\x1b[3J", "\x1b[6n", "\x1b[?1049h", "\x1b[?1000h", "\x1b[1;", "\x1b[r"] {
        assert!(!written.contains(sequence), "{sequence:?} is written");
    }
    terminal.press(CTRL_C);
    terminal.wait_until_idle();
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// More keys than one read of the terminal takes.
#[test]
fn keys_that_were_typed_while_the_program_stood_still_are_all_read() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.signal("STOP");
    // No more lines than may wait: the first one may have to compile its skill.
    let line = format!("/calc 1{}\r", " + 1".repeat(60));
    terminal.press(&format!("{}/calc 20 + 22\r", line.repeat(10)));
    terminal.signal("CONT");
    terminal.wait_for_text("42");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn esc_stops_an_answer_and_keeps_what_came() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press("repeat 5000 red\r");
    terminal.wait_for_prefix("red red red");
    terminal.press(ESC);
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_for_prompt();
    assert!(terminal.lines().iter().any(|line| line.starts_with("red red")), "{:?}", terminal.lines());
    terminal.press("/calc 2 + 3\r");
    terminal.wait_for_text("5");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn ctrl_c_clears_then_explains_leaving_then_leaves() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    // The press that clears does not count.
    terminal.press(&CTRL_C.repeat(2));
    terminal.wait_for_text("Ctrl+D leaves.");
    terminal.press("a draft");
    terminal.wait_for_text("> a draft");
    // All keys at once, because the last one leaves within a second only.
    terminal.press(&CTRL_C.repeat(3));
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn answers_are_shown_as_markdown() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    // A pasted text is one line of input.
    terminal.press("\x1b[200~Look:\n\n# Title\n\n**bold** `code`\n\n| a | b |\n| - | -: |\n| one | 2 |\n\x1b[201~\r");
    for line in ["Title", "bold code", "a    b", "one  2"] {
        terminal.wait_for_text(line);
    }
    // An answer can be copied when it has ended.
    terminal.wait_until_idle();
    terminal.press("/copy\r");
    terminal.wait_for_prefix("Copied ");
    assert!(terminal.written().contains("\x1b]52;c;"), "the clipboard is not set");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn long_paste_is_a_placeholder_and_is_sent_whole() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    let text: String = (1..=50).map(|number| format!("line {number}\n")).collect();
    terminal.press(&format!("\x1b[200~{text}\x1b[201~"));
    terminal.wait_for_text("> [paste 1: 50 lines]");
    terminal.press(ENTER);
    terminal.wait_for_text("> line 1");
    terminal.wait_for_text("… 47 more lines");
    terminal.wait_for_containing("line 50");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn history_is_searched_with_ctrl_r() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    for line in ["/calc 1 + 1", "/calc 2 * 3", "/skills"] {
        terminal.press(line);
        terminal.press(ENTER);
        terminal.wait_for_prompt();
    }
    terminal.press("\x12");
    terminal.press("calc");
    terminal.wait_for_text("search: calc");
    terminal.press("\x12");
    terminal.press(ENTER);
    terminal.wait_for_text("> /calc 1 + 1");
    terminal.press(ENTER);
    terminal.wait_for_text("2");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn plain_option_draws_nothing() {
    let patchbay = Patchbay::new();
    let terminal = Terminal::open(&patchbay, &["--plain"]);
    terminal.wait_for_prompt();
    terminal.press("/calc 6 * 7\r");
    terminal.wait_for_text("42");
    // A user reads the calls of tools, and has read the errors.
    terminal.press("call calc__eval {\"expression\": \"6 * 8\"}\r");
    terminal.wait_for_text("→ calc__eval {\"expression\": \"6 * 8\"}");
    terminal.wait_for_text("← 48");
    terminal.wait_for_prefix("calc__eval said: ");
    terminal.wait_for_prompt();
    terminal.press("/nope\r");
    terminal.wait_for_text("Error: unknown command '/nope'.");
    assert!(!terminal.written().contains("\x1b[?2026h"));
    terminal.press(CTRL_D);
    terminal.wait_for_prefix("Session: ");
    assert_eq!(terminal.wait_for_exit(), 0);
}

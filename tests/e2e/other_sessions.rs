//! Which session the terminal and `exec` start with, with which line and model, and how the user continues in another session.

use std::process::Stdio;

use patchbay_tests::{
    binary::{Patchbay, ran},
    terminal::Terminal,
};

const CTRL_D: &str = "\x04";

#[test]
fn first_line_runs_in_the_terminal() {
    let patchbay = Patchbay::quick();
    for (line, answer) in [("hello there", "You said: hello there"), ("/calc 6*7", "42")] {
        let terminal = Terminal::open(&patchbay, &[line]);
        terminal.wait_for_text(answer);
        terminal.wait_until_idle();
        // The terminal keeps running.
        terminal.press("/calc 1+1\r");
        terminal.wait_for_text("2");
        terminal.press(CTRL_D);
        assert_eq!(terminal.wait_for_exit(), 0);
    }
    let terminal = Terminal::open(&patchbay, &["--plain", "hello there"]);
    terminal.wait_for_text("You said: hello there");
    terminal.press("/quit\r");
    assert_eq!(terminal.wait_for_exit(), 0);
    // Without a terminal, it is the only line, as with `exec`.
    let ran = patchbay.run(&["hello there"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "You said: hello there\n"), "{ran:?}");
    let mut child = patchbay.command(&["hello there"]).stdin(Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    let ran = ran_of(child);
    assert_eq!((ran.code, &*ran.out), (Some(0), "You said: hello there\n"), "{ran:?}");
}

fn ran_of(child: std::process::Child) -> patchbay_tests::binary::Ran {
    ran(child.wait_with_output().unwrap())
}

#[test]
fn first_line_is_no_mistyped_command() {
    let patchbay = Patchbay::new();
    for arguments in [&["sesions"][..], &[""], &["fix it", "exec"], &["fix it", "now"]] {
        let ran = patchbay.run(arguments);
        assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{arguments:?}");
        assert!(ran.err.starts_with("error: "), "{arguments:?}: {}", ran.err);
    }
    assert!(patchbay.run(&["sesions"]).err.contains("no such command"));
    assert_eq!(patchbay.run(&["sessions"]).out, "No sessions.\n");
}

#[test]
fn model_option_sets_the_model() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "--model", "demo-big/high", "/agents"]);
    assert_eq!((ran.code, ran.errors()), (Some(0), ""), "{ran:?}");
    assert!(ran.out.contains("demo/demo-big/high"), "{}", ran.out);
    // The option is stored with the session, and replaced by a later one.
    let session = patchbay.last_session();
    let small = ["exec", "--session", &session, "--model", "demo-small", "/agents"];
    assert!(patchbay.run(&small).out.contains("demo/demo-small/default"));
    assert!(patchbay.run(&["exec", "--session", &session, "/agents"]).out.contains("demo/demo-small/default"));
    let unknown = patchbay.run(&["exec", "--model", "no-such", "hello"]);
    assert_eq!((unknown.code, &*unknown.out), (Some(1), ""), "{unknown:?}");
    assert!(unknown.err.starts_with("Error: Unknown model: no-such\n"), "{}", unknown.err);
    let warned = patchbay.run(&["exec", "--model", "claude-sonnet-5-5", "/agents"]);
    let no_key = "⚠ There is no key for anthropic yet: set ANTHROPIC_API_KEY or add it to credentials.json\n";
    assert_eq!((warned.code, warned.errors()), (Some(0), no_key), "{warned:?}");
    let terminal = Terminal::open(&patchbay, &["--model", "demo-big", "hello there"]);
    terminal.wait_for_text("Model: demo:demo-big");
    terminal.wait_for_text("You said: hello there");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn title_is_shown_in_lists() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "hello", "/rename  The \u{1b}[1mfirst\tone ", "/rename"]);
    assert_eq!(ran.out, "You said: hello\nThis session is now 'The [1mfirst one'.\n");
    assert_eq!(ran.errors(), "Error: /rename requires a title.\n");
    let session = patchbay.last_session();
    let list = patchbay.run(&["sessions"]).out;
    assert!(list.contains("The [1mfirst one") && !list.contains("hello"), "{list}");
    let long = format!("/rename {}", "x".repeat(101));
    let ran = patchbay.run(&["exec", "--session", &session, &long]);
    assert_eq!(ran.errors(), "Error: a title of 101 characters is over the limit of 100.\n");
    patchbay.run(&["exec", "--session", &session, "/rename Another"]);
    let json = patchbay.run(&["sessions", "--json"]).out;
    assert!(json.contains(r#""first_words":"Another""#), "{json}");
}

#[test]
fn terminal_goes_on_in_another_session() {
    let patchbay = Patchbay::quick();
    assert_eq!(patchbay.run(&["exec", "an old message", "/rename Old one"]).code, Some(0));
    let old = patchbay.last_session();
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_prompt();
    terminal.press("the second message\r");
    terminal.wait_for_text("You said: the second message");
    terminal.wait_until_idle();
    terminal.press("/resume\r");
    terminal.wait_for_text("/resume ID continues one of them, /new starts a new session.");
    let lines = terminal.lines();
    let line = |words: &str| lines.iter().find(|line| line.ends_with(words)).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(line("  the second message").starts_with("* "), "{lines:?}");
    assert!(line("  Old one").starts_with(&format!("  {}", &old[..8])), "{lines:?}");
    // The new session knows nothing about the previous one, which is kept.
    terminal.press("/new\r");
    terminal.wait_until("a second greeting", || greetings(&terminal).len() == 2);
    terminal.press("show context\r");
    terminal.wait_for_containing("messages: 1");
    terminal.wait_for_containing("host:bound-from");
    terminal.wait_for_prompt();
    terminal.press("/new now\r");
    terminal.wait_for_text("Error: /new does not accept arguments.");
    terminal.press(&format!("/resume {}\r", &old[..8]));
    terminal.wait_until("a third greeting", || greetings(&terminal).len() == 3);
    assert!(greetings(&terminal)[2].contains(&old[..8]), "{:?}", greetings(&terminal));
    terminal.press("/history\r");
    terminal.wait_for_text("You said: an old message");
    // If a session cannot be opened, the user stays in the current one.
    terminal.press("/resume nothing\r");
    terminal.wait_for_prefix("Error: session 'nothing' not found.");
    terminal.wait_until("a fourth greeting", || greetings(&terminal).len() == 4);
    assert!(greetings(&terminal)[3].contains(&old[..8]), "{:?}", greetings(&terminal));
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    assert_eq!(patchbay.run(&["sessions"]).out.lines().count(), 3);
    // Other fronts do not know the commands.
    let other = patchbay.run(&["exec", "/new"]);
    assert_eq!(other.errors(), "Error: unknown command '/new'.\n");
}

/// Returns the first line of each greeting so far.
fn greetings(terminal: &Terminal) -> Vec<String> {
    terminal
        .all_rows()
        .into_iter()
        .filter(|line| line.starts_with("Patchbay ") && line.contains(" - session "))
        .collect()
}

/// Once the front has left the session, another process can open it immediately.
#[test]
fn session_that_was_left_is_free() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &["a first message"]);
    terminal.wait_for_text("You said: a first message");
    terminal.wait_until_idle();
    let left = patchbay.last_session();
    assert_eq!(patchbay.run(&["exec", "--session", &left, "/calc 1"]).code, Some(1));
    terminal.press("/new\r");
    terminal.wait_until("a second greeting", || greetings(&terminal).len() == 2);
    let ran = patchbay.run(&["exec", "--session", &left, "/calc 1"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "1\n"), "{ran:?}");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

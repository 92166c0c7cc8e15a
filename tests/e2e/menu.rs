//! The interactive terminal: the menu of files and models, and the busy row and the tab's title in the meantime.

use std::{cell::Cell, num::NonZeroU16};

use patchbay_tests::{
    binary::Patchbay,
    format::CHAT,
    server::{Server, Step},
    terminal::{COLUMNS, CTRL_C, CTRL_D, ENTER, Terminal, UP},
};

const TAB: &str = "\t";
const DOWN: &str = "\x1b[B";
/// Moves the cursor to the start of the line.
const CTRL_A: &str = "\x01";

fn open(patchbay: &Patchbay, variables: &[(&str, &str)]) -> Terminal {
    let terminal = Terminal::open_with(patchbay, &[], variables);
    terminal.wait_for_prompt();
    terminal
}

#[test]
fn file_is_inserted_behind_an_at_sign() {
    let patchbay = Patchbay::quick();
    for path in ["src/notes.md", "src/other/notes.txt", "out/notes.md", ".patchbay/notes.md"] {
        patchbay.write(&format!("workspace/{path}"), "Note.");
    }
    patchbay.write("workspace/.gitignore", "out/\n");
    let terminal = open(&patchbay, &[]);
    terminal.press("compare @notes");
    terminal.wait_for_text("@src/notes.md");
    terminal.wait_for_text("@src/other/notes.txt");
    assert!(!terminal.lines().iter().any(|line| line.starts_with("@out/") || line.starts_with("@.patchbay")));
    terminal.press(TAB);
    terminal.wait_for_text("> compare @src/notes.md");
    terminal.press("with @snt");
    terminal.wait_for_text("@src/other/notes.txt");
    terminal.press(DOWN);
    terminal.press(ENTER);
    terminal.wait_for_prefix("> compare @src/notes.md with @src/");
    // Enter inserted the path and did not send the message.
    terminal.press(CTRL_C);
    terminal.wait_for_prompt();
    // A path in the middle of a text, which is sent as typed, with the file.
    terminal.press("is good");
    terminal.press(CTRL_A);
    terminal.press("@src/n");
    terminal.wait_for_text("@src/notes.md");
    terminal.press(TAB);
    terminal.wait_for_text("> @src/notes.md is good");
    terminal.press(ENTER);
    terminal.wait_for_text("Attached: src/notes.md (text/plain, 5 bytes).");
    terminal.wait_until_idle();
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn typed_paths_attach_files_and_pasted_ones_do_not() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.png", b"\x89PNG\r\n\x1a\n");
    patchbay.write("workspace/.env", "SECRET=1");
    patchbay.write("workspace/x.bin", b"\xff\0");
    patchbay.write("workspace/.gitignore", ".env\n");
    let terminal = open(&patchbay, &[]);
    terminal.press("say I see. @a.png,");
    terminal.wait_for_text("> say I see. @a.png,");
    terminal.press(ENTER);
    terminal.wait_for_text("Attached: a.png (image/png, 8 bytes).");
    terminal.wait_until_idle();
    // Files that are refused leave the text unchanged.
    for (word, error) in [
        ("@.env", "Error: '.env' is ignored by git; attach it with --attach or copy it first."),
        ("@x.bin", "Error: 'x.bin' is neither text, an image nor a PDF."),
    ] {
        terminal.press(&format!("say {word}"));
        terminal.press("\x1b[27u");
        terminal.press(ENTER);
        terminal.wait_for_text(error);
        terminal.wait_for_text(&format!("> say {word}"));
        terminal.press(CTRL_C);
        terminal.wait_for_prompt();
    }
    // A pasted word, and words that are not file names.
    terminal.press("\x1b[200~say Pasted @a.png\x1b[201~");
    terminal.wait_for_text("> say Pasted @a.png");
    terminal.press(ENTER);
    terminal.wait_for_text("Pasted @a.png");
    terminal.wait_for_prefix("Not attached: a.png. ");
    terminal.wait_until_idle();
    terminal.press("say Mail me@example.com @types/node");
    terminal.press(ENTER);
    terminal.wait_for_text("Mail me@example.com @types/node");
    terminal.wait_until_idle();
    let count = |prefix: &str| terminal.all_rows().iter().filter(|row| row.starts_with(prefix)).count();
    assert_eq!((count("Attached:"), count("Not attached:")), (1, 1), "{:?}", terminal.all_rows());
}

#[test]
fn recalled_line_attaches_its_files_again_or_says_that_it_does_not() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.png", b"\x89PNG\r\n\x1a\n");
    patchbay.write("elsewhere/b.txt", "text");
    let outside = patchbay.folder().join("elsewhere/b.txt");
    let terminal = open(&patchbay, &[]);
    let line = format!("say See @a.png and @{}", outside.display());
    terminal.press(&line);
    terminal.press(ENTER);
    let attached =
        |terminal: &Terminal| terminal.all_rows().join("").matches("Attached: a.png (image/png, 8 bytes), ").count();
    terminal.wait_until("both files are attached", || attached(&terminal) == 1);
    terminal.wait_until_idle();
    terminal.press(UP);
    terminal.wait_for_prefix("> say See @a.png");
    terminal.press(ENTER);
    terminal.wait_until("both files are attached again", || attached(&terminal) == 2);
    terminal.wait_until_idle();
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    // Another process does not know which words were completed.
    let terminal = open(&patchbay, &[]);
    terminal.press(UP);
    terminal.wait_for_prefix("> say See @a.png");
    terminal.press(ENTER);
    terminal.wait_for_prefix("Not attached: a.png, ");
    assert_eq!(attached(&terminal), 0);
}

#[test]
fn text_stays_if_the_model_cannot_read_its_file() {
    let server = Server::scripted(|_| vec![Step::Bytes(CHAT.answer("text"))]);
    let patchbay = CHAT.home(&server, "");
    patchbay.write("workspace/a.png", b"\x89PNG\r\n\x1a\n");
    let terminal = open(&patchbay, &[]);
    terminal.press(&format!("/model {}", CHAT.model));
    terminal.press(ENTER);
    terminal.wait_for_prefix("✓ ");
    terminal.wait_until_idle();
    terminal.press("look @a.png");
    terminal.press("\x1b[27u");
    terminal.press(ENTER);
    terminal.wait_for_prefix("Error: model 'local-1' is not known to read image/png (a.png)");
    terminal.wait_for_text("> look @a.png");
    assert!(!server.requests().iter().any(|request| request.contains("look")), "{:?}", server.requests());
}

#[test]
fn menu_of_commands_stays_while_it_is_filtered() {
    let patchbay = Patchbay::quick();
    let terminal = open(&patchbay, &[]);
    for (key, typed) in [("/", "> /"), ("s", "> /s"), ("k", "> /sk")] {
        terminal.press(key);
        terminal.wait_for_text(typed);
        terminal.wait_for_prefix("/skills");
    }
    // Everything is redrawn, one frame after another.
    let written = terminal.written();
    let size = |size| NonZeroU16::new(size).unwrap();
    let mut parser = vt100::Parser::new(size(40), size(COLUMNS), 0);
    let frame_end = "\x1b[?2026l";
    let frames = written.split_inclusive(frame_end).filter(|frame| frame.ends_with(frame_end));
    let mut has_menu = frames.map(|frame| {
        parser.process(frame.as_bytes());
        parser.screen().rows(0, COLUMNS).any(|row| row.starts_with("/skills"))
    });
    assert!(has_menu.any(|shown| shown), "the menu is drawn: {written:?}");
    assert!(has_menu.all(|shown| shown), "the menu was removed in between: {written:?}");
}

#[test]
fn models_are_grouped_and_those_without_a_key_are_last() {
    let patchbay = Patchbay::new();
    let terminal = open(&patchbay, &[("GOOGLE_API_KEY", "")]);
    terminal.press("/model ");
    terminal.wait_for_text("demo");
    terminal.wait_for_prefix("demo-1  ");
    terminal.wait_for_containing("  in use");
    let lines = terminal.lines();
    // The first of the eight models shown belong to demo.
    assert!(!lines.iter().any(|line| line == "google · needs key"), "{lines:?}");
    terminal.press("g25p");
    terminal.wait_for_text("google · needs key");
    terminal.wait_for_text("gemini-2.5-pro/high");
    terminal.press(CTRL_C);
    terminal.wait_for_prompt();
    // Commands are also found by their letters.
    terminal.press("/rls");
    terminal.wait_for_prefix("/reload_skills  ");
    terminal.press(TAB);
    terminal.wait_for_text("> /reload_skills");
    terminal.press(CTRL_C);
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn retries_are_counted_down_in_the_busy_row_only() {
    let patchbay = Patchbay::quick();
    let terminal = open(&patchbay, &[("VTE_VERSION", "7900")]);
    terminal.press("fail rate-limit 10\r");
    // On a busy machine, not every second is seen.
    let seconds_left = || {
        terminal.lines().iter().find_map(|line| {
            let (_, seconds) = line.split_once(" · retrying in ")?;
            let (seconds, _) = seconds.split_once(" s, 1 of 15: ")?;
            seconds.parse::<u32>().ok()
        })
    };
    let first = Cell::new(None);
    terminal.wait_until("the seconds are shown", || {
        first.set(seconds_left());
        first.get().is_some()
    });
    terminal.wait_until("the seconds get fewer", || seconds_left().is_some_and(|now| Some(now) < first.get()));
    terminal.wait_for_containing(", 2 of 15: ");
    terminal.press("\x1b");
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_for_prompt();
    terminal
        .wait_until("the retry is no longer shown", || !terminal.lines().iter().any(|line| line.contains("etrying")));
    let (on, off) = ("\x1b]9;4;3\x1b\\", "\x1b]9;4;0\x1b\\");
    terminal.wait_until("the progress sign is off", || {
        let written = terminal.written();
        written.find(on).unwrap() < written.rfind(off).unwrap_or(0)
    });
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

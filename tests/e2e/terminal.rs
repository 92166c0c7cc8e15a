//! `patchbay` without a command and without a terminal, which is the same as `exec --keep-going`.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use patchbay_tests::binary::{Patchbay, Ran, ran};

fn typed(patchbay: &Patchbay, arguments: &[&str], input: &str) -> Ran {
    let mut child = patchbay.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

#[test]
fn lines_are_answered_without_greeting_or_prompt() {
    let patchbay = Patchbay::new();
    let ran = typed(&patchbay, &[], "/calc 1 + 1\n\n/nope\n/calc 2 + 2\n");
    // The script continues after an error; the exit code reports it.
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "2\n4\n", "Error: unknown command '/nope'.\n"));
    let ran = typed(&patchbay, &[], "/calc 1 + 1\n/quit\n/nope\n");
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
}

#[test]
fn session_is_resumed_after_quit() {
    let patchbay = Patchbay::new();
    patchbay.skill("guide", "command: guide", "Mind it.");
    let ran = typed(&patchbay, &[], "/calc 1\n/quit\n/calc 2\n");
    let session = patchbay.last_session();
    let words = format!("1\nThe session is kept. To continue: patchbay --session {}\n", &session[..8]);
    assert_eq!((ran.code, ran.out), (Some(0), words));
    std::fs::remove_dir_all(patchbay.home().join("config/skills")).unwrap();
    let ran = typed(&patchbay, &["--session", &session], "/guide\n");
    assert_eq!(ran.out, "Skill 'guide' is in the conversation. Your next message is its input.\n");
    assert_eq!(patchbay.last_session(), session);
}

#[test]
fn workspace_option_selects_the_workspace() {
    let patchbay = Patchbay::new();
    patchbay.write("elsewhere/.patchbay/skills/local/SKILL.md", "---\nsummary: Local\n---\n");
    let ran = typed(&patchbay, &["--workspace", "../elsewhere"], "/skills\n");
    assert!(ran.out.contains("\nlocal - Local\n"), "{ran:?}");
}

/// A change that happens between two lines is printed once.
#[test]
fn provider_changes_are_printed_between_lines() {
    let patchbay = Patchbay::new();
    let mut child = patchbay.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    // The first line reads the providers, and a file that appears later counts as a change. The file appears complete.
    writeln!(input, "/providers\n/calc 1").unwrap();
    assert!(lines.any(|line| line == "1"));
    patchbay.write("home/config/providers/.new", "none");
    let folder = patchbay.home().join("config/providers");
    std::fs::rename(folder.join(".new"), folder.join("broken.wasm")).unwrap();
    let told = notes.next().unwrap();
    assert!(told.starts_with("The file 'broken.wasm' is not a provider, and is ignored: "), "{told}");
    writeln!(input, "/calc 2").unwrap();
    assert_eq!(lines.next().as_deref(), Some("2"));
    drop(input);
    assert_eq!((lines.next(), notes.next()), (None, None));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

//! Text that is piped into `patchbay exec`: how it is attached to the message, and which pipes are not read.

use std::{io::Write as _, process::Stdio};

use patchbay_tests::{
    PATIENCE,
    binary::{Patchbay, Ran, ran},
};

/// Runs `exec` with `input` on its standard input.
fn piped(patchbay: &Patchbay, arguments: &[&str], input: &[u8]) -> Ran {
    let mut child = patchbay.command(&[&["exec"], arguments].concat()).stdin(Stdio::piped()).spawn().unwrap();
    // Fails if the process ends before it reads everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    ran(child.wait_with_output().unwrap())
}

const ATTACHED: &str = "Attached: standard input (text/plain, 12 bytes).\n";
#[cfg(target_os = "linux")]
const NOTE: &str = "Attached standard input to the first message (12 bytes). To leave it out: --no-stdin\n";

#[cfg(target_os = "linux")]
#[test]
fn piped_text_is_attached_to_the_message() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.shell("bash", "printf 'one changed\\n' | patchbay exec 'show context' 'show context'");
    assert_eq!((ran.code, ran.errors()), (Some(0), NOTE), "{ran:?}");
    let context = ran.out.strip_prefix(ATTACHED).unwrap_or_else(|| panic!("{ran:?}"));
    // It is sent once, before the line, with its name as a heading.
    let size = "standard input:\n\none changed\n".len();
    assert!(context.contains(&format!("text({size}), text(12)")), "{context}");
    assert_eq!(ran.out.matches("Attached").count(), 1, "{ran:?}");
    // A blank line is not a message, and a command before the message does not use the text.
    assert!(piped(&patchbay, &["", "look"], b"one changed\n").out.starts_with(ATTACHED));
    let ran = piped(&patchbay, &["/calc 1", "look"], b"one changed\n");
    assert_eq!((&*ran.out, ran.errors()), ("1\nYou said: look\n", ""));
    // An agent that is capturing does not accept files.
    let capturing = Patchbay::quick();
    assert_eq!(capturing.run(&["exec", "/capture"]).code, Some(0));
    let session = capturing.last_session();
    let ran = piped(&capturing, &["--session", &session, "look"], b"one changed\n");
    assert_eq!((ran.code, ran.errors()), (Some(0), ""), "{ran:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn piped_text_that_cannot_be_attached_is_an_error() {
    let patchbay = Patchbay::quick();
    let refusal = |input: &[u8]| {
        let ran = piped(&patchbay, &["look"], input);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{ran:?}");
        ran.err
    };
    let too_much = refusal(&vec![b'a'; (256 << 10) + 1]);
    assert!(too_much.starts_with("Error: standard input has more than 256 KiB; nothing was sent."), "{too_much}");
    for input in [&b"\xff\xfe"[..], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"] {
        let not_text = refusal(input);
        assert!(not_text.starts_with("Error: standard input is not UTF-8 text; nothing was sent."), "{not_text}");
    }
    let whole = piped(&patchbay, &["look"], &vec![b'a'; 256 << 10]);
    assert!(whole.out.starts_with("Attached: standard input (text/plain, 262 KB).\n"), "{}", whole.err);
}

#[test]
fn no_stdin_and_an_empty_pipe_attach_nothing() {
    let patchbay = Patchbay::quick();
    for (arguments, input) in [(&["--no-stdin", "look"][..], &b"text"[..]), (&["look"], b"")] {
        let ran = piped(&patchbay, arguments, input);
        assert_eq!((ran.code, &*ran.out, ran.errors()), (Some(0), "You said: look\n", ""), "{arguments:?}");
    }
}

#[test]
fn dash_attaches_standard_input_of_any_kind() {
    let patchbay = Patchbay::quick();
    patchbay.write("elsewhere/input.txt", "one changed\n");
    let expected = format!("{ATTACHED}You said: standard input:\n\none changed\nlook\n");
    for command in [
        "patchbay exec --attach - look < input.txt",
        "printf 'one changed\\n' | patchbay exec --attach - look",
        // `exec` consumes the rest of the loop's input, because `--attach -` requested it.
        "printf 'go\\none changed\\n' | while read -r line; do patchbay exec --attach - look; done",
        "printf 'one changed\\n' | (sleep 2; patchbay exec --attach - look)",
    ] {
        let ran = patchbay.shell("bash", command);
        assert_eq!((ran.code, &*ran.out), (Some(0), &*expected), "{command}: {ran:?}");
        assert_eq!(ran.errors(), "", "{command}");
    }
    for arguments in
        [&["--attach", "-"][..], &["--attach", "-", "--attach", "-", "x"], &["--attach", "-", "--no-stdin", "x"]]
    {
        let ran = piped(&patchbay, arguments, b"text");
        assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{arguments:?}");
        assert!(ran.err.starts_with("error: --attach - "), "{ran:?}");
    }
}

#[test]
fn loops_keep_their_lines() {
    let patchbay = Patchbay::quick();
    patchbay.write("elsewhere/lines.txt", "one\ntwo\nthree\n");
    let body = "while read -r line; do patchbay exec \"$line\" 2>> errors.txt; done";
    for shell in ["bash", "sh"] {
        for command in [
            format!("{body} < lines.txt"),
            format!("cat lines.txt | {body}"),
            format!("cat lines.txt | (cd . && {body})"),
            "cat lines.txt | while read -r line; do (patchbay exec \"$line\"; true); done".to_owned(),
            "cat lines.txt | while read -r line; do env A=1 sh -c 'patchbay exec \"$0\"; true' \"$line\"; done"
                .to_owned(),
        ] {
            let ran = patchbay.shell(shell, &command);
            assert_eq!(ran.out, "You said: one\nYou said: two\nYou said: three\n", "{shell}: {command}: {ran:?}");
        }
    }
    // Input that is left for the loop is mentioned, but only if there is any.
    let errors = std::fs::read_to_string(patchbay.workspace().with_file_name("elsewhere/errors.txt")).unwrap();
    let note = "Note: standard input was not attached, because the calling process may read it as well. To attach it: --attach -; \
                to omit this note: --no-stdin";
    assert!(errors.contains(note), "{errors}");
    let last =
        patchbay.shell("bash", "cat lines.txt | while read -r line; do patchbay exec --no-stdin \"$line\"; done");
    assert!(!last.err.contains("Note:"), "{last:?}");
}

#[test]
fn shell_keeps_the_script_that_it_reads_from_a_pipe() {
    let patchbay = Patchbay::quick();
    let script = "printf 'patchbay exec one\\npatchbay exec two\\n' | bash -s";
    assert_eq!(patchbay.shell("bash", script).out, "You said: one\nYou said: two\n");
}

#[test]
fn pipe_that_stays_open_and_silent_does_not_block() {
    let patchbay = Patchbay::quick();
    let mut child = patchbay.command(&["exec", "look"]).stdin(Stdio::piped()).spawn().unwrap();
    // The input stays open, and nothing is written to it.
    let input = child.stdin.take();
    let began = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it waits for standard input");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(input);
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!((ran.code, &*ran.out, ran.errors()), (Some(0), "You said: look\n", ""));
}

#[cfg(target_os = "linux")]
#[test]
fn time_limit_includes_a_pipe_that_does_not_end() {
    let patchbay = Patchbay::quick();
    let mut child = patchbay.command(&["exec", "--timeout", "3", "look"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"begun").unwrap();
    let ended = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(ended.status.code(), Some(3), "{}", String::from_utf8_lossy(&ended.stderr));
}

//! Progress of compilation: shown in a terminal, not in other output; and that starts can be interrupted meanwhile.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    binary::{Patchbay, ran},
    guest::Guest,
    terminal::{CTRL_C, CTRL_D, ENTER, Terminal},
};

/// Returns a skill with so much code that compiling it takes seconds.
fn slow(n: usize) -> Vec<u8> {
    let function = format!(
        "(func (param $a i64) (result i64) (local.get $a){})\n",
        format!(" (i64.const {n}) i64.mul (local.get $a) i64.xor").repeat(12)
    );
    Guest::default().with(&format!("\n{}", function.repeat(12_000))).packaged("---\n---\n")
}

const COMPILING: &str = "Compiling 1 new component… 0/1";

/// Creates a home whose bundled components are compiled.
fn used() -> Patchbay {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.line("/calc 1 + 1"), "2");
    patchbay
}

fn is_compiling(terminal: &Terminal) -> bool {
    terminal.lines().iter().any(|line| line.contains("Compiling"))
}

#[test]
fn terminal_shows_compilation_progress() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_text(COMPILING);
    terminal.wait_for_prompt();
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    patchbay.write("home/config/skills/two.wasm", slow(2));
    terminal.press("/reload_skills");
    terminal.press(ENTER);
    terminal.wait_for_containing(COMPILING);
    terminal.wait_for_text("+ two");
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    // Cancelling removes the progress line.
    patchbay.write("home/config/skills/three.wasm", slow(3));
    terminal.press("/reload_skills");
    terminal.press(ENTER);
    terminal.wait_for_containing(COMPILING);
    terminal.press(CTRL_C);
    terminal.wait_for_prefix("Stopped after ");
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    terminal.press("/calc 2 + 3");
    terminal.press(ENTER);
    terminal.wait_for_text("5");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn exec_in_a_terminal_shows_compilation_progress() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let terminal = Terminal::open(&patchbay, &["exec", "/calc 2 + 3"]);
    terminal.wait_for_text(COMPILING);
    terminal.wait_for_text("5");
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn no_progress_is_printed_without_a_terminal() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let ran = patchbay.exec(&["/calc 2 + 3"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "5\n", ""));
}

/// Creates a workspace whose new skills take minutes to compile, because skills of an untrusted workspace are compiled one at a
/// time.
fn slow_workspace() -> Patchbay {
    let patchbay = used();
    let slow = slow(1);
    for n in 0..12 {
        // A custom section with one byte makes each a different component.
        patchbay.write(&format!("workspace/.patchbay/skills/slow{n}.wasm"), [&*slow, &[0, 3, 1, b'n', n]].concat());
    }
    patchbay
}

/// How long a process may take to end after Ctrl+C or a timeout.
const AT_MOST: Duration = Duration::from_secs(2);

/// Runs the binary in a terminal, presses Ctrl+C while it compiles, and asserts that it ends in time.
fn assert_ctrl_c_ends_start(arguments: &[&str]) {
    let patchbay = slow_workspace();
    let terminal = Terminal::open(&patchbay, arguments);
    terminal.wait_for_prefix("Compiling 12 new components… ");
    let start = Instant::now();
    terminal.press(CTRL_C);
    assert_ne!(terminal.wait_for_exit(), 0);
    assert!(start.elapsed() < AT_MOST, "{:?}", start.elapsed());
}

#[test]
fn ctrl_c_ends_a_terminal_compiling_at_start() {
    assert_ctrl_c_ends_start(&[]);
}

#[test]
fn ctrl_c_ends_an_exec_compiling_at_start() {
    assert_ctrl_c_ends_start(&["exec", "/calc 1"]);
}

#[test]
fn timeout_ends_an_exec_compiling_at_start() {
    let patchbay = slow_workspace();
    let start = Instant::now();
    let child = patchbay.command(&["exec", "--timeout", "1", "/calc 1"]).spawn().unwrap();
    thread::sleep(Duration::from_millis(700));
    let compilers = children(child.id());
    let ran = ran(child.wait_with_output().unwrap());
    let error = "Error: not done after 1 s (--timeout). [timeout]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(3), "", error));
    while compilers.iter().any(|process| process.exists()) {
        assert!(start.elapsed() < Duration::from_secs(1) + AT_MOST, "its compilers still run");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(start.elapsed() < Duration::from_secs(1) + AT_MOST, "{:?}", start.elapsed());
}

/// Returns the child processes of `parent` as folders of `/proc`; empty if there is no `/proc`.
fn children(parent: u32) -> Vec<PathBuf> {
    let of_parent = |process: &PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        // After the name in parentheses come the state and the parent.
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&*parent.to_string())
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.map(|entry| entry.path()).filter(of_parent).collect()
}

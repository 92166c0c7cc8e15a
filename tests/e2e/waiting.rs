//! Progress of compilation: it is only shown in a terminal, and the start can be interrupted while it is shown.

use std::time::{Duration, Instant};

use patchbay_tests::{
    binary::Patchbay,
    guest::Guest,
    terminal::{CTRL_C, CTRL_D, ENTER, Terminal},
};

/// Returns a skill with so much code that its compilation takes seconds.
fn slow(n: usize) -> Vec<u8> {
    let function = format!(
        "(func (param $a i64) (result i64) (local.get $a){})\n",
        format!(" (i64.const {n}) i64.mul (local.get $a) i64.xor").repeat(12)
    );
    Guest::default().with(&format!("\n{}", function.repeat(12_000))).packaged("---\n---\n")
}

const COMPILING: &str = "Compiling 1 new component… 0/1";

/// Creates a home with compiled bundled components.
fn used() -> Patchbay {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.line("/calc 1 + 1"), "2");
    patchbay
}

/// Waits until the progress line is removed. The text that a test waited for may be drawn a moment before that.
fn wait_for_removed_progress(terminal: &Terminal) {
    terminal.wait_until("the progress is removed", || !terminal.lines().iter().any(|line| line.contains("Compiling")));
}

#[test]
fn terminal_shows_compilation_progress() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.wait_for_text(COMPILING);
    terminal.wait_for_prompt();
    wait_for_removed_progress(&terminal);
    patchbay.write("home/config/skills/two.wasm", slow(2));
    terminal.press("/reload_skills");
    terminal.press(ENTER);
    terminal.wait_for_containing(COMPILING);
    terminal.wait_for_text("+ two");
    wait_for_removed_progress(&terminal);
    // Cancelling removes the progress line.
    patchbay.write("home/config/skills/three.wasm", slow(3));
    terminal.press("/reload_skills");
    terminal.press(ENTER);
    terminal.wait_for_containing(COMPILING);
    terminal.press(CTRL_C);
    terminal.wait_for_prefix("Stopped after ");
    wait_for_removed_progress(&terminal);
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
    wait_for_removed_progress(&terminal);
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// A screen reader would read a line again each time it is redrawn.
#[test]
fn plain_terminal_prints_compilation_progress_once() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let terminal = Terminal::open(&patchbay, &["--plain"]);
    terminal.wait_for_text("Compiling 1 new component…");
    terminal.wait_for_prefix(">");
    assert!(!terminal.written().contains("\u{1b}["), "something was drawn");
    terminal.press("/quit\r");
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn no_progress_is_printed_without_a_terminal() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let ran = patchbay.exec(&["/calc 2 + 3"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "5\n", ""));
}

/// Creates a workspace whose new skills take minutes to compile, because skills of an untrusted
/// workspace are compiled one at a time.
fn slow_workspace() -> Patchbay {
    let patchbay = used();
    let slow = slow(1);
    for n in 0..12 {
        // A custom section with one byte makes each a different component.
        patchbay.write(&format!("workspace/.patchbay/skills/slow{n}.wasm"), [&*slow, &[0, 3, 1, b'n', n]].concat());
    }
    patchbay
}

/// How soon a stopped process must end, even on a busy machine. If it is not stopped, it compiles for minutes.
const AT_MOST: Duration = Duration::from_secs(20);

/// Runs the binary in a terminal, presses Ctrl+C while it compiles, and asserts that it ends.
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
    let ran = patchbay.exec(&["--timeout", "1", "/calc 1"]);
    assert!(start.elapsed() < AT_MOST, "{:?}", start.elapsed());
    let error = "Error: timed out after 1 s (--timeout). [timeout]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(3), "", error));
}

/// Linux tests that look into `/proc` to check that no compiler is left running.
#[cfg(target_os = "linux")]
mod compilers {
    use std::{fs, path::PathBuf, process::Child, thread};

    use super::*;

    /// A process that compiles a component.
    struct CompilerProcess(PathBuf);

    impl CompilerProcess {
        /// Waits until a compiler started by `program` has read its component and is compiling. Returns `None` if it ends before
        /// that.
        fn wait_for(program: &mut Child) -> Option<Self> {
            let parent = program.id().to_string();
            let is_compiler = |process: &Self| {
                let arguments = fs::read_to_string(process.0.join("cmdline")).unwrap_or_default();
                arguments.split('\0').nth(1) == Some("compile") && process.ticks() >= Some(30)
            };
            let start = Instant::now();
            loop {
                let processes = fs::read_dir("/proc").unwrap().map(|entry| Self(entry.unwrap().path()));
                let mut of_parent = processes.filter(|process| process.fields().get(1) == Some(&parent));
                if let Some(compiler) = of_parent.find(is_compiler) {
                    return Some(compiler);
                }
                if program.try_wait().unwrap().is_some() {
                    return None;
                }
                assert!(start.elapsed() < Duration::from_secs(60), "nothing is compiled");
                thread::sleep(Duration::from_millis(10));
            }
        }

        /// Returns the fields of `/proc/ID/stat` after the name: the state, the parent and others.
        fn fields(&self) -> Vec<String> {
            let stat = fs::read_to_string(self.0.join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().unwrap_or_default().split(' ').map(str::to_owned).collect()
        }

        /// Returns its processor time in ticks, 100 a second, or `None` if it has ended.
        fn ticks(&self) -> Option<u64> {
            let fields = self.fields();
            let ended = fields[0] == "Z" || fields.len() < 13;
            (!ended).then(|| fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum())
        }

        /// Waits until the compiler has ended, and asserts that it was stopped: that it did not compile for another second of
        /// processor time, whatever the load of the machine.
        fn assert_stopped(&self) {
            let Some(first) = self.ticks() else { return };
            while let Some(ticks) = self.ticks() {
                assert!(ticks < first + 100, "the compiler still runs");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    #[test]
    fn timeout_stops_the_compiler() {
        let patchbay = slow_workspace();
        // On a busy machine, the time may be over before a compiler is at work. The next attempt has more time.
        for seconds in ["3", "12", "48"] {
            let mut program = patchbay.command(&["exec", "--timeout", seconds, "/calc 1"]).spawn().unwrap();
            if let Some(compiler) = CompilerProcess::wait_for(&mut program) {
                assert_eq!(program.wait().unwrap().code(), Some(3));
                compiler.assert_stopped();
                return;
            }
        }
        panic!("nothing is compiled");
    }

    #[test]
    fn killed_program_leaves_no_compiler() {
        let patchbay = slow_workspace();
        let mut program = patchbay.command(&["exec", "/calc 1"]).spawn().unwrap();
        let compiler = CompilerProcess::wait_for(&mut program).expect("a compiler");
        program.kill().unwrap();
        program.wait().unwrap();
        compiler.assert_stopped();
    }
}

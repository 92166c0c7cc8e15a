//! Programs that run from the terminal: `terminal__run` in its cage, and what the user types after `!`.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use patchbay_tests::{
    binary::Patchbay,
    terminal::{CTRL_C, CTRL_D, ENTER, ESC, Terminal, paste},
};

use crate::cage::{assert_none_left, processes_in};

/// Opens a terminal with the demo model.
fn open(patchbay: &Patchbay) -> Terminal {
    let terminal = Terminal::open(patchbay, &[]);
    terminal.wait_for_prompt();
    terminal
}

fn workspace(patchbay: &Patchbay) -> PathBuf {
    patchbay.workspace().canonicalize().unwrap()
}

/// Makes the model call `terminal__run` with `input`.
fn ask(terminal: &Terminal, input: &str) {
    terminal.press(&paste(&format!("call terminal__run {input}")));
    terminal.press(ENTER);
    terminal.wait_for_prefix("1 once");
}

/// Answers the open question after the interval in which it ignores keys.
fn answer(terminal: &Terminal, key: &str) {
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(600));
        terminal.press(key);
        thread::sleep(Duration::from_millis(300));
        if !terminal.lines().iter().any(|line| line.starts_with("1 once") || line.starts_with("Clear your text")) {
            return;
        }
        terminal.press("\x15");
    }
    panic!("the question is not answered:\n{}", terminal.lines().join("\n"));
}

/// Waits until this many processes are running in the workspace.
fn wait_for_processes(workspace: &Path, count: usize) {
    for _ in 0..600 {
        if processes_in(workspace).len() >= count {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("these run: {:?}", processes_in(workspace));
}

const LASTING: &str = r#"{"command":"sh","args":["-c","setsid sleep 300 & sleep 300"]}"#;
/// Patchbay, its supervisor, and inside the cage a shell and two sleeping processes.
const LASTING_PROCESSES: usize = 5;

#[test]
fn program_runs_in_the_cage_after_a_yes() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/.git/hooks/sample", "");
    let terminal = open(&patchbay);
    ask(&terminal, r#"{"command":"sh","args":["-c","ls ~; echo x > .git/hooks/x; echo y > y; exit 3"]}"#);
    terminal.wait_for_text("Run sh -c 'ls ~; echo x > .git/hooks/x; echo y > y; exit 3'?");
    terminal.wait_for_text("in a cage: no network, and only this workspace and caches of toolchains can be changed");
    answer(&terminal, "1");
    terminal.wait_until_idle();
    terminal.press("/show\r");
    terminal.wait_for_text("exit code 3");
    terminal.wait_for_containing(".git/hooks/x: Read-only file system");
    terminal.wait_for_containing("The cage may have refused something");
    assert_eq!(fs::read_to_string(workspace(&patchbay).join("y")).unwrap(), "y\n");
    assert!(!workspace(&patchbay).join(".git/hooks/x").exists());
    // The same program again; from now on it may run in this workspace.
    ask(&terminal, r#"{"command":"true"}"#);
    answer(&terminal, "3");
    terminal.wait_for_containing("Allowed in this workspace from now on");
    terminal.wait_until_idle();
    terminal.press("call terminal__run {\"command\":\"true\"}\r");
    terminal.wait_until("it ran without a question", || {
        terminal.all_rows().iter().filter(|row| row.starts_with("✓") && row.contains("run true")).count() == 2
    });
    // A different program needs another question, and an unusual request needs one each time.
    ask(&terminal, r#"{"command":"true","args":["x"]}"#);
    answer(&terminal, "2");
    terminal.wait_until_idle();
    ask(&terminal, r#"{"command":"true","network":true}"#);
    terminal.wait_for_text("with the network, including servers on this machine");
    assert!(!terminal.lines().iter().any(|line| line.contains("2 this session")), "{:?}", terminal.lines());
    answer(&terminal, ESC);
    terminal.wait_until_idle();
}

#[test]
fn tool_is_not_there_if_it_is_off() {
    let patchbay = Patchbay::quick();
    patchbay.write(
        "home/config/config.toml",
        "[terminal]\nrun = \"off\"\n[providers.demo]\noptions = { delay-ms = \"0\" }\n",
    );
    let terminal = open(&patchbay);
    terminal.press("call terminal__run {\"command\":\"true\"}\r");
    terminal.wait_for_containing("tool 'terminal__run' not found");
    patchbay.write("home/config/config.toml", "[terminal.cage]\nwrite = [\"~/\"]\n");
    let ran = patchbay.run(&["doctor"]);
    assert!(ran.out.contains("Cage for programs"), "{ran:?}");
    let mut terminal = Terminal::open(&patchbay, &[]);
    assert_eq!(terminal.wait_for_end(), 1);
    terminal.wait_for_containing("[terminal.cage] in config.toml: programs may not use '~/'");
}

#[test]
fn no_process_outlives_a_stop_a_limit_or_the_terminal() {
    let patchbay = Patchbay::quick();
    let workspace = workspace(&patchbay);
    let begin = || {
        let terminal = open(&patchbay);
        ask(&terminal, LASTING);
        answer(&terminal, "1");
        wait_for_processes(&workspace, LASTING_PROCESSES);
        terminal
    };
    let terminal = begin();
    terminal.press(ESC);
    terminal.wait_for_prefix("Stopped after ");
    wait_for_only_patchbay(&workspace);
    ask(&terminal, r#"{"command":"sh","args":["-c","setsid sleep 300 & sleep 300"],"seconds":1}"#);
    answer(&terminal, "1");
    terminal.wait_until_idle();
    terminal.press("/show\r");
    terminal.wait_for_text("killed: it ran for more than 1 s");
    wait_for_only_patchbay(&workspace);
    terminal.press(CTRL_D);
    terminal.wait_for_exit();
    let terminal = begin();
    terminal.signal("KILL");
    assert_none_left(&workspace);
    drop(terminal);
    // Closes the window.
    drop(begin());
    assert_none_left(&workspace);
}

fn wait_for_only_patchbay(workspace: &Path) {
    for _ in 0..200 {
        if processes_in(workspace).len() <= 1 {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("these are left: {:?}", processes_in(workspace));
}

/// Returns the supervisors of programs that Patchbay has started.
fn supervisors_of(patchbay: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let is_child = read("status").lines().any(|line| *line == format!("PPid:\t{patchbay}"));
        if is_child && read("cmdline").ends_with("\0cage\0") {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

#[test]
fn waiting_process_ends_with_the_terminal() {
    let patchbay = Patchbay::quick();
    let wait_for_one = |terminal: &Terminal| {
        terminal.wait_until("one process waits", || supervisors_of(terminal.id()).len() == 1);
        supervisors_of(terminal.id()).remove(0)
    };
    let wait_for_end = |id: &str| {
        let command_line = Path::new("/proc").join(id).join("cmdline");
        for _ in 0..200 {
            // A process that is not reaped yet has no command line.
            if !fs::read_to_string(&command_line).is_ok_and(|line| line.ends_with("\0cage\0")) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("process {id} is left");
    };
    let terminal = open(&patchbay);
    assert_eq!(supervisors_of(terminal.id()), Vec::<String>::new(), "one was started without a reason");
    ask(&terminal, r#"{"command":"true"}"#);
    let first = wait_for_one(&terminal);
    answer(&terminal, "1");
    terminal.wait_until_idle();
    let second = wait_for_one(&terminal);
    assert_ne!(first, second, "a process runs one program");
    wait_for_end(&first);
    terminal.signal("KILL");
    wait_for_end(&second);
    drop(terminal);
    // The user types a command and then quits.
    let terminal = open(&patchbay);
    terminal.press("!e");
    let waiting = wait_for_one(&terminal);
    terminal.press("cho done\r");
    terminal.wait_for_containing("exit code 0. Your next message will include this output.");
    wait_for_end(&waiting);
    let waiting = wait_for_one(&terminal);
    terminal.press("/new\r");
    wait_for_end(&waiting);
    terminal.press("!e");
    let waiting = wait_for_one(&terminal);
    terminal.press("\x15");
    terminal.press(CTRL_D);
    terminal.wait_for_exit();
    wait_for_end(&waiting);
}

#[test]
fn program_in_the_background_is_read_and_stopped() {
    let patchbay = Patchbay::quick();
    let terminal = open(&patchbay);
    ask(
        &terminal,
        r#"{"command":"sh","args":["-c","echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo last; sleep 300"],"background":true}"#,
    );
    answer(&terminal, "1");
    terminal.wait_until_idle();
    terminal.press("/ps\r");
    terminal.wait_for_prefix("1  sh -c ");
    terminal.wait_until("all of its output is there", || {
        terminal.press("/ps\r");
        thread::sleep(Duration::from_millis(300));
        terminal.lines().iter().any(|line| line.ends_with("100.0 MB"))
    });
    terminal.press("call terminal__output {\"id\":1,\"offset\":100000006}\r");
    terminal.wait_for_containing("running; bytes 100000006 to 100000011 of 100000011");
    terminal.press("call terminal__output {\"id\":2}\r");
    terminal.wait_for_containing("no background program 2 found");
    terminal.press("/ps stop 1\r");
    terminal.wait_for_containing("Program 1 has ended: killed: it was stopped.");
    wait_for_only_patchbay(&workspace(&patchbay));
}

#[test]
fn typed_command_runs_at_once_and_a_pasted_one_is_a_message() {
    let patchbay = Patchbay::quick();
    let terminal = open(&patchbay);
    terminal.press("!echo one; echo $((6 * 7)) >&2; touch made\r");
    terminal.wait_for_text("42");
    terminal.wait_for_text("exit code 0. Your next message will include this output.");
    assert!(workspace(&patchbay).join("made").exists());
    terminal.press("what was it?\r");
    terminal.wait_for_prefix("Attached: output of !echo one");
    terminal.wait_until_idle();
    // If it is pasted or follows a blank, it is text.
    for keys in [paste("!touch pasted"), " !touch behind".to_owned()] {
        terminal.press(&keys);
        terminal.press(ENTER);
        terminal.wait_until_idle();
    }
    assert!(!workspace(&patchbay).join("pasted").exists() && !workspace(&patchbay).join("behind").exists());
    // Captured lines are text as well.
    terminal.press("/capture\r");
    terminal.wait_for_prefix("(capturing)");
    terminal.press("!touch captured\r");
    terminal.press("/cancel\r");
    terminal.wait_until_idle();
    assert!(!workspace(&patchbay).join("captured").exists());
    terminal.press("!sleep 300\r");
    wait_for_processes(&workspace(&patchbay), 3);
    terminal.press(CTRL_C);
    terminal.wait_for_containing("killed: it was stopped");
    wait_for_only_patchbay(&workspace(&patchbay));
    let ran = patchbay.run(&["exec", "!touch executed"]);
    assert!(ran.out.contains("You said"), "{ran:?}");
    assert!(!workspace(&patchbay).join("executed").exists());
}

/// A file that does not exist yet cannot be mounted read-only. If a program creates one, it is found afterwards.
#[test]
fn changed_rule_is_named_and_ends_the_trust() {
    let patchbay = Patchbay::quick();
    let workspace = workspace(&patchbay);
    assert_eq!(patchbay.run(&["trust", "add", workspace.to_str().unwrap()]).code, Some(0));
    let terminal = open(&patchbay);
    ask(&terminal, r#"{"command":"sh","args":["-c","echo obey > AGENTS.md; mkdir -p .git/hooks"]}"#);
    answer(&terminal, "1");
    terminal.wait_for_containing("agents: .git, .git/hooks, AGENTS.md.");
    terminal.wait_for_text("longer trusted.");
    let listed = patchbay.run(&["trust", "list"]);
    assert!(!listed.out.contains(workspace.to_str().unwrap()), "{listed:?}");
}

/// The same applies if the call is stopped or the session is closed while the program is running.
#[test]
fn change_of_a_stopped_program_is_found() {
    let patchbay = Patchbay::quick();
    let workspace = workspace(&patchbay);
    let trust = || assert_eq!(patchbay.run(&["trust", "add", workspace.to_str().unwrap()]).code, Some(0));
    let is_trusted = || patchbay.run(&["trust", "list"]).out.contains(workspace.to_str().unwrap());
    let begin = |more: &str| {
        trust();
        assert!(is_trusted());
        let terminal = open(&patchbay);
        ask(&terminal, &format!(r#"{{"command":"sh","args":["-c","echo obey > AGENTS.md; sleep 300"]{more}}}"#));
        answer(&terminal, "1");
        for _ in 0..600 {
            if workspace.join("AGENTS.md").exists() {
                return terminal;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("nothing was changed:\n{}", terminal.lines().join("\n"));
    };
    let terminal = begin("");
    terminal.press(ESC);
    terminal.wait_for_containing("longer trusted.");
    assert!(!is_trusted());
    terminal.press(CTRL_D);
    terminal.wait_for_exit();
    fs::remove_file(workspace.join("AGENTS.md")).unwrap();
    let terminal = begin(r#","background":true"#);
    terminal.wait_until_idle();
    terminal.press(CTRL_D);
    terminal.wait_for_exit();
    assert!(!is_trusted());
}

/// A path is resolved only once, and never where programs can create a link. No question is asked about a path that is refused.
#[test]
fn paths_of_a_call_lie_where_programs_change_nothing() {
    let patchbay = Patchbay::quick();
    let workspace = workspace(&patchbay);
    let outside = workspace.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, workspace.join("link")).unwrap();
    let terminal = open(&patchbay);
    let call = |input: &str| terminal.press(&format!("call terminal__run {input}\r"));
    call(r#"{"command":"true","write":["link"]}"#);
    terminal.wait_for_containing("programs can already change it");
    terminal.wait_until_idle();
    call(r#"{"command":"true","read":["/usr/../etc"]}"#);
    terminal.wait_for_containing("write it without '..'");
    terminal.wait_until_idle();
    call(r#"{"command":"true","cwd":"link"}"#);
    terminal.wait_for_containing("'link' is not a folder below the workspace");
    terminal.wait_until_idle();
    let outside = outside.display();
    ask(&terminal, &format!(r#"{{"command":"sh","args":["-c","echo x > {outside}/made"],"write":["{outside}"]}}"#));
    terminal.wait_for_containing("can also change ");
    answer(&terminal, "1");
    terminal.wait_until_idle();
    assert!(Path::new(&format!("{outside}/made")).exists());
}

/// Typical projects of users: their tests pass in the cage, without network access.
#[test]
fn tests_of_sample_projects_pass() {
    let patchbay = Patchbay::quick();
    patchbay.write(
        "workspace/Cargo.toml",
        "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    patchbay.write("workspace/src/lib.rs", "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n");
    patchbay.write("workspace/package.json", r#"{"name": "sample", "scripts": {"test": "node --test"}}"#);
    patchbay.write(
        "workspace/sample.test.js",
        "const { test } = require('node:test');\ntest('adds', () => { if (1 + 1 !== 2) throw 1; });\n",
    );
    let terminal = open(&patchbay);
    for (input, expected) in [
        (r#"{"command":"cargo","args":["test","--offline"],"seconds":300}"#, "test result: ok. 1 passed"),
        (r#"{"command":"npm","args":["test"],"seconds":120}"#, "pass 1"),
    ] {
        ask(&terminal, input);
        answer(&terminal, "1");
        terminal.wait_until_idle();
        terminal.press("/show\r");
        terminal.wait_for_text("exit code 0");
        terminal.wait_for_containing(expected);
    }
}

#[test]
fn programs_run_with_plain_lines() {
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &["--plain"]);
    terminal.wait_for_prefix(">");
    let answer = |key: &str| {
        terminal.wait_for_containing("Type an answer and Enter: 1 once");
        thread::sleep(Duration::from_millis(600));
        terminal.press(&format!("{key}\r"));
    };
    let lasting = r#"{"command":"sh","args":["-c","echo hello; sleep 300"],"background":true}"#;
    terminal.press(&format!("call terminal__run {lasting}\r"));
    terminal.wait_for_containing("Run sh -c 'echo hello; sleep 300' {\"background\":true}?");
    answer("1");
    terminal.wait_for_containing("Allowed once: Run sh -c 'echo hello; sleep 300'");
    wait_for_processes(&workspace(&patchbay), 3);
    terminal.press("/ps\r");
    terminal.wait_for_containing("1  sh -c 'echo hello; sleep 300' · running for");
    terminal.press("/ps 1\r");
    terminal.wait_for_text("hello");
    terminal.press("/ps 2\r");
    terminal.wait_for_containing("Error: program 2 not found. To list programs: /ps");
    terminal.press("/quit\r");
    assert_eq!(terminal.wait_for_exit(), 0);
    assert_none_left(&workspace(&patchbay));
}

//! How the program ends: on signals, together with the programs that it started, and when its terminal is closed or does not read.

use std::{
    fs,
    io::{Write as _, pipe},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    binary::{self, Patchbay},
    mcp::{assert_group_ends, program, wait_for_group},
    server::Server,
    terminal::{ENTER, Terminal},
};
use portable_pty::{Child, CommandBuilder, PtyPair, PtySize, native_pty_system};

/// A message whose tool call hangs if the server runs in the mode `hangs`.
const HANG: &str = "call mcp__test__break {}";

/// Creates a home whose MCP server `test` misbehaves as `mode` says.
fn home_with_server(mode: &str) -> Patchbay {
    let patchbay = Patchbay::new();
    let config = format!("[mcp.test]\ncommand = [\"python3\", {:?}, \"{mode}\"]\n", program());
    patchbay.write("home/config/config.toml", config);
    patchbay
}

/// Creates a home whose provider has a key command that hangs, with a child.
fn home_with_key_command(server: &Server) -> Patchbay {
    let patchbay = Patchbay::new();
    let script = "printf %s $$ > new; mv new children; sleep 600 & sleep 600";
    let config = format!(
        "default_model = \"vertex:local-1\"\n[providers.vertex]\nadapter = \"openai-compatible\"\norigin = \
         \"http://{}/v1\"\nkey_command = [\"/bin/sh\", \"-c\", \"{script}\"]\nkey_command_ms = 600000\n",
        server.host()
    );
    patchbay.write("home/config/config.toml", config);
    patchbay
}

/// Waits until the program in `terminal` has started one that hangs, sends the signals, and asserts that both programs end.
fn assert_signals_end(patchbay: &Patchbay, terminal: Terminal, signals: &[&str], code: u32) {
    let folder = patchbay.home().join("config");
    let group = wait_for_group(&folder);
    signals.iter().for_each(|signal| terminal.signal(signal));
    assert_eq!(terminal.wait_for_exit(), code, "{signals:?}");
    assert_group_ends(&group);
    fs::remove_file(folder.join("children")).unwrap();
}

// A pseudo-terminal starts programs with no signal ignored, however the tests were started.

#[test]
fn signals_end_exec_with_its_servers() {
    let patchbay = home_with_server("hangs");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let terminal = Terminal::open(&patchbay, &["exec", HANG]);
        assert_signals_end(&patchbay, terminal, &[signal], code);
    }
    // The session was closed, so it can be resumed.
    let session = patchbay.last_session();
    assert_eq!(patchbay.run(&["exec", "--session", &session, "/calc 1 + 1"]).out, "2\n");
}

#[test]
fn signals_end_plain_lines_with_their_servers() {
    let patchbay = home_with_server("hangs");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let terminal = Terminal::open(&patchbay, &["--plain"]);
        terminal.wait_for_prompt();
        terminal.press(HANG);
        terminal.press(ENTER);
        assert_signals_end(&patchbay, terminal, &[signal], code);
    }
}

#[test]
fn signal_ends_lines_of_a_pipe_with_their_servers() {
    let patchbay = home_with_server("hangs");
    let mut child = patchbay.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    // The input stays open, and the second line does not run.
    let mut input = child.stdin.take().unwrap();
    write!(input, "{HANG}\n/calc 6 * 7\n").unwrap();
    let group = wait_for_group(&patchbay.home().join("config"));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let ran = binary::ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(143));
    assert!(!ran.out.contains("42") && !ran.err.contains("closed"), "{ran:?}");
    assert_group_ends(&group);
}

/// A pipe receives an answer once it is complete, or once no more of it can arrive.
#[test]
fn signal_prints_what_came_to_a_pipe() {
    let patchbay = Patchbay::new();
    patchbay.run(&["exec", "/calc 1"]);
    let mut child = patchbay.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    // Keeps the input open.
    let mut input = child.stdin.take().unwrap();
    // All words take 100 seconds.
    input.write_all(b"repeat 5000 word\n").unwrap();
    let pieces = || patchbay.query_one::<i64>("SELECT count(*) FROM partial_pieces", []);
    wait_until("a part of the answer is stored", || pieces() > 0);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let ran = binary::ran(child.wait_with_output().unwrap());
    let stored: String = patchbay.query_one("SELECT content FROM messages WHERE kind = 'assistant'", []);
    assert!(stored.starts_with("word"), "{stored}");
    assert_eq!((ran.code, ran.out), (Some(143), format!("{stored}\n")));
    drop(input);
}

#[test]
fn signal_at_the_prompt_ends_plain_lines() {
    let patchbay = Patchbay::new();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let terminal = Terminal::open(&patchbay, &["--plain"]);
        terminal.wait_for_prompt();
        terminal.signal(signal);
        assert_eq!(terminal.wait_for_exit(), code);
    }
}

#[test]
fn signals_end_a_check_of_a_server() {
    let patchbay = home_with_server("stuck");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let terminal = Terminal::open(&patchbay, &["mcp", "check", "test"]);
        assert_signals_end(&patchbay, terminal, &[signal], code);
    }
}

#[test]
fn signals_end_key_commands() {
    let server = Server::new(|_| Vec::new());
    let patchbay = home_with_key_command(&server);
    for arguments in [&["exec", "hello"][..], &["provider", "refresh", "vertex"]] {
        let terminal = Terminal::open(&patchbay, arguments);
        assert_signals_end(&patchbay, terminal, &["INT"], 130);
    }
}

/// Shell scripts and `nohup` start programs like this.
#[cfg(target_os = "linux")]
#[test]
fn ignored_signals_stay_ignored() {
    let patchbay = home_with_server("hangs");
    let script = format!("trap '' HUP INT\nexec patchbay exec '{HANG}'");
    let terminal = Terminal::script(&patchbay, 120, 40, &script);
    assert_signals_end(&patchbay, terminal, &["HUP", "INT", "TERM"], 143);
}

/// A terminal that never reads the program's output.
struct UnreadTerminal {
    pair: PtyPair,
    child: Box<dyn Child + Send + Sync>,
    /// The modes of the terminal before the program changed them.
    modes: String,
}

impl UnreadTerminal {
    /// Starts the front that draws, and waits until it has changed the terminal's modes.
    fn open(patchbay: &Patchbay, is_controlling: bool) -> Self {
        let pair = native_pty_system().openpty(PtySize { rows: 40, cols: 120, ..PtySize::default() }).unwrap();
        let mut command = CommandBuilder::new(binary::path());
        command.cwd(patchbay.workspace());
        command.env("PATCHBAY_HOME", patchbay.home());
        command.env("TERM", "xterm-256color");
        command.set_controlling_tty(is_controlling);
        let modes = modes(&pair);
        let child = pair.slave.spawn_command(command).unwrap();
        let terminal = Self { pair, child, modes };
        wait_until("the front has the terminal", || !terminal.is_restored());
        terminal
    }

    fn is_restored(&self) -> bool {
        modes(&self.pair) == self.modes
    }
}

fn modes(pair: &PtyPair) -> String {
    format!("{:?}", pair.master.get_termios().unwrap())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "this never happened: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a program has exited and returns its exit code. A program that does not exit is killed.
fn exit_code(child: &mut Box<dyn Child + Send + Sync>) -> u32 {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.exit_code();
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("the program does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn signal_ends_a_front_whose_terminal_does_not_read() {
    let patchbay = Patchbay::quick();
    // The end of a controlling terminal's program would restore the modes in any case.
    let mut terminal = UnreadTerminal::open(&patchbay, false);
    let mut keys = terminal.pair.master.take_writer().unwrap();
    // More than a terminal buffers that does not read.
    keys.write_all(b"repeat 30000 word\r").unwrap();
    let database = patchbay.database("patchbay.db");
    let count = "SELECT count(*) FROM messages WHERE kind = 'assistant'";
    wait_until("the answer is stored", || database.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 1);
    let id = terminal.child.process_id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(exit_code(&mut terminal.child), 143);
    assert!(terminal.is_restored(), "the terminal is left in raw mode");
}

#[test]
fn closed_terminal_ends_the_front() {
    for is_controlling in [true, false] {
        let patchbay = Patchbay::new();
        let UnreadTerminal { pair, mut child, .. } = UnreadTerminal::open(&patchbay, is_controlling);
        drop(pair);
        // The error that the terminal is gone cannot be printed.
        assert_eq!(exit_code(&mut child), 1, "controlling: {is_controlling}");
    }
}

#[test]
fn errors_without_a_reader_do_not_panic() {
    let patchbay = home_with_server("dies");
    for arguments in [&["exec", "--workspace", "nowhere", "/skills"][..], &["mcp", "check", "other"]] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let status = patchbay.command(arguments).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}

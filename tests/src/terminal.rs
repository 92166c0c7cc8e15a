//! The binary in a pseudo-terminal, [`Terminal`]: typed keys, the text on the screen and in the scrollback, and the bytes that
//! were written. Like xterm, it does not rewrap lines when it is resized.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Write},
    num::NonZeroU16,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::{
    PATIENCE,
    binary::{self, Patchbay},
};

/// The window size of [`Terminal::open`].
pub const COLUMNS: u16 = 120;
const ROWS: u16 = 40;
/// How many scrollback rows are kept.
const SCROLLBACK: usize = 20_000;
/// How long to wait, after a program has exited, for the rest of its output.
const LAST_BYTES: Duration = Duration::from_secs(10);
/// How long the screen must stay unchanged to count as settled. The seconds in the busy row are ignored.
const STILL: Duration = Duration::from_millis(200);
/// Variables of the developer's environment that change the terminal's output.
const REMOVED: [&str; 5] = ["NO_COLOR", "XTERM_VERSION", "EDITOR", "VISUAL", "PATCHBAY_LOG"];

/// The bytes that Tab sends.
pub const TAB: &str = "\t";
/// The bytes that Enter sends.
pub const ENTER: &str = "\r";
/// The byte sequence that Up sends.
pub const UP: &str = "\x1b[A";
/// The bytes that Down sends.
pub const DOWN: &str = "\x1b[B";
/// The bytes that Right sends.
pub const RIGHT: &str = "\x1b[C";
/// The bytes that Esc sends.
pub const ESC: &str = "\x1b";
/// The bytes that Alt+Enter sends.
pub const ALT_ENTER: &str = "\x1b\r";
/// The keys Shift+Enter, as terminals with the kitty protocol send them.
pub const SHIFT_ENTER: &str = "\x1b[13;2u";
/// The keys Ctrl+Enter, as terminals with the kitty protocol send them.
pub const CTRL_ENTER: &str = "\x1b[13;5u";
/// The bytes that Ctrl+C sends.
pub const CTRL_C: &str = "\x03";
/// The bytes that Ctrl+D sends.
pub const CTRL_D: &str = "\x04";
/// The bytes that Ctrl+G sends.
pub const CTRL_G: &str = "\x07";
/// The bytes that Ctrl+J sends.
pub const CTRL_J: &str = "\n";
/// The bytes that Ctrl+L sends.
pub const CTRL_L: &str = "\x0c";
/// The bytes that Ctrl+R sends.
pub const CTRL_R: &str = "\x12";
/// The bytes that Ctrl+Z sends.
pub const CTRL_Z: &str = "\x1a";

/// Returns the bytes that a terminal sends when the user pastes `text`.
pub fn paste(text: &str) -> String {
    format!("\x1b[200~{text}\x1b[201~")
}

/// A program in a pseudo-terminal.
pub struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    keys: Mutex<Box<dyn Write + Send>>,
    /// Everything that the program wrote.
    written: Arc<Mutex<Vec<u8>>>,
    master: Box<dyn MasterPty + Send>,
    device: Option<PathBuf>,
    child: Box<dyn Child + Send + Sync>,
    /// Reads the program's output.
    reader: thread::JoinHandle<()>,
}

fn nonzero(size: u16) -> NonZeroU16 {
    NonZeroU16::new(size).expect("a size above 0")
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

impl Terminal {
    /// Runs the binary in a window of 120 columns and 40 rows.
    pub fn open(patchbay: &Patchbay, arguments: &[&str]) -> Self {
        Self::sized(patchbay, COLUMNS, ROWS, arguments)
    }

    /// Like [`Terminal::open`], with these environment variables.
    pub fn open_with(patchbay: &Patchbay, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start(patchbay, (COLUMNS, ROWS), "patchbay", arguments, variables)
    }

    /// Runs the binary in a window of this size.
    pub fn sized(patchbay: &Patchbay, columns: u16, rows: u16, arguments: &[&str]) -> Self {
        Self::start(patchbay, (columns, rows), "patchbay", arguments, &[])
    }

    /// Runs a bash script in a window of this size. In the script, `patchbay` is the binary.
    pub fn script(patchbay: &Patchbay, columns: u16, rows: u16, script: &str) -> Self {
        Self::start(patchbay, (columns, rows), "bash", &["--norc", "-c", script], &[])
    }

    fn start(
        patchbay: &Patchbay,
        (columns, rows): (u16, u16),
        program: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.cwd(patchbay.workspace());
        REMOVED.iter().for_each(|variable| command.env_remove(variable));
        command.env("PATH", path_with_the_binary());
        command.env("PATCHBAY_HOME", patchbay.home());
        command.env("TERM", "xterm-256color");
        patchbay.variables().iter().for_each(|(variable, value)| command.env(variable, value));
        variables.iter().for_each(|(variable, value)| command.env(variable, value));
        let child = pair.slave.spawn_command(command).expect("the program starts");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(nonzero(rows), nonzero(columns), SCROLLBACK)));
        let keys = Mutex::new(pair.master.take_writer().expect("a writer"));
        let mut output = pair.master.try_clone_reader().expect("a reader");
        let device = pair.master.tty_name();
        let output_bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (drawn, written) = (Arc::clone(&screen), Arc::clone(&output_bytes));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                // This comes first, because a test that sees something on the screen must also find its bytes.
                locked(&written).extend_from_slice(&bytes[..count]);
                locked(&drawn).process(&bytes[..count]);
            }
        });
        Self { screen, keys, written: output_bytes, master: pair.master, device, child, reader }
    }

    /// Types keys without waiting for their effect.
    pub fn press(&self, keys: &str) {
        locked(&self.keys).write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Changes the size of the window.
    pub fn resize(&self, columns: u16, rows: u16) {
        locked(&self.screen).screen_mut().set_size(nonzero(rows), nonzero(columns));
        self.master.resize(size(columns, rows)).expect("a new size");
    }

    /// Returns the non-empty lines of the screen.
    pub fn lines(&self) -> Vec<String> {
        self.rows().into_iter().filter(|row| !row.is_empty()).collect()
    }

    /// Returns all rows of the screen without trailing blanks.
    pub fn rows(&self) -> Vec<String> {
        let screen = locked(&self.screen);
        let columns = screen.screen().size().1.get();
        screen.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Returns the rows of the scrollback and the screen without trailing blanks.
    pub fn all_rows(&self) -> Vec<String> {
        let mut parser = locked(&self.screen);
        let screen = parser.screen_mut();
        let columns = screen.size().1.get();
        let mut rows = Vec::new();
        for above in (1..=screen.scrollback_len()).rev() {
            screen.set_scrollback(above);
            rows.extend(screen.rows(0, columns).next());
        }
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, columns));
        rows.into_iter().map(|row| row.trim_end().to_owned()).collect()
    }

    /// Returns row and column of the cursor, counted from 0.
    pub fn cursor(&self) -> (u16, u16) {
        locked(&self.screen).screen().cursor_position()
    }

    /// Returns the cell where `text` begins, which must be on the screen.
    pub fn cell(&self, text: &str) -> vt100::Cell {
        let rows = self.rows();
        let (row, column) = (0u16..)
            .zip(&rows)
            .find_map(|(row, line)| Some((row, line[..line.find(text)?].chars().count())))
            .unwrap_or_else(|| panic!("{text:?} is not on the screen:\n{}", rows.join("\n")));
        let screen = locked(&self.screen);
        screen.screen().cell(row, u16::try_from(column).expect("a column")).expect("a cell").clone()
    }

    /// Waits until the screen is unchanged for a moment, and returns its rows. `mask` removes text that keeps changing.
    pub fn wait_for_stillness(&self, mask: impl Fn(&str) -> String) -> Vec<String> {
        let start = Instant::now();
        let look = || (self.rows().iter().map(|row| mask(row)).collect::<Vec<_>>(), self.cursor());
        let (mut last, mut since) = (look(), Instant::now());
        while since.elapsed() < STILL {
            thread::sleep(Duration::from_millis(20));
            let now = look();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            assert!(start.elapsed() < PATIENCE, "the screen does not settle:\n{}", last.0.join("\n"));
        }
        last.0
    }

    /// Waits until a line of the screen equals `expected`.
    pub fn wait_for_text(&self, expected: &str) {
        self.wait_for_line(expected, |line| line == expected);
    }

    /// Waits until a line of the screen begins with `expected`.
    pub fn wait_for_prefix(&self, expected: &str) {
        self.wait_for_line(expected, |line| line.starts_with(expected));
    }

    /// Waits until a line of the screen contains `expected`.
    pub fn wait_for_containing(&self, expected: &str) {
        self.wait_for_line(expected, |line| line.contains(expected));
    }

    fn wait_for_line(&self, expected: &str, is_it: impl Fn(&str) -> bool) {
        self.wait_until(&format!("{expected:?} is on the screen"), || self.lines().iter().any(|line| is_it(line)));
    }

    /// Waits until `is_so` returns true; `what` describes it in the panic message.
    pub fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "this never happened: {what}; screen:\n{}", self.lines().join("\n"));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the composer is empty.
    pub fn wait_for_prompt(&self) {
        self.wait_for_text(">");
    }

    /// Waits until nothing is running and the composer is empty.
    pub fn wait_until_idle(&self) {
        self.wait_until("nothing runs", || {
            let lines = self.lines();
            lines.iter().any(|line| line == ">") && !lines.iter().any(|line| line.starts_with("* "))
        });
    }

    /// Returns everything that the program wrote.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&locked(&self.written)).into_owned()
    }

    /// Returns the process id of the program, which must be running.
    pub fn id(&self) -> u32 {
        self.child.process_id().expect("the program runs")
    }

    /// Sends a signal to the program, such as `TERM`.
    pub fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", signal, &id]).status().expect("kill starts");
        assert!(status.success(), "kill -s {signal} {id}");
    }

    /// Returns whether the terminal is in the mode that a shell expects: it echoes keys, reads lines, and turns Ctrl+C into a
    /// signal.
    pub fn is_cooked(&self) -> bool {
        let device = File::open(self.device.as_ref().expect("a terminal has a device")).expect("the device opens");
        let output = Command::new("stty").arg("-a").stdin(Stdio::from(device)).output().expect("stty starts");
        let modes = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "stty -a: {output:?}");
        let is_on = |mode: &str| modes.split([' ', '\n', ';']).any(|word| word == mode);
        is_on("icanon") && is_on("echo") && is_on("isig") && is_on("opost")
    }

    /// Waits until the program has exited and returns its exit code.
    pub fn wait_for_exit(mut self) -> u32 {
        self.wait_for_end()
    }

    /// Waits until the program has exited and its output is read, and returns its exit code. The screen can still be read
    /// afterwards.
    pub fn wait_for_end(&mut self) -> u32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                self.wait_for_last_bytes();
                return status.exit_code();
            }
            assert!(start.elapsed() < PATIENCE, "the program does not end; screen:\n{}", self.lines().join("\n"));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the reader has reached the end, which may not happen: a child of the program can keep the terminal open.
    fn wait_for_last_bytes(&self) {
        let start = Instant::now();
        while !self.reader.is_finished() && start.elapsed() < LAST_BYTES {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ends a program that a failed test left running.
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
        }
    }
}

/// A test that panics while it has the lock must not hide its message behind panics of other threads.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `PATH` with the binary's folder first.
fn path_with_the_binary() -> OsString {
    let binaries = binary::path().parent().expect("a folder").to_owned();
    let all = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&all))).expect("a PATH")
}

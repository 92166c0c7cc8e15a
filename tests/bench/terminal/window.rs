//! A program in a pseudo-terminal, with the time of everything that it writes.

use std::{
    fs,
    io::{Read as _, Write},
    num::NonZeroU16,
    process::Command,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

use patchbay_tests::{PATIENCE, binary::peak_kib};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

const COLUMNS: u16 = 100;
const ROWS: u16 = 32;
/// Variables of the user's environment that change the output.
const REMOVED: [&str; 3] = ["NO_COLOR", "XTERM_VERSION", "PATCHBAY_LOG"];

/// A program in a window of 100 columns and 32 rows.
pub struct Window {
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    output: Receiver<(Instant, Vec<u8>)>,
    screen: vt100::Parser,
    /// When the last bytes that are on the screen were read.
    read: Instant,
    _master: Box<dyn MasterPty + Send>,
}

impl Window {
    /// Runs `command`, with its arguments, folder and variables.
    pub fn open(command: &Command) -> Self {
        let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            builder.cwd(folder);
        }
        REMOVED.iter().for_each(|variable| builder.env_remove(variable));
        builder.env("TERM", "xterm-256color");
        for (variable, value) in command.get_envs() {
            value.iter().for_each(|value| builder.env(variable, value));
        }
        let child = pair.slave.spawn_command(builder).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
        let [rows, columns] = [ROWS, COLUMNS].map(|size| NonZeroU16::new(size).unwrap());
        Self {
            child,
            keys: pair.master.take_writer().unwrap(),
            output,
            screen: vt100::Parser::new(rows, columns, 0),
            read: Instant::now(),
            _master: pair.master,
        }
    }

    /// Types keys and returns the time.
    pub fn press(&mut self, keys: &str) -> Instant {
        let start = Instant::now();
        self.keys.write_all(keys.as_bytes()).unwrap();
        start
    }

    /// Draws the program's output on the screen, piece by piece, until `is_so` returns true for its rows. Returns the
    /// time when the last piece was read.
    pub fn wait(&mut self, what: &str, is_so: impl Fn(&[String]) -> bool) -> Instant {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&self.rows()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((read, bytes)) = self.output.recv_timeout(left) else {
                panic!("this never happened: {what}; screen:\n{}", self.rows().join("\n"));
            };
            self.screen.process(&bytes);
            self.read = read;
        }
        self.read
    }

    /// Waits until a row of the screen equals `expected`.
    pub fn wait_for_row(&mut self, expected: &str) -> Instant {
        self.wait(&format!("{expected:?} is on the screen"), |rows| rows.iter().any(|row| row == expected))
    }

    /// Waits until `text` is on the screen.
    pub fn wait_for(&mut self, text: &str) -> Instant {
        self.wait(&format!("{text:?} is on the screen"), |rows| rows.iter().any(|row| row.contains(text)))
    }

    /// Returns the rows of the screen without blanks at their ends.
    fn rows(&self) -> Vec<String> {
        self.screen.screen().rows(0, COLUMNS).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Returns the peak memory of the program (VmHWM) in KiB.
    pub fn peak_memory(&self) -> u64 {
        peak_kib(self.pid())
    }

    /// Returns the CPU time of all threads of the program in nanoseconds. Threads that have ended do not count.
    pub fn cpu_time(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let of = |file: fs::DirEntry| {
            // A thread may end meanwhile.
            let times = fs::read_to_string(file.path().join("schedstat")).unwrap_or_default();
            times.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0)
        };
        threads.flatten().map(of).sum()
    }

    fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

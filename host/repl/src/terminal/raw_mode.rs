//! The terminal's modes while the front runs: raw mode, bracketed paste, focus reports, unambiguous keys. They are restored
//! when the front leaves, panics or is suspended.

use std::{
    io::{self, Write as _},
    panic::{self, PanicHookInfo},
    sync::Once,
    thread::{self, ThreadId},
};

use parking_lot::Mutex;

use super::marks;

/// Turns on bracketed paste, focus reports and the kitty protocol's unambiguous keys, which tell Shift+Enter from Enter.
/// Source of the latter: <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>, 2026-11-23.
const ENTER: &str = "\x1b[?2004h\x1b[?1004h\x1b[>1u";
/// Ends an incomplete frame, turns off everything that `ENTER` turned on, and makes the cursor visible (`?25h`).
const LEAVE: &str = "\x1b[?2026l\x1b[<1u\x1b[?2004l\x1b[?1004l\x1b[0m\x1b[?25h";

/// The thread that has turned raw mode on; `None` while it is off.
static OWNER: Mutex<Option<ThreadId>> = Mutex::new(None);

/// Raw mode; dropping it restores the terminal.
#[derive(Debug)]
pub(crate) struct RawMode(());

impl RawMode {
    /// Turns raw mode on. A panic of this thread restores the terminal before its message is printed. A panic of another
    /// thread ends a task but not the front: it is logged and leaves the terminal as it is.
    ///
    /// # Errors
    /// The terminal refuses the mode.
    pub(crate) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = panic::take_hook();
            panic::set_hook(Box::new(move |info| panicked(info, &next)));
        });
        crossterm::terminal::enable_raw_mode()?;
        *OWNER.lock() = Some(thread::current().id());
        let mode = Self(());
        write(&format!("{ENTER}{}", marks::TITLE_SAVE))?;
        Ok(mode)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn panicked(info: &PanicHookInfo<'_>, next: &dyn Fn(&PanicHookInfo<'_>)) {
    let owner = *OWNER.lock();
    if owner.is_some_and(|owner| owner != thread::current().id()) {
        tracing::error!("{info}");
        return;
    }
    restore();
    next(info);
}

fn restore() {
    // After a panic, the terminal is restored before the front is dropped.
    if OWNER.lock().take().is_none() {
        return;
    }
    // Nothing more can be done if the terminal is gone.
    let _ = write(&format!("{LEAVE}{}{}", marks::TITLE_RESTORE, marks::progress_off()));
    let _ = crossterm::terminal::disable_raw_mode();
}

/// Restores the modes of the terminal if the front has changed them, in a process that is about to end. Writes nothing, because a
/// terminal that does not read blocks writes.
pub fn restore_modes() {
    if OWNER.lock().take().is_some() {
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

/// Writes to standard output in one write.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::{env, io::Read as _, sync::mpsc, time::Duration};

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    use super::*;

    /// Which thread panics in the test's child process; not set in the test itself.
    const PANICKING: &str = "PATCHBAY_TEST_PANICKING";
    const NAME: &str = "terminal::raw_mode::tests::panic_restores_the_terminal";

    /// Runs this test in a pseudo-terminal. Returns whether it succeeded, its output, and whether the
    /// terminal's modes were restored.
    fn run_in_terminal(panicking: &str) -> (bool, String, bool) {
        let pair = native_pty_system().openpty(PtySize::default()).unwrap();
        let modes = || format!("{:?}", pair.master.get_termios().unwrap());
        let before = modes();
        let mut command = CommandBuilder::new(env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]);
        command.env(PANICKING, panicking);
        command.env_remove("RUST_BACKTRACE");
        let mut child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, written) = mpsc::channel();
        thread::spawn(move || {
            let (mut bytes, mut all) = ([0; 1024], Vec::new());
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                all.extend_from_slice(&bytes[..count]);
            }
            sender.send(String::from_utf8_lossy(&all).into_owned()).unwrap();
        });
        let succeeded = child.wait().unwrap().success();
        let restored = modes() == before;
        drop(pair);
        (succeeded, written.recv_timeout(Duration::from_secs(60)).unwrap(), restored)
    }

    #[test]
    fn panic_restores_the_terminal() {
        match env::var(PANICKING).ok().as_deref() {
            None => {
                let (succeeded, written, restored) = run_in_terminal("this thread");
                assert!(!succeeded && restored, "{written:?}");
                // Once, and before the message.
                assert_eq!(written.matches(LEAVE).count(), 1, "{written:?}");
                assert!(written.find(ENTER).unwrap() < written.find(LEAVE).unwrap(), "{written:?}");
                assert!(written.find(LEAVE).unwrap() < written.find("a test's panic").unwrap(), "{written:?}");
                let (succeeded, written, restored) = run_in_terminal("another thread");
                assert!(succeeded && restored && !written.contains("a test's panic"), "{written:?}");
            }
            Some("this thread") => {
                let _mode = RawMode::enter().unwrap();
                panic!("a test's panic");
            }
            Some(_) => {
                let _mode = RawMode::enter().unwrap();
                thread::spawn(|| panic!("a test's panic")).join().unwrap_err();
                assert!(crossterm::terminal::is_raw_mode_enabled().unwrap(), "raw mode is off");
            }
        }
    }
}

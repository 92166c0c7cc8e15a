//! The terminal's modes while the front runs: raw mode, bracketed paste, focus reports. They are restored when the front
//! leaves, panics or is suspended.

use std::{
    io::{self, Write as _},
    sync::Once,
};

use super::marks;

/// Bracketed paste and focus reports on. `?25h`: the cursor is visible.
const ENTER: &str = "\x1b[?2004h\x1b[?1004h";
/// Ends a frame that was not complete, and turns everything off that `ENTER` turned on.
const LEAVE: &str = "\x1b[?2026l\x1b[?2004l\x1b[?1004l\x1b[0m\x1b[?25h";

/// Raw mode; dropping it restores the terminal.
#[derive(Debug)]
pub(crate) struct RawMode(());

impl RawMode {
    /// Turns raw mode on. A panic restores the terminal before its message is printed.
    ///
    /// # Errors
    /// The terminal refuses the mode.
    pub(crate) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                next(panic);
            }));
        });
        crossterm::terminal::enable_raw_mode()?;
        let mode = Self(());
        write(ENTER)?;
        Ok(mode)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Nothing more can be done if the terminal is gone.
    let _ = write(&format!("{LEAVE}{}", marks::progress_off()));
    let _ = crossterm::terminal::disable_raw_mode();
}

/// Writes to standard output in one write.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

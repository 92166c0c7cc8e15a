//! The progress line `Compiling 3 new components…` for fronts that start sessions. It is only written if standard error is a
//! terminal, because the output of scripts must not depend on the speed of the machine.

use std::{
    env,
    io::{self, IsTerminal as _, Write},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use patchbay_core::SessionId;
use patchbay_session::Observer;
use tokio::{runtime::Handle, sync::watch};

/// Delay before the line appears. Shorter waits stay invisible.
const PATIENCE: Duration = Duration::from_millis(300);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// One line that is updated, then erased.
    InPlace,
    /// One line per wait, for terminals without cursor movement and for screen readers.
    Line,
    /// Progress is not shown.
    Silent,
}

impl Style {
    /// Returns the style that suits standard error.
    pub(crate) fn of_standard_error() -> Self {
        match env::var_os("TERM") {
            _ if !io::stderr().is_terminal() => Self::Silent,
            Some(term) if !term.is_empty() && term != "dumb" => Self::InPlace,
            _ => Self::Line,
        }
    }

    /// Returns the style for a front that prints plain lines and does not draw.
    pub(crate) fn beside_plain_lines(self) -> Self {
        if self == Self::InPlace { Self::Line } else { self }
    }
}

/// Shows the progress of compilation once it takes longer than [`PATIENCE`].
#[derive(Clone)]
pub(crate) struct ProgressLine {
    runtime: Handle,
    line: Arc<Mutex<CountLine<io::Stderr>>>,
    /// The text of the line, for a front that draws it itself.
    text: watch::Sender<Option<String>>,
}

impl ProgressLine {
    /// Returns an observer that writes to standard error.
    pub(crate) fn new(style: Style, runtime: &Handle) -> Self {
        Self {
            runtime: runtime.clone(),
            line: Arc::new(Mutex::new(CountLine::new(io::stderr(), style))),
            text: watch::Sender::new(None),
        }
    }

    /// Stops writing to standard error, and returns the changing text of the line for the caller to draw.
    pub(crate) fn hand_over(&self) -> watch::Receiver<Option<String>> {
        let mut line = self.line.lock();
        line.end();
        line.style = Style::Silent;
        self.text.subscribe()
    }
}

impl Observer for ProgressLine {
    fn compiling(&self, _: SessionId, done: usize, total: usize) {
        self.text.send_replace(Some(text(done, total)));
        if let Some(wait) = self.line.lock().count(done, total) {
            let line = Arc::clone(&self.line);
            self.runtime.spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                line.lock().show(wait);
            });
        }
    }

    fn compiled(&self, _: SessionId) {
        self.text.send_replace(None);
        self.line.lock().end();
    }
}

/// Returns the text of the line: `Compiling 3 new components… 1/3`.
fn text(done: usize, total: usize) -> String {
    let what = if total == 1 { "component" } else { "components" };
    format!("Compiling {total} new {what}… {done}/{total}")
}

/// The state of the line, visible or not.
struct CountLine<W> {
    out: W,
    style: Style,
    /// The number of compiled components, and the total; `None` while nothing is being compiled.
    count: Option<(usize, usize)>,
    /// The number of the current wait. A timer of an earlier wait has no effect.
    wait: u64,
    shown: bool,
}

impl<W: Write> CountLine<W> {
    fn new(out: W, style: Style) -> Self {
        Self { out, style, count: None, wait: 0, shown: false }
    }

    /// Updates the count. If a wait starts, returns its number, which [`CountLine::show`] expects after [`PATIENCE`].
    fn count(&mut self, done: usize, total: usize) -> Option<u64> {
        let begins = self.count.replace((done, total)).is_none();
        if self.shown && self.style == Style::InPlace {
            self.draw();
        }
        if begins {
            self.wait += 1;
        }
        begins.then_some(self.wait)
    }

    /// Shows the line if `wait` is still the current wait.
    fn show(&mut self, wait: u64) {
        if self.count.is_some() && self.wait == wait {
            self.shown = true;
            self.draw();
        }
    }

    /// Ends the wait and erases the line.
    fn end(&mut self) {
        self.count = None;
        if std::mem::take(&mut self.shown) && self.style == Style::InPlace {
            self.write("\r\x1b[K");
        }
    }

    fn draw(&mut self) {
        let Some((done, total)) = self.count else { return };
        let what = if total == 1 { "component" } else { "components" };
        match self.style {
            Style::InPlace => self.write(&format!("\r{}\x1b[K", text(done, total))),
            Style::Line => self.write(&format!("Compiling {total} new {what}…\n")),
            Style::Silent => {}
        }
    }

    /// Write errors are ignored: they surface where results are printed.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(style: Style) -> CountLine<Vec<u8>> {
        CountLine::new(Vec::new(), style)
    }

    fn take(line: &mut CountLine<Vec<u8>>) -> String {
        String::from_utf8(std::mem::take(&mut line.out)).unwrap()
    }

    #[test]
    fn line_appears_after_a_delay_is_updated_and_erased() {
        let mut line = line(Style::InPlace);
        let wait = line.count(0, 12).unwrap();
        assert_eq!(line.count(1, 12), None, "one wait");
        assert_eq!(take(&mut line), "");
        line.show(wait);
        assert_eq!(take(&mut line), "\rCompiling 12 new components… 1/12\x1b[K");
        line.count(2, 12);
        assert_eq!(take(&mut line), "\rCompiling 12 new components… 2/12\x1b[K");
        line.end();
        assert_eq!(take(&mut line), "\r\x1b[K");
        let wait = line.count(0, 1).unwrap();
        assert_eq!(take(&mut line), "", "the next wait begins unseen");
        line.show(wait);
        assert_eq!(take(&mut line), "\rCompiling 1 new component… 0/1\x1b[K");
    }

    #[test]
    fn short_waits_show_nothing() {
        let mut line = line(Style::InPlace);
        let first = line.count(0, 2).unwrap();
        line.end();
        line.show(first);
        assert_ne!(line.count(0, 2), Some(first));
        // The timer of the first wait fires during the second.
        line.show(first);
        line.end();
        assert_eq!(take(&mut line), "");
    }

    #[test]
    fn plain_terminals_get_one_line_and_pipes_none() {
        for (style, expected) in [(Style::Line, "Compiling 3 new components…\n"), (Style::Silent, "")] {
            let mut line = line(style);
            let wait = line.count(0, 3).unwrap();
            line.show(wait);
            line.count(1, 3);
            line.count(2, 3);
            line.end();
            assert_eq!(take(&mut line), expected, "{style:?}");
        }
    }
}

//! The window and its last frame: when the next frame is due, and what to write with it.

use std::{
    future::pending,
    io,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{
    live::{LiveArea, LiveView},
    marks::{self, TitleMark},
    raw_mode,
};

/// Shortest time between two frames, after a key or the end of a line.
const FRAME: Duration = Duration::from_millis(33);
/// Shortest time between two frames that only show more of an answer. They are less frequent, because each frame costs bytes.
const STREAM_FRAME: Duration = Duration::from_millis(50);
/// How often the seconds of the busy row are updated, and withdrawn questions are noticed.
const TICK: Duration = Duration::from_millis(250);

pub(super) struct FrontWindow {
    area: LiveArea,
    progress: marks::ProgressSign,
    title: marks::WindowTitle,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Whether the window has the focus; true if the terminal does not report it.
    pub(super) is_focused: bool,
    /// A sequence that copies to the clipboard, written with the next frame.
    clipboard: Option<String>,
    drawn: Option<Instant>,
    changed: bool,
    /// Whether the user waits for the next frame: a key was pressed, or a line has ended.
    is_urgent: bool,
}

impl FrontWindow {
    /// Returns a window of the terminal's size in which nothing is drawn yet.
    pub(super) fn new(workspace: &str) -> io::Result<Self> {
        let (columns, rows) = crossterm::terminal::size()?;
        Ok(Self {
            area: LiveArea::new(marks::rewraps()),
            progress: marks::ProgressSign::new(),
            title: marks::WindowTitle::new(workspace),
            columns: columns.into(),
            rows: rows.into(),
            is_focused: true,
            clipboard: None,
            drawn: None,
            changed: true,
            is_urgent: true,
        })
    }

    /// Notes that the contents of the window have changed.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }

    /// Notes that the contents of the window have changed, and that the user waits for the next frame.
    pub(super) fn change_now(&mut self) {
        (self.changed, self.is_urgent) = (true, true);
    }

    pub(super) fn resize(&mut self, columns: u16, rows: u16) {
        (self.columns, self.rows) = (columns.into(), rows.into());
        // The window may be back to its old width, after another width that was never drawn.
        self.area.invalidate();
    }

    /// Makes the next frame draw all rows.
    pub(super) fn redraw(&mut self) {
        self.area.invalidate();
        self.changed = true;
    }

    /// Rings the bell with the next frame.
    pub(super) fn ring(&mut self) {
        self.area.mark(marks::BELL);
    }

    /// Rings and shows a desktop notification after long work, if the window does not have the focus.
    pub(super) fn ring_if_long(&mut self, took: Option<Duration>) {
        if took.is_some_and(|took| took >= marks::LONG) {
            self.call("the turn is over");
        }
    }

    /// Rings and shows `what` as a desktop notification, if the window does not have the focus.
    pub(super) fn call(&mut self, what: &str) {
        if !self.is_focused {
            self.ring();
            self.area.mark(&marks::notification(what));
        }
    }

    /// Writes `sequence` before the next frame.
    pub(super) fn copy(&mut self, sequence: String) {
        self.clipboard = Some(sequence);
    }

    fn frame_time(&self) -> Duration {
        if self.is_urgent { FRAME } else { STREAM_FRAME }
    }

    /// Waits until something has to be drawn: a change, or after a while if `ticks`.
    pub(super) fn next_frame(&self, ticks: bool) -> BoxFuture<'static, ()> {
        let wait = match (self.changed, self.drawn) {
            (true, Some(drawn)) => self.frame_time().saturating_sub(drawn.elapsed()),
            (true, None) => Duration::ZERO,
            (false, _) if ticks => TICK,
            (false, _) => return pending().boxed(),
        };
        tokio::time::sleep(wait).boxed()
    }

    /// Whether the last frame is old enough for another one.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.drawn.is_none_or(|drawn| now.saturating_duration_since(drawn) >= self.frame_time())
    }

    /// Prints finished lines, followed by the `mark`, and draws `view` below.
    pub(super) fn draw(
        &mut self,
        finished: &[String],
        mark: &str,
        view: LiveView,
        title: TitleMark,
        now: Instant,
    ) -> io::Result<()> {
        self.area.mark(mark);
        let frame = self.area.frame(self.columns, finished, view);
        (self.changed, self.is_urgent) = (false, false);
        if let Some(sequence) = self.clipboard.take() {
            raw_mode::write(&sequence)?;
        }
        if let Some(sequence) = self.progress.update(title == TitleMark::Busy, now) {
            raw_mode::write(sequence)?;
        }
        if let Some(sequence) = self.title.update(title) {
            raw_mode::write(&sequence)?;
        }
        if !frame.is_empty() {
            raw_mode::write(&frame)?;
            self.drawn = Some(now);
        }
        Ok(())
    }

    /// Prints finished lines, followed by the `mark`, and removes the live area.
    pub(super) fn clear(&mut self, finished: &[String], mark: &str) -> io::Result<()> {
        self.area.mark(mark);
        raw_mode::write(&self.area.leave(self.columns, finished))
    }

    /// Prepares to draw after another program has used the terminal. The cursor must be at the start of an empty line.
    pub(super) fn come_back(&mut self) {
        if let Ok((columns, rows)) = crossterm::terminal::size() {
            (self.columns, self.rows) = (columns.into(), rows.into());
        }
        self.area.forget();
        self.progress = marks::ProgressSign::new();
        self.title.forget();
        self.changed = true;
    }
}

//! Keeps the last lines that a guest wrote to its log, standard output or standard error. The user sees them with a
//! trap, because the engine's message rarely explains it.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use patchbay_core::{Digest, text};

use crate::{LogLevel, LogSink};

/// A log sink that keeps the last lines. It forwards each line to another sink.
pub(crate) struct LastLines {
    sink: Arc<dyn LogSink>,
    lines: Mutex<VecDeque<String>>,
}

impl LastLines {
    /// Number of lines that are kept.
    const LINES: usize = 5;
    /// Total number of bytes that are kept.
    pub(crate) const BYTES: usize = 1 << 10;

    /// Returns a sink that forwards to `sink`.
    pub(crate) fn new(sink: Arc<dyn LogSink>) -> Arc<Self> {
        Arc::new(Self { sink, lines: Mutex::default() })
    }

    /// Keeps a line and forwards it. The line must be clean.
    pub(crate) fn write(&self, level: LogLevel, line: &str) {
        self.keep(line);
        self.forward(level, line);
    }

    /// Forwards a line without keeping it.
    pub(crate) fn forward(&self, level: LogLevel, line: &str) {
        self.sink.write(level, line);
    }

    /// Keeps a line without forwarding it.
    pub(crate) fn keep(&self, line: &str) {
        if line.is_empty() {
            return;
        }
        let line = if line.len() > Self::BYTES {
            // A character has at most four bytes.
            text::excerpt(line, Self::BYTES / 4 - 1)
        } else {
            line.to_owned()
        };
        let mut lines = self.lines();
        lines.push_back(line);
        while lines.len() > Self::LINES || lines.iter().map(String::len).sum::<usize>() > Self::BYTES {
            lines.pop_front();
        }
    }

    /// Returns the lines, the oldest first, and forgets them.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines()).into()
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.lines.lock()
    }
}

/// Writes the output of a component that is being described to the operator's log. The limit is lower than for a call, because a
/// folder can contain many components that are never called.
pub(crate) struct DescribeLog {
    component: Digest,
    lines_left: Mutex<usize>,
}

impl DescribeLog {
    const LINES: usize = 20;
    const LINE_CHARS: usize = 200;

    pub(crate) fn new(component: Digest) -> Self {
        Self { component, lines_left: Mutex::new(Self::LINES) }
    }
}

impl LogSink for DescribeLog {
    fn write(&self, level: LogLevel, message: &str) {
        let mut left = self.lines_left.lock();
        if *left == 0 {
            return;
        }
        *left -= 1;
        let (component, message) = (&self.component, text::excerpt(message, Self::LINE_CHARS));
        match level {
            LogLevel::Debug => tracing::debug!(target: "plugin", %component, "{message}"),
            LogLevel::Info => tracing::info!(target: "plugin", %component, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "plugin", %component, "{message}"),
            LogLevel::Error => tracing::error!(target: "plugin", %component, "{message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ignored;

    impl LogSink for Ignored {
        fn write(&self, _: LogLevel, _: &str) {}
    }

    fn kept(lines: &[&str]) -> Vec<String> {
        let last = LastLines::new(Arc::new(Ignored));
        lines.iter().for_each(|line| last.write(LogLevel::Info, line));
        last.take()
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        assert_eq!(kept(&["a", "", "b"]), ["a", "b"]);
        assert_eq!(kept(&["1", "2", "3", "4", "5", "6", "7"]), ["3", "4", "5", "6", "7"]);
    }

    #[test]
    fn kept_bytes_are_bounded() {
        let long = "\u{1f980}".repeat(1000);
        let lines = kept(&["first", &long, &long]);
        assert!(lines.iter().map(String::len).sum::<usize>() <= LastLines::BYTES, "{lines:?}");
        assert!(lines.last().unwrap().ends_with('…'));
        let half = "x".repeat(600);
        assert_eq!(kept(&[&half, &half]), [half]);
    }
}

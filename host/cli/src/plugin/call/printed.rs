//! Collects the lines that a plugin prints or logs during the call.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use patchbay_sandbox::BUNDLE;
use tracing::{Event, Level, Subscriber, field::Field};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

/// Limits of the kept lines: their number, and their total size in bytes.
const LINES: usize = 10_000;
const BYTES: usize = 4 << 20;

/// A line that the plugin logged or printed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(in crate::plugin) struct PrintedLine {
    /// `debug`, `info`, `warn` or `error`.
    pub(in crate::plugin) level: &'static str,
    pub(in crate::plugin) text: String,
}

/// The lines collected so far.
#[derive(Clone, Default)]
pub(in crate::plugin) struct PrintedLines(Arc<Mutex<CollectedLines>>);

#[derive(Default)]
struct CollectedLines {
    lines: Vec<PrintedLine>,
    bytes: usize,
}

impl PrintedLines {
    /// Collects the lines of plugins. This replaces the host's log, which is not written.
    pub(in crate::plugin) fn collect() -> Self {
        let lines = Self::default();
        // This fails if there is already a subscriber; then no lines are collected.
        let _ = tracing_subscriber::registry().with(lines.clone()).try_init();
        lines
    }

    /// Removes and returns the collected lines.
    pub(in crate::plugin) fn take(&self) -> Vec<PrintedLine> {
        std::mem::take(&mut *self.0.lock()).lines
    }
}

/// Maps positions in a bundle to its sources, and removes lines that only the runtime understands.
pub(super) fn translate(lines: &mut Vec<PrintedLine>, mut translated: impl FnMut(Vec<String>) -> Vec<String>) {
    let is_place = |line: &PrintedLine| line.text.contains(BUNDLE) || line.text.trim_start().starts_with("at ");
    lines.retain_mut(|line| {
        if !is_place(line) {
            return true;
        }
        match translated(vec![std::mem::take(&mut line.text)]).pop() {
            Some(text) => line.text = text,
            None => return false,
        }
        true
    });
}

impl<S: Subscriber> Layer<S> for PrintedLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "plugin" {
            return;
        }
        let mut text = String::new();
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
            if field.name() == "message" {
                text = format!("{value:?}");
            }
        });
        let mut collected = self.0.lock();
        if collected.lines.len() < LINES && collected.bytes + text.len() <= BYTES {
            collected.bytes += text.len();
            collected.lines.push(PrintedLine { level: level(*event.metadata().level()), text });
        }
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

//! Hints behind the cursor. `editor` installs them.

use std::sync::Arc;

use patchbay_session::Session;
use reedline::{DefaultHinter, Hinter, History};

/// Shows in grey the usage of the typed command, else the matching line of the history.
pub(crate) struct UsageHinter {
    session: Arc<Session>,
    history: DefaultHinter,
    shows_usage: bool,
}

impl UsageHinter {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self { session, history: DefaultHinter::default(), shows_usage: false }
    }

    fn usage(&self, line: &str) -> Option<String> {
        let (name, argument) = line.strip_prefix('/')?.split_once(' ')?;
        if !argument.trim().is_empty() {
            return None;
        }
        self.session.commands().into_iter().find(|command| command.name == name)?.hint
    }
}

impl Hinter for UsageHinter {
    fn handle(&mut self, line: &str, position: usize, history: &dyn History, ansi: bool, cwd: &str) -> String {
        let from_history = self.history.handle(line, position, history, ansi, cwd);
        let usage = self.usage(line);
        self.shows_usage = usage.is_some();
        match usage {
            Some(usage) if ansi => format!("\u{1b}[90m{usage}\u{1b}[0m"),
            Some(usage) => usage,
            None => from_history,
        }
    }

    /// Returns nothing for a usage: it is shown for reading and cannot be inserted.
    fn complete_hint(&self) -> String {
        if self.shows_usage { String::new() } else { self.history.complete_hint() }
    }

    fn next_hint_token(&self) -> String {
        if self.shows_usage { String::new() } else { self.history.next_hint_token() }
    }
}

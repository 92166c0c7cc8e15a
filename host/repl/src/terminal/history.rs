//! The lines that were entered before, from the history file of the home. The composer goes through them, and the search
//! with Ctrl+R lists them.

use std::path::Path;

use patchbay_core::text;
use reedline::{FileBackedHistory, History as _, HistoryItem, SearchDirection, SearchQuery};

/// Lines that the history file keeps.
const KEPT: usize = 10_000;

/// The entered lines, the newest last.
pub(crate) struct InputHistory {
    file: FileBackedHistory,
    entries: Vec<String>,
    /// The entry that is shown, and the text that was typed before.
    browsing: Option<(usize, String)>,
}

impl InputHistory {
    /// Reads the history from `file`, which need not exist. Entries are cleaned, since they are drawn.
    ///
    /// # Errors
    /// The file cannot be read or created.
    pub(crate) fn open(file: &Path) -> std::io::Result<Self> {
        let failed = |error: reedline::ReedlineError| std::io::Error::other(error.to_string());
        let file = FileBackedHistory::with_file(KEPT, file.to_owned()).map_err(failed)?;
        let items = file.search(SearchQuery::everything(SearchDirection::Forward, None)).map_err(failed)?;
        Ok(Self {
            file,
            entries: items.into_iter().map(|item| text::clean(&item.command_line)).collect(),
            browsing: None,
        })
    }

    /// Adds an entered line, unless it repeats the last one. The file is written at once, so that a killed process keeps it.
    pub(crate) fn add(&mut self, line: &str) {
        self.browsing = None;
        if line.trim().is_empty() || self.entries.last().is_some_and(|last| last == line) {
            return;
        }
        self.entries.push(line.to_owned());
        // A history that cannot be written must not stop the conversation.
        if let Err(error) = self.file.save(HistoryItem::from_command_line(line)) {
            tracing::warn!("the history of typed lines is not saved: {error}");
        }
        if let Err(error) = self.file.sync() {
            tracing::warn!("the history of typed lines is not saved: {error}");
        }
    }

    /// Returns the entry before the one that is shown. `typed` is the text that is shown now.
    pub(crate) fn previous(&mut self, typed: &str) -> Option<String> {
        let (at, draft) = match self.browsing.take() {
            Some((at, draft)) => (at, draft),
            None => (self.entries.len(), typed.to_owned()),
        };
        let Some(before) = at.checked_sub(1) else {
            self.browsing = (at < self.entries.len()).then_some((at, draft));
            return None;
        };
        self.browsing = Some((before, draft));
        self.entries.get(before).cloned()
    }

    /// Returns the entry after the one that is shown, or the text that was typed before.
    pub(crate) fn next(&mut self) -> Option<String> {
        let (at, draft) = self.browsing.take()?;
        match self.entries.get(at + 1) {
            Some(entry) => {
                self.browsing = Some((at + 1, draft));
                Some(entry.clone())
            }
            None => Some(draft),
        }
    }

    /// Whether an entry is shown that was not edited.
    pub(crate) fn is_browsing(&self) -> bool {
        self.browsing.is_some()
    }

    /// Ends browsing: the user has edited the shown entry.
    pub(crate) fn leave(&mut self) {
        self.browsing = None;
    }

    /// Returns the entries that contain `term`, ignoring case, the newest first, each once, at most `limit`.
    pub(crate) fn matching(&self, term: &str, limit: usize) -> Vec<&str> {
        let term = term.to_lowercase();
        let mut found: Vec<&str> = Vec::new();
        for entry in self.entries.iter().rev() {
            if found.len() == limit {
                break;
            }
            if entry.to_lowercase().contains(&term) && !found.contains(&entry.as_str()) {
                found.push(entry);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: &[&str]) -> (tempfile::TempDir, InputHistory) {
        let folder = tempfile::tempdir().unwrap();
        let mut history = InputHistory::open(&folder.path().join("history")).unwrap();
        lines.iter().for_each(|line| history.add(line));
        (folder, history)
    }

    #[test]
    fn going_back_and_forth_returns_to_the_draft() {
        let (_folder, mut history) = history(&["one", "two"]);
        assert_eq!(history.previous("draft").as_deref(), Some("two"));
        assert_eq!(history.previous("two").as_deref(), Some("one"));
        assert_eq!(history.previous("one"), None);
        assert_eq!(history.next().as_deref(), Some("two"));
        assert_eq!(history.next().as_deref(), Some("draft"));
        assert_eq!(history.next(), None);
    }

    #[test]
    fn lines_of_several_rows_survive_in_the_file() {
        let (folder, history) = history(&["first\nsecond", "third"]);
        drop(history);
        let mut again = InputHistory::open(&folder.path().join("history")).unwrap();
        assert_eq!(again.previous("").as_deref(), Some("third"));
        assert_eq!(again.previous("").as_deref(), Some("first\nsecond"));
    }

    #[test]
    fn search_lists_each_line_once_and_the_newest_first() {
        let (_folder, history) = history(&["/calc 1", "other", "/CALC 2", "other", "/calc 1"]);
        assert_eq!(history.matching("calc", 6), ["/calc 1", "/CALC 2"]);
        assert_eq!(history.matching("", 2), ["/calc 1", "other"]);
    }
}

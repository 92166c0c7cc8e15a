//! The lines entered before, from the history file of the home. The composer steps through them, and the search with
//! Ctrl+R lists them, the lines of this workspace first. The workspace's lines are also in a separate file.
//! Unfortunately the history file's format cannot store the workspace, and older builds read that file.

use std::{collections::BTreeSet, path::Path};

use patchbay_core::{Digest, text};
use reedline::{FileBackedHistory, History as _, HistoryItem, SearchDirection, SearchQuery};

/// Lines that the history file keeps.
const KEPT: usize = 10_000;

/// Lines that the file of a workspace keeps.
const KEPT_HERE: usize = 1_000;
/// Hexadecimal digits of a workspace's digest in the name of its file.
const WORKSPACE_DIGITS: usize = 16;

/// The entered lines, the newest last.
pub(crate) struct InputHistory {
    file: FileBackedHistory,
    entries: Vec<String>,
    /// The file of this workspace; `None` if it cannot be used.
    file_here: Option<FileBackedHistory>,
    /// The lines that were entered in this workspace.
    here: BTreeSet<String>,
    /// The entry that is shown, and the text that was typed before.
    browsing: Option<(usize, String)>,
}

impl InputHistory {
    /// Reads the history from `file`, which may be missing, and the lines entered in `workspace` from a file beside it.
    /// Entries are cleaned because they are drawn.
    ///
    /// # Errors
    /// The file cannot be read or created.
    pub(crate) fn open(file: &Path, workspace: &str) -> std::io::Result<Self> {
        let digest = Digest::of(workspace.as_bytes()).to_string();
        let digits = digest.rsplit(':').next().and_then(|digits| digits.get(..WORKSPACE_DIGITS)).unwrap_or_default();
        let beside = file.with_file_name("history.d").join(digits);
        let (file, entries) = read(file, KEPT)?;
        let (file_here, here) = match read(&beside, KEPT_HERE) {
            Ok((file, entries)) => (Some(file), entries),
            Err(error) => {
                tracing::warn!("cannot read the history of this workspace: {error}");
                (None, Vec::new())
            }
        };
        Ok(Self { file, entries, file_here, here: here.into_iter().collect(), browsing: None })
    }

    /// Adds an entered line, unless it repeats the last one. The file is written immediately; otherwise
    /// a killed process would lose the line.
    pub(crate) fn add(&mut self, line: &str) {
        self.browsing = None;
        if line.trim().is_empty() || self.entries.last().is_some_and(|last| last == line) {
            return;
        }
        self.entries.push(line.to_owned());
        self.here.insert(line.to_owned());
        for file in [Some(&mut self.file), self.file_here.as_mut()].into_iter().flatten() {
            // A history that cannot be written must not stop the conversation.
            let saved = file.save(HistoryItem::from_command_line(line)).map_err(|error| error.to_string());
            if let Err(error) = saved.and_then(|_| file.sync().map_err(|error| error.to_string())) {
                tracing::warn!("cannot save the history of typed lines: {error}");
            }
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

    /// Whether an entry is shown and has not been edited.
    pub(crate) fn is_browsing(&self) -> bool {
        self.browsing.is_some()
    }

    /// Ends browsing, because the user has edited the shown entry.
    pub(crate) fn leave(&mut self) {
        self.browsing = None;
    }

    /// Returns at most `limit` distinct entries that contain `term`, ignoring case. The entries of this workspace come
    /// first; within each group, the newest first.
    pub(crate) fn matching(&self, term: &str, limit: usize) -> Vec<&str> {
        let term = term.to_lowercase();
        let mut found: Vec<&str> = Vec::new();
        for is_here in [true, false] {
            for entry in self.entries.iter().rev().filter(|entry| self.here.contains(*entry) == is_here) {
                if found.len() == limit {
                    return found;
                }
                if entry.to_lowercase().contains(&term) && !found.contains(&entry.as_str()) {
                    found.push(entry);
                }
            }
        }
        found
    }
}

/// Opens a history file and reads its entries, the newest last.
fn read(file: &Path, kept: usize) -> std::io::Result<(FileBackedHistory, Vec<String>)> {
    let failed = |error: reedline::ReedlineError| std::io::Error::other(error.to_string());
    let file = FileBackedHistory::with_file(kept, file.to_owned()).map_err(failed)?;
    let items = file.search(SearchQuery::everything(SearchDirection::Forward, None)).map_err(failed)?;
    let entries = items.into_iter().map(|item| text::clean(&item.command_line)).collect();
    Ok((file, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: &[&str]) -> (tempfile::TempDir, InputHistory) {
        let folder = tempfile::tempdir().unwrap();
        let mut history = InputHistory::open(&folder.path().join("history"), "/w").unwrap();
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
        let mut again = InputHistory::open(&folder.path().join("history"), "/w").unwrap();
        assert_eq!(again.previous("").as_deref(), Some("third"));
        assert_eq!(again.previous("").as_deref(), Some("first\nsecond"));
    }

    #[test]
    fn search_lists_each_line_once_and_the_newest_first() {
        let (_folder, history) = history(&["/calc 1", "other", "/CALC 2", "other", "/calc 1"]);
        assert_eq!(history.matching("calc", 6), ["/calc 1", "/CALC 2"]);
        assert_eq!(history.matching("", 2), ["/calc 1", "other"]);
    }

    #[test]
    fn search_lists_lines_of_this_workspace_first() {
        let (folder, mut history) = history(&["/calc 1", "here", "/calc 2"]);
        let file = folder.path().join("history");
        let mut elsewhere = InputHistory::open(&file, "/elsewhere").unwrap();
        elsewhere.add("there");
        elsewhere.add("/calc 1");
        assert_eq!(elsewhere.matching("", 9), ["/calc 1", "there", "/calc 2", "here"]);
        let again = InputHistory::open(&file, "/w").unwrap();
        assert_eq!(again.matching("", 9), ["/calc 1", "/calc 2", "here", "there"]);
        assert_eq!(again.matching("", 2), ["/calc 1", "/calc 2"]);
        // Up goes through all lines.
        assert_eq!(history.previous("").as_deref(), Some("/calc 2"));
    }
}

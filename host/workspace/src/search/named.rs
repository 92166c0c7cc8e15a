//! Searches by name.

use std::time::Instant;

use crate::{
    FileEntry, Workspace,
    error::FileError,
    limits,
    search::{NameQuery, NameResults, SearchBounds, SearchStop},
    selection::Selection,
    walk::{self, EntryKind, WalkEntry, WalkStart, WalkVisitor},
    work::WorkBudget,
};

/// Bytes that are counted for an entry in addition to its path.
const ENTRY_OVERHEAD: usize = 24;

pub(super) fn run(
    workspace: &Workspace,
    query: &NameQuery,
    selection: &Selection,
    bounds: &SearchBounds,
) -> Result<NameResults, FileError> {
    let mut named = NamedEntries {
        workspace,
        query,
        max_entries: usize::try_from(query.max_entries).unwrap_or_default(),
        max_bytes: bounds.bytes.min(limits::SEARCH_RESULT_BYTES),
        bytes: 0,
        found: Vec::new(),
        stop: None,
    };
    let start = WalkStart { after: query.after.as_deref().unwrap_or_default(), is_included: false };
    let mut work = WorkBudget::until(bounds.until).halted_by(bounds.halt.clone());
    let walked = walk::visit(workspace, selection, start, &mut work, &mut named);
    let NamedEntries { found: entries, stop, .. } = named;
    let is_late = Instant::now() >= bounds.until;
    let stopped = match walked {
        Ok(()) => stop,
        Err(_) if !entries.is_empty() => Some(if is_late { SearchStop::Time } else { SearchStop::Files }),
        Err(FileError::TooManyEntries) if is_late => return Err(FileError::OutOfTime),
        Err(error) => return Err(error),
    };
    let next = stopped.and(entries.last()).map(|last| last.path.clone());
    Ok(NameResults { entries, stopped, next })
}

/// The entries that were found so far.
struct NamedEntries<'a> {
    workspace: &'a Workspace,
    query: &'a NameQuery,
    max_entries: usize,
    max_bytes: usize,
    bytes: usize,
    found: Vec<FileEntry>,
    /// Why no more entries are added.
    stop: Option<SearchStop>,
}

impl WalkVisitor for NamedEntries<'_> {
    fn is_full(&self) -> bool {
        self.stop.is_some()
    }

    fn visit(&mut self, entry: WalkEntry<'_>, work: &mut WorkBudget) -> Result<(), FileError> {
        if entry.kind == EntryKind::Directory && !self.query.directories {
            return Ok(());
        }
        let Some(entry) = walk::measured(self.workspace, entry, work)? else { return Ok(()) };
        let bytes = self.bytes + entry.path.len() + ENTRY_OVERHEAD;
        if self.found.len() == self.max_entries {
            self.stop = Some(SearchStop::Entries);
        } else if bytes > self.max_bytes && !self.found.is_empty() {
            self.stop = Some(SearchStop::Bytes);
        } else {
            self.bytes = bytes;
            self.found.push(entry);
        }
        Ok(())
    }
}

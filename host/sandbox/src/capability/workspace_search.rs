//! `patchbay:host/workspace-search`: searches the workspace by text and by file name.

use std::time::{Duration, Instant};

use patchbay_policy::Capability;
use patchbay_workspace::{FileEntry, FileMatches, MatchedLine, SearchHalt, SearchPosition, SkippedFiles};

use super::HostResult;
use crate::{
    GuestEffect, NameQuery, SearchBounds, TextQuery,
    bindings::unlisted::patchbay::host::workspace_search::{self as wit, Host},
    state::GuestState,
};

/// Maximum duration of one search, however long the call may run.
const MAX_TIME: Duration = Duration::from_secs(60);

impl GuestState {
    /// Returns the bounds of a search. It runs for `time_ms`, but at most for [`MAX_TIME`] and four fifths of the
    /// call's remaining time: the guest needs the rest to process the matches.
    fn search_bounds(&self, time_ms: Option<u32>) -> SearchBounds {
        let left = self.budget.clock.time_left() * 4 / 5;
        let wanted = time_ms.map_or(MAX_TIME, |time_ms| Duration::from_millis(time_ms.into()));
        let until = Instant::now() + left.min(wanted).min(MAX_TIME);
        // The records around the text of a result count against the limit as well, and can be larger than the text.
        SearchBounds { until, bytes: self.budget.host_call_bytes / 4, halt: SearchHalt::default() }
    }
}

impl Host for GuestState {
    async fn search(&mut self, query: wit::TextQuery) -> HostResult<wit::TextResults> {
        let effect = GuestEffect::Search { pattern: &query.pattern, globs: &query.globs };
        let access = or_return!(self.files(&Capability::WorkspaceRead, effect).await?);
        let bounds = self.search_bounds(query.time_ms);
        let query = TextQuery {
            pattern: query.pattern,
            is_fixed: query.fixed,
            ignores_case: query.ignore_case,
            globs: query.globs,
            after: query.after.map(|wit::Position { path, line }| SearchPosition { path, line }),
            context: query.context,
            max_lines: query.max_lines,
            max_line_bytes: query.max_line_bytes,
        };
        let found = access.services.workspace.search(query, bounds).await;
        let found = found.map(|results| wit::TextResults {
            files: results.files.into_iter().map(file).collect(),
            searched: results.searched,
            bytes: results.bytes,
            skipped: results.skipped.into_iter().map(skipped).collect(),
            stopped: results.stopped.map(|stop| stop.as_str().to_owned()),
            next: results.next.map(|SearchPosition { path, line }| wit::Position { path, line }),
            extra: Vec::new(),
        });
        Ok(found.map_err(|error| access.file_error(error)))
    }

    async fn find(&mut self, query: wit::NameQuery) -> HostResult<wit::NameResults> {
        let effect = GuestEffect::Find { globs: &query.globs };
        let access = or_return!(self.files(&Capability::WorkspaceRead, effect).await?);
        let bounds = self.search_bounds(query.time_ms);
        let query = NameQuery {
            globs: query.globs,
            ignores_case: query.ignore_case,
            directories: query.directories,
            after: query.after,
            max_entries: query.max_entries,
        };
        let found = access.services.workspace.find(query, bounds).await;
        let entry = |FileEntry { path, is_directory, size }| wit::Entry { path, is_directory, size };
        let found = found.map(|results| wit::NameResults {
            entries: results.entries.into_iter().map(entry).collect(),
            stopped: results.stopped.map(|stop| stop.as_str().to_owned()),
            next: results.next,
            extra: Vec::new(),
        });
        Ok(found.map_err(|error| access.file_error(error)))
    }
}

fn file(FileMatches { path, lines }: FileMatches) -> wit::File {
    wit::File { path, lines: lines.into_iter().map(line).collect() }
}

fn line(MatchedLine { number, text, start, size, matched }: MatchedLine) -> wit::Line {
    // The text of a line is cut to a few kilobytes, so the offsets always fit.
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let matched = matched.map(|range| wit::Span { start: offset(range.start), end: offset(range.end) });
    wit::Line { number, text, start, size, matched }
}

fn skipped(SkippedFiles { reason, count, paths }: SkippedFiles) -> wit::Skipped {
    wit::Skipped { reason: reason.to_owned(), count, paths }
}

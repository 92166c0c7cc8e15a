//! Runs the threads of a text search: one thread walks, several match, and the calling thread collects the results in order.

use std::{
    io,
    num::NonZero,
    panic::resume_unwind,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread::{self, Builder},
    time::Instant,
};

use cap_std::fs::Dir;
use grep_regex::RegexMatcher;
use parking_lot::Mutex;

use crate::{
    Workspace,
    error::FileError,
    limits,
    search::{
        EditorTexts, SearchBounds, SearchStop, TextQuery, TextResults,
        file::{FileSearcher, SearchFile, SearchedFile},
        merged::MergedResults,
    },
    selection::Selection,
    walk::{self, EntryKind, WalkEntry, WalkStart, WalkVisitor},
    work::WorkBudget,
};

/// Maximum number of files of one batch. With this number, the threads rarely wait for each other.
const BATCH: usize = 32;
/// Maximum number of batches that wait or run. Also limits the directories that are open for them, and the results that wait for
/// an earlier result.
const WINDOW: usize = 32;

/// Files of one directory that follow each other in the order of paths.
struct FileBatch {
    dir: Arc<Dir>,
    files: Vec<SearchFile>,
    done: SyncSender<BatchResults>,
}

/// The paths and results of the files of a batch, in order.
type BatchResults = Vec<(String, SearchedFile)>;

pub(super) fn run(
    workspace: &Workspace,
    query: &TextQuery,
    matcher: &RegexMatcher,
    selection: &Selection,
    texts: &EditorTexts,
    bounds: &SearchBounds,
) -> Result<TextResults, FileError> {
    let halt = &bounds.halt;
    let (batches, queue) = mpsc::channel();
    let (ordered, results) = mpsc::sync_channel(WINDOW);
    let queue = &Mutex::new(queue);
    thread::scope(|scope| {
        let named = || Builder::new().name("workspace-search".to_owned());
        let mut started = 0;
        for _ in 0..threads() {
            let searcher = FileSearcher::new(workspace, query, texts, halt, matcher);
            // The system may refuse further threads; one is enough.
            if named().spawn_scoped(scope, move || match_batches(queue, searcher, query)).is_ok() {
                started += 1;
            }
        }
        if started == 0 {
            return Err(FileError::io(".")(io::ErrorKind::OutOfMemory.into()));
        }
        let feeder = BatchFeeder { workspace, files: None, batches, ordered, is_closed: false };
        let walker = named()
            .spawn_scoped(scope, move || feed(workspace, query, selection, bounds, feeder))
            .map_err(FileError::io("."))?;
        let mut merged = MergedResults::new(query, bounds);
        let stop = collect(&results, &mut merged, bounds.until);
        // The walk ends when it cannot pass on its next batch. The other threads end when the walk has ended.
        halt.halt();
        drop(results);
        let walked = walker.join().unwrap_or_else(|panic| resume_unwind(panic));
        merged.finish(stop, walked)
    })
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(limits::SEARCH_THREADS)
}

/// Adds the results of the batches in order, until a limit or the time ends the search, or all were added.
fn collect(
    results: &Receiver<Receiver<BatchResults>>,
    merged: &mut MergedResults<'_>,
    until: Instant,
) -> Option<SearchStop> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Some(SearchStop::Time);
        }
        let batch = match results.recv_timeout(left) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => return Some(SearchStop::Time),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        // There is no result if the time ended, or if the thread panicked, which makes the scope panic.
        let Ok(files) = batch.recv_timeout(until.saturating_duration_since(Instant::now())) else {
            return Some(SearchStop::Time);
        };
        for (path, file) in files {
            if let Some(stop) = merged.add(path, file) {
                return Some(stop);
            }
        }
    }
}

/// Searches batches until the walk has ended and no batch is left.
fn match_batches(queue: &Mutex<Receiver<FileBatch>>, mut searcher: FileSearcher<'_>, query: &TextQuery) {
    loop {
        // This thread holds the lock while it waits for a batch. The other threads wait for the lock.
        let next = queue.lock().recv();
        let Ok(FileBatch { dir, files, done }) = next else { return };
        let mut results = Vec::with_capacity(files.len());
        let (mut matches, mut bytes) = (0, 0);
        for file in files {
            let searched = searcher.search(&dir, &file);
            if let SearchedFile::Searched { lines, .. } = &searched {
                matches += lines.iter().filter(|line| line.matched.is_some()).count();
                bytes += lines.iter().map(|line| line.cost()).sum::<usize>();
            }
            results.push((file.path, searched));
            // The result reaches its limit in this batch.
            if matches as u64 > u64::from(query.max_lines) || bytes > 2 * limits::SEARCH_RESULT_BYTES {
                break;
            }
        }
        // Fails if the search has ended.
        let _ = done.send(results);
    }
}

/// Walks over the files and passes them on in batches.
fn feed(
    workspace: &Workspace,
    query: &TextQuery,
    selection: &Selection,
    bounds: &SearchBounds,
    mut feeder: BatchFeeder<'_>,
) -> Result<(), FileError> {
    let after = query.after.as_ref();
    let start = WalkStart {
        after: after.map_or("", |after| after.path.as_str()),
        // The later lines of this file are still to be searched.
        is_included: after.is_some_and(|after| after.line.is_some()),
    };
    let mut work = WorkBudget::default().halted_by(bounds.halt.clone());
    let walked = walk::visit(workspace, selection, start, &mut work, &mut feeder);
    // Even after an error, because the files before it are part of the result.
    feeder.flush();
    walked
}

/// Collects files that follow each other into batches.
struct BatchFeeder<'a> {
    workspace: &'a Workspace,
    /// The batch that is being filled.
    files: Option<(Arc<Dir>, Vec<SearchFile>)>,
    batches: Sender<FileBatch>,
    ordered: SyncSender<Receiver<BatchResults>>,
    /// True after the search has ended.
    is_closed: bool,
}

impl BatchFeeder<'_> {
    /// Passes on the filled batch. Waits while there are [`WINDOW`] batches.
    fn flush(&mut self) {
        let Some((dir, files)) = self.files.take() else { return };
        let (done, results) = mpsc::sync_channel(1);
        self.is_closed |=
            self.ordered.send(results).is_err() || self.batches.send(FileBatch { dir, files, done }).is_err();
    }
}

impl WalkVisitor for BatchFeeder<'_> {
    fn is_full(&self) -> bool {
        self.is_closed
    }

    fn visit(&mut self, entry: WalkEntry<'_>, work: &mut WorkBudget) -> Result<(), FileError> {
        let is_link = match entry.kind {
            EntryKind::Directory => return Ok(()),
            EntryKind::File => false,
            EntryKind::Link => true,
        };
        let (dir, name) = (Arc::clone(entry.dir), entry.name.to_owned());
        // A link is followed here, where its work is counted, and again when its file is opened.
        let path = if is_link {
            match walk::measured(self.workspace, entry, work)? {
                Some(file) => file.path,
                None => return Ok(()),
            }
        } else {
            entry.path
        };
        let is_of_batch = self.files.as_ref().is_some_and(|(of, files)| Arc::ptr_eq(of, &dir) && files.len() < BATCH);
        if !is_of_batch {
            self.flush();
        }
        let (_, files) = self.files.get_or_insert_with(|| (dir, Vec::with_capacity(BATCH)));
        files.push(SearchFile { path, name, is_link });
        Ok(())
    }
}

//! The log of the host: `patchbay.log` in the state folder, filtered by `PATCHBAY_LOG`. `main` starts it.
//!
//! The log is bounded: a full file is renamed to `patchbay.log.1`, the previous one to `patchbay.log.2`, and the oldest is
//! deleted. Several processes write to the same files:
//!
//! - A line is one write to a file in append mode, which keeps lines of different processes apart.
//! - Before each line, a process checks that the file that it has open is still the file at the path. If not, it opens the new
//!   file. This is how it follows the rotations of other processes.
//! - One process at a time rotates: it locks `patchbay.log.lock`, and checks that no other process has just rotated the file. A
//!   process that does not get the lock writes into the full file and tries again with its next line.
//! - If a process has not noticed a rotation yet, its line is written to `patchbay.log.1`. It is not lost.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use tracing::{Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    filter::filter_fn,
    fmt::{self, MakeWriter},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::CliError;

/// The default filter, used without `PATCHBAY_LOG`.
const FILTER: &str = "info";

/// A crate that is never logged, whatever `PATCHBAY_LOG` says: at every level it logs whole messages of MCP clients and servers,
/// with the arguments and results of calls.
const UNLOGGED: &str = "rmcp";

/// A file is rotated once it has this many bytes. Each process may exceed it by one line.
const FILE_BYTES: u64 = 8 << 20;

/// The name of the log in the state folder.
pub(crate) const NAME: &str = "patchbay.log";

pub(crate) fn start(state: &Path) -> Result<(), CliError> {
    let path = state.join(NAME);
    let log = RotatingLog::open(path.clone(), FILE_BYTES).map_err(CliError::io(&path))?;
    let filter = EnvFilter::try_from_env("PATCHBAY_LOG").unwrap_or_else(|_| EnvFilter::new(FILTER));
    subscriber(filter, Mutex::new(log)).init();
    Ok(())
}

/// Returns a subscriber that writes to `log` everything that `filter` allows, except messages of [`UNLOGGED`].
fn subscriber(
    filter: EnvFilter,
    log: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync + 'static {
    let lines = fmt::layer().with_ansi(false).with_writer(log);
    tracing_subscriber::registry().with(filter).with(filter_fn(is_logged)).with(lines)
}

fn is_logged(metadata: &Metadata<'_>) -> bool {
    let rest = metadata.target().strip_prefix(UNLOGGED);
    rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with("::"))
}

/// A log file in append mode that is rotated when it is full.
struct RotatingLog {
    path: PathBuf,
    file: File,
    limit: u64,
}

impl RotatingLog {
    fn open(path: PathBuf, limit: u64) -> io::Result<Self> {
        Ok(Self { file: open(&path)?, path, limit })
    }

    /// Opens the file at the path if another process rotated the log, and rotates it if it is full.
    fn refresh(&mut self) -> io::Result<()> {
        if !is_at(&self.file, &self.path) {
            self.file = open(&self.path)?;
        }
        if self.file.metadata()?.len() < self.limit {
            return Ok(());
        }
        let lock = File::options().create(true).truncate(false).write(true).open(self.name("lock"))?;
        // If another process has the lock, that process is rotating the file.
        if lock.try_lock().is_ok() {
            // Another process may have rotated it just before.
            if is_at(&self.file, &self.path) {
                rename_if_there(&self.name("1"), &self.name("2"))?;
                fs::rename(&self.path, self.name("1"))?;
            }
            self.file = open(&self.path)?;
        }
        Ok(())
    }

    /// Returns the path with `ending` appended.
    fn name(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// Each call writes one whole line; `tracing` formats it in memory first.
impl Write for RotatingLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // If the log cannot be rotated, lines are more important than its size.
        let _ = self.refresh();
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Returns whether `file` is the file at `path`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Returns whether a file exists at `path`. On other systems an open file cannot be renamed, so this is still the same file.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn content(folder: &Path, name: &str) -> String {
        fs::read_to_string(folder.join(name)).unwrap_or_default()
    }

    #[test]
    fn messages_of_mcp_are_never_logged() {
        for filter in ["trace", "trace,rmcp=trace", "off,rmcp::service=trace"] {
            let lines = tempfile::NamedTempFile::new().unwrap();
            let log = Mutex::new(lines.reopen().unwrap());
            tracing::subscriber::with_default(subscriber(EnvFilter::new(filter), log), || {
                tracing::trace!(target: "rmcp::service", "an argument");
                tracing::error!(target: "rmcp", "an argument");
                let _span = tracing::error_span!(target: "rmcp::transport", "an argument").entered();
                tracing::error!(target: "rmcpx", "another crate");
                tracing::trace!("our own");
            });
            let text = fs::read_to_string(lines.path()).unwrap();
            assert!(!text.contains("an argument"), "{filter}: {text}");
            let is_all = filter.starts_with("trace");
            assert_eq!(text.contains("our own") && text.contains("another crate"), is_all, "{filter}: {text}");
        }
    }

    #[test]
    fn full_log_is_rotated_and_three_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = RotatingLog::open(folder.path().join(NAME), 10).unwrap();
        for line in ["one 45678\n", "two 45678\n", "three 678\n", "four 5678\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        let files = ["patchbay.log", "patchbay.log.1", "patchbay.log.2"].map(|name| content(folder.path(), name));
        assert_eq!(files, ["four 5678\n", "three 678\n", "two 45678\n"]);
        assert_eq!(content(folder.path(), "patchbay.log.3"), "");
    }

    #[test]
    fn writers_follow_the_rotations_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let mut first = RotatingLog::open(path.clone(), 10).unwrap();
        let mut second = RotatingLog::open(path, 10).unwrap();
        first.write_all(b"0123456789\n").unwrap();
        second.write_all(b"second\n").unwrap();
        first.write_all(b"f\n").unwrap();
        assert_eq!(content(folder.path(), NAME), "second\nf\n");
        assert_eq!(content(folder.path(), "patchbay.log.1"), "0123456789\n");
        fs::remove_file(folder.path().join(NAME)).unwrap();
        first.write_all(b"again\n").unwrap();
        assert_eq!(content(folder.path(), NAME), "again\n");
    }

    /// The limit is so large that the lines fit into the three files.
    #[test]
    fn concurrent_writers_lose_and_mix_no_line() {
        const WRITERS: usize = 8;
        const LINES: usize = 200;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let bytes = (WRITERS * LINES * "w0 line 000\n".len()) as u64;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mut log = RotatingLog::open(path.clone(), bytes / 2).unwrap();
                scope.spawn(move || {
                    for line in 0..LINES {
                        log.write_all(format!("w{writer} line {line:03}\n").as_bytes()).unwrap();
                    }
                });
            }
        });
        let all = ["patchbay.log.2", "patchbay.log.1", NAME].map(|name| content(folder.path(), name)).concat();
        let lines: BTreeSet<&str> = all.lines().collect();
        assert_eq!((all.lines().count(), lines.len()), (WRITERS * LINES, WRITERS * LINES));
        assert!(lines.iter().all(|line| line.len() == "w0 line 000".len()));
    }
}

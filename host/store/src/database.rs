//! One SQLite file: a writer thread and read connections. [`Store`](crate::Store) and [`KvStore`](crate::KvStore) each
//! own one.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, Params, Row, Transaction, TransactionBehavior};
use rusqlite_migration::{M, Migrations, SchemaVersion};
use tokio::sync::oneshot;

use crate::{
    StoreError,
    generation::Generation,
    journal::{self, NewRow},
    queue::{Batch, Queue, Work},
    recordings::{self, LateRecording},
    upgrade_copy,
};

/// Number of idle read connections that are kept open. Further concurrent reads open their own.
const READERS: usize = 4;

pub(crate) struct Database {
    path: PathBuf,
    queue: Arc<Queue>,
    readers: Mutex<Vec<Connection>>,
    writer: Option<thread::JoinHandle<()>>,
}

impl Database {
    /// Opens the file `path`, or creates it. `generation` changes with each job of [`Database::decide`].
    pub(crate) fn open(
        path: &Path,
        migrations: &[&'static str],
        generation: Option<Arc<Generation>>,
    ) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        }
        let unusable = |source| StoreError::Unusable { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(unusable)?;
        connection.busy_timeout(BUSY).map_err(unusable)?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unusable)?;
        if usize::try_from(version) != Ok(migrations.len()) {
            set_up(&connection, path)?;
            migrate(&mut connection, path, migrations)?;
        }
        let queue = Arc::new(Queue::new());
        let writer = Writer { connection, path: path.to_owned(), queue: Arc::clone(&queue), generation };
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run())
            .map_err(StoreError::io(path))?;
        Ok(Self { path: path.to_owned(), queue, readers: Mutex::default(), writer: Some(writer) })
    }

    /// Runs `job` on the writer thread. When this returns `Ok`, the job is committed.
    pub(crate) async fn write<T, E>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + From<rusqlite::Error> + Send + 'static,
    {
        self.submit(job, false).await
    }

    /// Like [`Database::write`], for a job that changes what calls are allowed to do: grants, trust and blocks.
    pub(crate) async fn decide<T, E>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + From<rusqlite::Error> + Send + 'static,
    {
        self.submit(job, true).await
    }

    async fn submit<T, E>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        decision: bool,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + From<rusqlite::Error> + Send + 'static,
    {
        let (answer, wait) = oneshot::channel();
        let work: Work = Box::new(move |batch| {
            // A savepoint for each job: a failed job does not roll back the others.
            let result = savepoint(batch, job);
            Box::new(move |committed| {
                let result = if committed { result } else { result.and(Err(StoreError::WriterGone.into())) };
                // The caller may have dropped its future; the write is kept.
                let _ = answer.send(result);
            })
        });
        self.queue.permit().await;
        self.queue.push(work, decision);
        wait.await.map_err(|_| StoreError::WriterGone)?
    }

    /// Queues `job`. Waits for a permit, but not for the commit. `what` names the job in the log if it fails.
    pub(crate) async fn write_later(
        &self,
        what: &'static str,
        job: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) {
        self.queue.permit().await;
        self.queue.push(logged(what, job), false);
    }

    /// Like [`Database::write_later`], without waiting for a permit, for callers that cannot await.
    pub(crate) fn write_now(
        &self,
        what: &'static str,
        job: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) {
        self.queue.push_now(logged(what, job));
    }

    /// Queues a job that writes a journal row and returns its recording, like [`Database::write_now`].
    pub(crate) fn replace_row_now(
        &self,
        job: impl FnOnce(&Connection) -> rusqlite::Result<Option<LateRecording>> + Send + 'static,
    ) {
        let queue = Arc::clone(&self.queue);
        self.write_now("a row of the journal", move |connection| {
            queue.add_late(job(connection)?.into_iter().collect());
            Ok(())
        });
    }

    /// Adds a journal row. Waits for a permit, but not for the commit. If the future is dropped while it waits, the row
    /// is added without a permit.
    pub(crate) async fn add_row(&self, row: NewRow) {
        let mut unqueued = UnqueuedRow { queue: &self.queue, row: Some(row) };
        self.queue.permit().await;
        if let Some(row) = unqueued.row.take() {
            self.queue.add_row(row);
        }
    }

    /// Like [`Database::add_row`], without waiting for a permit, for callers that cannot await.
    pub(crate) fn add_row_now(&self, row: NewRow) {
        self.queue.add_row_now(row);
    }

    /// Waits until all earlier writes are committed.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        self.write(|_| Ok::<_, StoreError>(())).await?;
        // Recordings come after the rows of the first commit.
        if self.queue.want_late() {
            self.write(|_| Ok::<_, StoreError>(())).await?;
        }
        Ok(())
    }

    /// Reads committed data. Runs on the calling thread: point queries on a mapped file take microseconds.
    pub(crate) fn read<T, E: From<StoreError>>(&self, query: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let idle = self.readers.lock().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => self.open_reader()?,
        };
        let result = query(&reader);
        self.keep_reader(reader);
        result
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn open_reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags(&self.path, flags)?;
        reader.busy_timeout(BUSY)?;
        reader.pragma_update(None, "trusted_schema", false)?;
        Ok(reader)
    }

    fn keep_reader(&self, reader: Connection) {
        let mut readers = self.readers.lock();
        if readers.len() < READERS {
            readers.push(reader);
        }
    }
}

/// Wraps a job whose result nothing waits for. An error is logged, with `what` as the name of the job.
fn logged(what: &'static str, job: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static) -> Work {
    Box::new(move |batch| {
        let result = savepoint(batch, job);
        Box::new(move |committed| match result {
            Err(error) => tracing::error!("{what} is lost: {error}"),
            Ok(()) if !committed => tracing::error!("{what} is lost: its commit failed"),
            Ok(()) => {}
        })
    })
}

/// A row that waits for a permit. If its future is dropped, it is added without one.
struct UnqueuedRow<'a> {
    queue: &'a Queue,
    row: Option<NewRow>,
}

impl Drop for UnqueuedRow<'_> {
    fn drop(&mut self) {
        if let Some(row) = self.row.take() {
            self.queue.add_row_now(row);
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The writer commits the queued writes and closes the database before the store is dropped.
        self.queue.close();
        // A job must not own the store. If one does, this may run on the writer thread, which cannot join itself. It still commits
        // the other writes.
        if let Some(writer) = self.writer.take().filter(|writer| writer.thread().id() != thread::current().id()) {
            let _ = writer.join();
        }
    }
}

fn savepoint<T, E: From<rusqlite::Error>>(
    batch: &Transaction<'_>,
    job: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    let execute = |sql| batch.prepare_cached(sql)?.execute([]).map(drop);
    execute("SAVEPOINT job")?;
    let result = job(batch);
    if result.is_err() {
        execute("ROLLBACK TO job")?;
    }
    execute("RELEASE job")?;
    result
}

struct Writer {
    connection: Connection,
    path: PathBuf,
    queue: Arc<Queue>,
    generation: Option<Arc<Generation>>,
}

impl Writer {
    fn run(mut self) {
        // Not in `open`, because it reads the whole schema, which takes longer than all other steps. If it fails, the first
        // batch tries again and reports the error.
        let mut is_set_up = set_up(&self.connection, &self.path).is_ok();
        while let Some(batch) = self.queue.next_batch() {
            let Batch { rows, jobs, late } = batch;
            let generation = self.generation.as_deref().filter(|_| jobs.iter().any(|job| job.decision));
            let mut reports = Vec::with_capacity(jobs.len());
            let mut recorded = Vec::new();
            let committed = (|| -> Result<(), StoreError> {
                if !is_set_up {
                    set_up(&self.connection, &self.path)?;
                    is_set_up = true;
                }
                let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                recordings::insert(&transaction, late);
                recorded = journal::insert(&transaction, rows);
                reports.extend(jobs.into_iter().map(|job| (job.work)(&transaction)));
                if let Some(generation) = generation {
                    generation.begin()?;
                }
                Ok(transaction.commit()?)
            })();
            if let Some(generation) = generation {
                generation.end();
            }
            match &committed {
                Ok(()) => self.queue.add_late(recorded),
                Err(error) => tracing::error!("a commit failed: {error}"),
            }
            for report in reports {
                report(committed.is_ok());
            }
        }
    }
}

/// How long a statement waits for a write by another process.
const BUSY: std::time::Duration = std::time::Duration::from_secs(10);

/// Sets the options of the writing connection, and switches the file to WAL if necessary.
fn set_up(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let unusable = |source| StoreError::Unusable { path: path.to_owned(), source };
    // A commit survives a crash of the process. A power failure can lose the last commits.
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(unusable)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(unusable)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(unusable)?;
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(unusable)?;
    if mode != "wal" {
        // The `busy_timeout` does not cover this statement, so it needs the lock.
        let _lock = lock_for_set_up(path)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(unusable)?;
    }
    Ok(())
}

/// Locks the database at `path` to set it up or migrate it, which one process does at a time. Waits while another process
/// holds the lock. The OS releases it with the file handle, even if the process dies.
fn lock_for_set_up(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(StoreError::io(&path))?;
    lock.lock().map_err(StoreError::io(&path))?;
    Ok(lock)
}

/// Applies the missing migrations. Reads the version under the lock, because another process may have migrated the
/// database in the meantime.
fn migrate(connection: &mut Connection, path: &Path, migrations: &[&'static str]) -> Result<(), StoreError> {
    let _lock = lock_for_set_up(path)?;
    let steps = Migrations::new(migrations.iter().map(|sql| M::up(sql)).collect());
    match steps.current_version(connection)? {
        SchemaVersion::Outside(version) => {
            return Err(StoreError::Newer { path: path.to_owned(), found: version.get(), known: migrations.len() });
        }
        SchemaVersion::Inside(version) if version.get() < migrations.len() => {
            let copy = upgrade_copy::make(connection, path, version.get())?;
            let (database, copy, to) = (path.display(), copy.display(), migrations.len());
            tracing::info!("upgrading {database} from schema {version} to {to}; backup: {copy}");
        }
        _ => {}
    }
    // The transaction must be able to write from its first statement. If it began with a read, it could not wait for a
    // concurrent write by a process of an earlier build.
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    steps.to_latest(connection)?;
    Ok(())
}

/// Checks that `migrations` apply in order to an empty database.
#[cfg(test)]
pub(crate) fn validate(migrations: &[&'static str]) -> rusqlite_migration::Result<()> {
    Migrations::new(migrations.iter().map(|sql| M::up(sql)).collect()).validate()
}

/// Returns all rows of a query, converted by `read`.
pub(crate) fn rows<T, C: FromIterator<T>, E: From<rusqlite::Error>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, E>,
) -> Result<C, E> {
    connection.prepare_cached(sql)?.query_and_then(params, read)?.collect()
}

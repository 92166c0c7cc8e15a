//! One SQLite file: a thread that writes, a connection that reads.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rusqlite_migration::{M, Migrations, SchemaVersion};
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;

/// Writes that may wait; who comes later waits for room.
const QUEUE: usize = 256;
/// Writes that one commit takes along.
const BATCH: usize = 64;

pub(crate) struct Database {
    jobs: Option<mpsc::Sender<Job>>,
    reader: Mutex<Connection>,
    writer: Option<thread::JoinHandle<()>>,
}

/// A write: runs within the batch's transaction, and gives what tells its caller once the commit is through.
type Job = Box<dyn FnOnce(&Transaction<'_>) -> Tell + Send>;
/// Called with whether the commit went through.
type Tell = Box<dyn FnOnce(bool) + Send>;

impl Database {
    pub(crate) fn open(path: &Path, migrations: &[&'static str]) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        }
        let unusable = |source| StoreError::Unusable { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(unusable)?;
        set_up(&connection).map_err(unusable)?;
        migrate(&mut connection, path, migrations)?;
        let reader =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        reader.busy_timeout(BUSY)?;
        reader.pragma_update(None, "trusted_schema", false)?;
        let (jobs, queue) = mpsc::channel(QUEUE);
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write_batches(connection, queue))
            .map_err(StoreError::io(path))?;
        Ok(Self { jobs: Some(jobs), reader: Mutex::new(reader), writer: Some(writer) })
    }

    /// Runs `job` on the writer's thread. When this answers `Ok`, it is committed.
    pub(crate) async fn write<T, E>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + From<rusqlite::Error> + Send + 'static,
    {
        let (answer, wait) = oneshot::channel();
        let job: Job = Box::new(move |batch| {
            // Each job stands alone: one that fails takes nothing of the others along.
            let result = savepoint(batch, job);
            Box::new(move |committed| {
                let result = if committed { result } else { result.and(Err(StoreError::WriterGone.into())) };
                // Whoever waited may have gone; what is written stays.
                let _ = answer.send(result);
            })
        });
        let jobs = self.jobs.as_ref().ok_or(StoreError::WriterGone)?;
        jobs.send(job).await.map_err(|_| StoreError::WriterGone)?;
        wait.await.map_err(|_| StoreError::WriterGone)?
    }

    /// Puts `job` into the writer's queue and waits only for room there. What goes wrong is logged as the trouble of `what`.
    /// Where this is dropped before there is room, the job waits for it alone.
    pub(crate) async fn enqueue(
        &self,
        what: &'static str,
        job: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) {
        let mut late = Late { database: self, what, job: Some(logged(what, job)) };
        if let Some(jobs) = &self.jobs
            && let Ok(room) = jobs.reserve().await
            && let Some(job) = late.job.take()
        {
            room.send(job);
        }
    }

    /// As [`Database::enqueue`], where nothing can be awaited.
    pub(crate) fn enqueue_at_once(
        &self,
        what: &'static str,
        job: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) {
        drop(Late { database: self, what, job: Some(logged(what, job)) });
    }

    /// Reads what is committed. Point queries on a mapped file: they take microseconds, and run where they are called.
    pub(crate) fn read<T, E>(&self, query: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        query(&self.reader.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A write that is put into the queue when this goes, if it is still here.
struct Late<'a> {
    database: &'a Database,
    what: &'static str,
    job: Option<Job>,
}

impl Drop for Late<'_> {
    fn drop(&mut self) {
        let Some(job) = self.job.take() else { return };
        let what = self.what;
        let lost = move |why: &dyn std::fmt::Display| tracing::error!("{what} is lost: {why}");
        let Some(jobs) = &self.database.jobs else { return lost(&StoreError::WriterGone) };
        match jobs.try_send(job) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => lost(&StoreError::WriterGone),
            // A thread may wait for room. It holds the queue open, so that closing the database waits for it in turn.
            Err(mpsc::error::TrySendError::Full(job)) => {
                let jobs = jobs.clone();
                let wait = thread::Builder::new().name("store-late".to_owned()).spawn(move || {
                    if jobs.blocking_send(job).is_err() {
                        lost(&StoreError::WriterGone);
                    }
                });
                if let Err(error) = wait {
                    lost(&error);
                }
            }
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Lets the writer finish what waits, so that a caller who drops the store finds it closed.
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// A write that nobody waits for.
fn logged(what: &'static str, job: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static) -> Job {
    Box::new(move |batch| {
        let result = savepoint(batch, job);
        Box::new(move |committed| match result {
            Err(error) => tracing::error!("{what} is lost: {error}"),
            Ok(()) if !committed => tracing::error!("{what} is lost: its commit failed"),
            Ok(()) => {}
        })
    })
}

fn savepoint<T, E: From<rusqlite::Error>>(
    batch: &Transaction<'_>,
    job: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    batch.execute_batch("SAVEPOINT job")?;
    let result = job(batch);
    batch.execute_batch(if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" })?;
    result
}

fn write_batches(mut connection: Connection, mut queue: mpsc::Receiver<Job>) {
    while let Some(first) = queue.blocking_recv() {
        let mut tell = Vec::new();
        let committed = (|| {
            let batch = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            tell.push(first(&batch));
            while tell.len() < BATCH
                && let Ok(job) = queue.try_recv()
            {
                tell.push(job(&batch));
            }
            batch.commit()
        })();
        if let Err(error) = &committed {
            tracing::error!("a commit failed: {error}");
        }
        for tell in tell {
            tell(committed.is_ok());
        }
    }
}

/// How long a second process's write is waited for.
const BUSY: std::time::Duration = std::time::Duration::from_secs(10);

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A commit survives the death of the process; of the power, all but the last ones do.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(())
}

fn migrate(connection: &mut Connection, path: &Path, migrations: &[&'static str]) -> Result<(), StoreError> {
    let steps = Migrations::new(migrations.iter().map(|sql| M::up(sql)).collect());
    let known = migrations.len();
    match steps.current_version(connection)? {
        SchemaVersion::Inside(version) if version.get() == known => return Ok(()),
        SchemaVersion::Outside(version) => {
            return Err(StoreError::Newer { path: path.to_owned(), found: version.get(), known });
        }
        _ => {}
    }
    steps.to_latest(connection)?;
    Ok(())
}

/// Whether a set of migrations applies to an empty database, one after the other.
#[cfg(test)]
pub(crate) fn validate(migrations: &[&'static str]) -> rusqlite_migration::Result<()> {
    Migrations::new(migrations.iter().map(|sql| M::up(sql)).collect()).validate()
}

//! Locks a session, because only one process at a time may write it. `opening` acquires the lock before it creates
//! or opens a session, `host` and `expiry` before they remove one. [`holder`] returns the process that has a session open.

use std::{
    fs::{self, File, TryLockError},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use patchbay_core::SessionId;

use crate::SessionError;

/// How many times to retry a lock that another process holds, and the pause before each retry. [`holder`] locks a file for a
/// moment, and a child process keeps the locks of its parent until it runs its own program.
const RETRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// An OS lock on a session. The system releases it when the process ends.
pub(crate) struct SessionLock {
    _file: File,
}

fn path(folder: &Path, id: SessionId) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

/// Returns the id of the process that has the session `id` open; `None` if there is none. An id
/// that cannot be read is `unknown`.
pub(crate) fn holder(folder: &Path, id: SessionId) -> Option<String> {
    let mut file = File::open(path(folder, id)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(read_holder(&mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// Returns the process id in a lock file. The holder may not have written it yet.
fn read_holder(file: &mut File) -> String {
    let mut holder = String::new();
    // A longer text is not a process id.
    let _ = file.take(32).read_to_string(&mut holder);
    let is_number = !holder.is_empty() && holder.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { holder } else { "unknown".to_owned() }
}

impl SessionLock {
    /// Acquires the lock of the session `id`.
    ///
    /// # Errors
    /// [`SessionError::InUse`] if another process has it, [`SessionError::Folder`] if the file cannot be used.
    pub(crate) async fn take(folder: &Path, id: SessionId) -> Result<Self, SessionError> {
        let path = path(folder, id);
        let unusable = |source| SessionError::Folder { what: format!("the lock file {}", path.display()), source };
        fs::create_dir_all(folder).map_err(unusable)?;
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
        let mut retries = 0..RETRIES;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if retries.next().is_some() => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::WouldBlock) => {
                    return Err(SessionError::InUse { id, holder: read_holder(&mut file) });
                }
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
        file.set_len(0).map_err(unusable)?;
        write!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { _file: file })
    }

    /// Deletes the lock file of a removed session. Other processes may still wait for the file,
    /// so it is deleted while locked.
    pub(crate) fn remove(self, folder: &Path, id: SessionId) {
        if let Err(error) = fs::remove_file(path(folder, id)) {
            tracing::warn!("a lock file stays behind: {error}");
        }
    }
}

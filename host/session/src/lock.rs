//! Locks a session, so that only one process at a time writes it. `host` takes the lock before it opens a session.

use std::{
    fs::{self, File, TryLockError},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use patchbay_core::SessionId;

use crate::SessionError;

/// An OS lock on a session. The system releases it when the process ends.
pub(crate) struct SessionLock {
    _file: File,
}

fn path(folder: &Path, id: SessionId) -> PathBuf {
    folder.join(format!("{id}.lock"))
}

impl SessionLock {
    pub(crate) fn take(folder: &Path, id: SessionId) -> Result<Self, SessionError> {
        let path = path(folder, id);
        let unusable = |source| SessionError::Folder { what: format!("the lock file {}", path.display()), source };
        fs::create_dir_all(folder).map_err(unusable)?;
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder may not have written its process id yet.
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.is_empty() { "unknown".to_owned() } else { holder };
                return Err(SessionError::InUse { id, holder });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        file.set_len(0).map_err(unusable)?;
        write!(file, "{}", std::process::id()).map_err(unusable)?;
        Ok(Self { _file: file })
    }

    /// Deletes the lock file of a removed session. Other processes may still wait for the file, so it is deleted while
    /// locked.
    pub(crate) fn remove(self, folder: &Path, id: SessionId) {
        if let Err(error) = fs::remove_file(path(folder, id)) {
            tracing::warn!("a lock file stays behind: {error}");
        }
    }
}

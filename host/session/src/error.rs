//! Errors of creating, resuming and changing sessions.

use patchbay_core::{Code, SessionId};
use patchbay_skill::SnapshotError;
use patchbay_store::StoreError;

/// Why a session cannot be created, resumed or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The store could not be read or written.
    #[error("{0}.")]
    Store(#[from] StoreError),
    /// The stored snapshot is damaged.
    #[error("session {id}: {source}. To remove it: patchbay sessions rm {id}")]
    Snapshot {
        /// The id that identifies the session.
        id: SessionId,
        /// The error that caused this one.
        source: SnapshotError,
    },
    /// The stored snapshot was written by a newer version.
    #[error("{0}")]
    Newer(#[source] SnapshotError),
    /// Another process has the session open.
    #[error("session {id} is in use by process {holder}. End that process, or start a new session.")]
    InUse {
        /// The id that identifies the session.
        id: SessionId,
        /// The id of the process that has it open.
        holder: String,
    },
    /// A folder or file cannot be used.
    #[error("cannot use {what}: {source}.")]
    Folder {
        /// The name of the folder, for the message.
        what: String,
        /// The error that caused this one.
        source: std::io::Error,
    },
    /// The persona cannot be used.
    #[error("{0}")]
    Persona(#[from] crate::persona::PersonaError),
}

impl SessionError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Snapshot { .. } => Code::StoreFailed,
            Self::Newer(_) => Code::SnapshotNewer,
            Self::InUse { .. } => Code::SessionInUse,
            Self::Folder { .. } => Code::FolderUnusable,
            Self::Persona(error) => error.code(),
        }
    }
}

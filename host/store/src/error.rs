use std::{io, path::PathBuf};

use patchbay_core::{Code, Digest, SessionId};

/// Why the store could not do what it was asked. Nothing that was acknowledged before is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite refused.
    #[error("the database refused: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A file is no database, or none that can be opened.
    #[error("cannot use {path}: {source}")]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The schema cannot be brought up to date.
    #[error("the database cannot be brought up to date: {0}")]
    Migration(#[from] rusqlite_migration::Error),
    /// A newer Patchbay wrote it.
    #[error(
        "{path} was written by a newer Patchbay (schema {found}, this one knows {known}); update, or set PATCHBAY_HOME to another folder"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: usize,
        /// What we know.
        known: usize,
    },
    /// A folder or file cannot be used.
    #[error("cannot use {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread that writes is gone.
    #[error("the database's writer has stopped")]
    WriterGone,
    /// No such session.
    #[error("no session '{0}'; 'patchbay sessions list' shows what there is")]
    SessionNotFound(SessionId),
    /// The session was taken over; see [`Hold`](crate::Hold).
    #[error("another process has taken this session over")]
    Fenced(SessionId),
    /// The bytes of a component are gone.
    #[error("component {0} is not in the store any more; /reload_skills makes a new snapshot")]
    ComponentMissing(Digest),
    /// The bytes of a component are not what their name says.
    #[error("component {0} is damaged in the store; /reload_skills makes a new snapshot")]
    ComponentDamaged(Digest),
    /// A row does not read back.
    #[error("the database holds a {0} that cannot be read")]
    BadRow(&'static str),
}

impl StoreError {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::SessionNotFound(_) => Code::SessionNotFound,
            Self::Fenced(_) => Code::SessionFenced,
            _ => Code::StoreFailed,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

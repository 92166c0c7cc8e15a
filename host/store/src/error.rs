//! The errors of the store, and their stable codes.

use std::{io, path::PathBuf};

use patchbay_core::{AgentId, Code, Digest, SessionId};

/// Why a store operation failed. Writes that were acknowledged earlier are not affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite returned an error.
    #[error("database error: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file is not a database, or cannot be opened.
    #[error("cannot use {path}: {source}")]
    Unusable {
        /// The path of the database file.
        path: PathBuf,
        /// The error reported by SQLite.
        source: rusqlite::Error,
    },
    /// A migration of the schema failed.
    #[error("cannot upgrade the database: {0}")]
    Migration(#[from] rusqlite_migration::Error),
    /// The copy before an upgrade could not be made, so the database was not changed.
    #[error(
        "{path} was not upgraded: cannot create the backup {copy} ({source}). Free some space in that folder, then \
         start again"
    )]
    UpgradeCopy {
        /// The path of the database.
        path: PathBuf,
        /// The path of the copy.
        copy: PathBuf,
        /// The error of the system or of SQLite.
        source: io::Error,
    },
    /// A newer Patchbay wrote the database.
    #[error(
        "{path} was written by a newer Patchbay (schema {found}; this one reads up to {known}). Update Patchbay, or \
         set PATCHBAY_HOME to another folder"
    )]
    Newer {
        /// The path of the database.
        path: PathBuf,
        /// The schema version of the database.
        found: usize,
        /// The newest schema version that this build knows.
        known: usize,
    },
    /// A folder or file cannot be used.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The path of the folder or file.
        path: PathBuf,
        /// The error reported by the operating system.
        source: io::Error,
    },
    /// The writer thread has ended.
    #[error("the database writer has stopped")]
    WriterGone,
    /// The store has no session with this id.
    #[error("session '{0}' not found. To list sessions: patchbay sessions --all")]
    SessionNotFound(SessionId),
    /// The session was taken over; see [`Hold`](crate::Hold).
    #[error("another process has taken this session over")]
    Fenced(SessionId),
    /// The agent was killed, or the session has no such agent.
    #[error("agent '{0}' is dead")]
    AgentDead(AgentId),
    /// A call of an agent to be killed began an effect after the change was prepared. Prepare the change again.
    #[error("agent '{0}' started a tool in the meantime; try again")]
    CallBegan(AgentId),
    /// The inbox of an agent is full.
    #[error("the inbox of agent '{agent}' is full ({limit} messages)")]
    InboxFull {
        /// The agent whose inbox is full.
        agent: AgentId,
        /// The highest number of messages in an inbox.
        limit: u32,
    },
    /// The file of a component is missing.
    #[error("component {0} is no longer in the store; to make a new snapshot: /reload_skills")]
    ComponentMissing(Digest),
    /// The bytes of a component do not have the digest in its name.
    #[error("component {0} is damaged in the store; to make a new snapshot: /reload_skills")]
    ComponentDamaged(Digest),
    /// A row cannot be read; the text names the kind of row.
    #[error("the database contains an unreadable {0}")]
    BadRow(&'static str),
}

impl StoreError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::SessionNotFound(_) => Code::SessionNotFound,
            Self::Fenced(_) => Code::SessionFenced,
            Self::AgentDead(_) => Code::AgentDead,
            Self::InboxFull { .. } => Code::LimitMail,
            _ => Code::StoreFailed,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

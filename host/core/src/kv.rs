//! The words of the plugins' key-value store, which the sandbox offers and the store keeps.

/// Whose state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The session's alone.
    Session,
    /// Shared by all sessions of the workspace.
    Workspace,
    /// Shared by all of the person's.
    User,
}

/// A value and the version that it was written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEntry {
    /// The bytes.
    pub value: Vec<u8>,
    /// Never the same twice in a scope.
    pub version: u64,
}

/// Why the store refused; the guest is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// Somebody else wrote in between.
    #[error("key '{key}' is at version {found}, not {expected}; read it again")]
    Conflict {
        /// Which key.
        key: String,
        /// What the writer had read.
        expected: u64,
        /// What is there (0: nothing).
        found: u64,
    },
    /// A key or value is over its limit.
    #[error("a {what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// `key` or `value`.
        what: &'static str,
        /// What was given.
        size: usize,
        /// What may be given.
        limit: usize,
    },
    /// The scope is full.
    #[error("this skill's store is full: at most {limit} {what}; delete something first")]
    Quota {
        /// `bytes` or `keys`.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
    /// A key or a page is not as the contract wants it.
    #[error("{0}")]
    Invalid(&'static str),
    /// The database failed.
    #[error("the store failed; nothing was changed")]
    Failed,
}

impl KvError {
    /// The word of the contract (`wit/host`).
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::TooLarge { .. } => "too-large",
            Self::Quota { .. } => "quota",
            Self::Invalid(_) => "invalid",
            Self::Failed => "failed",
        }
    }
}

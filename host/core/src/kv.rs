//! Types of the plugins' key-value store. The sandbox offers the store to skills, and `patchbay-store` implements it.

/// Which sessions share a key. Each scope of a skill is a separate key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Visible in one session; deleted with it.
    Session,
    /// Shared by all sessions of one workspace.
    Workspace,
    /// Shared by all sessions of the user.
    User,
}

impl Scope {
    /// Returns the scope's name in the plugin contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Workspace => "workspace",
            Self::User => "user",
        }
    }
}

/// A stored value with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEntry {
    /// The bytes that are stored under the key.
    pub value: Vec<u8>,
    /// The version that this value was written as. No version occurs twice in a scope.
    pub version: u64,
}

/// Why the store rejected an operation. The error is returned to the guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// Another writer changed the key since it was read.
    #[error("key '{key}' is at version {found}, not {expected}; read it again")]
    Conflict {
        /// The key that was to be written.
        key: String,
        /// The version that the writer read.
        expected: u64,
        /// The stored version; 0 if the key does not exist.
        found: u64,
    },
    /// A key or value is over its size limit.
    #[error("a {what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// The part that is too large: `key` or `value`.
        what: &'static str,
        /// Size of the key or value, in bytes.
        size: usize,
        /// The largest size allowed, in bytes.
        limit: usize,
    },
    /// The scope cannot store any more data.
    #[error("this skill's store is full: at most {limit} {what}; delete something first")]
    Quota {
        /// The exhausted quota: `bytes` or `keys`.
        what: &'static str,
        /// The largest total of `what` in the scope.
        limit: u64,
    },
    /// A key or a page size violates the contract; the string says what is wrong.
    #[error("{0}")]
    Invalid(&'static str),
    /// The database failed; details are in the host's log.
    #[error("the store failed; nothing was changed")]
    Failed,
}

impl KvError {
    /// Returns the error kind that `wit/host` defines for this error.
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

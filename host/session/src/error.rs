use patchbay_core::{Code, SessionId};
use patchbay_egress::EgressError;
use patchbay_skill::SnapshotError;
use patchbay_store::StoreError;

/// Why a session cannot be made, resumed or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The store.
    #[error("{0}.")]
    Store(#[from] StoreError),
    /// The stored snapshot.
    #[error("session {id}: {source}; 'patchbay sessions rm {id}' removes it")]
    Snapshot {
        /// Which session.
        id: SessionId,
        /// Why.
        source: SnapshotError,
    },
    /// The stored snapshot is of a newer format.
    #[error("{0}")]
    Newer(#[source] SnapshotError),
    /// Another process has it.
    #[error("session {id} is in use by process {holder}. End that one, or start a new session.")]
    InUse {
        /// Which session.
        id: SessionId,
        /// Who has it.
        holder: String,
    },
    /// A folder cannot be used.
    #[error("cannot use {what}: {source}.")]
    Folder {
        /// Which, in words.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// The limits of outgoing requests.
    #[error("config.toml: {0}.")]
    Egress(#[source] EgressError),
    /// The persona.
    #[error("{0}")]
    Persona(#[from] crate::persona::PersonaError),
}

impl SessionError {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Snapshot { .. } => Code::StoreFailed,
            Self::Newer(_) => Code::SnapshotNewer,
            Self::InUse { .. } => Code::SessionInUse,
            Self::Folder { .. } => Code::FolderUnusable,
            Self::Egress(_) => Code::ConfigInvalid,
            Self::Persona(error) => error.code(),
        }
    }
}

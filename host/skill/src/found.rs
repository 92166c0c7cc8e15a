//! What a look at a root gives, before anything is decided.

use std::{io, sync::Arc};

use patchbay_core::{Code, Digest, Name};
use patchbay_policy::Root;

use crate::{Changed, Component, Manifest};

/// Something that was found under a name, good or bad.
#[derive(Clone, Debug)]
pub struct Found {
    /// The name of the folder or file, cleaned: it may be no valid [`Name`].
    pub label: String,
    /// Where.
    pub root: Root,
    /// What it is, or why it cannot be a skill.
    pub candidate: Result<Candidate, Problem>,
}

/// A skill that can be read.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: Name,
    /// What its SKILL.md says.
    pub manifest: Arc<Manifest>,
    /// The digest of its component, or of its SKILL.md where it has none.
    pub digest: Digest,
    /// Its component, if it has one.
    pub component: Option<Component>,
}

/// Why something cannot be a skill of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// What is wrong, on one line, without a path.
    pub message: String,
}

impl Problem {
    /// A problem.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn unreadable(what: &str, error: &io::Error) -> Self {
        let message = match error.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => format!("{what}: {error}."),
            // The system's words, without its path.
            kind => format!("{what} cannot be read: {kind}."),
        };
        Self::new(Code::MissingSkillMd, message)
    }
}

impl From<Changed> for Problem {
    fn from(changed: Changed) -> Self {
        Self::new(Code::InvalidComponent, changed.to_string())
    }
}

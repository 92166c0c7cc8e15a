//! What discovery finds in a root, before anything is decided.

use std::{io, sync::Arc};

use patchbay_core::{Code, Digest, Name};
use patchbay_policy::Root;
use serde::{Deserialize, Serialize};

use crate::{Changed, Component, Manifest, SkillFiles};

/// Something that was found under a name, good or bad.
#[derive(Clone, Debug)]
pub struct FoundSkill {
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
    /// Its files with their digests. The digest of this list is the digest of the skill.
    pub files: SkillFiles,
    /// Its component, if it has one.
    pub component: Option<Component>,
    /// The text of its instructions, if its SKILL.md was read just now; else the store has it.
    pub instructions: Option<Arc<str>>,
    /// Diagnostics of a skill that stays, such as lines that were mended.
    pub notes: Vec<Problem>,
}

impl Candidate {
    /// The digest of the skill, over all its files.
    pub fn digest(&self) -> Digest {
        self.files.digest()
    }
}

/// Why something cannot be a skill of the snapshot, or what is wrong with one that can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
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

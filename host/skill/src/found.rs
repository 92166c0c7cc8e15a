//! The results of discovery: readable candidates, and the problems of everything else.
//!
//! `discover.rs` and `bundled.rs` create them; `build.rs` turns them into a snapshot.

use std::{collections::BTreeMap, io, sync::Arc};

use patchbay_core::{Code, Digest, Name, RootAllowance, text};
use patchbay_policy::Root;
use serde::{Deserialize, Serialize};

use crate::{
    Changed, Component, FileTotals, Manifest, SkillFiles, children::own_name, limit::RootBudget, source::FileSource,
};

/// One child of a root: a candidate, or the problem that keeps it from being a skill.
#[derive(Clone, Debug)]
pub struct FoundSkill {
    /// The name of the folder or file, cleaned for display. It is not always a valid [`Name`].
    pub label: String,
    /// The root in which it was found.
    pub root: Root,
    /// The readable skill, or why it cannot be a skill.
    pub candidate: Result<Candidate, Problem>,
}

impl FoundSkill {
    /// Returns the diagnostic for the child that exceeds a limit of its root. `child` is its name, or a path that ends in its name.
    pub(crate) fn over_limit(root: Root, child: &str, problem: Problem) -> Self {
        let name = own_name(child);
        let label = text::excerpt(name.strip_suffix(".wasm").unwrap_or(name), 80);
        Self { label, root, candidate: Err(problem) }
    }

    /// Returns the diagnostic for the first child beyond the root's limit on skills.
    pub(crate) fn over_skills(root: Root, allowed: &RootAllowance, child: &str) -> Self {
        Self::over_limit(root, child, RootBudget::new(root, *allowed).too_many_skills())
    }
}

/// A skill with a valid SKILL.md. [`build`](crate::build) decides whether it becomes part of the snapshot.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The skill's name, equal to the name of its folder or file.
    pub name: Name,
    /// The parsed SKILL.md, shared with the file cache.
    pub manifest: Arc<Manifest>,
    /// The skill's files with their digests. The digest of this list is the digest of the skill.
    pub files: SkillFiles,
    /// The number and size of the other files, and where they are stored.
    pub totals: FileTotals,
    /// The component; `None` for a skill without tools of its own.
    pub component: Option<Component>,
    /// The instructions; `None` if the SKILL.md came from the file cache, in which case the text is in the store.
    pub instructions: Option<Arc<str>>,
    /// Problems that do not exclude the skill, such as repaired lines.
    pub notes: Vec<Problem>,
    /// For a skill in [`Root::Extra`], the canonical path of the root; for a skill in [`Root::Package`], the package's name.
    pub root_path: Option<Arc<str>>,
    pub(crate) source: FileSource,
    /// Device and inode of the skill's folder. A folder that is found twice counts once.
    pub(crate) folder_id: Option<(u64, u64)>,
}

impl Candidate {
    /// Returns the digest of the skill, which covers all its files.
    pub fn digest(&self) -> Digest {
        self.files.digest()
    }
}

/// The reason why a skill is left out of the snapshot, or a problem with a skill that is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Problem {
    /// The stable code, documented in `docs/codes.md`.
    pub code: Code,
    /// A description of the problem: one line, without an absolute path.
    pub message: String,
}

impl Problem {
    /// Creates a problem. `message` is one line that ends in a full stop.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates the problem of a file or folder that cannot be read. `what` describes it.
    pub(crate) fn unreadable(what: &str, error: &io::Error) -> Self {
        let message = match error.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => format!("{what}: {error}."),
            // Only the kind of the error is shown, because its full message may contain a path.
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

/// If a root has both `NAME/` and `NAME.wasm`, refuses both, because it is not clear which is meant.
pub(crate) fn mark_duplicates(found: &mut [FoundSkill]) {
    let mut claims = BTreeMap::<String, usize>::new();
    for one in &*found {
        *claims.entry(one.label.clone()).or_default() += 1;
    }
    for one in found.iter_mut().filter(|one| claims.get(&one.label).is_some_and(|claims| *claims > 1)) {
        let message = format!("Both '{0}/' and '{0}.wasm' claim the name.", one.label);
        one.candidate = Err(Problem::new(Code::SeveralComponents, message));
    }
}

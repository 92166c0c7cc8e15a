use patchbay_core::Name;

use crate::{Diagnostic, Skill, Snapshot};

/// What one snapshot has that another has not. Each list is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Skills that are new.
    pub added: Vec<Name>,
    /// Skills that are gone.
    pub removed: Vec<Name>,
    /// Skills that are there still, and not as they were.
    pub changed: Vec<Name>,
    /// What is newly kept out or limited.
    pub diagnosed: Vec<Diagnostic>,
}

impl Diff {
    /// What becomes of `old` by `new`.
    pub fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let mut diff = Self::default();
        for skill in new.skills() {
            match old.skill(skill.name.as_str()) {
                None => diff.added.push(skill.name.clone()),
                Some(before) if differs(before, skill) => diff.changed.push(skill.name.clone()),
                Some(_) => {}
            }
        }
        for skill in old.skills().filter(|skill| new.skill(skill.name.as_str()).is_none()) {
            diff.removed.push(skill.name.clone());
        }
        let known = old.diagnostics();
        diff.diagnosed.extend(new.diagnostics().iter().filter(|found| !known.contains(found)).cloned());
        diff
    }
}

/// Whether a skill is another one now. Digests of a snapshot of format 1 are of something else, so they do not count.
fn differs(before: &Skill, now: &Skill) -> bool {
    if before.digest_of_files == now.digest_of_files {
        return before != now;
    }
    let alike = Skill { digest: now.digest, digest_of_files: now.digest_of_files, ..before.clone() };
    alike != *now
}

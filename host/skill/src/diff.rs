//! The differences between two snapshots, as `/reload_skills` reports them.

use patchbay_core::Name;

use crate::{Diagnostic, Skill, Snapshot};

/// The differences between an old and a new snapshot. Each list is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Skills that are only in the new snapshot.
    pub added: Vec<Name>,
    /// Skills that are only in the old snapshot.
    pub removed: Vec<Name>,
    /// Skills in both that differ.
    pub changed: Vec<Name>,
    /// Diagnostics that are only in the new snapshot.
    pub diagnosed: Vec<Diagnostic>,
}

impl Diff {
    /// Compares two snapshots of a session.
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

/// Returns true if a skill changed. A snapshot from an older build is compared only by the data that it contains: in format 1,
/// digests do not cover all files, and somewhat later builds did not store files yet.
fn differs(before: &Skill, now: &Skill) -> bool {
    if before.digest_of_files == now.digest_of_files && before.files.is_some() == now.files.is_some() {
        return before != now;
    }
    let mut alike = Skill { files: now.files, digest_of_files: now.digest_of_files, ..before.clone() };
    if before.digest_of_files != now.digest_of_files {
        alike.digest = now.digest;
    }
    alike != *now
}

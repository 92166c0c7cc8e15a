use patchbay_core::Name;

use crate::Snapshot;

/// What one snapshot has that another has not. Each list is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Skills that are new.
    pub added: Vec<Name>,
    /// Skills that are gone.
    pub removed: Vec<Name>,
    /// Skills that are there still, and not as they were.
    pub changed: Vec<Name>,
}

impl Diff {
    /// What becomes of `old` by `new`.
    pub fn between(old: &Snapshot, new: &Snapshot) -> Self {
        let mut diff = Self::default();
        for skill in new.skills() {
            match old.skill(skill.name.as_str()) {
                None => diff.added.push(skill.name.clone()),
                Some(before) if before != skill => diff.changed.push(skill.name.clone()),
                Some(_) => {}
            }
        }
        for skill in old.skills().filter(|skill| new.skill(skill.name.as_str()).is_none()) {
            diff.removed.push(skill.name.clone());
        }
        diff
    }
}

//! What the binary brings along.

use patchbay_provider::BundledAdapter;
use patchbay_skill::BundledSkill;
use patchbay_tools::BundledGrant;

/// The bundled skills, sorted by name.
pub(crate) const SKILLS: &[BundledSkill] = include!(concat!(env!("OUT_DIR"), "/bundled.rs"));

/// What their components answer when they are asked for their tools.
pub(crate) const ANSWERS: &[&str] = include!(concat!(env!("OUT_DIR"), "/answers.rs"));

/// The bundled adapters, sorted by name.
pub(crate) const ADAPTERS: &[BundledAdapter] = include!(concat!(env!("OUT_DIR"), "/adapters.rs"));

/// What the skills may do from the start. Whatever else they ask for, the operator grants.
pub(crate) const GRANTS: &[BundledGrant] = &[
    BundledGrant { skill: "files", capability: "workspace-read" },
    BundledGrant { skill: "grep", capability: "workspace-read" },
    BundledGrant { skill: "notes", capability: "kv" },
];

#[cfg(test)]
mod tests {
    use patchbay_core::Digest;

    use super::*;

    #[test]
    fn digests_from_the_build_are_those_of_the_bytes() {
        let found = patchbay_skill::bundled(SKILLS);
        let components = found.iter().filter_map(|found| found.candidate.as_ref().unwrap().component.as_ref());
        let components: Vec<_> = components.collect();
        assert!(components.len() > 3);
        for component in components {
            assert_eq!(component.digest(), Digest::of(&component.bytes().unwrap()));
        }
    }
}

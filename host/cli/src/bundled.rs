//! Plugins that are embedded in the binary. The build script generates the lists; `main` passes them to the host.

use patchbay_provider::BundledAdapter;
use patchbay_skill::BundledSkill;
use patchbay_tools::BundledGrant;

/// The bundled skills, sorted by name.
pub(crate) const SKILLS: &[BundledSkill] = include!(concat!(env!("OUT_DIR"), "/bundled.rs"));

/// The tools of the bundled skills' components, as JSON from build time. Without these lists, the first start would
/// have to run each component.
pub(crate) const TOOL_LISTS: &[&str] = include!(concat!(env!("OUT_DIR"), "/tool_lists.rs"));

/// The bundled adapters, sorted by name.
pub(crate) const ADAPTERS: &[BundledAdapter] = include!(concat!(env!("OUT_DIR"), "/adapters.rs"));

/// The capabilities that bundled skills may use without a grant by the operator.
pub(crate) const GRANTS: &[BundledGrant] = &[
    BundledGrant { skill: "code", capability: "tools" },
    BundledGrant { skill: "files", capability: "workspace-read" },
    BundledGrant { skill: "grep", capability: "workspace-read" },
    BundledGrant { skill: "notes", capability: "kv" },
];

#[cfg(test)]
mod tests {
    use patchbay_core::Digest;

    use super::*;

    #[test]
    fn build_time_digests_match_the_bytes() {
        let found = patchbay_skill::bundled(SKILLS);
        let components = found.iter().filter_map(|found| found.candidate.as_ref().unwrap().component.as_ref());
        let components: Vec<_> = components.collect();
        assert!(components.len() > 3);
        for component in components {
            assert_eq!(component.digest(), Digest::of(&component.bytes().unwrap()));
        }
    }
}

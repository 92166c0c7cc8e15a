//! What the binary brings along.

use patchbay_skill::Bundled;
use patchbay_tools::BundledGrant;

/// The bundled skills, sorted by name.
pub(crate) const SKILLS: &[Bundled] = include!(concat!(env!("OUT_DIR"), "/bundled.rs"));

/// What they may do from the start. Whatever else they ask for, the operator grants.
pub(crate) const GRANTS: &[BundledGrant] = &[BundledGrant { skill: "notes", capability: "kv" }];

//! What skills a session works with: reading SKILL.md, finding skills in three roots, deciding which of them count, and
//! the immutable [`Snapshot`] of the result.
//!
//! Touches neither network nor clock, and runs no plugin: what tools a component has is told to it.
//!
//! - [`Manifest`]: what a SKILL.md says.
//! - [`discover`]: candidates of one root. Files are read within their folder; nothing follows a link out of it.
//! - [`build`]: precedence, trust, eligibility, aliases, required tools; whatever is kept out becomes a [`Diagnostic`].
//! - [`Snapshot`]: skills and diagnostics with a digest over all that they hold, and a version.
//! - [`Diff`]: what a reload added, removed, changed.

mod build;
mod diff;
mod discover;
mod eligibility;
pub mod files;
mod manifest;
mod package;
mod snapshot;

pub use build::{Rules, build};
pub use diff::Diff;
pub use discover::{Bundled, Candidate, Component, Found, Problem, bundled, discover};
pub use eligibility::{Eligibility, Surroundings};
pub use manifest::{InvocationMode, Manifest, RequestedCapability};
pub use package::{SECTION, embedded_skill_md};
pub use snapshot::{Diagnostic, Skill, Snapshot, SnapshotError};

//! What skills a session works with: reading SKILL.md, finding skills in three roots, deciding which of them count, and
//! the immutable [`Snapshot`] of the result.
//!
//! Touches neither network nor clock, and runs no plugin: what tools a component has is told to it.
//!
//! - [`Manifest`]: what a SKILL.md says.
//! - [`discover`]: candidates of one root. Files are read within their folder; nothing follows a link out of it.
//! - [`SkillFiles`]: the files of a skill; its digest is over all of them.
//! - [`FileCache`]: what is remembered of files by their [`Stat`], so that what did not change is not read again.
//! - [`Component`]: a component that was found, by its digest; its bytes are read when they are needed, and checked.
//! - [`build`]: precedence, trust, eligibility, aliases, required tools; whatever is kept out becomes a [`Diagnostic`].
//! - [`Snapshot`]: skills and diagnostics with a digest over all that they hold, and a version.
//! - [`Diff`]: what a reload added, removed, changed.

mod build;
mod bundled;
mod component;
mod diff;
mod digest;
mod discover;
mod eligibility;
mod file_cache;
pub mod files;
mod found;
mod limit;
mod listing;
mod manifest;
mod package;
mod reading;
mod snapshot;

pub use build::{CheckedSkill, DescribedTools, SnapshotRules, build, check_skill};
pub use bundled::{BundledSkill, bundled};
pub use component::{Changed, Component};
pub use diff::Diff;
pub use digest::{SkillFiles, changed_files};
pub use discover::{Discovered, discover, discover_one};
pub use eligibility::{Eligibility, Platform};
pub use file_cache::{CachedFile, FileCache, FileRecord, NoCache, SkillMd, Stat, StatError};
pub use found::{Candidate, FoundSkill, Problem};
pub use limit::root_limit;
pub use manifest::{Instructions, InvocationMode, Manifest, ParsedSkillMd, RequestedCapability};
pub use package::{SECTION, SKILL_MD_BYTES, embedded_skill_md};
pub use snapshot::{Diagnostic, Skill, Snapshot, SnapshotError};

//! Finds skills on disk and builds the immutable [`Snapshot`] of skills that a session works with.
//!
//! The crate `session` calls it when a session starts and at `/reload_skills`; the crate `plugin` calls it to inspect
//! one skill. This crate uses no network and no clock, and runs no plugin: the caller passes in the tools of each
//! component.
//!
//! From a folder to a snapshot:
//!
//! 1. [`discover`] reads the candidates of one root. It does not follow links out of a workspace. [`discover_packages`] reads the
//!    packages that a [`PackagesLock`] names.
//!    - [`Manifest`]: a parsed SKILL.md.
//!    - [`SkillFiles`]: the list of a skill's files; the skill's digest covers all of them.
//!    - [`FileSet`]: the files with their contents, as they are stored with a snapshot.
//!    - [`FileCache`]: results of earlier reads by [`Stat`], to avoid reading unchanged files again.
//!    - [`Component`]: a component by its digest. Its bytes are read, and checked, only when they are needed.
//! 2. [`build`] applies precedence, trust, eligibility, aliases and required tools. Each skill that it leaves out
//!    becomes a [`Diagnostic`].
//! 3. [`Snapshot`]: skills and diagnostics, a digest over both, and a version. [`Diff`] compares two snapshots, [`SearchIndex`]
//!    finds entries by words, and [`ShownRank`] is the order in which skills are shown to models.
//!
//! Untrusted packages are also read here, by [`verify_signature`], [`unpack_tarball`] and [`RegistryManifest`]. The crate `plugin`
//! downloads them.
//!
//! ```
//! use std::sync::Arc;
//!
//! use patchbay_core::{RootAllowance, RootLimits};
//! use patchbay_policy::Root;
//! use patchbay_skill::{NoCache, Platform, SnapshotRules, build, discover};
//!
//! struct Linux;
//!
//! impl Platform for Linux {
//!     fn os(&self) -> &str {
//!         "linux"
//!     }
//!     fn has_env(&self, _name: &str) -> bool {
//!         false
//!     }
//!     fn has_binary(&self, _name: &str) -> bool {
//!         false
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let folder = tempfile::tempdir()?;
//! std::fs::create_dir(folder.path().join("greet"))?;
//! std::fs::write(folder.path().join("greet/SKILL.md"), "---\nsummary: Greets\n---\nSay hello.\n")?;
//!
//! let found = discover(Root::User, folder.path(), &NoCache, &RootAllowance::default())?.found;
//! let rules = SnapshotRules {
//!     trusted: true,
//!     reserved: &[],
//!     internal_tools: &[],
//!     limits: &RootLimits::default(),
//!     platform: &Linux,
//!     // The tools of a component, by its digest. This skill has no component.
//!     tools: &|_digest| Ok(Arc::default()),
//! };
//! let snapshot = build(&found, 1, &rules);
//! let summaries: Vec<&str> = snapshot.skills().map(|skill| &*skill.manifest.summary).collect();
//! assert_eq!(summaries, ["Greets"]);
//! # Ok(())
//! # }
//! ```

pub mod agent_plugin;
mod ahead;
mod archive;
mod arguments;
mod build;
mod bundled;
mod children;
mod component;
mod diff;
mod digest;
mod discover;
mod eligibility;
mod embedded;
mod file_cache;
mod file_set;
pub mod files;
mod found;
mod limit;
mod link;
mod listing;
mod manifest;
mod names;
mod packages;
mod packages_lock;
mod portable;
mod reading;
mod registry_manifest;
mod search;
mod shown;
mod signature;
mod snapshot;
mod source;
mod sources;
mod tarball;

pub use archive::{FILES_SECTION, write_archive};
pub use arguments::{ArgumentsError, INPUT_BYTES, INSTRUCTIONS_BYTES, with_arguments};
pub use build::{CheckedSkill, DescribedTools, SnapshotRules, build, check_skill};
pub use bundled::{BundledSkill, bundled};
pub use component::{Changed, Component};
pub use diff::Diff;
pub use digest::{SkillFiles, changed_files, changed_files_in_short};
pub use discover::{Discovered, discover, discover_one};
pub use eligibility::{Eligibility, Platform};
pub use embedded::{SECTION, SKILL_MD_BYTES, embedded_skill_md};
pub use file_cache::{CachedFile, FileCache, FileRecord, NoCache, SkillMd, Stat, StatError};
pub use file_set::{FileSet, FileStorage, FileTotals, PackDamaged, SkillFile};
pub use found::{Candidate, FoundSkill, Problem};
pub use limit::root_limit;
pub use link::LinkedFolder;
pub use manifest::{Audience, Instructions, InvocationMode, Manifest, ParsedSkillMd, RequestedCapability};
pub use packages::{discover_packages, find_packages_lock, read_packages_lock};
pub use packages_lock::{
    LOCK_BYTES, LockError, LockedPackage, LockedServer, LockedSkill, PACKAGE_SERVERS, PACKAGE_SKILLS, PackageKind,
    PackagesLock,
};
pub use portable::PortableSkillMd;
pub use registry_manifest::{ACCEPTED_MANIFESTS, MANIFEST_TYPE, ManifestError, PushedComponent, RegistryManifest};
pub use search::{SearchIndex, SearchMatches, SearchTexts};
pub use shown::{ResultLimit, ShownRank};
pub use signature::{
    Fingerprint, FingerprintError, SIGNATURE_BYTES, SIGNATURE_NAMESPACE, SignatureError, verify_signature,
};
pub use snapshot::{Diagnostic, Skill, Snapshot, SnapshotError};
pub use source::{FolderFiles, ReadFiles, files_to_copy, files_to_embed};
pub use sources::is_source;
pub use tarball::{TarballError, UNPACKED_BYTES, unpack_tarball, unpacked_folder};

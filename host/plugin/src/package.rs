//! Packages: plugins with a known origin. This implements `patchbay plugin add`, `update`, `diff`, `remove`, `verify`, `sums`,
//! `sync` and `export`.
//!
//! - [`PackageSource`]: a file or folder that can be added.
//! - [`Packages`]: the installed packages of a home, with their lock. [`HeldPackages`] is the right to change them.
//! - [`StagedPackage`]: a complete copy that is not installed yet. It is inspected, shown and then renamed, so that exactly the
//!   shown bytes are installed.
//! - [`PackageReport`]: the content of a copy, as it is shown when the user is asked to approve it. [`PackageDiff`] compares two.
//! - [`InstalledServer`]: an MCP server that an installed package declares, with the operator's decision about it.
//! - [`verify`] compares installed files with the lock. [`SyncPlan`] makes a home match another lock.

mod diff;
mod error;
mod files;
mod held;
mod report;
mod servers;
mod source;
mod staged;
mod sync;
mod verify;

pub use diff::PackageDiff;
pub use error::PackageError;
pub use held::{HeldPackages, Packages, grants_of_removed, moved_grants};
pub use report::{LeftOut, PackageReport, SkillReport, renames, report, report_locked, server_line};
pub use servers::{InstalledServer, ServerDecision};
pub use source::{PackageSource, SourceForm, find_source};
pub use staged::StagedPackage;
pub use sync::{SyncPlan, SyncStep, export};
pub use verify::{VerifiedPackage, verify};

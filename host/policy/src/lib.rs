//! What a plugin may do: the capabilities a manifest asks for, the operator's grants, and the words of a denial.
//!
//! Pure: no I/O, no clock. Where grants are kept is the store's concern, and when they are read the tool path's.
//!
//! - [`Capability`]: one thing a plugin may do, as written in manifests, grants and errors.
//! - [`Identity`]: whom a grant belongs to. The same name in two roots is two identities.
//! - [`Permits`]: what one call may do. A capability works only if the manifest asks for it **and** the operator
//!   granted it; [`Denial`] names the command that would change that.
//! - [`WorkspaceTrust`]: what the person said about the workspace that a call runs in.
//! - [`quoted`], [`quoted_folder`]: words of the commands that denials name.
//! - [`Blocked`]: the operator's no to a component as such.

mod blocked;
mod capability;
mod identity;
mod permits;
mod shell;

pub use blocked::Blocked;
pub use capability::{Capability, CapabilityError, HostPattern};
pub use identity::{Identity, Root};
pub use permits::{CapabilityState, Denial, Grant, Permits, Standing, WorkspaceTrust, grant_command};
pub use shell::{quoted, quoted_folder};

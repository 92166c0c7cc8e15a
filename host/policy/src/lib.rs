//! Access control for plugins: the capabilities that a manifest asks for, the operator's grants, and denials.
//!
//! Pure: no I/O and no clock. `store` keeps grants; `tools` reads them before each call.
//!
//! - [`Capability`]: one thing that a plugin may do, as written in manifests, grants and errors.
//! - [`Identity`]: the owner of a grant. The same name in two roots is two identities.
//! - [`Permits`]: what one call may do. A capability can be used only if the manifest asks for it **and** the operator
//!   has granted it; [`Denial`] contains the command that would grant it.
//! - [`WorkspaceTrust`]: whether skills may write protected files in a workspace.
//! - [`quoted`], [`quoted_folder`]: shell quoting. [`allow_server_command`]: the command that allows an MCP server.
//! - [`Blocked`]: a component or skill that the operator has blocked.
//! - [`ToolDecision`]: whether a tool that does not run in the sandbox may be called.
//!
//! ```
//! use patchbay_policy::{Capability, Grant, Identity, Permits, Root};
//!
//! let identity = Identity::new(Root::User, "/work", "notes".parse()?);
//! let asked = vec![Capability::Kv, "http:api.example.com".parse()?];
//! let permits = Permits::new(identity, asked, vec![Grant::holding(Capability::Kv)]);
//!
//! assert!(permits.allows(&Capability::Kv));
//! let denial = permits.check_http("api.example.com", 443, true).unwrap_err();
//! assert!(denial.to_string().ends_with("patchbay grant add notes http:api.example.com"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocked;
mod capability;
mod identity;
mod permits;
mod shell;
mod tool_decision;

pub use blocked::Blocked;
pub use capability::{Capability, CapabilityError, HostPattern};
pub use identity::{Identity, Root};
pub use permits::{
    CapabilityState, Denial, Grant, Permits, Standing, WorkspaceTrust, grant_command, grant_commands_in,
};
pub use shell::{allow_server_command, quoted, quoted_folder};
pub use tool_decision::ToolDecision;

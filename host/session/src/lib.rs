//! The facade of the host: a line in, an outcome and events out. Fronts hold no logic; it is here.
//!
//! - [`Host`]: what all sessions of the process share, from one home.
//! - [`Session`]: made or resumed; [`Session::submit`] takes a line and gives a [`Submitted`], [`Session::subscribe`] gives
//!   events, [`Session::close`] ends it.
//! - [`Observer`]: who is told while a person waits for components to be compiled.
//! - [`specs`]: the table of built-in commands. Routing, `/commands`, completion and the docs come from it.
//! - [`RESERVED`], [`INTERNAL_TOOLS`], [`HostPlatform`]: what a skill is judged by.
//!
//! What a line does is worked out against state that does not change meanwhile, committed as one, and only then applied
//! and shown: whenever the process dies, what was shown is there.

mod agents;
mod building;
mod builtin;
mod commands;
mod complete;
mod error;
mod host;
mod invoke;
mod json;
mod lines;
mod lock;
mod notices;
mod persona;
mod platform;
mod recap;
mod recovery;
mod roots;
mod session;
mod watch;
mod workspace_path;

pub use patchbay_agent::{CompactionSettings, INTERNAL_TOOLS};
pub use patchbay_command::RESERVED;
pub use patchbay_events::{Received, Subscription};
pub use patchbay_tools::{Approval, Approver, Question};

pub use building::{Observer, Unobserved};
pub use builtin::specs;
pub use commands::CommandInfo;
pub use complete::Suggestion;
pub use error::SessionError;
pub use host::{Config, Host, Paths};
pub use lines::Submitted;
pub use platform::HostPlatform;
pub use session::Session;
pub use watch::SkillWatch;
pub use workspace_path::workspace_path;

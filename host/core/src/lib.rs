//! Plain types that every Patchbay crate shares: names, digests, ids, outcome codes, outcomes, events, and the
//! one function that makes untrusted text safe to show.
//!
//! Nothing here does I/O, reads a clock or keeps state.
//!
//! - [`Name`]: what skills, tools, commands and personas are called.
//! - [`Digest`]: the sha256 of content, and the canonical way to hash a structure.
//! - [`SessionId`], [`AgentId`], [`LineId`], [`CallId`]: UUIDs that cannot be mixed up.
//! - [`PrincipalId`]: the person on whose behalf a session works.
//! - [`Asker`]: the caller of a tool.
//! - [`Code`], [`Outcome`]: what a line comes to. One table of codes generates `docs/codes.md`.
//! - [`Event`]: what a front renders.
//! - [`RootLimits`]: what the skills of one root may take in all.
//! - [`COMPONENT_BYTES`]: how large a plugin may be.
//! - [`completion`]: what goes to a model and comes back.
//! - [`kv`]: the words of the plugins' key-value store.
//! - [`text`]: stripping what could deceive a terminal or a model.

mod asker;
mod code;
pub mod completion;
mod component;
mod digest;
mod event;
mod id;
pub mod kv;
mod name;
mod outcome;
mod principal;
mod root_limits;
pub mod text;
mod tool;

pub use asker::{Asker, AskerError};
pub use code::Code;
pub use component::COMPONENT_BYTES;
pub use digest::{Digest, DigestError, Hasher};
pub use event::{DeltaKind, Event, EventKind, MessageKind};
pub use id::{AgentId, CallId, LineId, SessionId};
pub use name::{Name, NameError};
pub use outcome::{Outcome, Status};
pub use principal::{PrincipalError, PrincipalId};
pub use root_limits::{Bound, RootAllowance, RootLimits};
pub use tool::ToolSpec;

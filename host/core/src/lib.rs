//! Types that all crates of Patchbay share. This crate does no I/O, reads no clock and has no state.
//!
//! - [`Name`]: a valid name of a skill, tool, command or persona; [`PackageName`]: a valid name of a package.
//! - [`caseless`]: a file name folded to one case and one Unicode normal form.
//! - [`Digest`]: the SHA-256 of bytes, and the canonical way to hash a structure.
//! - [`SessionId`], [`AgentId`], [`LineId`], [`CallId`]: UUIDs as distinct types.
//! - [`PrincipalId`]: the user that a session belongs to.
//! - [`Asker`]: the caller of a tool: the user, another tool, an agent or an MCP client.
//! - [`Code`], [`Outcome`], [`OutcomeData`]: the result of a line. `docs/codes.md` is generated from the table of codes.
//! - [`Event`]: a change to a session, which fronts render; [`Retrying`]: a request that is sent again; [`RequestLimit`]: why a
//!   request waits.
//! - [`TurnCause`], [`TurnState`]: why a turn begins and how it ends.
//! - [`AssistantRecord`], [`ToolRecord`], [`CompactionRecord`]: the structured data of conversation rows.
//! - [`Attachment`]: a file that the user attached to a message.
//! - [`MessageNotices`]: lines for the model before a message from the user.
//! - [`Money`]: an amount in US dollars.
//! - [`RootLimits`]: limits that all skills of one root share.
//! - [`COMPONENT_BYTES`]: the size limit of a component.
//! - [`json_bytes`]: the size of a JSON value.
//! - [`completion`]: requests to a model and its responses.
//! - [`kv`]: types of the key-value store for plugins.
//! - [`text`]: removal of characters that could deceive a terminal or a model.
//!
//! ```
//! use patchbay_core::{Code, Digest, Name, Outcome, text};
//!
//! let name: Name = "calc".parse().unwrap();
//! assert!("Not a name".parse::<Name>().is_err());
//!
//! let digest = Digest::of(b"the bytes of a component");
//! assert_eq!(digest, digest.to_string().parse().unwrap());
//!
//! let untrusted = "\u{1b}[31msums\u{202e}";
//! let outcome = Outcome::error(Code::SkillNotFound, format!("no skill '{name}' for {}.", text::clean_line(untrusted)));
//! assert!(!outcome.is_ok());
//! assert_eq!(outcome.line(), "Error: no skill 'calc' for [31msums.");
//! ```

#[cfg(windows)]
compile_error!(
    "Patchbay does not run on Windows. Build it and run it in WSL, the Windows Subsystem for Linux: docs/systems.md"
);

mod asker;
mod attachment;
mod caseless;
mod code;
pub mod completion;
mod component;
mod digest;
mod event;
mod headline;
mod id;
mod json_bytes;
pub mod kv;
pub mod media;
mod money;
mod name;
mod notices;
mod outcome;
mod outcome_data;
mod package_name;
mod principal;
mod record;
mod root_limits;
mod task;
pub mod text;
mod tool;
mod turn;

pub use asker::{Asker, AskerError};
pub use attachment::{Attachment, TEXT_MEDIA};
pub use caseless::caseless;
pub use code::Code;
pub use component::COMPONENT_BYTES;
pub use digest::{Digest, DigestError, Hasher};
pub use event::{
    DeltaKind, DeltaPosition, DequeueReason, Event, EventKind, MessageKind, RequestLimit, Retrying, notification_line,
};
pub use id::{AgentId, CallId, LineId, SessionId};
pub use json_bytes::json_bytes;
pub use money::{Money, MoneyError};
pub use name::{Name, NameError};
pub use notices::MessageNotices;
pub use outcome::{Outcome, Status};
pub use outcome_data::{ForkedData, KilledData, OutcomeData, RewoundData, TurnData};
pub use package_name::{PackageName, PackageNameError};
pub use principal::{PrincipalError, PrincipalId};
pub use record::{AssistantPart, AssistantRecord, CompactionRecord, FailedAttempts, ToolRecord, ToolRecordPart};
pub use root_limits::{Bound, RootAllowance, RootLimits};
pub use task::{Task, TaskStatus};
pub use tool::ToolSpec;
pub use turn::{TurnCause, TurnState};

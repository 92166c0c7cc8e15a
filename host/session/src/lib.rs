//! The facade of the host: lines go in; outcomes and events come out. Fronts call it and contain no logic of their own.
//!
//! - [`Host`]: the state that all sessions of a process share, opened from one home.
//! - [`Session`]: created or resumed by the host. [`Session::submit`] accepts a line and returns a [`Submitted`],
//!   [`Session::submit_input`] also accepts attached files ([`LineInput`]), [`Session::subscribe`] returns events,
//!   [`Session::queue`] the lines that wait for a turn, [`Session::close`] ends the session.
//! - [`Session::options`]: the settings that fronts offer in menus.
//! - [`McpSessions`]: opens sessions for the clients of `patchbay mcp`.
//! - [`ClientServer`]: an MCP server that the client of a front names ([`Session::connect_mcp`]).
//! - [`Observer`]: receives the progress of compilation while a user waits.
//! - [`specs`]: the built-in commands. Routing, `/commands`, completion and the documents use this table.
//! - [`RESERVED`], [`INTERNAL_TOOLS`], [`HostPlatform`]: inputs of the checks on skills.
//!
//! Each line is computed against a fixed state, committed in one transaction, and only then applied and shown. Whatever a
//! user has seen is therefore stored, even if the process is killed.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use patchbay_sandbox::Compiler;
//! use patchbay_session::{Config, Host, Paths};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = |name| Path::new("/home/ada/patchbay").join(name);
//! let paths =
//!     Paths { config: folder("config"), data: folder("data"), cache: folder("cache"), state: folder("state") };
//! let compiler = Compiler { program: "patchbay".into(), arguments: vec!["compile".to_owned()], keeps_functions: false };
//! let host = Host::open(Config::new(paths, compiler))?;
//!
//! let session = host.new_session(Path::new(".")).await?;
//! let outcome = session.submit("/skills").await;
//! println!("{}", outcome.line());
//! session.close().await;
//! # Ok(())
//! # }
//! ```

mod activity;
mod agents;
mod attach;
mod building;
mod builtin;
mod change_sets;
mod clients;
mod commands;
mod complete;
mod error;
mod expiry;
mod explain;
mod file_differences;
mod filter;
mod gathering;
mod host;
mod installed;
mod invoke;
mod json;
mod known_files;
mod line;
mod lock;
mod mail;
mod mcp_sessions;
mod notices;
mod notification;
mod objects;
mod observer;
mod opening;
mod options;
mod package_servers;
mod persona;
mod pictures;
mod pinning;
mod platform;
mod prepared;
mod recap;
mod recording;
mod recovery;
mod replay;
mod roots;
mod session;
mod spent;
mod stored;
mod surroundings;
mod task_list;
mod tree;
mod turns;
mod unanswered;
mod view;
mod wake;
mod watch;
mod workspace_files;
mod workspace_path;
mod workspace_skill_files;

pub use patchbay_agent::{
    AgentSettings, AnswerSoFar, CompactionSettings, ContextSettings, INTERNAL_TOOLS, SessionLimits,
};
pub use patchbay_command::RESERVED;
pub use patchbay_events::{
    AnswerAttempt, AnswerFollower, AnswerReceived, AnswerText, BrokeOff, Followed, Received, Subscription,
};
pub use patchbay_mcp::tools::{ClientAddress, ClientServer, McpFailure, McpReport, McpToolReport};
pub use patchbay_policy::{Capability, Identity, Root, ToolDecision};
pub use patchbay_provider::DefaultChoice;
pub use patchbay_sandbox::Content;
pub use patchbay_skill::Snapshot;
pub use patchbay_tools::{
    Act, Approval, Approver, CallTerms, CalledTool, DiffLine, Editor, FileDiff, Mode, OfferedGrant, OutsideCall,
    OutsideDeclaration, OutsideError, OutsideOrigin, OutsideSpec, OutsideTool, PatternBudget, PersonAnswer,
    ProviderMove, Question, QuestionSubject, SkillCapability, TerminalCommand, command_line, input_json,
};

pub use builtin::specs;
pub use clients::{KeepSettings, OnceLine, OpenQuestion, Seat, SeatEvent, SentOnce, SharedSession, SharedSessions};
pub use commands::CommandInfo;
pub use complete::Suggestion;
pub use error::SessionError;
pub use expiry::ExpiredSessions;
pub use explain::{Explanation, Fate, Verdict};
pub use host::{BundledSkills, Config, Host, Paths};
pub use installed::{InstalledSkill, InstalledSkills};
pub use line::{
    client::{ClientIdentity, LineClient},
    input::{LineInput, NewAttachment},
    queue::{QueueView, QueuedLine, check_room as check_queue_room},
    submitted::Submitted,
};
pub use mcp_sessions::McpSessions;
pub use notices::ModelInUse;
pub use objects::{event_object, journal_object, journal_time};
pub use observer::{Observer, Unobserved};
pub use options::{OptionChoice, OptionKind, SessionOption};
pub use platform::HostPlatform;
pub use recap::LastExchange;
pub use replay::{StoredTurn, ViewRows};
pub use roots::{PackagePaths, ServedPackage};
pub use session::Session;
pub use spent::{spending_line, spending_object};
pub use stored::StoredSession;
pub use tree::list::{AgentInfo, AgentState, AgentTree};
pub use unanswered::unanswered_hint;
pub use view::AgentInView;
pub use watch::SkillWatch;
pub use workspace_path::workspace_path;

//! Runs components that nobody here wrote. The one crate that names wasmtime.
//!
//! It knows how to load a component, ask it what tools it has, and call one, each time in a fresh instance within
//! [`Limits`]. It does not know sessions, skills' manifests, grants or databases: what a call may do comes with it as
//! [`Permits`](patchbay_policy::Permits), and what it may reach as [`Services`], traits for the most part ([`Kv`], [`Http`],
//! [`ToolCaller`], [`WorkspaceFiles`], [`ProgressSink`], [`LogSink`], and [`PermitSource`], which asks a person).
//!
//! - [`Sandbox`]: the engine, its linker and the loaded components.
//! - [`Call`], [`Finished`], [`Content`], [`Usage`]: one call, how it ended, its answer and what it used.
//! - [`CallClock`]: its time, which stands still while a person is asked.
//! - [`Failure`]: every way in which it can end otherwise, each with a stable code.
//! - [`Artefacts`]: compiled components on disk, and the child process that compiles them.
//! - [`inspect`]: what bytes are, without running them.
//!
//! How a call goes: [`Sandbox::load`] compiles once and gives an `InstancePre` to hold; [`Sandbox::call`] takes a slot,
//! makes a store with its budgets, instantiates, calls, and drops it all. Nothing survives in a guest.

pub mod adapter;
mod artefacts;
mod bindings;
mod budget;
mod call;
mod capability;
mod clock;
mod component;
mod component_cache;
mod engine;
mod failure;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
mod last_lines;
mod limiter;
mod limits;
mod output;
mod run;
mod state;
mod wasi;

pub use artefacts::{Artefacts, COMPILER_ENVIRONMENT, Compiler, Ledger, precompile};
pub use budget::{Budget, Finished, Time, Usage};
pub use call::Call;
pub use capability::{
    Fault,
    http::{Auth, Http, HttpRequest, HttpResponse, RequestedPlacement},
    inference::{Inference, estimated_tokens},
    kv::Kv,
    log::{LogLevel, LogSink, PluginLog, log_plugin_line},
    progress::ProgressSink,
    tools::ToolCaller,
};
pub use clock::{CallClock, ClockPause};
pub use component::{Loaded, WORLD};
pub use engine::{Sandbox, config};
pub use failure::{CompileLimit, Failure};
pub use files::{FilesError, LocalFiles, WorkspaceFiles};
pub use limits::Limits;
pub use output::Content;
pub use patchbay_core::kv::{KvEntry, KvError, Scope};
pub use patchbay_workspace::{FileEntry, WorkspaceAccess};
pub use state::{PermitSource, Services};

/// The future of a host function that a trait here declares.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

//! Runs untrusted WebAssembly components. The only crate that names wasmtime. Used by `tools` and `provider`.
//!
//! The sandbox loads a component, asks it for its tools, and calls one, each time in a fresh instance within
//! [`Limits`]. It does not know sessions, manifests, grants or databases: each call carries its
//! [`Permits`](patchbay_policy::Permits) and its [`Services`], which are mostly traits ([`Kv`], [`Http`],
//! [`ToolCaller`], [`WorkspaceFiles`], [`ProgressSink`], [`LogSink`], and [`PermitSource`], which asks the user).
//!
//! - [`Sandbox`]: the engine, its linkers and the loaded components.
//! - [`Call`], [`Finished`], [`Content`], [`Usage`]: one call, its result, its answer and its usage.
//! - [`CallClock`]: the time of a call, paused while the user is asked.
//! - [`Failure`]: every way in which a call can fail, each with a stable code.
//! - [`Artefacts`]: compiled components on disk, and the child process that compiles them.
//! - [`inspect`]: reads a component without running it.
//! - [`clean_schema`]: cleans the texts of a schema from a foreign source.
//!
//! [`Sandbox::load`] compiles a component once and prepares its instantiation. [`Sandbox::call`] waits for pool slots, creates a
//! store with its budgets, instantiates, calls, and drops everything. No state of a guest survives a call.
//!
//! ```
//! use patchbay_sandbox::inspect;
//!
//! // The component model's header, without content.
//! let component = inspect::shape(b"\0asm\x0d\0\x01\0")?;
//! assert!(component.imports.is_empty());
//!
//! let failure = component.check_skill().unwrap_err();
//! assert_eq!(failure.code().as_str(), "invalid_component");
//! # Ok::<(), patchbay_sandbox::Failure>(())
//! ```

pub mod adapter;
mod artefacts;
mod bindings;
mod budget;
mod call;
mod capability;
mod clock;
mod compiled_functions;
mod component;
mod component_cache;
mod effect;
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
mod memory_watch;
mod output;
mod preinit;
mod run;
mod source_map;
mod state;
mod symbols;
mod wasi;

pub use artefacts::{Artefacts, COMPILER_ENVIRONMENT, COMPILER_MEMORY_IS_WATCHED, Compiler, Ledger, precompile};
pub use budget::{Budget, Finished, Time, Usage};
pub use call::Call;
pub use capability::{
    Fault,
    call::CallIdentity,
    http::{Auth, Http, HttpFuture, HttpRequest, HttpResponse, RequestedPlacement},
    inference::{CompletionFuture, Inference, estimated_tokens},
    kv::{Kv, KvFuture},
    log::{LogLevel, LogSink, PluginLog, log_plugin_line},
    progress::ProgressSink,
    skill_files::{SkillFileEntry, SkillFileReader},
    tool_index::CallableTool,
    tools::{NestedCallFuture, ToolCaller},
};
pub use clock::{CallClock, ClockPause};
pub use compiled_functions::precompile_with_functions;
pub use component::{Loaded, WORLD};
pub use effect::{EffectBody, FileEdit, GuestEffect};
pub use engine::{Sandbox, config};
pub use failure::{CompileLimit, Failure};
pub use files::{FilesError, FilesFuture, LocalFiles, WorkspaceFiles};
pub use limits::Limits;
pub use output::{Content, clean_schema};
pub use patchbay_core::kv::{KvEntry, KvError, Scope};
pub use patchbay_workspace::{
    CheckedFile, EditorTexts, ExistingFile, FileEntry, FoundFile, NameQuery, NameResults, SearchBounds, TextQuery,
    TextResults, WorkspaceAccess,
};
pub use preinit::{INITIALIZE, preinitialize};
pub use source_map::{BUNDLE, BundleMap};
pub use state::{EffectGate, FixedInputs, Permission, PermitSource, Services};
pub use symbols::{DebugInfo, Symbols};

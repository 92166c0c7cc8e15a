//! The failures of calls and of the compiler, with their stable codes and messages.

use patchbay_core::Code;
use patchbay_policy::Denial;

use crate::{Limits, adapter::Exceeded};

/// Why a call failed. Each failure has a stable [`Code`]; the message of an exceeded limit names the limit and its setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The bytes are not a component that this host can run.
    #[error("{0}")]
    InvalidComponent(String),
    /// The skill reported a failure.
    #[error("{message}")]
    Failed {
        /// The skill's own name for the failure.
        kind: String,
        /// The skill's message, cleaned.
        message: String,
    },
    /// The skill failed after a capability was denied to it.
    #[error("{0}")]
    Denied(Denial),
    /// The guest trapped, for example because of a panic.
    #[error("the component trapped: {reason}")]
    Trap {
        /// The engine's message about the trap.
        reason: String,
        /// Where in the author's source it trapped, the innermost call first; empty if that is not
        /// known. For the user, like `printed`.
        places: Vec<String>,
        /// The last lines that the guest wrote to its log, standard output and standard error, the oldest first: at
        /// most five lines and 1 KiB, cleaned. For the user; not part of the message.
        printed: Vec<String>,
    },
    /// The guest's answer violates the contract.
    #[error("the component returned an invalid result: {0}")]
    InvalidOutput(String),
    /// The call used all its fuel.
    #[error(
        "the call used up its fuel of {budget} units (limits.fuel): it does too much work for one call, or it loops"
    )]
    Fuel {
        /// The fuel that the call started with.
        budget: u64,
    },
    /// The call exceeded its time.
    #[error("call exceeded its time limit of {limit_ms} ms (limits.time_ms)")]
    Time {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// A call that may use a model exceeded its time.
    #[error("call exceeded its time limit of {limit_ms} ms (limits.time_ms with limits.inference_ms)")]
    InferenceTime {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// A call that may call tools exceeded its time.
    #[error("call exceeded its time limit of {limit_ms} ms (limits.time_ms with limits.code_ms)")]
    ToolsTime {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The instance requested more memory and tables than allowed.
    #[error("component needs {wanted}; the limit is {limit} (limits.memory_bytes)")]
    Memory {
        /// The requested amount, with its unit.
        wanted: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// The call made too many host calls.
    #[error("the call made more than {limit} host calls (limits.host_calls)")]
    HostCalls {
        /// The number of calls that are allowed.
        limit: u32,
    },
    /// A call that may call tools made too many host calls, together with the tools that it called.
    #[error(
        "the call and the tools that it called made more than {limit} host calls ({times} times limits.host_calls)",
        times = Limits::TOOLS_HOST_CALLS
    )]
    ToolsHostCalls {
        /// The number of calls that are allowed.
        limit: u32,
    },
    /// A nested call exceeded its share of its caller's budget.
    #[error("{0}; this limit is the call's share of the caller's remaining budget")]
    Share(Box<Failure>),
    /// A limit that the guest exceeded at a known place.
    #[error("{failure}")]
    Located {
        /// The failure that names the exceeded limit.
        failure: Box<Failure>,
        /// Where in the author's source the limit was exceeded, the innermost call first.
        places: Vec<String>,
    },
    /// A call that reported progress exceeded its time.
    #[error("{failure}. Before that it reported:\n{reported}")]
    AfterReport {
        /// The failure that names the exceeded limit.
        failure: Box<Failure>,
        /// The end of the call's progress reports, cleaned: at most 4 KiB.
        reported: String,
    },
    /// The input is larger than the limit.
    #[error("the input of {size} bytes is over the limit of {limit} (limits.input_bytes)")]
    Input {
        /// The size of the input in bytes.
        size: usize,
        /// The exceeded limit, in bytes.
        limit: usize,
    },
    /// The call's output is too large.
    #[error("component passed more than {limit} bytes to the host (limits.output_bytes)")]
    Output {
        /// The exceeded limit, in bytes.
        limit: usize,
    },
    /// The call wrote too much to its log.
    #[error("the call wrote more than {lines} lines or {bytes} bytes of log (limits.log_lines, limits.log_bytes)")]
    Log {
        /// The number of lines that are allowed.
        lines: u32,
        /// The number of bytes that are allowed.
        bytes: usize,
    },
    /// The skill wrote too many bytes to the workspace.
    #[error(
        "the skill would have written more than {limit} bytes to the workspace in this session \
         (limits.write_bytes); start a new session, or raise the limit"
    )]
    Written {
        /// The exceeded limit, in bytes.
        limit: u64,
    },
    /// An adapter exceeded a limit of its exchange.
    #[error("{0}")]
    Exceeded(Exceeded),
    /// The compiler was stopped.
    #[error("{0}")]
    Compile(CompileLimit),
    /// The host cannot run components at the moment.
    #[error("{0}")]
    Unavailable(String),
}

/// Returns whether the innermost place is in a C source.
fn is_in_c(places: &[String]) -> bool {
    places.first().and_then(|place| place.split(':').next()).is_some_and(|file| file.ends_with(".c"))
}

/// Why the compiler of a component was stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileLimit {
    /// The limit on processor time.
    #[error("compiling the component took more than {limit_ms} ms of processor time (limits.compile_ms)")]
    Time {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The compiler was still running after a multiple of the limit on processor time.
    #[error(
        "compiling the component took more than {elapsed_ms} ms without using up its processor time \
         (limits.compile_ms); this machine may be too busy"
    )]
    Stalled {
        /// How long the compiler ran, in milliseconds of wall-clock time.
        elapsed_ms: u64,
    },
    /// The limit on address space, or on resident memory where the system cannot limit address space.
    #[error("compiling the component took more than {limit_bytes} bytes of memory (limits.compile_bytes)")]
    Memory {
        /// The limit on the compiler's memory, in bytes.
        limit_bytes: u64,
    },
    /// The system killed the compiler.
    #[error(
        "the system killed the component's compiler; this machine may be short of memory. With a \
         smaller limits.compile_bytes, compiling stops at that limit instead"
    )]
    Killed,
}

impl Failure {
    /// Returns the failure of a guest that trapped without output.
    pub fn trap(reason: impl Into<String>) -> Self {
        Self::Trap { reason: reason.into(), places: Vec::new(), printed: Vec::new() }
    }

    /// Adds where a guest trapped or used up its fuel.
    pub(crate) fn at(mut self, found: Vec<String>) -> Self {
        match &mut self {
            Self::Trap { places, .. } => *places = found,
            Self::Fuel { .. } | Self::Share(_) if !found.is_empty() => {
                return Self::Located { failure: Box::new(self), places: found };
            }
            _ => {}
        }
        self
    }

    /// Returns the failure inside [`Failure::Located`]. Other failures are returned unchanged.
    pub(crate) fn without_place(self) -> Self {
        match self {
            Self::Located { failure, .. } => *failure,
            other => other,
        }
    }

    /// Changes the lines that a guest printed before it trapped.
    pub(crate) fn with_printed(mut self, change: impl FnOnce(Vec<String>) -> Vec<String>) -> Self {
        if let Self::Trap { printed, .. } = &mut self {
            *printed = change(std::mem::take(printed));
        }
        self
    }

    /// Adds the call's progress reports to an exceeded time limit, since its result is lost. A tool may have reported why it was
    /// still waiting.
    pub(crate) fn after_report(self, reported: &str) -> Self {
        let reported = reported.trim();
        if self.code() != Code::LimitTime || reported.is_empty() {
            return self;
        }
        Self::AfterReport { failure: Box::new(self), reported: reported.to_owned() }
    }

    /// Returns the last lines that the guest printed before it trapped, for the user. Empty for other failures.
    pub fn printed(&self) -> &[String] {
        match self {
            Self::Trap { printed, .. } => printed,
            _ => &[],
        }
    }

    /// Returns where in the author's source a guest was stopped, for the user. Empty if that is not known.
    pub fn places(&self) -> &[String] {
        match self {
            Self::Trap { places, .. } | Self::Located { places, .. } => places,
            _ => &[],
        }
    }

    /// Returns the usual cause of a failure, for the user, if the failure's message does not name the cause.
    pub fn hint(&self) -> Option<&'static str> {
        let reason = match self {
            // For Rust, JavaScript and Python, the printed lines say more.
            Self::Trap { reason, places, .. } if is_in_c(places) && reason.contains("unreachable") => {
                return Some("abort() was called, a NULL pointer was used, or an index was past the end of an array");
            }
            Self::Share(failure) | Self::Located { failure, .. } | Self::AfterReport { failure, .. } => {
                return failure.hint();
            }
            Self::Trap { reason, .. } => reason,
            _ => return None,
        };
        const CAUSES: &[(&str, &str)] = &[
            (
                "out of bounds memory access",
                "often a stack overflow (64 KiB in C, 1 MiB in Rust): a function recurses too deeply, or has a \
                 large local array",
            ),
            ("call stack exhausted", "a function recurses endlessly or too deeply"),
            ("uninitialized element", "a function pointer is NULL, or does not point to a function"),
            ("indirect call type mismatch", "the type of a function pointer does not match its function"),
        ];
        CAUSES.iter().find(|(words, _)| reason.contains(words)).map(|(_, cause)| *cause)
    }

    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::InvalidComponent(_) => Code::InvalidComponent,
            Self::Failed { .. } => Code::ToolFailed,
            Self::Denied(Denial::Placement { .. }) => Code::CredentialPlacement,
            Self::Denied(_) => Code::Denied,
            Self::Trap { .. } => Code::Trap,
            Self::InvalidOutput(_) => Code::InvalidOutput,
            Self::Fuel { .. } => Code::LimitFuel,
            Self::Time { .. } | Self::InferenceTime { .. } | Self::ToolsTime { .. } => Code::LimitTime,
            Self::Memory { .. } => Code::LimitMemory,
            Self::HostCalls { .. } | Self::ToolsHostCalls { .. } => Code::LimitHostCalls,
            Self::Share(failure) | Self::Located { failure, .. } | Self::AfterReport { failure, .. } => failure.code(),
            Self::Input { .. } => Code::LimitInput,
            Self::Output { .. } => Code::LimitOutput,
            Self::Log { .. } => Code::LimitLog,
            Self::Written { .. } => Code::LimitWrite,
            Self::Exceeded(exceeded) => exceeded.code(),
            Self::Compile { .. } => Code::LimitCompile,
            Self::Unavailable(_) => Code::Unavailable,
        }
    }

    /// Returns whether describing the same component always fails this way. Such a failure can be stored; time limits and host
    /// errors are not a property of a component.
    pub fn is_deterministic(&self) -> bool {
        if let Self::Located { failure, .. } = self {
            return failure.is_deterministic();
        }
        !matches!(
            self,
            Self::Time { .. }
                | Self::InferenceTime { .. }
                | Self::ToolsTime { .. }
                | Self::AfterReport { .. }
                | Self::Written { .. }
                | Self::Exceeded(Exceeded::StepTime(_))
                | Self::Compile { .. }
                | Self::Unavailable(_)
        )
    }
}

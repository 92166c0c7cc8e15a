use patchbay_core::Code;
use patchbay_policy::Denial;

use crate::adapter::Exceeded;

/// Why a call gave no result. Each has a stable [`Code`] and says what was wrong, with which value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The bytes are no component that this host can run.
    #[error("{0}")]
    InvalidComponent(String),
    /// The skill itself says that it failed.
    #[error("{message}")]
    Failed {
        /// The skill's word for it.
        kind: String,
        /// What it says, cleaned.
        message: String,
    },
    /// The skill failed after a capability was denied to it.
    #[error("{0}")]
    Denied(Denial),
    /// The guest trapped.
    #[error("the component trapped: {reason}")]
    Trap {
        /// The engine's words.
        reason: String,
        /// The last lines that the guest wrote to its log, its standard output and its standard error, the oldest first:
        /// at most five lines and 1 KiB, cleaned. For a person; they are not part of the message.
        printed: Vec<String>,
    },
    /// The guest's answer is not what the contract says.
    #[error("the component's answer is invalid: {0}")]
    InvalidOutput(String),
    /// No fuel is left.
    #[error("the call used up its fuel of {budget} units (limits.fuel)")]
    Fuel {
        /// What it had.
        budget: u64,
    },
    /// The deadline has passed.
    #[error("the call ran over its time of {limit_ms} ms (limits.time_ms)")]
    Time {
        /// What it had.
        limit_ms: u64,
    },
    /// The deadline of a call that may ask a model has passed.
    #[error("the call ran over its time of {limit_ms} ms (limits.time_ms with limits.inference_ms)")]
    InferenceTime {
        /// What it had.
        limit_ms: u64,
    },
    /// The instance wanted more memory and tables than it may have.
    #[error("the component wants {wanted} and may have {limit} (limits.memory_bytes)")]
    Memory {
        /// What it wanted, with its unit.
        wanted: String,
        /// What it may have, with its unit.
        limit: String,
    },
    /// Too many calls to the host.
    #[error("the call made more than {limit} host calls (limits.host_calls)")]
    HostCalls {
        /// What it may make.
        limit: u32,
    },
    /// The input is too large.
    #[error("the input of {size} bytes is over the limit of {limit} (limits.input_bytes)")]
    Input {
        /// What was given.
        size: usize,
        /// What may be given.
        limit: usize,
    },
    /// Too many bytes handed over.
    #[error("the component handed over more than {limit} bytes (limits.output_bytes)")]
    Output {
        /// What it may hand over.
        limit: usize,
    },
    /// Too much log.
    #[error("the call wrote more than {lines} lines or {bytes} bytes of log (limits.log_lines, limits.log_bytes)")]
    Log {
        /// Lines that it may write.
        lines: u32,
        /// Bytes that it may write.
        bytes: usize,
    },
    /// Too many bytes written to the workspace.
    #[error(
        "the skill would have written more than {limit} bytes to the workspace in this session (limits.write_bytes); start another session, or raise the limit"
    )]
    Written {
        /// The limit in bytes.
        limit: u64,
    },
    /// An adapter went over a limit of its exchange.
    #[error("{0}")]
    Exceeded(Exceeded),
    /// The compiler was stopped.
    #[error("{0}")]
    Compile(CompileLimit),
    /// The host cannot run components now.
    #[error("{0}")]
    Unavailable(String),
}

/// What stopped the compiler of a component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileLimit {
    /// Wall-clock time, or processor time of all cores.
    #[error("compiling the component took more than {limit_ms} ms (limits.compile_ms)")]
    Time {
        /// Milliseconds of wall-clock time.
        limit_ms: u64,
    },
    /// Address space.
    #[error("compiling the component took more than {limit_bytes} bytes of memory (limits.compile_bytes)")]
    Memory {
        /// Bytes of address space.
        limit_bytes: u64,
    },
    /// The system killed the compiler.
    #[error(
        "the system killed the compiler of the component; this machine may be short of memory, which a smaller \
         limits.compile_bytes avoids"
    )]
    Killed,
}

impl Failure {
    /// A trap of a guest that printed nothing.
    pub fn trap(reason: impl Into<String>) -> Self {
        Self::Trap { reason: reason.into(), printed: Vec::new() }
    }

    /// The last lines that the guest printed before it trapped, for a person. Empty for any other failure.
    pub fn printed(&self) -> &[String] {
        match self {
            Self::Trap { printed, .. } => printed,
            _ => &[],
        }
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::InvalidComponent(_) => Code::InvalidComponent,
            Self::Failed { .. } => Code::ToolFailed,
            Self::Denied(Denial::Placement { .. }) => Code::CredentialPlacement,
            Self::Denied(_) => Code::Denied,
            Self::Trap { .. } => Code::Trap,
            Self::InvalidOutput(_) => Code::InvalidOutput,
            Self::Fuel { .. } => Code::LimitFuel,
            Self::Time { .. } | Self::InferenceTime { .. } => Code::LimitTime,
            Self::Memory { .. } => Code::LimitMemory,
            Self::HostCalls { .. } => Code::LimitHostCalls,
            Self::Input { .. } => Code::LimitInput,
            Self::Output { .. } => Code::LimitOutput,
            Self::Log { .. } => Code::LimitLog,
            Self::Written { .. } => Code::LimitWrite,
            Self::Exceeded(exceeded) => exceeded.code(),
            Self::Compile { .. } => Code::LimitCompile,
            Self::Unavailable(_) => Code::Unavailable,
        }
    }

    /// Whether the same bytes and input would fail so again: then the failure may be kept. The wall clock and the
    /// host's own troubles are no property of a component.
    pub fn is_deterministic(&self) -> bool {
        !matches!(
            self,
            Self::Time { .. }
                | Self::InferenceTime { .. }
                | Self::Written { .. }
                | Self::Exceeded(Exceeded::StepTime(_))
                | Self::Compile { .. }
                | Self::Unavailable(_)
        )
    }
}

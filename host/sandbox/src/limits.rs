//! The limits of calls: those that `config.toml` sets, and the fixed ones.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits of one call, and the number of concurrent calls. `[limits]` in `config.toml` sets them, next to limits of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// Fuel of one call, about one unit for each instruction. It does not depend on the machine. The default is one or two seconds
    /// of work, a thousand times the need of the bundled skills (`limit_fuel`).
    pub fuel: u64,
    /// Fuel for asking a component for its tools. Enough to start a language runtime.
    pub describe_fuel: u64,
    /// Time limit of one call, in milliseconds. Stops calls that wait in a host call and use no fuel (`limit_time`).
    #[schemars(range(min = 1, max = 3_600_000))]
    pub time_ms: u64,
    /// Time added to `time_ms` for a call that may use a model, in milliseconds. Models are slow; the work of the guest
    /// itself is bounded by fuel.
    #[schemars(range(min = 0, max = 3_600_000))]
    pub inference_ms: u64,
    /// Time added to `time_ms` for a call that may call other tools, in milliseconds. Those tools run within that time, and may
    /// wait for servers or for programs.
    #[schemars(range(min = 0, max = 3_600_000))]
    pub code_ms: u64,
    /// Tokens that models may use for one call, including its nested calls. Enough for several long documents.
    pub inference_tokens: u64,
    /// Bytes of all memories and tables of an instance together. Twice what common language runtimes need
    /// (`limit_memory`).
    #[schemars(range(min = 64 << 10, max = 4_u64 << 30))]
    pub memory_bytes: usize,
    /// Calls from the guest to the host. Enough to read a large store one entry at a time (`limit_host_calls`). A call that may
    /// call other tools has ten times as many, for itself and for them.
    pub host_calls: u32,
    /// Bytes of the input of a tool, including attachments (`limit_input`).
    pub input_bytes: usize,
    /// Bytes of a tool's result and progress together, and of the data of one host call. More than the context of a model
    /// (`limit_output`).
    pub output_bytes: usize,
    /// Log lines of one call. More would hide the operator's other lines (`limit_log`).
    pub log_lines: u32,
    /// Log bytes of one call (`limit_log`).
    pub log_bytes: usize,
    /// Bytes that one skill may write to the workspace in one session. A new process counts from zero. Each name in the path of a
    /// written file counts as 4096 bytes more. Much more than edited text needs, too little to fill a disk (`limit_write`).
    pub write_bytes: u64,
    /// Processor time for compiling a component, in milliseconds, on all cores together. Several times what the largest
    /// language runtime needs (`limit_compile`).
    pub compile_ms: u64,
    /// Address space of the compiler process, in bytes; on macOS its resident memory (`limit_compile`).
    pub compile_bytes: u64,
    /// Number of concurrent calls, without nested ones; further calls wait. Each one reserves address space, not memory.
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrent_calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 2_000_000_000,
            describe_fuel: 500_000_000,
            time_ms: 10_000,
            inference_ms: 120_000,
            code_ms: 120_000,
            inference_tokens: 100_000,
            memory_bytes: 64 << 20,
            host_calls: 10_000,
            input_bytes: 8 << 20,
            output_bytes: 4 << 20,
            log_lines: 1_000,
            log_bytes: 256 << 10,
            write_bytes: 1 << 30,
            compile_ms: 120_000,
            compile_bytes: 8 << 30,
            concurrent_calls: 64,
        }
    }
}

impl Limits {
    /// Maximum elements of one table; large dispatch tables have thousands.
    pub(crate) const TABLE_ELEMENTS: usize = 100_000;
    /// Maximum memories of one component; language runtimes use three or four.
    pub(crate) const MEMORIES: u32 = 16;
    /// Maximum tables of one component.
    pub(crate) const TABLES: u32 = 64;
    /// Memories and tables in one slot of the pool, enough for a typical component. A component with more needs several slots.
    pub(crate) const MEMORIES_PER_SLOT: u32 = 4;
    pub(crate) const TABLES_PER_SLOT: u32 = 8;
    /// Maximum depth of nested tool calls. Enough for a tool that searches, one that reads, and one between them.
    pub(crate) const DEPTH: u32 = 4;
    /// Nested calls of one depth that run concurrently; each depth has its own slots.
    pub(crate) const NESTED_CALLS: u32 = 16;
    /// How many times `host_calls` a call gets if it may call tools. This is enough for eight concurrent nested calls to get about
    /// `host_calls` each.
    pub(crate) const TOOLS_HOST_CALLS: u32 = 10;
    /// Nested calls that one call may run concurrently. More would use up the slots of other calls.
    pub(crate) const RUNNING_CALLS: usize = 8;
    /// Maximum number and total bytes of the tools on one page of the index, and maximum bytes of a query.
    pub(crate) const INDEX_TOOLS: usize = 1_000;
    pub(crate) const INDEX_BYTES: usize = 1 << 20;
    pub(crate) const QUERY_BYTES: usize = 1_000;
    /// Maximum `wasi:*` resources of a guest, such as streams, requests and responses.
    pub(crate) const WASI_RESOURCES: usize = 256;
    /// Maximum bytes of one read of randomness.
    pub(crate) const RANDOM_BYTES: u64 = 1 << 20;
    /// Extra entries in the pool. Freed entries are decommitted in batches, and are not available until then.
    pub(crate) const IN_CLEARING: u32 = 64;
    /// Maximum core instances of one component; a Python component needs several dozen.
    pub(crate) const CORE_INSTANCES: u32 = 128;
    /// Maximum live component-model handles. Few are useful, because the contract has no resources.
    pub(crate) const HANDLES: usize = 1_000;
    /// Maximum tools of one component, and maximum bytes of one tool's description and schema. Few enough to show all of them to a
    /// model.
    pub(crate) const TOOLS: usize = 64;
    pub(crate) const DESCRIPTION_BYTES: usize = 8 << 10;
    pub(crate) const SCHEMA_BYTES: usize = 64 << 10;

    /// Bytes that each name on the path of a write counts against `write_bytes`: about the disk space
    /// of an empty file or directory.
    pub(crate) const NAME_ON_DISK: u64 = 4_096;

    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    pub(crate) fn tools_time(&self) -> Duration {
        Duration::from_millis(self.code_ms)
    }

    pub(crate) fn inference_time(&self) -> Duration {
        Duration::from_millis(self.inference_ms)
    }
}

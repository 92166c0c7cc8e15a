use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one exchange with a provider may take. `[exchange]` in `config.toml` sets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExchangeLimits {
    /// Looking up, connecting and agreeing on keys, in milliseconds: three tries of a lost packet.
    pub connect_ms: u64,
    /// From the request to the first byte of the answer's body, in milliseconds. A model that thinks says nothing for a while.
    pub first_byte_ms: u64,
    /// The longest silence between two pieces of an answer, in milliseconds. Providers send a sign of life every few seconds.
    pub idle_ms: u64,
    /// One completion in all, its retries apart, in milliseconds. The longest answers take some minutes.
    pub total_ms: u64,
    /// Bytes of a request's body: a long conversation with several images.
    pub request_bytes: usize,
    /// Bytes of an answer, decompressed. The longest answer of a model, with what its provider wraps it in, has a few million.
    pub answer_bytes: u64,
    /// Fuel of one step of an adapter, about one unit an instruction: a chunk costs a few hundred thousand, the first step
    /// of a long conversation some hundred million.
    pub step_fuel: u64,
    /// Fuel of an adapter's steps in one completion together.
    pub fuel: u64,
    /// Wall clock of one step, in milliseconds: the net behind the fuel.
    pub step_ms: u64,
    /// Bytes of an adapter's memories and tables: the whole conversation stands there more than once.
    pub memory_bytes: usize,
    /// Actions that one step may give: a chunk of 16 KiB holds a few hundred events.
    pub step_actions: u32,
    /// Actions of one completion.
    pub actions: u32,
    /// Requests of one completion: some APIs make a pause and want to be asked to go on.
    pub requests: u32,
    /// Completions that run at once.
    pub concurrent: u32,
}

impl Default for ExchangeLimits {
    fn default() -> Self {
        Self {
            connect_ms: 10_000,
            first_byte_ms: 120_000,
            idle_ms: 60_000,
            total_ms: 1_200_000,
            request_bytes: 64 << 20,
            answer_bytes: 64 << 20,
            step_fuel: 2_000_000_000,
            fuel: 50_000_000_000,
            step_ms: 10_000,
            memory_bytes: 256 << 20,
            step_actions: 10_000,
            actions: 1_000_000,
            requests: 16,
            concurrent: 256,
        }
    }
}

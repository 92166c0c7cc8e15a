//! The limits of one completion: `[exchange]` of `config.toml`. `cli` reads them; the exchange, its egress and the adapters'
//! sandbox apply them.

use std::time::Duration;

use patchbay_egress::{Egress, EgressLimits};
use patchbay_sandbox::{Limits, adapter::Budgets};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest configurable time, in milliseconds: an hour, because users do not wait longer.
const HOUR: u64 = 3_600_000;
/// The largest configurable size of a request, an answer or a step's output, in bytes.
const GIGABYTE: u64 = 1 << 30;
/// The largest configurable number of actions or requests.
const MANY: u64 = 1_000_000_000;
/// The largest text of an answer, in bytes. It is stored whole in one row.
const MAX_TEXT: u64 = 64 << 20;
/// The largest number of concurrent completions. Each one reserves address space.
const CONCURRENT: u64 = 10_000;

/// Limits of one exchange with a provider. They apply to each attempt separately: a retry starts again from zero. `[exchange]` in
/// `config.toml` sets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExchangeLimits {
    /// Time limit of name lookup, connection and TLS handshake, in milliseconds. Enough to send a lost packet three times.
    #[schemars(range(min = 1, max = HOUR))]
    pub connect_ms: u64,
    /// Time limit from the request to the first byte of the response body, in milliseconds. A local server is silent while it
    /// reads a long prompt, and some servers send nothing while a model thinks: minutes are normal.
    #[schemars(range(min = 1, max = HOUR))]
    pub first_byte_ms: u64,
    /// Longest silence between two pieces of a response, in milliseconds. Some providers send nothing while a model writes a
    /// large tool call: minutes of silence are normal.
    #[schemars(range(min = 1, max = HOUR))]
    pub idle_ms: u64,
    /// Time limit of one completion without its retries, in milliseconds. The longest answers take some minutes.
    #[schemars(range(min = 1, max = HOUR))]
    pub total_ms: u64,
    /// Size limit of a request body, in bytes. Enough for a long conversation with several images.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub request_bytes: usize,
    /// Size limit in bytes of all decompressed responses of one completion, and of the adapter's output for them. The longest
    /// responses of models have a few million bytes.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub answer_bytes: u64,
    /// Size limit in bytes of the text, the thinking and the inputs of calls in one answer. 4 MiB is more than a million tokens,
    /// several times the longest answers of models. An answer takes about 12 times its size in memory, and is part of the next
    /// requests.
    #[schemars(range(min = 1, max = MAX_TEXT))]
    pub text_bytes: usize,
    /// Fuel of one step of an adapter, about one unit for each instruction. A chunk takes a few hundred thousand, the first step of
    /// a long conversation a few hundred million.
    #[schemars(range(min = 1))]
    pub step_fuel: u64,
    /// Fuel of all steps of an adapter in one completion. A step is one call of the adapter, for example with a chunk of the
    /// response.
    #[schemars(range(min = 1))]
    pub fuel: u64,
    /// Time limit of one step, in milliseconds. Fuel normally ends a step earlier.
    #[schemars(range(min = 1, max = HOUR))]
    pub step_ms: u64,
    /// Size limit of an adapter's memories and tables, in bytes. An adapter holds several copies of the whole conversation.
    #[schemars(range(min = 1, max = 4 * GIGABYTE))]
    pub memory_bytes: usize,
    /// Size limit of the output of one step, in bytes. Enough for a request body and the last block of a large answer.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub step_bytes: usize,
    /// Number of actions that one step may return. A chunk of 16 KiB contains a few hundred events.
    #[schemars(range(min = 1, max = MANY))]
    pub step_actions: u32,
    /// Number of actions in one completion, such as requests, waits and events of the answer.
    #[schemars(range(min = 1, max = MANY))]
    pub actions: u32,
    /// Number of requests in one completion. Some APIs pause an answer and continue it at the next request.
    #[schemars(range(min = 1, max = MANY))]
    pub requests: u32,
    /// Number of concurrent completions; further completions wait.
    #[schemars(range(min = 1, max = CONCURRENT))]
    pub concurrent: u32,
}

impl Default for ExchangeLimits {
    fn default() -> Self {
        Self {
            connect_ms: 10_000,
            first_byte_ms: 300_000,
            idle_ms: 300_000,
            total_ms: 1_200_000,
            request_bytes: 64 << 20,
            answer_bytes: 64 << 20,
            text_bytes: 4 << 20,
            step_fuel: 2_000_000_000,
            fuel: 50_000_000_000,
            step_ms: 10_000,
            memory_bytes: 256 << 20,
            step_bytes: 80 << 20,
            step_actions: 10_000,
            actions: 1_000_000,
            requests: 16,
            concurrent: 256,
        }
    }
}

impl ExchangeLimits {
    /// Returns the egress of providers. Its limits are larger than a skill's, because models take longer to
    /// respond, and requests and answers are larger.
    pub fn egress(&self) -> Egress {
        Egress::new(self.of_egress())
    }

    /// Returns the limits of the adapters' sandbox: the skill limits, overridden by the limits of an exchange.
    pub fn sandbox(&self, of_skills: &Limits) -> Limits {
        let Self { step_ms, memory_bytes, concurrent, answer_bytes, .. } = self;
        let input_bytes = usize::try_from(*answer_bytes).unwrap_or(usize::MAX);
        Limits {
            time_ms: *step_ms,
            memory_bytes: *memory_bytes,
            concurrent_calls: *concurrent,
            input_bytes,
            output_bytes: self.step_bytes,
            ..of_skills.clone()
        }
    }

    /// Returns the limits of the egress of providers. The exchange applies its own limits first. These are a second line of
    /// defence, wide enough not to be reached first. Only the limits of headers are the defaults of `[egress]`, and cannot be set
    /// for providers.
    pub(crate) fn of_egress(&self) -> EgressLimits {
        EgressLimits {
            time_ms: HOUR,
            idle_ms: HOUR,
            connect_ms: self.connect_ms,
            request_bytes: self.request_bytes,
            // Compression makes incompressible data a little larger.
            wire_bytes: (self.answer_bytes + self.answer_bytes / 64 + 1024).min(GIGABYTE),
            body_bytes: self.answer_bytes,
            // Each completion has one request at a time, and the sandbox limits the number of completions.
            requests_at_once: self.concurrent as usize,
            owner_requests_at_once: self.concurrent as usize,
            ..EgressLimits::default()
        }
    }

    /// Returns the budgets of an adapter for one completion. The sandbox limits its memory
    /// and the number of completions.
    pub fn budgets(&self) -> Budgets {
        Budgets {
            step_fuel: self.step_fuel,
            fuel: self.fuel,
            step_ms: self.step_ms,
            step_actions: self.step_actions,
            actions: self.actions,
            step_bytes: self.step_bytes,
        }
    }

    pub(crate) fn first_byte(&self) -> Duration {
        Duration::from_millis(self.first_byte_ms)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    pub(crate) fn total(&self) -> Duration {
        Duration::from_millis(self.total_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_defaults_and_unknown_ones_are_errors() {
        let parsed: ExchangeLimits = toml::from_str("answer_bytes = 5").unwrap();
        assert_eq!(parsed, ExchangeLimits { answer_bytes: 5, ..ExchangeLimits::default() });
        assert!(toml::from_str::<ExchangeLimits>("answer_byte = 5").unwrap_err().to_string().contains("answer_byte"));
    }
}

//! The budget of a call and its usage.

use std::{collections::BTreeSet, time::Duration};

use patchbay_policy::Capability;

use crate::{CallClock, Failure, Limits};

/// The budget of one call: the full limits, or the rest of the caller's budget for a nested call.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Fuel, about one unit for each instruction.
    pub fuel: u64,
    /// Bytes of memories and tables together.
    pub memory_bytes: usize,
    /// Number of calls to the host.
    pub host_calls: u32,
    /// Bytes of result and progress together.
    pub output_bytes: usize,
    /// Bytes of data in one host call. A nested call has the same limit as its caller.
    pub host_call_bytes: usize,
    /// Number of tokens that models may use.
    pub inference_tokens: u64,
    /// Stops the call when it runs out. Shared with all nested calls.
    pub clock: CallClock,
    /// The initial time of the clock.
    pub time: Time,
    /// Nesting depth: 0 for a call by a user or a model.
    pub depth: u32,
}

/// The time limit of a call, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The limit of any call, in milliseconds.
    Plain(u64),
    /// The limit of a call that may use a model, in milliseconds.
    WithInference(u64),
    /// The limit of a call that may call tools, in milliseconds.
    WithTools(u64),
}

impl Budget {
    /// Returns the full budget; its clock starts now.
    pub fn whole(limits: &Limits) -> Self {
        Self {
            fuel: limits.fuel,
            memory_bytes: limits.memory_bytes,
            host_calls: limits.host_calls,
            output_bytes: limits.output_bytes,
            host_call_bytes: limits.output_bytes,
            inference_tokens: limits.inference_tokens,
            clock: CallClock::lasting(limits.time()),
            time: Time::Plain(limits.time_ms),
            depth: 0,
        }
    }

    /// Adds the time for a model.
    pub(crate) fn with_inference(self, limits: &Limits) -> Self {
        self.clock.extend(limits.inference_time());
        let time = Time::WithInference(limits.time_ms.saturating_add(limits.inference_ms));
        Self { time, ..self }
    }

    /// Adds the time and the host calls for other tools.
    pub(crate) fn with_tools(self, limits: &Limits) -> Self {
        self.clock.extend(limits.tools_time());
        let (Time::Plain(limit_ms) | Time::WithInference(limit_ms) | Time::WithTools(limit_ms)) = self.time;
        let host_calls = self.host_calls.saturating_mul(Limits::TOOLS_HOST_CALLS);
        Self { time: Time::WithTools(limit_ms.saturating_add(limits.code_ms)), host_calls, ..self }
    }

    /// Returns the failure of a call that exceeded this budget. For a nested call, it notes that the budget was only a share.
    pub(crate) fn exceeded(&self, failure: Failure) -> Failure {
        if self.depth > 0 { Failure::Share(Box::new(failure)) } else { failure }
    }

    /// Returns the failure of a call that exceeded its time.
    pub(crate) fn late(&self) -> Failure {
        match self.time {
            Time::Plain(limit_ms) => Failure::Time { limit_ms },
            Time::WithInference(limit_ms) => Failure::InferenceTime { limit_ms },
            Time::WithTools(limit_ms) => Failure::ToolsTime { limit_ms },
        }
    }
}

/// The result of a call and its usage, whether it succeeded or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished<T, E = Failure> {
    /// The answer, or why there is none.
    pub result: Result<T, E>,
    /// The resources that the call used.
    pub usage: Usage,
}

impl<T, E> Finished<T, E> {
    /// Returns the result of a call that failed before it used anything.
    pub fn failed(error: E) -> Self {
        Self { result: Err(error), usage: Usage::default() }
    }
}

/// The resources that one call used, including its nested calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Fuel, including fuel used by nested calls.
    pub fuel: u64,
    /// Wall-clock time, without waiting for a pool slot and for the user's answer.
    pub time: Duration,
    /// Peak size of its own memories and tables in bytes.
    pub peak_memory: usize,
    /// Number of calls to the host, including calls made by nested calls.
    pub host_calls: u32,
    /// Bytes of result and progress, including the progress of nested calls.
    pub output_bytes: usize,
    /// Bytes of the result, which are part of `output_bytes`. They do not count against the budget of a calling tool.
    pub result_bytes: usize,
    /// Tokens that models used, including requests made by nested calls.
    pub inference_tokens: u64,
    /// The capabilities that were used.
    pub capabilities: BTreeSet<Capability>,
}

/// The usage of a store so far, without fuel, memory and time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) host_calls: u32,
    pub(crate) output_bytes: usize,
    /// The part of `output_bytes` that is the result.
    pub(crate) result_bytes: usize,
    pub(crate) inference_tokens: u64,
}

impl Spent {
    pub(crate) fn output(&mut self, bytes: usize, budget: &Budget) -> Result<(), Failure> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > budget.output_bytes {
            return Err(budget.exceeded(Failure::Output { limit: budget.output_bytes }));
        }
        Ok(())
    }

    /// Counts the usage of a nested call, without its fuel. Its result is not output of the caller, but its progress is, because
    /// the progress of all calls is shown by the same front.
    pub(crate) fn add_nested(&mut self, usage: &Usage) {
        let progress = usage.output_bytes.saturating_sub(usage.result_bytes);
        self.host_calls = self.host_calls.saturating_add(usage.host_calls);
        self.output_bytes = self.output_bytes.saturating_add(progress);
        self.inference_tokens = self.inference_tokens.saturating_add(usage.inference_tokens);
    }

    /// Returns an error if there were too many host calls.
    pub(crate) fn check_host_calls(&self, budget: &Budget) -> Result<(), Failure> {
        if self.host_calls > budget.host_calls {
            let limit = budget.host_calls;
            return Err(match budget.time {
                Time::WithTools(_) if budget.depth == 0 => Failure::ToolsHostCalls { limit },
                _ => budget.exceeded(Failure::HostCalls { limit }),
            });
        }
        Ok(())
    }
}

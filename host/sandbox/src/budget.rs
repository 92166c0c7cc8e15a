//! What a call may use, and what it used.

use std::{collections::BTreeSet, time::Duration};

use patchbay_policy::Capability;

use crate::{CallClock, Failure, Limits};

/// What one call may use: a whole measure, or, for a tool that another tool called, what is left of its caller's.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Fuel, about one unit an instruction.
    pub fuel: u64,
    /// Bytes of memories and tables together.
    pub memory_bytes: usize,
    /// Calls to the host.
    pub host_calls: u32,
    /// Bytes of result and progress together.
    pub output_bytes: usize,
    /// Tokens that models may take.
    pub inference_tokens: u64,
    /// Stops the call when it runs out; one clock for a call and all calls nested in it.
    pub clock: CallClock,
    /// The time that the clock began with.
    pub time: Time,
    /// How many calls it is within: 0 for one that a person or a model made.
    pub depth: u32,
}

/// The wall clock of a call, from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// That of any call, in milliseconds.
    Plain(u64),
    /// That of a call that may ask a model, in milliseconds.
    WithInference(u64),
}

impl Budget {
    /// The whole measure, from now on.
    pub fn whole(limits: &Limits) -> Self {
        Self {
            fuel: limits.fuel,
            memory_bytes: limits.memory_bytes,
            host_calls: limits.host_calls,
            output_bytes: limits.output_bytes,
            inference_tokens: limits.inference_tokens,
            clock: CallClock::lasting(limits.time()),
            time: Time::Plain(limits.time_ms),
            depth: 0,
        }
    }

    /// The same with the time that a model may take.
    pub(crate) fn with_inference(self, limits: &Limits) -> Self {
        self.clock.extend(limits.inference_time());
        let time = Time::WithInference(limits.time_ms.saturating_add(limits.inference_ms));
        Self { time, ..self }
    }

    /// What a call ends with that is not done in time.
    pub(crate) fn late(&self) -> Failure {
        match self.time {
            Time::Plain(limit_ms) => Failure::Time { limit_ms },
            Time::WithInference(limit_ms) => Failure::InferenceTime { limit_ms },
        }
    }
}

/// How a call ended, and what it used, however it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished<T, E = Failure> {
    /// The answer, or the reason why there is none.
    pub result: Result<T, E>,
    /// What the call used.
    pub usage: Usage,
}

impl<T, E> Finished<T, E> {
    /// A call that failed before it used anything.
    pub fn failed(error: E) -> Self {
        Self { result: Err(error), usage: Usage::default() }
    }
}

/// What one call used, however it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Fuel, with that of the tools it called.
    pub fuel: u64,
    /// Wall-clock time, without the waits for a place in the pool and for a person's answer.
    pub time: Duration,
    /// The most memory and tables it had of its own, in bytes.
    pub peak_memory: usize,
    /// Calls to the host, with those of the tools it called.
    pub host_calls: u32,
    /// Bytes of result and progress.
    pub output_bytes: usize,
    /// Tokens that models took, with those of the tools it called.
    pub inference_tokens: u64,
    /// The capabilities that it used.
    pub capabilities: BTreeSet<Capability>,
}

/// What a store has spent of its budget so far, besides fuel, memory and time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) host_calls: u32,
    pub(crate) output_bytes: usize,
    pub(crate) inference_tokens: u64,
}

impl Spent {
    /// Counts bytes that go out.
    pub(crate) fn output(&mut self, bytes: usize, budget: &Budget) -> Result<(), Failure> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > budget.output_bytes {
            return Err(Failure::Output { limit: budget.output_bytes });
        }
        Ok(())
    }

    /// Whether there were too many host calls.
    pub(crate) fn check_host_calls(&self, budget: &Budget) -> Result<(), Failure> {
        if self.host_calls > budget.host_calls {
            return Err(Failure::HostCalls { limit: budget.host_calls });
        }
        Ok(())
    }
}

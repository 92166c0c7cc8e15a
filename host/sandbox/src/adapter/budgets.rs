//! The budgets of an adapter for one completion, and the remainder after each step.

use std::time::Duration;

use patchbay_core::Code;

use crate::Failure;

/// The budgets of an adapter for one completion, which `[exchange]` in `config.toml` sets. The [`Limits`](crate::Limits) of its
/// sandbox also apply: they limit the memory, and the host calls of each step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Fuel of one step, about one unit for each instruction.
    pub step_fuel: u64,
    /// Fuel of all steps together.
    pub fuel: u64,
    /// Time of one step in milliseconds.
    pub step_ms: u64,
    /// Actions that one step may return.
    pub step_actions: u32,
    /// Actions of all steps together.
    pub actions: u32,
    /// Bytes of everything that one step returns, including request bodies.
    pub step_bytes: usize,
}

/// A budget that an adapter exceeded. The message names the key that sets the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// The fuel limit of one step.
    #[error("the adapter used up its fuel of {0} units for one step (exchange.step_fuel)")]
    StepFuel(u64),
    /// The fuel limit of one completion.
    #[error("the adapter used up its fuel of {0} units for one completion (exchange.fuel)")]
    Fuel(u64),
    /// Time of one step, in milliseconds.
    #[error("adapter exceeded its time limit of {0} ms for one step (exchange.step_ms)")]
    StepTime(u64),
    /// The limit for memory and tables.
    #[error("adapter needs {wanted}; the limit is {limit} (exchange.memory_bytes)")]
    Memory {
        /// The requested amount, with its unit.
        wanted: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// The maximum number of actions in one step.
    #[error("the adapter returned more than {0} actions in one step (exchange.step_actions)")]
    StepActions(u32),
    /// The maximum number of actions in one completion.
    #[error("the adapter returned more than {0} actions in one completion (exchange.actions)")]
    Actions(u32),
    /// The maximum number of bytes returned in one step.
    #[error("adapter returned more than {0} bytes in one step (exchange.step_bytes)")]
    StepBytes(usize),
}

impl Exceeded {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::StepFuel(_) | Self::Fuel(_) => Code::LimitFuel,
            Self::StepTime(_) => Code::LimitTime,
            Self::Memory { .. } => Code::LimitMemory,
            Self::StepActions(_) | Self::Actions(_) | Self::StepBytes(_) => Code::LimitOutput,
        }
    }
}

/// The budgets that are left after each step.
pub(super) struct RemainingBudgets {
    budgets: Budgets,
    fuel: u64,
    actions: u32,
}

impl RemainingBudgets {
    pub(super) fn new(budgets: &Budgets) -> Self {
        Self { fuel: budgets.fuel, actions: budgets.actions, budgets: budgets.clone() }
    }

    /// Returns the fuel for the next step.
    pub(super) fn step_fuel(&self) -> u64 {
        self.budgets.step_fuel.min(self.fuel)
    }

    /// Returns the time for the next step.
    pub(super) fn step_time(&self) -> Duration {
        Duration::from_millis(self.budgets.step_ms)
    }

    /// Counts the fuel that a step used.
    pub(super) fn use_fuel(&mut self, used: u64) {
        self.fuel = self.fuel.saturating_sub(used);
    }

    /// Counts the actions that a step returned.
    pub(super) fn take_actions(&mut self, count: usize) -> Result<(), Failure> {
        let Budgets { step_actions, actions, .. } = self.budgets;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count > step_actions {
            return Err(Failure::Exceeded(Exceeded::StepActions(step_actions)));
        }
        self.actions = self.actions.checked_sub(count).ok_or(Failure::Exceeded(Exceeded::Actions(actions)))?;
        Ok(())
    }

    /// Converts a step's failure to [`Exceeded`] if it hit a limit, because that error names the key in `[exchange]`. Other
    /// failures are returned unchanged.
    pub(super) fn name(&self, failure: Failure) -> Failure {
        let Budgets { step_fuel, fuel, step_ms, step_bytes, .. } = self.budgets;
        Failure::Exceeded(match failure.without_place() {
            Failure::Fuel { budget } if budget == step_fuel => Exceeded::StepFuel(step_fuel),
            Failure::Fuel { .. } => Exceeded::Fuel(fuel),
            Failure::Time { .. } => Exceeded::StepTime(step_ms),
            Failure::Memory { wanted, limit } => Exceeded::Memory { wanted, limit },
            Failure::Output { .. } => Exceeded::StepBytes(step_bytes),
            other => return other,
        })
    }
}

//! Events of a session: committed rows, and live events for the fronts that follow it.
//!
//! - [`EventLog`]: commits the changes of one session and publishes the rows. Agents and the session write to it.
//! - [`Subscription`]: the events of one session from a given row on, first from the store, then live. Fronts read it.
//! - [`AnswerFollower`]: which text of the agent in view a front has shown. All fronts use it.
//! - [`Bus`]: transports events; [`Broadcast`] does so within this process.
//! - [`TokenBudget`]: the tokens that a session has used and may use. Each commit stores the newly used ones.
//!
//! The store is authoritative. A bus may lose, duplicate or reorder events; a subscription detects this by the row numbers
//! and then reads the rows from the store.

mod budget;
mod bus;
mod follower;
mod log;
mod subscription;
#[cfg(test)]
mod testing;

pub use budget::{BudgetExhausted, ReservedTokens, TokenBudget};
pub use bus::{Broadcast, Bus, BusError, BusReceiver};
pub use follower::{AnswerAttempt, AnswerFollower, AnswerReceived, AnswerText, BrokeOff, Followed};
pub use log::EventLog;
pub use subscription::{Received, Subscription};

//! What happens in a session: rows that are committed, and events for the fronts that follow it.
//!
//! - [`EventLog`]: commits the changes of one session and publishes its rows. Agents and the session write to it.
//! - [`Subscription`]: the events of one session from a row on, first from the store and then live. Fronts read it.
//! - [`Bus`]: how events travel; [`Broadcast`] carries them inside this process.
//! - [`TokenBudget`]: the tokens that a session has used and may use; each commit stores what was used since the last.
//!
//! The store is the truth. A bus may lose, double or reorder events: the numbers of rows show it, and the subscription reads
//! the rows from the store then.

mod budget;
mod bus;
mod log;
mod subscription;
#[cfg(test)]
mod testing;

pub use budget::{BudgetExhausted, ReservedTokens, TokenBudget};
pub use bus::{Broadcast, Bus, BusError, BusReceiver};
pub use log::EventLog;
pub use subscription::{Received, Subscription};

//! The tree of agents, and the operations on it by commands and by the models' tools.
//!
//! - `lookup`: finds an agent by its UUID or a prefix of it.
//! - `fork`, `kill`: create and end agents.
//! - `rewind`: creates an agent that continues another agent's conversation from before a message.
//! - `switch`, `list`: the view, and the list of agents.
//! - `tools`: the tools `fork`, `kill`, `mail_*` and `set_agent_model`; `model` implements the last one.

pub(crate) mod fork;
pub(crate) mod kill;
pub(crate) mod list;
pub(crate) mod lookup;
mod model;
pub(crate) mod rewind;
pub(crate) mod switch;
pub(crate) mod tools;

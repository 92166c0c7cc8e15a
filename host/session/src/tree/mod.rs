//! The tree of agents: what commands and the tools of models do with it.
//!
//! - `lookup`: finds an agent by its UUID or the beginning of it.
//! - `fork`, `kill`: make and end agents.
//! - `rewind`: makes an agent that continues another one from an earlier message.
//! - `switch`, `list`: the view, and the list of agents.
//! - `tools`: the tools `fork`, `kill`, `mail_*` and `set_agent_model`.

pub(crate) mod fork;
pub(crate) mod kill;
pub(crate) mod list;
pub(crate) mod lookup;
mod model;
pub(crate) mod rewind;
pub(crate) mod switch;
pub(crate) mod tools;

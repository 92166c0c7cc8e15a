//! One open session of the client. Its task sends everything that the client receives about the
//! session, which keeps updates in order: the response to `session/new` first, and the response to a
//! prompt after the last update of its turn.

mod agent_cards;
mod changes;
mod client_files;
mod client_terminal;
mod commands;
mod config_options;
mod files_before;
mod handle;
mod open_prompts;
mod permissions;
mod position;
mod task;
mod tool_calls;
mod tool_kinds;
mod transcript;
mod update;

pub(crate) use config_options::option_kind;
pub(crate) use handle::{Opening, SessionHandle};
pub(crate) use position::Position;
pub(crate) use task::{SessionTask, TITLE};

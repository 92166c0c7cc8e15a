//! Agents: a conversation each, a model, and turns.
//!
//! - [`Agent`]: one of them; [`Agent::run`] runs a [`Turn`] to its end.
//! - [`Model`]: who answers it, the providers of the host; [`Chosen`] is which one.
//! - [`AgentInference`]: what a skill's `inference` asks.
//! - [`INTERNAL_TOOLS`]: the tools of the host's own.
//!
//! The conversation that a model is sent is made anew of the stored rows each time: what was not committed was not said.

mod agent;
mod compaction;
mod context;
mod conversation;
mod inference;
mod interrupted;
mod model;
mod partial;
mod parts;
mod receive;
mod repeats;
mod toolbox;
mod turn;
mod use_skill;

pub use agent::{Agent, AgentIds, TurnPermit};
pub use compaction::CompactionSettings;
pub use context::system_context;
pub use inference::AgentInference;
pub use interrupted::{UnansweredCall, interrupted_message, unanswered_calls};
pub use model::{Chosen, Model, ModelOverride};
pub use partial::join_pieces;
pub use turn::Turn;
pub use use_skill::INTERNAL_TOOLS;

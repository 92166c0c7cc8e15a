//! Agents. Each has a conversation, a model and tools; the session runs their turns.
//!
//! - [`Agent`]: one agent; [`Agent::run`] runs a [`Turn`] to its end.
//! - [`Model`]: completes requests (the providers of the host); [`Chosen`] is an agent's choice of model.
//! - [`AgentInference`]: the `inference` capability of skills.
//! - [`INTERNAL_TOOLS`]: tools that the host itself implements.
//!
//! The conversation is rebuilt from the stored rows for each request, so that the model never receives uncommitted data.

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

pub use agent::{Agent, AgentPlace, TurnPermit};
pub use compaction::CompactionSettings;
pub use context::system_context;
pub use inference::AgentInference;
pub use interrupted::{UnansweredCall, interrupted_message, unanswered_calls};
pub use model::{Chosen, Model, ModelOverride};
pub use partial::join_pieces;
pub use turn::Turn;
pub use use_skill::INTERNAL_TOOLS;

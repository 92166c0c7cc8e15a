//! Agents: a conversation each, a model, and turns.
//!
//! - [`Agent`]: one of them; [`Agent::run`] runs a [`Turn`] to its end.
//! - [`Model`]: who answers it, the providers of the host; [`Chosen`] is which one.
//! - [`Feed`], [`Subscription`]: where what happens goes, and how a front hears of it.
//! - [`Spending`]: the tokens that a session has taken, and may take.
//! - [`AgentInference`]: what a skill's `inference` asks.
//! - [`INTERNAL_TOOLS`]: the tools of the host's own.
//! - [`record`]: what the rows of a conversation say besides their text.
//!
//! The conversation that a model is sent is made anew of the stored rows each time: what was not committed was not said.

mod agent;
mod compaction;
mod context;
mod conversation;
mod events;
mod feed;
mod inference;
mod model;
mod receive;
pub mod record;
mod repeats;
mod spending;
mod toolbox;
mod turn;
mod use_skill;

pub use agent::{Agent, Place};
pub use compaction::CompactionSettings;
pub use context::system_context;
pub use events::{Received, Subscription};
pub use feed::Feed;
pub use inference::AgentInference;
pub use model::{Chosen, Model, ModelOverride};
pub use spending::{Spending, Spent};
pub use turn::Turn;
pub use use_skill::INTERNAL_TOOLS;

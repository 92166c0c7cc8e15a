//! Agents. Each has a conversation, a model and tools; the session runs their turns.
//!
//! - [`Agent`]: one agent; [`Agent::run`] runs a [`Turn`] to its end, [`Agent::compact_now`] summarises its conversation,
//!   [`Agent::skill_supplement`] returns the text that follows the instructions of a skill.
//! - [`Surroundings`]: the facts that the agents of a session are told about its start.
//! - [`TurnEnding`]: the change committed at the end of a turn; [`Requests`]: how many requests the agents of a session
//!   may make; [`ResultRoom`]: how many bytes of tool results they may store.
//! - [`Model`]: completes requests (the providers of the host); [`Chosen`] is an agent's choice of model.
//! - [`AgentInference`]: the `inference` capability of skills; [`try_model`]: one request that shows whether a model answers.
//! - [`INTERNAL_TOOLS`]: tools that the host itself implements.
//!
//! The conversation is rebuilt from the stored rows for each request. The model therefore
//! never receives uncommitted data.

mod agent;
mod answer_end;
mod attachments;
mod binding;
mod budget;
mod call_tool;
mod calls;
mod compaction;
mod context;
mod conversation;
mod ending;
mod filling;
mod find_skills;
mod find_tools;
mod found_tools;
mod inference;
mod interrupted;
mod limits;
mod listing;
mod model;
mod partial;
mod parts;
mod receive;
mod repeats;
mod requests;
mod results;
mod share;
mod shorten;
mod shown;
mod skill_file;
mod skills_in_use;
mod spending;
mod summarise;
mod supplement;
mod surroundings;
mod tokens;
mod toolbox;
mod turn;
mod undeclared;
mod use_skill;
mod validation;

pub use agent::{Agent, AgentContext, AgentSettings, AnswerSoFar, TurnPermit};
pub use budget::ContextSettings;
pub use compaction::CompactionSettings;
pub use ending::{INTERRUPTED, TurnEnding};
pub use filling::Filling;
pub use inference::AgentInference;
pub use interrupted::{UnansweredCall, interrupted_message, unanswered_calls};
pub use limits::SessionLimits;
pub use model::{Chosen, Model, ModelOverride};
pub use partial::join_pieces;
pub use requests::Requests;
pub use results::ResultRoom;
pub use summarise::Compacted;
pub use supplement::has_tools;
pub use surroundings::Surroundings;
pub use turn::{MessageJoin, Turn};
pub use validation::try_model;

/// Names of the tools that the host implements for models. A skill may list them in `requires_tools`.
pub const INTERNAL_TOOLS: &[&str] = &[
    call_tool::CALL_TOOL,
    find_skills::FIND_SKILLS,
    find_tools::FIND_TOOLS,
    "fork",
    "kill",
    "mail_check",
    "mail_delete",
    "mail_filter",
    "mail_read",
    "mail_send",
    "set_agent_model",
    skill_file::SKILL_FILE,
    "task_list",
    use_skill::USE_SKILL,
];

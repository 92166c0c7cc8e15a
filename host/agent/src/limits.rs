//! The limits of a session and its agents.

use patchbay_core::RootLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits of one session with all its agents. `[limits]` in `config.toml` sets them, next to limits of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionLimits {
    /// Tokens that the agents and tools of one session may use together, not counting tokens read from a cache. 0 means no limit
    /// (`limit_tokens`).
    pub session_tokens: u64,
    /// Requests to a model in one turn. A model that needs more is most likely repeating itself (`turn_rounds`).
    #[schemars(range(min = 1, max = 100_000))]
    pub turn_requests: u32,
    /// Requests to a model by all agents of a session together, between two messages from a person. Enough for a day's work of a
    /// few agents; stops agents that only wake each other (`limit_requests`).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tree_requests: u32,
    /// Concurrent requests to a model by the agents of a session. More requests wait, and requests of turns that a person started
    /// go first. Enough for two groups of eight children. A provider that reports a rate limit or an overload receives fewer until
    /// it has recovered.
    #[schemars(range(min = 1, max = 64))]
    pub concurrent_requests: u32,
    /// Agents of a session that are alive at once, including the root (`limit_agents`).
    #[schemars(range(min = 1, max = 1_000))]
    pub agents: u32,
    /// Levels of agents below the root. Deeper trees are hard for a person to follow (`limit_depth`).
    #[schemars(range(min = 1, max = 32))]
    pub agent_depth: u32,
    /// How often mail may wake an agent between two messages from a person. Stops agents that only answer each other
    /// (`limit_wakes`).
    #[schemars(range(min = 1, max = 10_000))]
    pub wakes: u32,
    /// Mails in the inbox of an agent. Reports of its children are delivered even if it is full (`limit_mail`).
    #[schemars(range(min = 1, max = 100_000))]
    pub mails: u32,
    /// Bytes of tool results, including images, that a session may store between two messages from a person; then the turn ends.
    /// Several times the need of a long task. It bounds the disk space that a model can fill by repeating a call
    /// (`limit_results`).
    #[schemars(range(min = 1 << 20))]
    pub result_bytes: u64,
    /// Limits on the skills of one root together (`root_limit`): `untrusted` for workspaces that you do not trust, `own` for all
    /// other roots.
    pub root: RootLimits,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            session_tokens: 0,
            turn_requests: 1_000,
            tree_requests: 2_000,
            concurrent_requests: 16,
            agents: 64,
            agent_depth: 8,
            wakes: 20,
            mails: 1_000,
            result_bytes: 1 << 30,
            root: RootLimits::default(),
        }
    }
}

//! The context window that each model had when an agent's conversation first used it. `agent` reads it before each request,
//! because the tools that a model is offered should not change when the provider's list of models does.

use patchbay_core::AgentId;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Store, StoreError};

/// The context window of a model for one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentWindow {
    /// The agent that the window applies to.
    pub agent: AgentId,
    /// The provider's name, as in `config.toml`.
    pub provider: String,
    /// The model's id, as the provider spells it.
    pub model: String,
    /// Size of the context window, in tokens.
    pub tokens: u64,
}

/// Stores a window, unless the agent has one for the model.
pub(crate) fn keep(connection: &Connection, window: &AgentWindow) -> Result<(), StoreError> {
    let AgentWindow { agent, provider, model, tokens } = window;
    connection
        .prepare_cached("INSERT OR IGNORE INTO agent_windows (agent, provider, model, tokens) VALUES (?, ?, ?, ?)")?
        .execute(params![agent.to_string(), provider, model, i64::try_from(*tokens).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// Copies the windows of `from` to a new agent, which continues its conversation.
pub(crate) fn inherit(connection: &Connection, from: AgentId, new: AgentId) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO agent_windows (agent, provider, model, tokens) \
             SELECT ?2, provider, model, tokens FROM agent_windows WHERE agent = ?1",
        )?
        .execute(params![from.to_string(), new.to_string()])?;
    Ok(())
}

impl Store {
    /// Returns the context window that a model had when `agent` first used it, in tokens; `None` if it was never used.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn agent_window(&self, agent: AgentId, provider: &str, model: &str) -> Result<Option<u64>, StoreError> {
        self.database.read(|connection| {
            let tokens: Option<i64> = connection
                .prepare_cached("SELECT tokens FROM agent_windows WHERE agent = ? AND provider = ? AND model = ?")?
                .query_row(params![agent.to_string(), provider, model], |row| row.get(0))
                .optional()?;
            Ok(tokens.map(i64::cast_unsigned))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionChange, testing::TestTree};

    #[tokio::test]
    async fn first_window_stays_and_is_inherited() {
        let tree = TestTree::new().await;
        let keep = async |model: &str, tokens| {
            let window = AgentWindow { agent: tree.root, provider: "demo".to_owned(), model: model.to_owned(), tokens };
            tree.commit(SessionChange { window: Some(window), ..SessionChange::default() }).await.unwrap();
        };
        keep("one", 8_000).await;
        keep("one", 200_000).await;
        let child = tree.fork(tree.root).await;
        keep("two", 9_000).await;
        let window = async |agent, model| tree.store.agent_window(agent, "demo", model).await.unwrap();
        assert_eq!((window(tree.root, "one").await, window(tree.root, "two").await), (Some(8_000), Some(9_000)));
        assert_eq!((window(child, "one").await, window(child, "two").await), (Some(8_000), None));
        assert_eq!(tree.store.agent_window(child, "other", "one").await.unwrap(), None);
    }
}

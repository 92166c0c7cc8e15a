//! Upgrade steps that a migration cannot do, because they need `config.toml` and the adapters. `provider` runs them through
//! [`Store::pin_models`] at the first start with the home of an older build.

use rusqlite::{Connection, params};

use crate::{AgentModel, Store, StoreError, database::rows};

/// The row that marks the step as pending. [`Store::pin_models`] deletes it.
const LLAMA_PREFIX: &str = "llama_prefix";

/// The models to keep at their provider after another provider became the owner of their name prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedModels {
    /// The model for agents that have not chosen one; `None` to leave these agents unchanged.
    pub default: Option<AgentModel>,
    /// Overrides to replace, each with its replacement, as JSON.
    pub overrides: Vec<(String, String)>,
}

impl Store {
    /// Returns whether an older build has used this home and [`Store::pin_models`] has not been called since.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn has_unpinned_models(&self) -> Result<bool, StoreError> {
        self.database.read(is_pending)
    }

    /// Returns the distinct model overrides of all agents, as JSON.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn model_overrides(&self) -> Result<Vec<String>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT DISTINCT model_override FROM agents WHERE model_override IS NOT NULL ORDER BY 1";
            rows(connection, sql, [], |row| Ok(row.get(0)?))
        })
    }

    /// Stores `models` for the agents of all sessions. Returns false, and changes nothing, if that was done
    /// before, even by another process.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn pin_models(&self, models: PinnedModels) -> Result<bool, StoreError> {
        self.database
            .write(move |connection| {
                if connection.execute("DELETE FROM upgrades WHERE name = ?", [LLAMA_PREFIX])? == 0 {
                    return Ok(false);
                }
                if let Some(AgentModel { provider, model, thinking_level, .. }) = models.default {
                    connection.execute(
                        "UPDATE agents SET provider = ?, model = ?, thinking_level = ? \
                         WHERE provider IS NULL OR model IS NULL",
                        params![provider, model, thinking_level],
                    )?;
                }
                for (old, new) in models.overrides {
                    connection.execute(
                        "UPDATE agents SET model_override = ?2 WHERE model_override = ?1",
                        params![old, new],
                    )?;
                }
                Ok::<_, StoreError>(true)
            })
            .await
    }
}

fn is_pending(connection: &Connection) -> Result<bool, StoreError> {
    let mut query = connection.prepare_cached("SELECT 1 FROM upgrades WHERE name = ?")?;
    Ok(query.exists([LLAMA_PREFIX])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionChange, testing::TestTree};

    fn model(provider: &str, model_override: Option<&str>) -> AgentModel {
        AgentModel {
            provider: Some(provider.to_owned()),
            model: Some("llama-4".to_owned()),
            thinking_level: None,
            model_override: model_override.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn models_are_pinned_once_and_only_for_agents_without_a_choice() {
        let tree = TestTree::new().await;
        let chosen = tree.fork(tree.root).await;
        let by_name = model("demo", Some("\"llama-4\""));
        tree.commit(SessionChange { model: Some((chosen, by_name)), ..SessionChange::default() }).await.unwrap();
        let store = &tree.store;
        let pinned = PinnedModels {
            default: Some(model("ollama", None)),
            overrides: vec![("\"llama-4\"".to_owned(), "\"ollama:llama-4\"".to_owned())],
        };
        // A new home has nothing to do.
        assert!(!store.has_unpinned_models().await.unwrap());
        assert!(!store.pin_models(pinned.clone()).await.unwrap());
        assert_eq!(store.agent_model(tree.root).await.unwrap(), AgentModel::default());

        tree.database().execute("INSERT INTO upgrades VALUES ('llama_prefix')", []).unwrap();
        assert!(store.has_unpinned_models().await.unwrap());
        assert_eq!(store.model_overrides().await.unwrap(), ["\"llama-4\""]);
        assert!(store.pin_models(pinned.clone()).await.unwrap());
        assert_eq!(store.agent_model(tree.root).await.unwrap(), model("ollama", None));
        assert_eq!(store.agent_model(chosen).await.unwrap(), model("demo", Some("\"ollama:llama-4\"")));
        assert!(!store.has_unpinned_models().await.unwrap());
        assert!(!store.pin_models(pinned).await.unwrap());
    }
}

//! The tokens that a session's models have used, as shown by `/usage`. The rows of answers and summaries contain their
//! usage; a separate table counts other requests.

use std::collections::BTreeMap;

use patchbay_core::{SessionId, completion::TokenUsage};
use rusqlite::{Connection, params};

use crate::{Store, StoreError, database::rows};

/// The tokens that one model has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUsage {
    /// The provider's name, as in `config.toml`.
    pub provider: String,
    /// The model's id, as the provider spells it.
    pub model: String,
    /// The sum of all requests, including attempts that failed.
    pub usage: TokenUsage,
}

impl ModelUsage {
    /// Returns the sum for each model, sorted by provider and model.
    pub fn sums(each: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sums = BTreeMap::<_, TokenUsage>::new();
        for Self { provider, model, usage } in each {
            let sum = sums.entry((provider, model)).or_default();
            *sum = sum.plus(usage);
        }
        sums.into_iter().map(|((provider, model), usage)| Self { provider, model, usage }).collect()
    }
}

/// Adds tokens of requests that have no row.
pub(crate) fn add(connection: &Connection, session: SessionId, usage: Vec<ModelUsage>) -> Result<(), StoreError> {
    // A sum over the largest integer would be a floating-point number, which the columns reject.
    let sums = COLUMNS.map(|of| format!("{of} = min({of} + excluded.{of}, 9223372036854775807)")).join(", ");
    let columns = COLUMNS.join(", ");
    for ModelUsage { provider, model, usage } in ModelUsage::sums(usage) {
        let TokenUsage { input, output, thinking, cache_read, cache_write } = usage;
        let [input, output, thinking, cache_read, cache_write] =
            [input, output, thinking, cache_read, cache_write].map(|of| i64::try_from(of).unwrap_or(i64::MAX));
        connection
            .prepare_cached(&format!(
                "INSERT INTO model_usage (session, provider, model, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) \
                 ON CONFLICT DO UPDATE SET {sums}"
            ))?
            .execute(params![session.to_string(), provider, model, input, output, thinking, cache_read, cache_write])?;
    }
    Ok(())
}

/// The columns of a [`TokenUsage`], which are also its keys in JSON.
const COLUMNS: [&str; 5] = ["input", "output", "thinking", "cache_read", "cache_write"];

impl Store {
    /// Returns the tokens of all agents of a session by model, sorted by provider and model.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn usage(&self, session: SessionId) -> Result<Vec<ModelUsage>, StoreError> {
        self.database.read(|connection| {
            // An answer's row contains its own usage and the usage of earlier failed attempts.
            let of_rows = COLUMNS
                .map(|of| {
                    format!("total(data ->> '$.usage.{of}') + total(data ->> '$.failed_attempts.usage.{of}') AS {of}")
                })
                .join(", ");
            let (columns, sums) = (COLUMNS.join(", "), COLUMNS.map(|of| format!("total({of})")).join(", "));
            let sql = format!(
                "SELECT provider, model, {sums} FROM ( \
                 SELECT data ->> '$.provider' AS provider, data ->> '$.model' AS model, {of_rows} FROM messages \
                 WHERE session = ?1 AND kind IN ('assistant', 'compaction') \
                 AND data ->> '$.provider' IS NOT NULL AND data ->> '$.model' IS NOT NULL \
                 GROUP BY data ->> '$.provider', data ->> '$.model' \
                 UNION ALL SELECT provider, model, {columns} FROM model_usage WHERE session = ?1) \
                 GROUP BY provider, model ORDER BY provider, model",
            );
            rows(connection, &sql, params![session.to_string()], |row| {
                // Sums are floating-point numbers because an integer sum can overflow. Negative sums become 0.
                let sum = |column| row.get::<_, f64>(column).map(|sum| sum as u64);
                Ok(ModelUsage {
                    provider: row.get(0)?,
                    model: row.get(1)?,
                    usage: TokenUsage {
                        input: sum(2)?,
                        output: sum(3)?,
                        thinking: sum(4)?,
                        cache_read: sum(5)?,
                        cache_write: sum(6)?,
                    },
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::MessageKind;
    use serde_json::json;

    use super::*;
    use crate::{
        NewMessage, SessionChange,
        testing::{TO_22, TestTree, message},
    };

    fn used(model: &str, input: u64, cache_read: u64) -> ModelUsage {
        let usage = TokenUsage { input, output: 1, cache_read, ..TokenUsage::default() };
        ModelUsage { provider: "demo".to_owned(), model: model.to_owned(), usage }
    }

    #[tokio::test]
    async fn tokens_with_and_without_a_row_are_summed() {
        let tree = TestTree::new().await;
        let answer = |model: &str, usage: &TokenUsage, failed: &TokenUsage| NewMessage {
            data: Some(json!({
                "provider": "demo", "model": model, "usage": usage, "failed_attempts": {"given_up": 1, "usage": failed},
            })),
            ..message(tree.root, MessageKind::Assistant, "Yes.")
        };
        let [one, failed, other] = [used("one", 100, 90), used("one", 20, 0), used("other", 5, 0)];
        let change = SessionChange {
            messages: vec![answer("one", &one.usage, &failed.usage)],
            usage: vec![one.clone(), other.clone(), other.clone()],
            ..SessionChange::default()
        };
        tree.commit(change).await.unwrap();
        let change = SessionChange { usage: vec![used("one", u64::MAX, 0)], ..SessionChange::default() };
        let sum = |of: &[&ModelUsage]| of.iter().fold(TokenUsage::default(), |sum, of| sum.plus(of.usage));
        let found = tree.store.usage(tree.session()).await.unwrap();
        let expected = [("one", sum(&[&one, &one, &failed])), ("other", sum(&[&other, &other]))];
        let found: Vec<_> = found.iter().map(|of| (of.model.as_str(), of.usage)).collect();
        assert_eq!(found, expected);
        // No count can overflow the columns.
        for _ in 0..2 {
            tree.commit(change.clone()).await.unwrap();
        }
        assert_eq!(tree.store.usage(tree.session()).await.unwrap()[0].usage.cache_read, 180);
    }

    /// A database of a build that counted cache reads.
    #[tokio::test]
    async fn cache_reads_of_older_databases_no_longer_count() {
        let tree = TestTree::new().await;
        let of_usage = |kind, data: Option<&str>| NewMessage {
            data: data.map(|data| serde_json::from_str(data).unwrap()),
            ..message(tree.root, kind, "Yes.")
        };
        let change = SessionChange {
            messages: vec![
                of_usage(MessageKind::User, Some(r#"{"usage": {"cache_read": 7}}"#)),
                of_usage(
                    MessageKind::Assistant,
                    Some(r#"{"usage": {"cache_read": 500}, "failed_attempts": {"usage": {"cache_read": 30}}}"#),
                ),
                of_usage(MessageKind::Compaction, Some(r#"{"usage": {"cache_read": 70}}"#)),
                of_usage(MessageKind::Assistant, None),
            ],
            tokens: 1_000,
            agent_tokens: vec![(tree.root, 601)],
            ..SessionChange::default()
        };
        tree.commit(change).await.unwrap();
        let database = tree.database();
        database.execute("UPDATE messages SET data = 'damaged' WHERE data IS NULL", []).unwrap();
        database.execute_batch(TO_22).unwrap();
        database.execute_batch("DROP TABLE model_usage; DROP TABLE early_results; PRAGMA user_version = 21").unwrap();
        let store = Store::open(tree.home.path()).unwrap();
        let agents = store.agents(tree.session()).await.unwrap();
        assert_eq!((store.tokens(tree.session()).await.unwrap(), agents[0].tokens), (400, 1));
    }
}

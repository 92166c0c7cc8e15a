//! The tokens that a session's models have used, read from the rows of its answers and summaries. `/usage` shows them.

use patchbay_core::{SessionId, completion::TokenUsage};
use rusqlite::params;

use crate::{Store, StoreError};

/// The tokens that one model has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUsage {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// The sum of all answers and summaries, also of attempts that failed.
    pub usage: TokenUsage,
}

impl Store {
    /// Returns the tokens of all agents of a session by model, sorted by provider and model.
    ///
    /// # Errors
    /// A database error.
    pub async fn usage(&self, session: SessionId) -> Result<Vec<ModelUsage>, StoreError> {
        self.database.read(|connection| {
            // An answer has the tokens of its own attempt, and those of the attempts that failed before.
            let sums = ["input", "output", "thinking", "cache_read", "cache_write"]
                .map(|of| format!("total(data ->> '$.usage.{of}') + total(data ->> '$.failed_attempts.usage.{of}')"))
                .join(", ");
            let mut query = connection.prepare_cached(&format!(
                "SELECT data ->> '$.provider' AS provider, data ->> '$.model' AS model, {sums} FROM messages \
                 WHERE session = ? AND kind IN ('assistant', 'compaction') AND provider IS NOT NULL AND model IS NOT NULL \
                 GROUP BY provider, model ORDER BY provider, model",
            ))?;
            let read = query.query_map(params![session.to_string()], |row| {
                // Sums are floating-point numbers, so that no row can overflow them. Negative ones become 0.
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
            })?;
            Ok(read.collect::<Result<_, _>>()?)
        })
    }
}

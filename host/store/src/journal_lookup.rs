//! Finds one call in the journal from the id or prefix that a user types. Used by `patchbay journal fixture`.

use rusqlite::params;

use crate::{JournalEntry, JournalFilter, Store, StoreError};

impl Store {
    /// Returns the journal row with the number `id`. If none exists, returns the rows of calls with an id that begins with
    /// `id`, at most two.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn journal_calls(&self, id: &str) -> Result<Vec<JournalEntry>, StoreError> {
        if let Ok(number) = id.parse::<u32>()
            && let [entry, ..] =
                &*self.journal_rows(&JournalFilter::default(), u64::from(number).saturating_sub(1), 1).await?
            && entry.id == u64::from(number)
        {
            return Ok(vec![entry.clone()]);
        }
        let prefix: String = id.chars().filter(|character| *character != '-').collect::<String>().to_ascii_uppercase();
        let found: Vec<i64> = self.database.read(|connection| {
            let sql = "SELECT id FROM calls WHERE outcome IS NOT NULL AND hex(call) >= ?1 AND hex(call) < ?1 || 'G' \
                       ORDER BY id LIMIT 2";
            let mut query = connection.prepare_cached(sql)?;
            let found = query.query_map(params![prefix], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok::<_, StoreError>(found)
        })?;
        let mut entries = Vec::new();
        for id in found {
            entries.extend(self.journal_rows(&JournalFilter::default(), id.cast_unsigned() - 1, 1).await?);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::SessionId;

    use crate::{JournalRow, testing::new_store};

    #[tokio::test]
    async fn calls_are_found_by_number_and_by_the_beginning_of_their_id() {
        let (_home, store) = new_store();
        let rows = [JournalRow::for_test(SessionId::random()), JournalRow::for_test(SessionId::random())];
        for row in &rows {
            store.journal(row.clone()).await;
        }
        store.settle().await.unwrap();
        let found = async |id: &str| {
            let found = store.journal_calls(id).await.unwrap();
            found.into_iter().map(|entry| entry.row.call).collect::<Vec<_>>()
        };
        assert_eq!(found("2").await, [rows[1].call]);
        assert_eq!(found(&rows[0].call.to_string()).await, [rows[0].call]);
        assert_eq!(found(&rows[0].call.to_string()[..13]).await, [rows[0].call]);
        assert_eq!(found("").await.len(), 2);
        assert_eq!(found("zz").await, []);
    }
}

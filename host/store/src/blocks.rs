//! Blocked components and skills, by digest. A block overrides every grant and is checked before every call.

use patchbay_core::Digest;
use rusqlite::params;

use crate::{Store, StoreError, database::rows};

/// A component or skill that may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedComponent {
    /// The digest of the component, or of the skill's files.
    pub component: Digest,
    /// When it was blocked, in seconds since 1970.
    pub since: i64,
}

impl Store {
    /// Blocks a component or skill, even if the store does not know it. Returns false if it was already blocked.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn block(&self, component: Digest) -> Result<bool, StoreError> {
        let now = self.source.unix_s();
        self.database
            .decide(move |connection| {
                let blocked = connection.execute(
                    "INSERT INTO blocks (component, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    params![component.to_string(), now],
                )?;
                Ok(blocked > 0)
            })
            .await
    }

    /// Removes a block. Returns whether there was one.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn unblock(&self, component: Digest) -> Result<bool, StoreError> {
        self.database
            .decide(move |connection| {
                let lifted =
                    connection.execute("DELETE FROM blocks WHERE component = ?", params![component.to_string()])?;
                Ok(lifted > 0)
            })
            .await
    }

    /// Returns all blocks, sorted by digest.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn blocked(&self) -> Result<Vec<BlockedComponent>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT component, created_at FROM blocks ORDER BY component";
            rows(connection, sql, [], |row| {
                let component: String = row.get(0)?;
                let component = component.parse().map_err(|_| StoreError::BadRow("block"))?;
                Ok(BlockedComponent { component, since: row.get(1)? })
            })
        })
    }

    /// Returns the digests that begin with the hexadecimal `digits`, at most `limit`, sorted. Searches the components and
    /// skills that this store knows from a snapshot, a description, a call or a block.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn components_beginning(&self, digits: &str, limit: u32) -> Result<Vec<Digest>, StoreError> {
        let from = format!("sha256:{digits}");
        // Sorts after every hexadecimal digit.
        let to = format!("{from}g");
        self.database.read(|connection| {
            let sql = "SELECT component FROM snapshot_components WHERE component >= ?1 AND component < ?2 \
                 UNION SELECT skill FROM snapshot_skills WHERE skill >= ?1 AND skill < ?2 \
                 UNION SELECT component FROM described WHERE component >= ?1 AND component < ?2 \
                 UNION SELECT component FROM call_sites WHERE component >= ?1 AND component < ?2 \
                 UNION SELECT component FROM blocks WHERE component >= ?1 AND component < ?2 \
                 ORDER BY 1 LIMIT ?3";
            rows(connection, sql, params![from, to, limit], |row| {
                let component: String = row.get(0)?;
                component.parse().map_err(|_| StoreError::BadRow("component"))
            })
        })
    }
}

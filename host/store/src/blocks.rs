//! Components and skills that may not run, by their digests, wherever and whatever they were granted. Read live, before
//! every call.

use patchbay_core::Digest;
use rusqlite::params;

use crate::{Store, StoreError, now};

/// A component that may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedComponent {
    /// Which.
    pub component: Digest,
    /// Since when, in seconds since 1970.
    pub since: i64,
}

impl Store {
    /// Blocks a component, whether it was ever seen or not; whether that changed anything.
    ///
    /// # Errors
    /// The database.
    pub async fn block(&self, component: Digest) -> Result<bool, StoreError> {
        self.database
            .decide(move |connection| {
                let blocked = connection.execute(
                    "INSERT INTO blocks (component, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    params![component.to_string(), now()],
                )?;
                Ok(blocked > 0)
            })
            .await
    }

    /// Lifts a block; whether there was one.
    ///
    /// # Errors
    /// The database.
    pub async fn unblock(&self, component: Digest) -> Result<bool, StoreError> {
        self.database
            .decide(move |connection| {
                let lifted =
                    connection.execute("DELETE FROM blocks WHERE component = ?", params![component.to_string()])?;
                Ok(lifted > 0)
            })
            .await
    }

    /// Every block, in the order of the digests.
    ///
    /// # Errors
    /// The database.
    pub async fn blocked(&self) -> Result<Vec<BlockedComponent>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare("SELECT component, created_at FROM blocks ORDER BY component")?;
            let mut rows = query.query([])?;
            let mut blocks = Vec::new();
            while let Some(row) = rows.next()? {
                let component: String = row.get(0)?;
                let component = component.parse().map_err(|_| StoreError::BadRow("block"))?;
                blocks.push(BlockedComponent { component, since: row.get(1)? });
            }
            Ok(blocks)
        })
    }

    /// The components and skills that this store has met (in a snapshot, a call, a look at its tools, a block) whose
    /// hexadecimal digits begin with `digits`, in order, at most `limit`.
    ///
    /// # Errors
    /// The database.
    pub async fn components_beginning(&self, digits: &str, limit: u32) -> Result<Vec<Digest>, StoreError> {
        let from = format!("sha256:{digits}");
        // Behind every hexadecimal digit.
        let to = format!("{from}g");
        self.database.read(|connection| {
            let mut query = connection.prepare(
                "SELECT component FROM snapshot_components WHERE component >= ?1 AND component < ?2 \
                 UNION SELECT skill FROM snapshot_skills WHERE skill >= ?1 AND skill < ?2 \
                 UNION SELECT component FROM described WHERE component >= ?1 AND component < ?2 \
                 UNION SELECT component FROM call_sites WHERE component >= ?1 AND component < ?2 \
                 UNION SELECT component FROM blocks WHERE component >= ?1 AND component < ?2 \
                 ORDER BY 1 LIMIT ?3",
            )?;
            let mut rows = query.query(params![from, to, limit])?;
            let mut components = Vec::new();
            while let Some(row) = rows.next()? {
                let component: String = row.get(0)?;
                components.push(component.parse().map_err(|_| StoreError::BadRow("component"))?);
            }
            Ok(components)
        })
    }
}

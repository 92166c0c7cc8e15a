//! The operator's yes to providers of dropped-in files, and who had which model prefix first.

use rusqlite::{Connection, OptionalExtension, params};

use crate::{Store, StoreError, now};

/// What a provider may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Where its requests may go; empty: nowhere.
    pub base_url: String,
    /// The environment variable of the secret that they carry; empty: none.
    pub variable: String,
}

impl Store {
    /// What `provider` was allowed.
    ///
    /// # Errors
    /// The database.
    pub fn allowance(&self, provider: &str) -> Result<Option<Allowance>, StoreError> {
        self.database.read(|connection| {
            let mut query =
                connection.prepare_cached("SELECT base_url, variable FROM allowances WHERE provider = ?")?;
            let found = query
                .query_row(params![provider], |row| Ok(Allowance { base_url: row.get(0)?, variable: row.get(1)? }));
            Ok(found.optional()?)
        })
    }

    /// Every provider that was allowed something, by name, with the variable of its secret.
    ///
    /// # Errors
    /// The database.
    pub fn allowed_variables(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.pairs("SELECT provider, variable FROM allowances ORDER BY provider")
    }

    /// Every prefix and who had it first, by prefix.
    ///
    /// # Errors
    /// The database.
    pub fn prefix_owners(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.pairs("SELECT prefix, provider FROM prefixes ORDER BY prefix")
    }

    /// Allows `provider` so much and no more, and notes that `prefixes` are its own, where nobody had them before.
    ///
    /// # Errors
    /// The database.
    pub async fn allow(&self, provider: String, allowance: Allowance, prefixes: Vec<String>) -> Result<(), StoreError> {
        self.database
            .write(move |connection| {
                let Allowance { base_url, variable } = allowance;
                connection.execute(
                    "INSERT OR REPLACE INTO allowances (provider, base_url, variable, created_at) VALUES (?, ?, ?, ?)",
                    params![provider, base_url, variable, now()],
                )?;
                claim(connection, &provider, &prefixes)
            })
            .await
    }

    /// Notes that `prefixes` are the provider's own, where nobody had them before.
    ///
    /// # Errors
    /// The database.
    pub async fn claim_prefixes(&self, provider: String, prefixes: Vec<String>) -> Result<(), StoreError> {
        self.database.write(move |connection| claim(connection, &provider, &prefixes)).await
    }

    /// Takes back what `provider` was allowed, and its prefixes. Whether there was anything.
    ///
    /// # Errors
    /// The database.
    pub async fn forget_provider(&self, provider: String) -> Result<bool, StoreError> {
        self.database
            .write(move |connection| {
                let allowed = connection.execute("DELETE FROM allowances WHERE provider = ?", params![provider])?;
                let owned = connection.execute("DELETE FROM prefixes WHERE provider = ?", params![provider])?;
                Ok(allowed + owned > 0)
            })
            .await
    }

    fn pairs(&self, query: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(query)?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn claim(connection: &Connection, provider: &str, prefixes: &[String]) -> Result<(), StoreError> {
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO prefixes (prefix, provider) VALUES (?, ?)")?;
    for prefix in prefixes {
        insert.execute(params![prefix, provider])?;
    }
    Ok(())
}

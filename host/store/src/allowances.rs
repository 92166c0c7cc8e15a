//! The operator's allowances for providers, and the owners of model prefixes. Used by the provider
//! registry and by `patchbay provider`.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::{Store, StoreError, catalogues, database::rows};

/// The access that a provider was allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The base URL of its requests; empty if it sends none.
    pub base_url: String,
    /// The environment variables of its secret, separated by spaces; empty if it has none.
    pub variable: String,
}

impl Allowance {
    /// Returns the environment variables of its secret.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variable.split_ascii_whitespace()
    }
}

/// A prefix or variable that already belongs to another provider. Nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Two prefixes of model names overlap: one begins with the other.
    Prefix {
        /// The prefix that was requested.
        own: String,
        /// The prefix that already has an owner.
        theirs: String,
        /// The provider that owns the existing prefix.
        owner: String,
    },
    /// The secret is in an environment variable that another provider uses.
    Variable {
        /// The name of the variable.
        variable: String,
        /// The provider that uses the variable.
        owner: String,
    },
}

impl Store {
    /// Returns the allowance of `provider`.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn allowance(&self, provider: &str) -> Result<Option<Allowance>, StoreError> {
        self.database.read(|connection| {
            let mut query =
                connection.prepare_cached("SELECT base_url, variable FROM allowances WHERE provider = ?")?;
            let found = query
                .query_row(params![provider], |row| Ok(Allowance { base_url: row.get(0)?, variable: row.get(1)? }));
            Ok(found.optional()?)
        })
    }

    /// Returns all allowances, by provider.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn allowances(&self) -> Result<BTreeMap<String, Allowance>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT provider, base_url, variable FROM allowances";
            rows(connection, sql, [], |row| {
                Ok((row.get(0)?, Allowance { base_url: row.get(1)?, variable: row.get(2)? }))
            })
        })
    }

    /// Returns all prefixes with their owners, sorted by prefix.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn prefix_owners(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT prefix, provider FROM prefixes ORDER BY prefix";
            rows(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    /// Replaces the allowance of `provider` and records `prefixes` as its own. If another provider has one of the
    /// variables or prefixes, nothing changes and the conflict is returned.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn allow(
        &self,
        provider: String,
        allowance: Allowance,
        prefixes: Vec<String>,
    ) -> Result<Option<Conflict>, StoreError> {
        let now = self.source.unix_s();
        self.database
            .write(move |connection| {
                if let Some(taken) = taken_variable(connection, &provider, &allowance)? {
                    return Ok(Some(taken));
                }
                if let Some(taken) = claim(connection, &provider, &prefixes)? {
                    return Ok(Some(taken));
                }
                let Allowance { base_url, variable } = allowance;
                connection.execute(
                    "INSERT OR REPLACE INTO allowances (provider, base_url, variable, created_at) VALUES (?, ?, ?, ?)",
                    params![provider, base_url, variable, now],
                )?;
                Ok::<_, StoreError>(None)
            })
            .await
    }

    /// Records `prefixes` as the provider's own. If another provider owns one, nothing changes and the conflict is
    /// returned. The first claim wins, across all processes.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn claim_prefixes(
        &self,
        provider: String,
        prefixes: Vec<String>,
    ) -> Result<Option<Conflict>, StoreError> {
        self.database.write(move |connection| claim(connection, &provider, &prefixes)).await
    }

    /// Deletes the allowance, the prefixes and the listed models of `provider`. Another provider can then claim the
    /// prefixes. Returns whether anything was deleted.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn forget_provider(&self, provider: String) -> Result<bool, StoreError> {
        self.database
            .write(move |connection| {
                let allowed = connection.execute("DELETE FROM allowances WHERE provider = ?", params![provider])?;
                let owned = connection.execute("DELETE FROM prefixes WHERE provider = ?", params![provider])?;
                let listed = catalogues::forget(connection, &provider)?;
                Ok(allowed + owned + listed > 0)
            })
            .await
    }
}

/// Returns the first variable of `allowance` that another provider uses.
fn taken_variable(
    connection: &Connection,
    provider: &str,
    allowance: &Allowance,
) -> Result<Option<Conflict>, StoreError> {
    let mut others = connection.prepare_cached("SELECT provider, variable FROM allowances WHERE provider <> ?")?;
    let others = others.query_map(params![provider], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for other in others {
        let (owner, variable): (String, String) = other?;
        let mut theirs = variable.split_ascii_whitespace();
        if let Some(variable) = theirs.find(|theirs| allowance.variables().any(|own| own == *theirs)) {
            return Ok(Some(Conflict::Variable { variable: variable.to_owned(), owner }));
        }
    }
    Ok(None)
}

fn claim(connection: &Connection, provider: &str, prefixes: &[String]) -> Result<Option<Conflict>, StoreError> {
    let mut others = connection.prepare_cached("SELECT prefix, provider FROM prefixes WHERE provider <> ?")?;
    let others = others.query_map(params![provider], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for other in others {
        let (theirs, owner): (String, String) = other?;
        let overlap = |own: &&String| own.starts_with(&theirs) || theirs.starts_with(own.as_str());
        if let Some(own) = prefixes.iter().find(overlap) {
            return Ok(Some(Conflict::Prefix { own: own.clone(), theirs, owner }));
        }
    }
    let mut insert = connection.prepare_cached("INSERT OR IGNORE INTO prefixes (prefix, provider) VALUES (?, ?)")?;
    for prefix in prefixes {
        insert.execute(params![prefix, provider])?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::new_store;

    fn prefix(own: &str, theirs: &str, owner: &str) -> Option<Conflict> {
        Some(Conflict::Prefix { own: own.to_owned(), theirs: theirs.to_owned(), owner: owner.to_owned() })
    }

    #[tokio::test]
    async fn first_claim_of_a_prefix_wins_across_processes() {
        let home = tempfile::tempdir().unwrap();
        let (one, other) = (Store::open(home.path()).unwrap(), Store::open(home.path()).unwrap());
        let claim = |store: &Store, name: &str, prefixes: &[&str]| {
            let (store, prefixes) = (store.clone(), prefixes.iter().map(|prefix| (*prefix).to_owned()).collect());
            let name = name.to_owned();
            async move { store.claim_prefixes(name, prefixes).await.unwrap() }
        };
        assert_eq!(claim(&one, "foo", &["foo-"]).await, None);
        assert_eq!(claim(&one, "foo", &["foo-", "food-"]).await, None);
        // A failed claim stores nothing, not even the free prefixes.
        assert_eq!(claim(&other, "bar", &["bar-", "foo-bar-"]).await, prefix("foo-bar-", "foo-", "foo"));
        assert_eq!(claim(&other, "bar", &["foo"]).await, prefix("foo", "foo-", "foo"));
        let owners = other.prefix_owners().await.unwrap();
        assert!(owners.iter().all(|(_, owner)| owner == "foo") && owners.len() == 2, "{owners:?}");
    }

    #[tokio::test]
    async fn secret_is_allowed_to_one_provider() {
        let (_home, store) = new_store();
        let wanted = |url: &str, variable: &str| Allowance { base_url: url.to_owned(), variable: variable.to_owned() };
        let allow =
            |name: &str, variable: &str| store.allow(name.to_owned(), wanted("https://a.org", variable), vec![]);
        for (name, variable) in [("one", "KEY"), ("one", "KEY"), ("none", ""), ("none-too", "")] {
            assert_eq!(allow(name, variable).await.unwrap(), None, "{name}");
        }
        let taken = Conflict::Variable { variable: "KEY".to_owned(), owner: "one".to_owned() };
        assert_eq!(allow("two", "KEY").await.unwrap(), Some(taken.clone()));
        // Each variable of a list belongs to one provider.
        assert_eq!(allow("two", "OTHER KEY").await.unwrap(), Some(taken));
        assert_eq!(allow("three", "FIRST SECOND").await.unwrap(), None);
        let taken = Conflict::Variable { variable: "SECOND".to_owned(), owner: "three".to_owned() };
        assert_eq!(allow("two", "SECOND").await.unwrap(), Some(taken));
        assert_eq!(allow("two", "SECON").await.unwrap(), None);
        assert!(store.forget_provider("three".to_owned()).await.unwrap());
        assert_eq!(
            store.allowances().await.unwrap().into_keys().collect::<Vec<_>>(),
            ["none", "none-too", "one", "two"]
        );
        assert!(store.forget_provider("one".to_owned()).await.unwrap());
        assert_eq!(allow("two", "KEY").await.unwrap(), None);
        assert_eq!(store.allowance("two").await.unwrap(), Some(wanted("https://a.org", "KEY")));
    }
}

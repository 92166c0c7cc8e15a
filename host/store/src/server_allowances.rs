//! The MCP servers of packages that the operator has allowed. `plugin allow` and `plugin deny` write them; sessions read them for
//! each turn and each call. Commands that change packages remove those for servers that are gone.

use patchbay_core::{Digest, Name, PackageName};
use rusqlite::{OptionalExtension as _, Row, params};

use crate::{Store, StoreError};

/// The operator's permission for one MCP server of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAllowance {
    /// The name in the names of its tools, unique among all allowances.
    pub name: Name,
    /// The package that has the server.
    pub package: PackageName,
    /// The server's name in the package.
    pub server: String,
    /// The digest of the entry that was allowed. A server with another entry is off.
    pub digest: Digest,
    /// The variables of the environment that the server gets.
    pub env: Vec<String>,
    /// The credential of `config.toml` that its requests carry.
    pub credential: Option<Name>,
}

const COLUMNS: &str = "name, package, server, digest, env, credential";

impl Store {
    /// Returns all allowances, sorted by name.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn server_allowances(&self) -> Result<Vec<ServerAllowance>, StoreError> {
        self.database.read(|connection| {
            let mut query =
                connection.prepare_cached(&format!("SELECT {COLUMNS} FROM server_allowances ORDER BY name"))?;
            let mut rows = query.query([])?;
            let mut allowances = Vec::new();
            while let Some(row) = rows.next()? {
                allowances.push(allowance_of(row)?);
            }
            Ok(allowances)
        })
    }

    /// Stores an allowance in place of an earlier one for the same server. If another server has the name, nothing changes and that
    /// server's allowance is returned.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn allow_server(&self, allowance: ServerAllowance) -> Result<Option<ServerAllowance>, StoreError> {
        let now = self.source.unix_s();
        self.database
            .decide(move |connection| {
                let ServerAllowance { name, package, server, digest, env, credential } = allowance;
                let query = format!(
                    "SELECT {COLUMNS} FROM server_allowances WHERE name = ?1 AND NOT (package = ?2 AND server = ?3)"
                );
                let owner = connection
                    .query_row(&query, params![name.as_str(), package.as_str(), server], |row| Ok(allowance_of(row)));
                if let Some(owner) = owner.optional()? {
                    return owner.map(Some);
                }
                let (env, credential) = (env.join(" "), credential.as_ref().map(Name::as_str));
                // It replaces the row of the name, and the row of the server.
                connection.execute(
                    &format!(
                        "INSERT OR REPLACE INTO server_allowances ({COLUMNS}, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
                    ),
                    params![name.as_str(), package.as_str(), server, digest.to_string(), env, credential, now],
                )?;
                Ok(None)
            })
            .await
    }

    /// Removes the allowance of a server. Returns whether it existed.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn deny_server(&self, package: PackageName, server: String) -> Result<bool, StoreError> {
        self.database
            .decide(move |connection| {
                let delete = "DELETE FROM server_allowances WHERE package = ? AND server = ?";
                Ok(connection.execute(delete, params![package.as_str(), server])? > 0)
            })
            .await
    }
}

fn allowance_of(row: &Row<'_>) -> Result<ServerAllowance, StoreError> {
    const BAD: StoreError = StoreError::BadRow("server allowance");
    let text = |column: usize| row.get::<_, String>(column);
    Ok(ServerAllowance {
        name: text(0)?.parse().map_err(|_| BAD)?,
        package: text(1)?.parse().map_err(|_| BAD)?,
        server: text(2)?,
        digest: text(3)?.parse().map_err(|_| BAD)?,
        env: text(4)?.split_ascii_whitespace().map(str::to_owned).collect(),
        credential: row.get::<_, Option<String>>(5)?.map(|name| name.parse().map_err(|_| BAD)).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn name_belongs_to_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let allowance = |name: &str, package: &str, server: &str| ServerAllowance {
            name: name.parse().unwrap(),
            package: package.parse().unwrap(),
            server: server.to_owned(),
            digest: Digest::of(server.as_bytes()),
            env: vec!["A".to_owned(), "B".to_owned()],
            credential: Some("docs".parse().unwrap()),
        };
        let (docs, mail) = (allowance("docs", "tools", "My docs"), allowance("mail", "other", "mail"));
        for allowed in [&docs, &mail] {
            assert_eq!(store.allow_server(allowed.clone()).await.unwrap(), None);
        }
        let taken = allowance("docs", "other", "docs");
        assert_eq!(store.allow_server(taken).await.unwrap(), Some(docs.clone()));
        assert_eq!(store.server_allowances().await.unwrap(), [docs.clone(), mail.clone()]);
        // The same server under another name has one row.
        let renamed = ServerAllowance { env: Vec::new(), credential: None, ..allowance("wiki", "tools", "My docs") };
        assert_eq!(store.allow_server(renamed.clone()).await.unwrap(), None);
        assert_eq!(store.server_allowances().await.unwrap(), [mail.clone(), renamed.clone()]);
        for denied in [true, false] {
            let package = renamed.package.clone();
            assert_eq!(store.deny_server(package, renamed.server.clone()).await.unwrap(), denied);
        }
        assert_eq!(store.server_allowances().await.unwrap(), [mail]);
    }
}

//! The MCP servers of packages that the operator has allowed. `plugin allow` and `plugin deny` write them; sessions read them for
//! each turn and each call. Commands that change packages remove allowances for servers that are gone. Removing an allowance
//! also deletes the stored answers about the server's tools.

use patchbay_core::{Digest, Name, PackageName};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::{Store, StoreError};

/// The operator's permission for one MCP server of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAllowance {
    /// The server's name in the names of its tools; unique among all allowances.
    pub name: Name,
    /// The package that contains the server.
    pub package: PackageName,
    /// The server's name in the package.
    pub server: String,
    /// The digest of the server's entry in the package when it was allowed. If the entry has changed, the server is off.
    pub digest: Digest,
    /// The names of the environment variables that the server receives.
    pub env: Vec<String>,
    /// The credential in `config.toml` that is added to its requests.
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

    /// Stores an allowance, and replaces an earlier allowance for the same server. Stored answers are kept only if the earlier
    /// allowance has the same name and entry. If another server has the name, nothing changes and its allowance is returned.
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
                let before = allowed(connection, &package, &server)?;
                if before.as_ref() != Some(&(name.to_string(), digest.to_string())) {
                    forget_answers(connection, name.as_str())?;
                    before.map_or(Ok(()), |(before, _)| forget_answers(connection, &before))?;
                }
                let (env, credential) = (env.join(" "), credential.as_ref().map(Name::as_str));
                // This replaces a row with the same name, and a row of the same server.
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

    /// Removes the allowance of a server, and the stored answers about its tools. Returns whether it existed.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn deny_server(&self, package: PackageName, server: String) -> Result<bool, StoreError> {
        self.database
            .decide(move |connection| {
                let Some((name, _)) = allowed(connection, &package, &server)? else { return Ok(false) };
                forget_answers(connection, &name)?;
                connection.execute("DELETE FROM server_allowances WHERE name = ?", [name])?;
                Ok(true)
            })
            .await
    }
}

/// Returns the name and the entry's digest of a server's allowance.
fn allowed(
    connection: &Connection,
    package: &PackageName,
    server: &str,
) -> Result<Option<(String, String)>, rusqlite::Error> {
    let query = "SELECT name, digest FROM server_allowances WHERE package = ? AND server = ?";
    connection.query_row(query, params![package.as_str(), server], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Deletes the stored answers about the tools of the server `name`. Unfortunately, this can also delete answers about a server with
/// a similar long name: long tool names are cut, which can leave only a part of the server's name.
fn forget_answers(connection: &Connection, name: &str) -> Result<(), rusqlite::Error> {
    // The length of a cut name without its hash.
    const KEPT: usize = Name::MAX_LEN - 8;
    let prefix: String = format!("mcp__{name}__").chars().take(KEPT).collect();
    let delete = "DELETE FROM grants WHERE root = 'mcp' AND substr(skill, 1, length(?1)) = ?1";
    connection.execute(delete, [prefix])?;
    Ok(())
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
    use crate::GrantRow;

    #[tokio::test]
    async fn stored_answers_end_with_the_allowance() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let long = "a-name-that-leaves-little-room-for-the-names-of-tools";
        let allowance = |name: &str, digest: &[u8]| ServerAllowance {
            name: name.parse().unwrap(),
            package: "tools".parse().unwrap(),
            server: "docs".to_owned(),
            digest: Digest::of(digest),
            env: Vec::new(),
            credential: None,
        };
        let answer = |root: &str, tool: &str| GrantRow {
            root: root.to_owned(),
            workspace: String::new(),
            skill: tool.to_owned(),
            capability: "call".to_owned(),
            place: "/w".to_owned(),
            skill_digest: Digest::of(b"declaration").to_string(),
        };
        // A long tool name is cut, and ends in a hash.
        let cut = format!("{}01234567", &format!("mcp__{long}__search")[..Name::MAX_LEN - 8]);
        let others = [answer("client", "mcp__docs__read"), answer("mcp", "mcp__docs2__read")];
        let ended = [answer("mcp", "mcp__docs__read"), answer("mcp", "mcp__docs__write")];
        let answered = async |more: &[GrantRow]| {
            for grant in others.iter().chain(more) {
                store.add_grant(grant.clone(), String::new()).await.unwrap();
            }
        };
        let are_kept = async || store.grants().await.unwrap().len() > others.len();
        let deny = async || store.deny_server("tools".parse().unwrap(), "docs".to_owned()).await.unwrap();
        // Answers from before an allowance do not apply to it.
        answered(&ended).await;
        store.allow_server(allowance("docs", b"1")).await.unwrap();
        assert_eq!(store.grants().await.unwrap(), others);
        // The same entry again, with other settings.
        answered(&ended).await;
        store.allow_server(ServerAllowance { env: vec!["A".to_owned()], ..allowance("docs", b"1") }).await.unwrap();
        assert!(are_kept().await);
        store.allow_server(allowance("docs", b"2")).await.unwrap();
        assert_eq!(store.grants().await.unwrap(), others);
        answered(&ended).await;
        store.allow_server(allowance(long, b"2")).await.unwrap();
        assert_eq!(store.grants().await.unwrap(), others);
        answered(&[answer("mcp", &cut)]).await;
        assert!(are_kept().await && deny().await);
        assert_eq!(store.grants().await.unwrap(), others);
    }

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
        // Allowing the same server under another name replaces its row.
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

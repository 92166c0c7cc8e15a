//! The operator's decisions: grants and trust. Read at each use, never stored in a snapshot.

use rusqlite::params;

use crate::{Store, StoreError, database::rows, texts};

/// A stored grant for a skill, or a stored decision about a tool outside of the sandbox. The fields are not parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRow {
    /// The root of the skill's identity, such as `bundled` or `user`. For a tool, its origin: `mcp` or `client`.
    pub root: String,
    /// The workspace of the identity, or empty.
    pub workspace: String,
    /// The skill's name, or the tool's full name.
    pub skill: String,
    /// The capability, such as `http:example.org`, or `call` for a tool.
    pub capability: String,
    /// The only workspace where it is valid; empty if it is valid in every workspace.
    pub place: String,
    /// The digest of the skill's files when it was granted; empty for a bundled skill, and for a grant by an older build. For
    /// a tool, the digest of its source and declaration.
    pub skill_digest: String,
}

impl Store {
    /// Returns all grants, sorted by their fields.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn grants(&self) -> Result<Vec<GrantRow>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT root, workspace, skill, capability, place, skill_digest FROM grants \
                 ORDER BY root, workspace, skill, capability, place";
            rows(connection, sql, [], |row| {
                Ok(GrantRow {
                    root: row.get(0)?,
                    workspace: row.get(1)?,
                    skill: row.get(2)?,
                    capability: row.get(3)?,
                    place: row.get(4)?,
                    skill_digest: row.get(5)?,
                })
            })
        })
    }

    /// Adds a grant, or renews it for another digest. `files` is the list of files that
    /// `grant.skill_digest` covers, stored to tell the user later which file changed. Empty for a grant without files.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn add_grant(&self, grant: GrantRow, files: String) -> Result<(), StoreError> {
        let now = self.source.unix_s();
        self.database
            .decide(move |connection| {
                connection.execute(
                    "INSERT OR REPLACE INTO grants \
                     (root, workspace, skill, capability, place, skill_digest, created_at) \
                     VALUES (?, ?, ?, ?, ?, ?, ?)",
                    params![
                        grant.root,
                        grant.workspace,
                        grant.skill,
                        grant.capability,
                        grant.place,
                        grant.skill_digest,
                        now
                    ],
                )?;
                if !files.is_empty() {
                    texts::keep_files(connection, &grant.skill_digest, &files)?;
                }
                Ok(())
            })
            .await
    }

    /// Removes a grant, whatever its digest is. Returns whether it existed.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn remove_grant(&self, grant: GrantRow) -> Result<bool, StoreError> {
        self.database
            .decide(move |connection| {
                let removed = connection.execute(
                    "DELETE FROM grants WHERE root = ? AND workspace = ? AND skill = ? AND capability = ? AND place = ?",
                    params![grant.root, grant.workspace, grant.skill, grant.capability, grant.place],
                )?;
                Ok(removed > 0)
            })
            .await
    }

    /// Removes the decisions about the tool with the full name `tool` that are stored under one of `roots`, for all workspaces.
    /// Returns whether any existed.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn forget_tool(&self, roots: &'static [&'static str], tool: String) -> Result<bool, StoreError> {
        self.database
            .decide(move |connection| {
                let mut removed = 0;
                for root in roots {
                    let delete = "DELETE FROM grants WHERE root = ? AND skill = ?";
                    removed += connection.execute(delete, params![root, tool])?;
                }
                Ok(removed > 0)
            })
            .await
    }

    /// Returns the workspaces where skills may write protected files, in order.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn writable(&self) -> Result<Vec<String>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT workspace FROM write_trust ORDER BY workspace";
            rows(connection, sql, [], |row| Ok(row.get(0)?))
        })
    }

    /// Allows or forbids skills to write protected files in a workspace. Returns whether that changed anything.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn set_may_write(&self, workspace: String, may_write: bool) -> Result<bool, StoreError> {
        self.set_listed("write_trust", workspace, may_write).await
    }

    /// Returns whether the user trusts a workspace.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn is_trusted(&self, workspace: &str) -> Result<bool, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT 1 FROM trust WHERE workspace = ?")?;
            Ok(query.exists(params![workspace])?)
        })
    }

    /// Returns the trusted workspaces, in order.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn trusted(&self) -> Result<Vec<String>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT workspace FROM trust ORDER BY workspace";
            rows(connection, sql, [], |row| Ok(row.get(0)?))
        })
    }

    /// Sets or removes the trust in a workspace. Returns whether that changed anything.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn set_trust(&self, workspace: String, trusted: bool) -> Result<bool, StoreError> {
        self.set_listed("trust", workspace, trusted).await
    }

    /// Adds `workspace` to a table of workspaces, or removes it. Returns whether that changed anything.
    async fn set_listed(&self, table: &'static str, workspace: String, listed: bool) -> Result<bool, StoreError> {
        let now = self.source.unix_s();
        self.database
            .decide(move |connection| {
                let changed = if listed {
                    let insert =
                        format!("INSERT INTO {table} (workspace, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING");
                    connection.execute(&insert, params![workspace, now])?
                } else {
                    connection.execute(&format!("DELETE FROM {table} WHERE workspace = ?"), params![workspace])?
                };
                Ok(changed > 0)
            })
            .await
    }
}

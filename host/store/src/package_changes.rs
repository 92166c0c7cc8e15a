//! Changes to installed packages, and their effect on the grants of the packages' skills.
//!
//! `packages.lock` is a file, and grants are rows, so the two cannot change in one step. The crate `plugin` writes the change here
//! first, then replaces the lock, then settles the change, which moves the grants. After a crash between these steps, the lock
//! shows whether the change happened.

use patchbay_core::{Digest, PackageName};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use crate::{Store, StoreError};

/// A change to an installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageChange {
    /// The operating system user that made the change.
    pub who: String,
    /// `add`, `update`, `remove`, `sync` or `rename`.
    pub action: String,
    /// The name of the package.
    pub package: PackageName,
    /// The digest in the lock before the change; `None` if the package was not there.
    pub before: Option<Digest>,
    /// The digest in the lock after the change; `None` if the package is no longer there.
    pub after: Option<Digest>,
    /// How each grant of the package's skills changes.
    pub grants: Vec<MovedGrant>,
}

/// A grant of a package's skill that moves to the files of another version, or ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedGrant {
    /// The skill's name.
    pub skill: String,
    /// The granted capability.
    pub capability: String,
    /// The only workspace where it is valid; empty if it is valid in every workspace.
    pub place: String,
    /// The digest of the skill's files that it was granted for.
    pub from: String,
    /// The digest of the new files; `None` if the grant ends.
    pub to: Option<String>,
}

/// A stored [`PackageChange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageChangeRow {
    /// Its number.
    pub id: i64,
    /// When it was made, in seconds since 1970.
    pub at: i64,
    /// The change itself.
    pub change: PackageChange,
}

const COLUMNS: &str = "id, at, who, action, package, before, after, grants";

impl Store {
    /// Stores a change that is about to happen. Returns its number.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn begin_package_change(&self, change: PackageChange) -> Result<i64, StoreError> {
        let now = self.source.unix_s();
        self.database
            .write(move |connection| {
                let PackageChange { who, action, package, before, after, grants } = change;
                let digest = |digest: Option<Digest>| digest.map(|digest| digest.to_string());
                let grants = serde_json::to_string(&grants).map_err(|_| StoreError::BadRow("package change"))?;
                connection.execute(
                    "INSERT INTO package_changes (at, who, action, package, before, after, grants, settled) \
                     VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
                    params![now, who, action, package.as_str(), digest(before), digest(after), grants],
                )?;
                Ok::<_, StoreError>(connection.last_insert_rowid())
            })
            .await
    }

    /// Settles the change `id`, once. If it `happened`, its grants move or end; otherwise the change is deleted.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn settle_package_change(&self, id: i64, happened: bool) -> Result<(), StoreError> {
        self.database
            .decide(move |connection| {
                let query = format!("SELECT {COLUMNS} FROM package_changes WHERE id = ? AND settled = 0");
                let Some(found) = connection.query_row(&query, [id], |row| Ok(row_of(row))).optional()? else {
                    return Ok(());
                };
                if !happened {
                    connection.execute("DELETE FROM package_changes WHERE id = ?", [id])?;
                    return Ok(());
                }
                let change = found?.change;
                for grant in &change.grants {
                    move_grant(connection, change.package.as_str(), grant)?;
                }
                connection.execute("UPDATE package_changes SET settled = 1 WHERE id = ?", [id])?;
                Ok::<_, StoreError>(())
            })
            .await
    }

    /// Returns the package changes that are settled or, if `settled` is false, were interrupted. The oldest come first.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn package_changes(&self, settled: bool) -> Result<Vec<PackageChangeRow>, StoreError> {
        self.database.read(|connection| {
            let query = format!("SELECT {COLUMNS} FROM package_changes WHERE settled = ? ORDER BY id");
            let mut query = connection.prepare(&query)?;
            let mut rows = query.query([settled])?;
            let mut changes = Vec::new();
            while let Some(row) = rows.next()? {
                changes.push(row_of(row)?);
            }
            Ok(changes)
        })
    }
}

fn row_of(row: &Row<'_>) -> Result<PackageChangeRow, StoreError> {
    const BAD: StoreError = StoreError::BadRow("package change");
    let digest = |column: usize| -> Result<Option<Digest>, StoreError> {
        row.get::<_, Option<String>>(column)?.map(|text| text.parse().map_err(|_| BAD)).transpose()
    };
    let change = PackageChange {
        who: row.get(2)?,
        action: row.get(3)?,
        package: row.get::<_, String>(4)?.parse().map_err(|_| BAD)?,
        before: digest(5)?,
        after: digest(6)?,
        grants: serde_json::from_str(&row.get::<_, String>(7)?).map_err(|_| BAD)?,
    };
    Ok(PackageChangeRow { id: row.get(0)?, at: row.get(1)?, change })
}

/// Moves or deletes one grant. A grant that changed in the meantime is left alone.
fn move_grant(connection: &Connection, package: &str, grant: &MovedGrant) -> Result<(), StoreError> {
    const THIS: &str =
        "root = 'package' AND workspace = ?1 AND skill = ?2 AND capability = ?3 AND place = ?4 AND skill_digest = ?5";
    let MovedGrant { skill, capability, place, from, to } = grant;
    match to {
        Some(to) => connection.execute(
            &format!("UPDATE grants SET skill_digest = ?6 WHERE {THIS}"),
            params![package, skill, capability, place, from, to],
        )?,
        None => connection
            .execute(&format!("DELETE FROM grants WHERE {THIS}"), params![package, skill, capability, place, from])?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GrantRow;

    #[tokio::test]
    async fn grants_move_when_the_change_is_settled_and_only_then() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (old, new) = (Digest::of(b"1"), Digest::of(b"2"));
        let grant = |capability: &str, digest: Digest, workspace: &str| GrantRow {
            root: "package".to_owned(),
            workspace: workspace.to_owned(),
            skill: "notes".to_owned(),
            capability: capability.to_owned(),
            place: String::new(),
            skill_digest: digest.to_string(),
        };
        for (capability, workspace) in [("clock", "other"), ("clock", "tools"), ("kv", "tools")] {
            store.add_grant(grant(capability, old, workspace), String::new()).await.unwrap();
        }
        let moved = |capability: &str, to: Option<Digest>| MovedGrant {
            skill: "notes".to_owned(),
            capability: capability.to_owned(),
            place: String::new(),
            from: old.to_string(),
            to: to.map(|to| to.to_string()),
        };
        let change = PackageChange {
            who: "ada".to_owned(),
            action: "update".to_owned(),
            package: "tools".parse().unwrap(),
            before: Some(old),
            after: Some(new),
            grants: vec![moved("kv", Some(new)), moved("clock", None)],
        };
        let before = store.grants().await.unwrap();
        let forgotten = store.begin_package_change(change.clone()).await.unwrap();
        let id = store.begin_package_change(change.clone()).await.unwrap();
        assert_eq!(store.package_changes(false).await.unwrap().len(), 2);
        store.settle_package_change(forgotten, false).await.unwrap();
        assert_eq!(store.grants().await.unwrap(), before);
        for _ in 0..2 {
            store.settle_package_change(id, true).await.unwrap();
        }
        assert_eq!(store.grants().await.unwrap(), [grant("clock", old, "other"), grant("kv", new, "tools")]);
        let settled = store.package_changes(true).await.unwrap();
        assert_eq!(settled.iter().map(|row| &row.change).collect::<Vec<_>>(), [&change]);
        assert_eq!(store.package_changes(false).await.unwrap(), []);
    }
}

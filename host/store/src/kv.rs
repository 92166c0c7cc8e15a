//! `kv.db`: the key-value state of skills, in a file separate from the host's database. Written by the `kv` capability
//! through `tools`.

use std::{borrow::Cow, path::Path, sync::Arc};

use patchbay_core::{
    PrincipalId, SessionId,
    kv::{KvEntry, KvError},
};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use crate::{Hold, Store, StoreError, database::Database, database::rows};

pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../migrations/kv/1.sql")];

/// Maximum size of a key in bytes.
const KEY_BYTES: usize = 512;
/// Maximum size of a value in bytes.
const VALUE_BYTES: usize = 1 << 20;
/// Maximum size of one scope in bytes. A skill that needs more should use a file.
const SCOPE_BYTES: u64 = 16 << 20;
/// Maximum number of keys in one scope.
const SCOPE_KEYS: u64 = 10_000;
/// Maximum number of keys in one page.
const PAGE: u32 = 1_000;

/// The key-value store of all skills. Cheap to clone.
#[derive(Clone)]
pub struct KvStore {
    pub(crate) database: Arc<Database>,
    /// The store of the sessions. Writes of session state check their hold there.
    sessions: Store,
}

/// The state that an entry belongs to: one scope of one skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvScope {
    /// The root of the skill's identity.
    pub root: &'static str,
    /// The workspace of the skill's identity.
    pub workspace: String,
    /// The name of the skill that owns the data.
    pub skill: String,
    /// The kind of scope and its owner.
    pub owner: KvOwner,
}

/// A scope of a skill's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvOwner {
    /// One session. Writes need its hold.
    Session(Hold),
    /// One workspace, by its canonical path.
    Workspace(String),
    /// One user, in all sessions and workspaces.
    User(PrincipalId),
}

impl KvScope {
    /// Returns the values that identify the scope in the table `scopes`.
    fn columns(&self) -> [Cow<'_, str>; 5] {
        let (scope, place) = match &self.owner {
            KvOwner::Session(hold) => ("session", hold.session().to_string().into()),
            KvOwner::Workspace(path) => ("workspace", path.as_str().into()),
            KvOwner::User(principal) => ("user", principal.as_str().into()),
        };
        [self.root.into(), self.workspace.as_str().into(), self.skill.as_str().into(), scope.into(), place]
    }
}

/// Why a read or write failed.
#[derive(Debug, thiserror::Error)]
pub enum KvStoreError {
    /// The request is invalid or over a limit. The guest sees the reason.
    #[error(transparent)]
    Refused(#[from] KvError),
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for KvStoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl KvStore {
    /// Opens `kv.db` in the folder `data`, or creates it. `sessions` is the store with the sessions that own state.
    ///
    /// # Errors
    /// The same as for [`Store::open`].
    pub fn open(data: &Path, sessions: Store) -> Result<Self, StoreError> {
        let database = Database::open(&data.join("kv.db"), MIGRATIONS, None)?;
        Ok(Self { database: Arc::new(database), sessions })
    }

    /// Reads committed data.
    pub(crate) fn read<T>(&self, query: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.database.read(query)
    }

    /// Runs `job` on the writer thread, unless `scope` belongs to a session that another process has taken over.
    ///
    /// The two databases cannot share a transaction. Another process may take the session over between the check and
    /// the commit of `job`; such a write counts as made before the takeover. The check runs while this process has the
    /// write lock of `kv.db`, which forces the other process to write after the commit.
    async fn write<T: Send + 'static>(
        &self,
        scope: KvScope,
        job: impl FnOnce(&Connection, &KvScope) -> Result<T, KvStoreError> + Send + 'static,
    ) -> Result<T, KvStoreError> {
        let sessions = self.sessions.clone();
        self.database
            .write(move |connection| {
                if let KvOwner::Session(hold) = &scope.owner {
                    sessions.check_hold_now(hold)?;
                }
                job(connection, &scope)
            })
            .await
    }

    /// Returns the entry of `key`.
    ///
    /// # Errors
    /// [`KvError::Invalid`] for an invalid key, or a database error.
    pub async fn get(&self, scope: &KvScope, key: &str) -> Result<Option<KvEntry>, KvStoreError> {
        check_key(key)?;
        self.database.read(|connection| {
            let Some(id) = find(connection, scope)? else { return Ok(None) };
            let mut query =
                connection.prepare_cached("SELECT value, version FROM entries WHERE scope = ? AND key = ?")?;
            let entry = |row: &rusqlite::Row<'_>| {
                Ok(KvEntry { value: row.get(0)?, version: row.get::<_, i64>(1)?.cast_unsigned() })
            };
            Ok(query.query_row(params![id, key], entry).optional()?)
        })
    }

    /// Writes `value` if the entry is at version `expect` (0: no entry; `None`: any version). Returns the new version.
    ///
    /// # Errors
    /// [`KvStoreError`]. On an error, nothing is changed.
    pub async fn put(
        &self,
        scope: KvScope,
        key: String,
        value: Vec<u8>,
        expect: Option<u64>,
    ) -> Result<u64, KvStoreError> {
        check_key(&key)?;
        if value.len() > VALUE_BYTES {
            return Err(KvError::TooLarge { what: "value", size: value.len(), limit: VALUE_BYTES }.into());
        }
        self.write(scope, move |connection, scope| put(connection, scope, key, &value, expect)).await
    }

    /// Deletes the entry of `key`. Returns whether it existed.
    ///
    /// # Errors
    /// [`KvError::Invalid`] for an invalid key, or a database error.
    pub async fn delete(&self, scope: KvScope, key: String) -> Result<bool, KvStoreError> {
        check_key(&key)?;
        self.write(scope, move |connection, scope| {
            let Some(id) = find(connection, scope)? else { return Ok(false) };
            let Some((_, old)) = stored(connection, id, &key)? else { return Ok(false) };
            connection.prepare_cached("DELETE FROM entries WHERE scope = ? AND key = ?")?.execute(params![id, key])?;
            connection
                .prepare_cached("UPDATE scopes SET entries = entries - 1, bytes = bytes - ? WHERE id = ?")?
                .execute(params![old + key.len() as i64, id])?;
            Ok(true)
        })
        .await
    }

    /// Returns the keys that begin with `prefix` and sort after `after`, in byte order: at most `limit`, and at most 1,000.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn keys(
        &self,
        scope: &KvScope,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, KvStoreError> {
        self.database.read(|connection| {
            let Some(id) = find(connection, scope)? else { return Ok(Vec::new()) };
            // Keys sort by bytes (BINARY). All keys with a prefix are therefore contiguous,
            // starting at the prefix itself.
            let sql = "SELECT key FROM entries WHERE scope = ?1 AND key >= ?2 AND (?3 IS NULL OR key > ?3) \
                 AND substr(CAST(key AS BLOB), 1, length(CAST(?2 AS BLOB))) = CAST(?2 AS BLOB) ORDER BY key LIMIT ?4";
            rows(connection, sql, params![id, prefix, after, limit.min(PAGE)], |row| Ok(row.get(0)?))
        })
    }

    /// Deletes all state that a skill kept. `root`, `workspace` and `skill` are its identity. Returns whether there was any.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn remove_skill(&self, root: String, workspace: String, skill: String) -> Result<bool, StoreError> {
        self.database
            .write(move |connection| {
                let delete = "DELETE FROM scopes WHERE root = ? AND workspace = ? AND skill = ?";
                Ok(connection.execute(delete, params![root, workspace, skill])? > 0)
            })
            .await
    }

    /// Deletes the state that skills kept for one session.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn remove_session(&self, session: SessionId) -> Result<(), StoreError> {
        self.database
            .write(move |connection| {
                connection.execute(
                    "DELETE FROM scopes WHERE scope = 'session' AND place = ?",
                    params![session.to_string()],
                )?;
                Ok(())
            })
            .await
    }
}

fn check_key(key: &str) -> Result<(), KvError> {
    match key.len() {
        0 => Err(KvError::Invalid("a key cannot be empty")),
        size if size > KEY_BYTES => Err(KvError::TooLarge { what: "key", size, limit: KEY_BYTES }),
        _ => Ok(()),
    }
}

fn find(connection: &Connection, scope: &KvScope) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT id FROM scopes WHERE root = ? AND workspace = ? AND skill = ? AND scope = ? AND place = ?",
        )?
        .query_row(scope.columns(), |row| row.get(0))
        .optional()
}

/// Returns the version and the size of a stored entry.
fn stored(connection: &Connection, scope: i64, key: &str) -> rusqlite::Result<Option<(i64, i64)>> {
    connection
        .prepare_cached("SELECT version, length(value) FROM entries WHERE scope = ? AND key = ?")?
        .query_row(params![scope, key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

fn put(
    connection: &Connection,
    scope: &KvScope,
    key: String,
    value: &[u8],
    expect: Option<u64>,
) -> Result<u64, KvStoreError> {
    let columns = scope.columns();
    connection
        .prepare_cached(
            "INSERT INTO scopes (root, workspace, skill, scope, place) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        )?
        .execute(params_from_iter(&columns))?;
    let (id, last, entries, bytes): (i64, i64, i64, i64) = connection
        .prepare_cached(
            "SELECT id, last_version, entries, bytes FROM scopes \
             WHERE root = ? AND workspace = ? AND skill = ? AND scope = ? AND place = ?",
        )?
        .query_row(params_from_iter(&columns), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let old = stored(connection, id, &key)?;
    let found = old.map_or(0, |(version, _)| version.cast_unsigned());
    if let Some(expected) = expect
        && expected != found
    {
        return Err(KvError::Conflict { key, expected, found }.into());
    }
    let entries = entries + i64::from(old.is_none());
    let added = old.map_or(key.len() as i64, |(_, size)| -size) + value.len() as i64;
    if entries.cast_unsigned() > SCOPE_KEYS {
        return Err(KvError::Quota { what: "keys", limit: SCOPE_KEYS }.into());
    }
    // A full scope can still shrink.
    if added > 0 && (bytes + added).cast_unsigned() > SCOPE_BYTES {
        return Err(KvError::Quota { what: "bytes", limit: SCOPE_BYTES }.into());
    }
    // A scope has one counter, so a version never refers to other bytes later, even if the entry is deleted and written again.
    let version = last + 1;
    connection
        .prepare_cached("INSERT OR REPLACE INTO entries (scope, key, value, version) VALUES (?, ?, ?, ?)")?
        .execute(params![id, key, value, version])?;
    connection
        .prepare_cached("UPDATE scopes SET last_version = ?, entries = ?, bytes = ? WHERE id = ?")?
        .execute(params![version, entries, bytes + added, id])?;
    Ok(version.cast_unsigned())
}

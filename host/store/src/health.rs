//! The state of the databases: schema, size and damage. `patchbay doctor` shows it, through `session`.

use std::path::PathBuf;

use crate::{KvStore, Store, StoreError, database::Database, upgrade_copy};

/// Maximum number of faults that are reported for one database.
const FAULTS: usize = 5;

/// The state of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseHealth {
    /// The path of the database file.
    pub path: PathBuf,
    /// The version of its schema.
    pub schema: u64,
    /// Size in bytes, with its write-ahead log.
    pub bytes: u64,
    /// The damage, in SQLite's words; empty if nothing is damaged. At most five faults.
    pub damage: Vec<String>,
    /// The copy made before the last schema upgrade, if there is one.
    pub upgrade_copy: Option<PathBuf>,
}

impl Store {
    /// Checks `patchbay.db`. Reads the whole file.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        health(&self.database)
    }
}

impl KvStore {
    /// Checks `kv.db`. Reads the whole file.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        health(&self.database)
    }
}

fn health(database: &Database) -> Result<DatabaseHealth, StoreError> {
    let path = database.path().to_owned();
    let (schema, damage) = database.read(|connection| {
        let schema: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let mut check = connection.prepare(&format!("PRAGMA quick_check({FAULTS})"))?;
        let lines = check.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok::<_, StoreError>((schema.cast_unsigned(), lines))
    })?;
    let mut log = path.clone().into_os_string();
    log.push("-wal");
    let size = |file: PathBuf| std::fs::metadata(file).map_or(0, |file| file.len());
    let bytes = size(path.clone()) + size(log.into());
    // One line "ok" means that nothing is damaged.
    let damage = if damage == ["ok"] { Vec::new() } else { damage };
    let upgrade_copy = upgrade_copy::find(&path);
    Ok(DatabaseHealth { path, schema, bytes, damage, upgrade_copy })
}

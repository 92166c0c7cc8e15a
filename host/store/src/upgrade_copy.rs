//! The copy of a database that is made before a schema upgrade, and allows going back to the older program. `database` makes
//! it, and `health` reports it. `backup` copies databases in the same way.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::StoreError;

/// Copies the database at `path`, with schema version `schema`, to `NAME.schema-N`, and deletes the copy of an earlier upgrade. A
/// process that dies meanwhile leaves the earlier copy, and an unfinished file that the next call replaces. The caller holds the
/// lock for migrations.
pub(crate) fn make(connection: &Connection, path: &Path, schema: usize) -> Result<PathBuf, StoreError> {
    let copy = PathBuf::from(format!("{}.schema-{schema}", path.display()));
    let unfinished = PathBuf::from(format!("{}.copy", path.display()));
    let failed = |source| StoreError::UpgradeCopy { path: path.to_owned(), copy: copy.clone(), source };
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    write(connection, &unfinished).map_err(failed)?;
    fs::rename(&unfinished, &copy).map_err(failed)?;
    for older in copies(path).into_iter().filter(|found| *found != copy) {
        let _ = fs::remove_file(older);
    }
    Ok(copy)
}

/// Copies the database of `connection`, in its current state, to the new file `path`, and waits until it is on disk. Other
/// processes may write to the database meanwhile.
pub(crate) fn write(connection: &Connection, path: &Path) -> std::io::Result<()> {
    // SQLite accepts an empty file. A file that it creates itself could be read by other users.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(File::options().write(true).create_new(true), 0o600).open(path)?;
    if let Err(error) = connection.execute("VACUUM INTO ?", [path.to_string_lossy()]) {
        // The disk may be full.
        let _ = fs::remove_file(path);
        return Err(std::io::Error::other(error));
    }
    // SQLite does not sync the copy to disk.
    File::open(path).and_then(|file| file.sync_all())
}

/// Returns the copy that was made before the last upgrade of the database at `path`, if it is still there.
pub(crate) fn find(path: &Path) -> Option<PathBuf> {
    copies(path).into_iter().next_back()
}

/// Returns the copies of the database at `path`, sorted by name.
fn copies(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let prefix = format!("{}.schema-", name.to_string_lossy());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_copy = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut copies: Vec<PathBuf> = entries.filter(is_copy).map(|entry| entry.path()).collect();
    copies.sort();
    copies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MIGRATIONS, Store, database::Database};

    /// Returns the workspaces that the database at `path` trusts.
    fn trusted(path: &Path) -> Vec<String> {
        let database = Connection::open(path).unwrap();
        let mut query = database.prepare("SELECT workspace FROM trust").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    fn trust(path: &Path, workspace: &str) {
        let add = "INSERT INTO trust (workspace, created_at) VALUES (?, 1)";
        Connection::open(path).unwrap().execute(add, [workspace]).unwrap();
    }

    #[test]
    fn the_older_program_opens_the_copy() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("patchbay.db");
        let older = MIGRATIONS.len() - 1;
        let open_older = |path: &Path| Database::open(path, &MIGRATIONS[..older], None);
        drop(open_older(&path).unwrap());
        assert_eq!(copies(&path), [] as [PathBuf; 0], "a new database has nothing to copy");
        trust(&path, "/kept");
        fs::write(home.path().join("patchbay.db.schema-3"), "of an earlier upgrade").unwrap();
        fs::write(home.path().join("patchbay.db.schema-3.mine"), "of the user").unwrap();
        fs::write(home.path().join("patchbay.db.copy"), "of a process that died").unwrap();

        let store = Store::open(home.path()).unwrap();
        trust(&path, "/later");
        let copy = home.path().join(format!("patchbay.db.schema-{older}"));
        assert_eq!(copies(&path), std::slice::from_ref(&copy));
        assert!(home.path().join("patchbay.db.schema-3.mine").exists());
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&copy).unwrap().permissions()) & 0o777, 0o600);
        drop(store);
        assert!(matches!(open_older(&path), Err(StoreError::Newer { .. })));
        assert!(!home.path().join("patchbay.db.copy").exists());

        // Go back as docs/upgrading.md describes.
        fs::rename(&path, home.path().join("newer.db")).unwrap();
        fs::copy(&copy, &path).unwrap();
        drop(open_older(&path).unwrap());
        assert_eq!(trusted(&path), ["/kept"]);

        // The second upgrade makes the copy again: the older program may have written meanwhile.
        trust(&path, "/older");
        drop(Store::open(home.path()).unwrap());
        assert_eq!((trusted(&copy), trusted(&path)), (vec!["/kept".to_owned(), "/older".to_owned()], trusted(&copy)));
        assert_eq!(find(&path), Some(copy));
    }

    #[test]
    fn nothing_is_upgraded_without_a_copy() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("patchbay.db");
        let older = MIGRATIONS.len() - 1;
        drop(Database::open(&path, &MIGRATIONS[..older], None).unwrap());
        fs::create_dir_all(home.path().join("patchbay.db.copy/in the way")).unwrap();
        let error = Store::open(home.path()).err().unwrap().to_string();
        assert!(error.contains("was not upgraded") && error.contains("patchbay.db.schema-"), "{error}");
        assert!(Database::open(&path, &MIGRATIONS[..older], None).is_ok(), "the older program still opens it");
    }
}

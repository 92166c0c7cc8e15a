//! Copies both databases and the content folders while other processes may write. Called by `patchbay backup`.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::{KvStore, Store, StoreError, content::ContentFolder, upgrade_copy};

/// Counts of the data that [`Store::back_up`] copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of components, attachments and files of skills.
    pub files: u64,
    /// Size of everything, in bytes.
    pub bytes: u64,
}

impl Store {
    /// Copies the store and `kv` into the empty folder `data`, without client tokens. `patchbay.db` gets its name last, so a copy
    /// that contains it is complete. Other processes may write meanwhile; only garbage collection waits. `kv.db` is copied after
    /// `patchbay.db`, so its state may be slightly newer. Blocks.
    ///
    /// # Errors
    /// A database error, or an I/O error in one of the folders.
    pub fn back_up(&self, kv: &KvStore, data: &Path) -> Result<BackedUp, StoreError> {
        // Files are written before the rows that name them. Therefore the rows are copied first, and the locks keep other processes
        // from deleting files until the last file is copied.
        let _locks = (self.components.lock(false)?, self.attachments.lock(false)?);
        let (path, unfinished) = (data.join("patchbay.db"), data.join("patchbay.db.copy"));
        self.database.read(|connection| copy(connection, &unfinished))?;
        let sessions = remove_tokens(&unfinished)?;
        let kv_path = data.join("kv.db");
        kv.read(|connection| copy(connection, &kv_path))?;
        let mut files = 0;
        let mut bytes = size(&unfinished)? + size(&kv_path)?;
        for folder in [&self.components, &self.attachments, &self.skill_files] {
            let copied = folder.copy_to(data)?;
            files += copied.0;
            bytes += copied.1;
        }
        fs::rename(&unfinished, &path).map_err(StoreError::io(&path))?;
        File::open(data).and_then(|folder| folder.sync_all()).map_err(StoreError::io(data))?;
        Ok(BackedUp { sessions, files, bytes })
    }
}

fn copy(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    upgrade_copy::write(connection, path).map_err(StoreError::io(path))
}

fn size(path: &Path) -> Result<u64, StoreError> {
    Ok(fs::metadata(path).map_err(StoreError::io(path))?.len())
}

/// Removes all client tokens from the copy of a database, and returns its number of sessions.
fn remove_tokens(path: &Path) -> Result<u64, StoreError> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // Without `secure_delete`, the bytes of the deleted tokens would stay in the file.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.execute("DELETE FROM client_tokens", [])?;
    let sessions: i64 = connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))?;
    Ok(sessions.cast_unsigned())
}

impl ContentFolder {
    /// Copies all files to a folder of the same name below `data`. Returns their number and size. Skips a file that disappears
    /// during the copy: it was damaged and therefore deleted.
    fn copy_to(&self, data: &Path) -> Result<(u64, u64), StoreError> {
        let target = data.join(self.name());
        fs::create_dir(&target).map_err(StoreError::io(&target))?;
        let (mut count, mut bytes) = (0, 0);
        for path in self.files()? {
            let to: PathBuf = path.file_name().map(|name| target.join(name)).unwrap_or_default();
            match fs::copy(&path, &to) {
                Ok(size) => {
                    File::open(&to).and_then(|file| file.sync_all()).map_err(StoreError::io(&to))?;
                    count += 1;
                    bytes += size;
                }
                Err(error) if error.kind() == ErrorKind::NotFound && !path.exists() => {}
                Err(error) => return Err(StoreError::io(&path)(error)),
            }
        }
        Ok((count, bytes))
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{Digest, MessageKind};

    use super::*;
    use crate::{
        SessionChange, TokenRights,
        testing::{TestTree, message},
    };

    fn attach(tree: &TestTree, content: &str) -> SessionChange {
        SessionChange {
            attachments: Some(tree.store.store_attachments([content.as_bytes()]).unwrap()),
            messages: vec![message(tree.root, MessageKind::User, content)],
            ..SessionChange::default()
        }
    }

    #[tokio::test]
    async fn backup_made_during_writes_has_the_content_of_each_row() {
        let tree = TestTree::new().await;
        let (name, digest) = ("laptop".parse().unwrap(), Digest::of(b"token"));
        tree.store.add_client_token(name, digest, TokenRights::default(), None).await.unwrap();
        let kv = KvStore::open(tree.home.path(), tree.store.clone()).unwrap();
        let copy = tempfile::tempdir().unwrap();
        let (store, data) = (tree.store.clone(), copy.path().to_owned());
        tree.commit(attach(&tree, "before")).await.unwrap();
        let backing_up = tokio::task::spawn_blocking(move || store.back_up(&kv, &data).unwrap());
        let mut at = 0;
        while !backing_up.is_finished() {
            tree.commit(attach(&tree, &format!("during {at}"))).await.unwrap();
            at += 1;
        }
        let backed_up = backing_up.await.unwrap();
        assert_eq!(backed_up.sessions, 1);

        let restored = Store::open(copy.path()).unwrap();
        let rows = restored.conversation(tree.root).await.unwrap();
        assert!(rows.len() <= at + 1 && rows[0].content == "before");
        for row in &rows {
            let digest = Digest::of(row.content.as_bytes());
            assert!(restored.attachment(&digest).unwrap().is_some(), "{}", row.content);
        }
        assert_eq!(restored.client_tokens().await.unwrap(), []);
        assert!(tree.store.client_token(&digest).await.unwrap().is_some());
        for file in ["patchbay.db", "kv.db"] {
            let bytes = fs::read(copy.path().join(file)).unwrap();
            let digest = digest.to_hex();
            assert!(!bytes.windows(digest.len()).any(|window| window == digest.as_bytes()), "{file}");
        }
        assert!(restored.health().await.unwrap().damage.is_empty());
        let mut names: Vec<_> = fs::read_dir(tree.home.path().join("attachments"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.retain(|name| name != "lock");
        assert!(backed_up.files <= names.len() as u64 && backed_up.files >= rows.len() as u64);
    }

    #[tokio::test]
    async fn failed_backup_has_no_database() {
        let tree = TestTree::new().await;
        let kv = KvStore::open(tree.home.path(), tree.store.clone()).unwrap();
        let copy = tempfile::tempdir().unwrap();
        fs::write(copy.path().join("attachments"), "in the way").unwrap();
        let error = tree.store.back_up(&kv, copy.path()).unwrap_err().to_string();
        assert!(error.contains("attachments"), "{error}");
        assert!(!copy.path().join("patchbay.db").exists());
    }
}

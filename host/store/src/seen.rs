//! The skill files as they were last read, which saves reading unchanged files again. Used by
//! `session` when it builds a snapshot.

use patchbay_core::Digest;
use rusqlite::{Connection, params};

use crate::{Store, StoreError};

/// A file below a root, as it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFile {
    /// The path below the skill root.
    pub file: String,
    /// The file's identity and timestamps from `stat(2)`, as text.
    pub stat: String,
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// The parsed SKILL.md, from a file or embedded in a component, as JSON.
    pub skill_md: Option<String>,
}

impl Store {
    /// Returns the files of the root `folder` as they were last read by the executable that `program` identifies, unsorted.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn seen(&self, folder: &str, program: &str) -> Result<Vec<SeenFile>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection
                .prepare_cached("SELECT file, stat, digest, skill_md FROM seen WHERE folder = ? AND program = ?")?;
            let mut rows = query.query(params![folder, program])?;
            let mut files = Vec::new();
            while let Some(row) = rows.next()? {
                // Without a readable digest, the file counts as not seen and is read again.
                if let Ok(digest) = row.get_ref(2)?.as_str().unwrap_or_default().parse() {
                    files.push(SeenFile { file: row.get(0)?, stat: row.get(1)?, digest, skill_md: row.get(3)? });
                }
            }
            Ok(files)
        })
    }

    /// Stores files that `program` read below the root `folder`, and deletes the records of the files in `gone`.
    /// Does not wait for the commit, because a file without a record is just read again.
    pub async fn remember_seen(&self, folder: String, program: String, read: Vec<SeenFile>, gone: Vec<String>) {
        let job = move |connection: &Connection| {
            connection
                .prepare_cached("DELETE FROM seen WHERE folder = ? AND program <> ?")?
                .execute(params![folder, program])?;
            let mut forget = connection.prepare_cached("DELETE FROM seen WHERE folder = ? AND file = ?")?;
            for file in gone {
                forget.execute(params![folder, file])?;
            }
            let mut remember = connection.prepare_cached(
                "INSERT OR REPLACE INTO seen (folder, file, program, stat, digest, skill_md) VALUES (?, ?, ?, ?, ?, ?)",
            )?;
            for SeenFile { file, stat, digest, skill_md } in read {
                remember.execute(params![folder, file, program, stat, digest.to_string(), skill_md])?;
            }
            Ok(())
        };
        self.database.write_later("the record of skill files", job).await;
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::testing::new_store;

    fn file(file: &str, stat: &str, skill_md: Option<&str>) -> SeenFile {
        let (digest, skill_md) = (Digest::of(stat.as_bytes()), skill_md.map(str::to_owned));
        SeenFile { file: file.to_owned(), stat: stat.to_owned(), digest, skill_md }
    }

    #[tokio::test]
    async fn file_records_are_kept_by_root_and_program() {
        let (_home, store) = new_store();
        let seen = async |folder: &str, program: &str| {
            let mut files = store.seen(folder, program).await.unwrap();
            files.sort_by(|a, b| a.file.cmp(&b.file));
            files
        };
        let remember = async |folder: &str, program: &str, read: &[SeenFile], gone: &[&str]| {
            let gone = gone.iter().map(|file| (*file).to_owned()).collect();
            store.remember_seen(folder.to_owned(), program.to_owned(), read.to_vec(), gone).await;
            store.settle().await.unwrap();
        };
        let (a, b) = (file("a.wasm", "1", None), file("b/SKILL.md", "2", Some("{}")));
        remember("/one", "p", &[a.clone(), b.clone()], &[]).await;
        remember("/two", "p", slice::from_ref(&a), &[]).await;
        assert_eq!(seen("/one", "p").await, [a.clone(), b.clone()]);
        assert_eq!(seen("/one", "q").await, [], "another program");
        let changed = file("a.wasm", "3", None);
        remember("/one", "p", slice::from_ref(&changed), &["b/SKILL.md", "unknown"]).await;
        assert_eq!(seen("/one", "p").await, [changed]);
        assert_eq!(seen("/two", "p").await, [a]);
        remember("/one", "q", slice::from_ref(&b), &[]).await;
        assert_eq!(
            (seen("/one", "p").await, seen("/one", "q").await),
            (vec![], vec![b]),
            "a root keeps the records of one program only"
        );
        store.collect().await.unwrap();
        assert_eq!((seen("/one", "q").await, seen("/two", "p").await), (vec![], vec![]));
    }

    #[tokio::test]
    async fn unreadable_file_record_is_ignored() {
        let (home, store) = new_store();
        let good = file("good", "1", None);
        store.remember_seen("/".to_owned(), "p".to_owned(), vec![good.clone()], vec![]).await;
        store.settle().await.unwrap();
        let row = "INSERT INTO seen (folder, file, program, stat, digest) VALUES ('/', 'bad', 'p', '2', 'md5:0')";
        rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap().execute(row, []).unwrap();
        assert_eq!(store.seen("/", "p").await.unwrap(), [good]);
    }
}

//! The contents of files that the user attached to messages. Rows and waiting lines name them by digest; `session` stores
//! them, and `agent` reads them for each request.

use std::{collections::BTreeSet, fs::File, sync::Arc};

use patchbay_core::{Digest, SessionId};
use rusqlite::{Connection, params};

use crate::{Store, StoreError, content::StoredContent};

/// Stored contents that a row is about to name. Garbage collection keeps them until this
/// value and its clones are dropped.
#[derive(Clone, Debug)]
pub struct RetainedAttachments {
    digests: BTreeSet<Digest>,
    /// Shared lock that garbage collection waits for.
    _lock: Arc<File>,
}

/// Records that rows of a session name these contents.
pub(crate) fn name(
    connection: &Connection,
    session: SessionId,
    retained: &RetainedAttachments,
) -> Result<(), StoreError> {
    let mut insert =
        connection.prepare_cached("INSERT INTO attachments (session, digest) VALUES (?, ?) ON CONFLICT DO NOTHING")?;
    for digest in &retained.digests {
        insert.execute(params![session.to_string(), digest.to_string()])?;
    }
    Ok(())
}

impl Store {
    /// Stores contents. Waits while another process collects garbage. Blocks.
    ///
    /// # Errors
    /// An I/O error in the folder of attachments.
    pub fn store_attachments<'a>(
        &self,
        contents: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<RetainedAttachments, StoreError> {
        let lock = self.attachments.lock(false)?;
        let mut digests = BTreeSet::new();
        for content in contents {
            let digest = Digest::of(content);
            self.attachments.put(&digest, content)?;
            digests.insert(digest);
        }
        Ok(RetainedAttachments { digests, _lock: Arc::new(lock) })
    }

    /// Stores a file's contents before a change. Blocks, but does not wait for the disk: the copy survives a crash of the
    /// process, but a power failure can lose it, and the change can then no longer be undone.
    ///
    /// # Errors
    /// An I/O error in the folder of attachments.
    pub fn store_before_change(&self, content: &[u8]) -> Result<RetainedAttachments, StoreError> {
        let lock = self.attachments.lock(false)?;
        let digest = Digest::of(content);
        if !self.attachments.has(&digest, content.len() as u64) {
            self.attachments.put_unsynced(&digest, content)?;
        }
        Ok(RetainedAttachments { digests: BTreeSet::from([digest]), _lock: Arc::new(lock) })
    }

    /// Returns whether a row or a waiting line of the session names this content.
    ///
    /// # Errors
    /// A database error.
    pub async fn has_attachment(&self, session: SessionId, digest: &Digest) -> Result<bool, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT 1 FROM attachments WHERE session = ? AND digest = ?")?;
            Ok(query.exists(params![session.to_string(), digest.to_string()])?)
        })
    }

    /// Returns the content with this digest; `None` if its file is missing or damaged. Blocks.
    ///
    /// # Errors
    /// An I/O error in the folder of attachments.
    pub fn attachment(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(match self.attachments.get(digest)? {
            StoredContent::Whole(content) => Some(content),
            StoredContent::Missing | StoredContent::Damaged => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::MessageKind;

    use super::*;
    use crate::{
        Collected, SessionChange,
        testing::{TestTree, message, new_agent, new_session},
    };

    fn change(tree: &TestTree, content: &[u8]) -> SessionChange {
        SessionChange {
            attachments: Some(tree.store.store_attachments([content]).unwrap()),
            messages: vec![message(tree.root, MessageKind::User, "look")],
            ..SessionChange::default()
        }
    }

    #[tokio::test]
    async fn gc_keeps_what_sessions_name() {
        let tree = TestTree::new().await;
        tree.commit(change(&tree, b"shared")).await.unwrap();
        tree.commit(change(&tree, b"only one")).await.unwrap();
        let (other, agent) = new_session(&tree.store).await;
        let change = SessionChange {
            attachments: Some(tree.store.store_attachments([&b"shared"[..]]).unwrap()),
            messages: vec![message(agent, MessageKind::User, "look")],
            ..SessionChange::default()
        };
        tree.store.commit(&other, change).await.unwrap();
        // Stored for a line that was refused.
        drop(tree.store.store_attachments([&b"unused"[..]]).unwrap());
        let collected = tree.store.collect().await.unwrap();
        assert_eq!((collected.attachments, collected.bytes), (1, 6));
        for (content, is_named) in [("only one", true), ("unused", false)] {
            let digest = Digest::of(content.as_bytes());
            assert_eq!(tree.store.has_attachment(tree.session(), &digest).await.unwrap(), is_named, "{content}");
        }
        tree.store.remove_session(tree.session()).await.unwrap();
        let collected = tree.store.collect().await.unwrap();
        assert_eq!((collected.attachments, collected.bytes), (1, 8));
        let stored = |content: &[u8]| tree.store.attachment(&Digest::of(content)).unwrap();
        assert_eq!(stored(b"shared").as_deref(), Some(&b"shared"[..]));
        assert_eq!((stored(b"only one"), stored(b"unused")), (None, None));
    }

    #[tokio::test]
    async fn forks_and_dropped_messages_keep_their_attachments() {
        let tree = TestTree::new().await;
        let rows = tree.commit(change(&tree, b"seen by both")).await.unwrap();
        let child = new_agent(tree.root);
        let drops = Some(crate::DroppedMessage { agent: tree.root, first: rows[0].seq, last: rows[0].seq });
        tree.commit(SessionChange { new_agent: Some(child), ..SessionChange::default() }).await.unwrap();
        tree.commit(SessionChange { drops, ..SessionChange::default() }).await.unwrap();
        assert_eq!(tree.store.collect().await.unwrap(), Collected::default());
        assert!(tree.store.attachment(&Digest::of(b"seen by both")).unwrap().is_some());
    }

    #[tokio::test]
    async fn gc_waits_for_what_is_about_to_be_named() {
        let tree = TestTree::new().await;
        let change = change(&tree, b"new");
        let other = Store::open(tree.home.path()).unwrap();
        let runtime = tokio::runtime::Handle::current();
        let collecting = std::thread::spawn(move || runtime.block_on(other.collect()).unwrap());
        tree.commit(change).await.unwrap();
        let collected = tokio::task::spawn_blocking(move || collecting.join().unwrap()).await.unwrap();
        assert_eq!(collected, Collected::default());
    }

    #[tokio::test]
    async fn damaged_content_is_missing_until_it_is_stored_again() {
        let tree = TestTree::new().await;
        tree.commit(change(&tree, b"bytes")).await.unwrap();
        let digest = Digest::of(b"bytes");
        let path = tree.home.path().join(format!("attachments/{}.bin", digest.to_hex()));
        std::fs::write(path, b"bytez").unwrap();
        assert_eq!(tree.store.attachment(&digest).unwrap(), None);
        tree.commit(change(&tree, b"bytes")).await.unwrap();
        assert_eq!(tree.store.attachment(&digest).unwrap().as_deref(), Some(&b"bytes"[..]));
    }
}

//! The stored sessions of a workspace, for a front that can continue in another session.

use crate::{Session, SessionError, mail::minute};

/// Maximum number of listed sessions. `patchbay sessions` lists older ones.
const LISTED: usize = 20;
/// Length limit of a session's title or first words, in characters.
const WORDS: usize = 60;

/// An entry in the list of stored sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// A prefix of the session's id that no other session has.
    pub short_id: String,
    /// When it was last used, in UTC: `2026-11-21 20:04`.
    pub used_at: String,
    /// Its title, or its first words.
    pub words: String,
    /// Whether it is this session.
    pub is_this: bool,
}

impl Session {
    /// Returns the sessions of this workspace that have a message or command, most recently used first, at most 20.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn sessions_here(&self) -> Result<Vec<StoredSession>, SessionError> {
        let mut list = Vec::new();
        for session in self.host.store.sessions().await? {
            if session.workspace != self.workspace() {
                continue;
            }
            let words = self.host.first_words(session.id, WORDS).await?;
            let Some(words) = words.filter(|words| words != "/quit") else { continue };
            list.push(StoredSession {
                short_id: self.host.store.short_id(session.id).await?,
                used_at: minute(session.used_at.saturating_mul(1_000)),
                words,
                is_this: session.id == self.id(),
            });
            if list.len() == LISTED {
                break;
            }
        }
        Ok(list)
    }
}

//! Creates, lists and removes sessions, and collects the garbage that they leave. Called by `session`, and by
//! `patchbay sessions`.

use std::collections::HashSet;

use patchbay_core::{AgentId, Digest, PrincipalId, SessionId};
use rusqlite::{OptionalExtension, params};

use crate::{
    Hold, Store, StoreError,
    database::rows,
    hold::FIRST_EPOCH,
    journal,
    snapshots::{self, NewSnapshot},
    texts,
};

/// The state of a session, without its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The id that identifies the session.
    pub id: SessionId,
    /// The workspace's canonical path.
    pub workspace: String,
    /// The agent that the user is talking to.
    pub agent: AgentId,
    /// The active persona with its text, as JSON.
    pub persona: String,
    /// The digest of its current snapshot.
    pub snapshot: Digest,
    /// The snapshot's number in this session; each reload adds one.
    pub snapshot_version: u64,
    /// The user who owns the session.
    pub owner: PrincipalId,
}

/// An entry in the list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// The id that identifies the session.
    pub id: SessionId,
    /// The workspace's canonical path.
    pub workspace: String,
    /// Time of the last use, in seconds since 1970.
    pub used_at: i64,
    /// Number of rows of the session.
    pub messages: u64,
}

/// A session that was not used for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedSession {
    /// The id that identifies the session.
    pub id: SessionId,
    /// Time of the last use, in seconds since 1970.
    pub used_at: i64,
}

/// The length of a short id; see [`SessionId::short`].
const SHORT: usize = 8;

/// The objects that [`Store::collect`] deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of snapshots removed.
    pub snapshots: usize,
    /// Number of components removed.
    pub components: usize,
    /// Number of attachments removed.
    pub attachments: usize,
    /// Number of skills whose stored files were removed.
    pub skill_files: usize,
    /// Size of these components, attachments and files in bytes.
    pub bytes: u64,
    /// Components with an unused artefact. The store has deleted its records of them; the caller deletes the files.
    pub artefacts: Vec<Digest>,
}

impl Store {
    /// Creates a session with its snapshot and its root agent. Returns its first hold.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn create_session(&self, row: SessionRow, snapshot: NewSnapshot) -> Result<Hold, StoreError> {
        let _held = snapshot.components.clone();
        let (holder, now) = (self.holder.to_string(), self.source.unix_s());
        self.database
            .write(move |connection| {
                snapshots::insert(connection, &snapshot)?;
                connection.execute(
                    "INSERT INTO sessions (id, workspace, agent, persona, snapshot, snapshot_version, created_at, used_at, \
                     owner, holder, epoch) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10)",
                    params![
                        row.id.to_string(),
                        row.workspace,
                        row.agent.to_string(),
                        row.persona,
                        snapshot.digest.to_string(),
                        row.snapshot_version.cast_signed(),
                        now,
                        row.owner.as_str(),
                        holder,
                        FIRST_EPOCH,
                    ],
                )?;
                connection.execute(
                    "INSERT INTO agents (uuid, session, created_at) VALUES (?, ?, ?)",
                    params![row.agent.to_string(), row.id.to_string(), now],
                )?;
                Ok(Hold::first(row.id))
            })
            .await
    }

    /// Returns the session `id`.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], or a database error.
    pub async fn session(&self, id: SessionId) -> Result<SessionRow, StoreError> {
        let columns = self.database.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT workspace, agent, persona, snapshot, snapshot_version, owner FROM sessions WHERE id = ?",
                )?
                .query_row(params![id.to_string()], |row| {
                    let columns: (String, String, String, String, i64, String) =
                        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
                    Ok(columns)
                })
                .optional()
                .map_err(StoreError::from)
        })?;
        let (workspace, agent, persona, snapshot, version, owner) = columns.ok_or(StoreError::SessionNotFound(id))?;
        Ok(SessionRow {
            id,
            workspace,
            agent: agent.parse().map_err(|_| StoreError::BadRow("session"))?,
            persona,
            snapshot: snapshot.parse().map_err(|_| StoreError::BadRow("session"))?,
            snapshot_version: version.cast_unsigned(),
            owner: owner.parse().map_err(|_| StoreError::BadRow("session"))?,
        })
    }

    /// Returns all sessions, the most recently used first.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT id, workspace, used_at, (SELECT count(*) FROM messages WHERE session = sessions.id) \
                 FROM sessions ORDER BY used_at DESC, created_at DESC, id";
            rows(connection, sql, [], |row| {
                let id: String = row.get(0)?;
                Ok(SessionSummary {
                    id: id.parse().map_err(|_| StoreError::BadRow("session"))?,
                    workspace: row.get(1)?,
                    used_at: row.get(2)?,
                    messages: row.get::<_, i64>(3)?.cast_unsigned(),
                })
            })
        })
    }

    /// Returns the title that the user gave to a session; `None` without one.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn title(&self, id: SessionId) -> Result<Option<String>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT title FROM sessions WHERE id = ?")?;
            Ok(query.query_row(params![id.to_string()], |row| row.get(0)).optional()?.flatten())
        })
    }

    /// Returns the shortest prefix of a session's id that no other session has, but at least 8 characters.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn short_id(&self, id: SessionId) -> Result<String, StoreError> {
        let (id, short) = (id.to_string(), id.short());
        self.database.read(|connection| {
            // Ids consist of `-`, digits and `a` to `f`. Therefore `short` followed by `g` sorts after
            // every id that begins with `short`.
            let mut query = connection.prepare_cached("SELECT id FROM sessions WHERE id BETWEEN ?1 AND ?1 || 'g'")?;
            let similar = query.query_map(params![short], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
            Ok(unique_prefix(&id, &similar).to_owned())
        })
    }

    /// Removes a session, its rows, and the contents in its journal rows; the journal rows themselves stay. Data shared
    /// with other sessions stays until [`Store::collect`].
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], or a database error.
    pub async fn remove_session(&self, id: SessionId) -> Result<(), StoreError> {
        self.database
            .write(move |connection| {
                match connection.execute("DELETE FROM sessions WHERE id = ?", params![id.to_string()])? {
                    0 => Err(StoreError::SessionNotFound(id)),
                    _ => Ok(journal::forget_contents(connection, id)?),
                }
            })
            .await
    }

    /// Returns at most `limit` sessions that were last used before `before`, the least recently used first, starting after
    /// `after`, the last session of the previous page.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn unused_sessions(
        &self,
        before: i64,
        after: Option<UnusedSession>,
        limit: u32,
    ) -> Result<Vec<UnusedSession>, StoreError> {
        let (used_at, id) = after.map_or((i64::MIN, String::new()), |after| (after.used_at, after.id.to_string()));
        self.database.read(|connection| {
            let sql = "SELECT id, used_at FROM sessions WHERE used_at < ? AND (used_at, id) > (?, ?) ORDER BY used_at, id LIMIT ?";
            rows(connection, sql, params![before, used_at, id, limit], |row| {
                let id: String = row.get(0)?;
                let id = id.parse().map_err(|_| StoreError::BadRow("session"))?;
                Ok(UnusedSession { id, used_at: row.get(1)? })
            })
        })
    }

    /// Like [`Store::remove_session`], but only if the session was last used before `before`. Returns whether it was.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn remove_unused_session(&self, id: SessionId, before: i64) -> Result<bool, StoreError> {
        self.database
            .write(move |connection| {
                let delete = "DELETE FROM sessions WHERE id = ? AND used_at < ?";
                let removed = connection.execute(delete, params![id.to_string(), before])? > 0;
                if removed {
                    journal::forget_contents(connection, id)?;
                }
                Ok(removed)
            })
            .await
    }

    /// Deletes snapshots and attachments that no session uses, components and skill files that no snapshot uses, and the records
    /// of unused artefacts and of all skill files that were read.
    ///
    /// # Errors
    /// A database error, or an I/O error in the folders of components, attachments and skill files.
    pub async fn collect(&self) -> Result<Collected, StoreError> {
        let _locks = (self.components.lock(true)?, self.attachments.lock(true)?);
        let (snapshots, needed, skills, attached, artefacts) = self
            .database
            .write(|connection| {
                connection.execute("DELETE FROM seen", [])?;
                let snapshots = connection
                    .execute("DELETE FROM snapshots WHERE digest NOT IN (SELECT snapshot FROM sessions)", [])?;
                texts::collect(connection)?;
                let mut query = connection.prepare("SELECT DISTINCT component FROM snapshot_components")?;
                let needed: HashSet<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let mut query = connection.prepare("SELECT DISTINCT skill FROM snapshot_skills")?;
                let skills: HashSet<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let mut query = connection.prepare("SELECT DISTINCT digest FROM attachments")?;
                let attached: HashSet<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let mut forget = connection.prepare(
                    "DELETE FROM artefacts WHERE component NOT IN (SELECT component FROM snapshot_components) \
                     RETURNING component",
                )?;
                let forgotten: Vec<String> = forget.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let artefacts =
                    forgotten.iter().map(|digest| digest.parse().map_err(|_| StoreError::BadRow("artefact")));
                Ok::<_, StoreError>((snapshots, needed, skills, attached, artefacts.collect::<Result<Vec<_>, _>>()?))
            })
            .await?;
        let (components, component_bytes) = self.components.collect(|digest| needed.contains(digest))?;
        let (attachments, attachment_bytes) = self.attachments.collect(|digest| attached.contains(digest))?;
        let (skill_files, skill_bytes) = self.skill_files.collect(|digest| skills.contains(digest))?;
        let bytes = component_bytes + attachment_bytes + skill_bytes;
        Ok(Collected { snapshots, components, attachments, skill_files, bytes, artefacts })
    }
}

/// Returns the shortest prefix of `id` that no other id in `ids` has, but at least 8 characters. All ids are ASCII.
fn unique_prefix<'a>(id: &'a str, ids: &[String]) -> &'a str {
    let shared = |other: &String| id.bytes().zip(other.bytes()).take_while(|(one, two)| one == two).count();
    let longest = ids.iter().filter(|other| *other != id).map(shared).max();
    id.get(..longest.map_or(0, |shared| shared + 1).max(SHORT)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_unique_prefixes() {
        let id = "25ac03e6-5613-4409-a682-4dd5270a4e0e";
        let of = |others: &[&str]| unique_prefix(id, &others.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&[]), "25ac03e6");
        assert_eq!(of(&[id]), "25ac03e6");
        assert_eq!(of(&[id, "25ac0000-0000-4000-8000-000000000000"]), "25ac03e6");
        assert_eq!(of(&["25ac03e6-5700-4000-8000-000000000000", id]), "25ac03e6-56");
        assert_eq!(of(&["25ac03e6-5613-4409-a682-4dd5270a4e0f"]), id);
    }
}

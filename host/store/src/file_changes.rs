//! The files that a session's turns and commands changed, with the contents before each change. `tools` records a change before it
//! happens; `session` reads the records for `/undo` and `/diff`.

use patchbay_core::{AgentId, CallId, Code, Digest, SessionId, TurnCause};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde_json::Value;

use crate::{Hold, RetainedAttachments, Store, StoreError, attachments, database::rows, hold::SessionWrite, turns};

/// The file changes of one turn or command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// Its number in the session, from 1.
    pub number: u64,
    /// The agent that ran the turn or command.
    pub agent: AgentId,
    /// The first row of the turn; `None` for a command.
    pub turn: Option<u64>,
    /// The numbers of the change sets that it undid.
    pub reverts: Vec<u64>,
    /// The session's last row when it began.
    pub last_row: u64,
    /// Whether its file changes are undone.
    pub undone: Undone,
}

/// Whether a set's changes are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// All are in force.
    None,
    /// Some are in force, and the others are undone.
    Part,
    /// None is in force.
    All,
}

/// A change of one file in a set. Several writes count as one change unless something else changed the file in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChangeRow {
    /// The number of the change set it belongs to.
    pub number: u64,
    /// The path below the workspace root.
    pub path: String,
    /// The contents before, or `None` if the file did not exist.
    pub before: Option<Digest>,
    /// The contents after, `None` if the file was deleted.
    pub after: Option<Digest>,
    /// The permission bits before, or `None` if the file did not exist or the system does not support them.
    pub mode: Option<u32>,
    /// True if the contents before the change are stored, or no file existed.
    pub is_kept: bool,
    /// Whether it is undone.
    pub is_undone: bool,
}

/// A change of a file that is about to be made.
#[derive(Clone, Debug)]
pub struct NewFileChange {
    /// The agent that the change belongs to.
    pub agent: AgentId,
    /// The outermost call that makes it.
    pub call: CallId,
    /// Whether the call belongs to the agent's turn. Otherwise it runs a command.
    pub in_turn: bool,
    /// The change sets that the command undoes; empty for all commands but `/undo`. Stored with the first change, because the
    /// command may be interrupted before its last change.
    pub reverts: Vec<u64>,
    /// The path below the workspace root.
    pub path: String,
    /// The current contents, or `None` if the file does not exist.
    pub before: Option<Digest>,
    /// The contents after the change; `None` if it deletes the file.
    pub after: Option<Digest>,
    /// Size of the current contents, in bytes.
    pub size: u64,
    /// The permission bits of the file now.
    pub mode: Option<u32>,
    /// The stored current contents, or `None` if the file does not exist or its contents are not kept.
    pub retained: Option<RetainedAttachments>,
}

const BAD: StoreError = StoreError::BadRow("change of a file");

impl Store {
    /// Records that a file is about to be changed. The first change of a turn or command begins a set.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error. On an error, the file must not be changed.
    pub async fn begin_file_change(&self, hold: &Hold, change: NewFileChange) -> Result<(), StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        // Until the commit, garbage collection must not delete the contents.
        let _held = change.retained.clone();
        self.database
            .write(move |connection| {
                let write = hold.begin_write(connection, &source, 0, 0)?;
                let turn = match change.in_turn {
                    true => turns::open_turn(connection, write.session, change.agent)?,
                    false => None,
                };
                let number = match find_set(connection, write.session, &change, turn)? {
                    Some(number) => number,
                    None => begin_set(connection, &write, &change, turn)?,
                };
                let is_new = add(connection, write.session, number, &change)?;
                // Contents between two writes of a set are not named, because nothing restores them and no limit counts them.
                if let Some(retained) = change.retained.as_ref().filter(|_| is_new) {
                    attachments::name(connection, write.session, retained)?;
                }
                Ok(())
            })
            .await
    }

    /// Records that the last change of the file at `path` failed: it left `actual`, not `intended`. Does nothing
    /// if another change has begun since.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error.
    pub async fn correct_file_change(
        &self,
        hold: &Hold,
        path: String,
        intended: Option<Digest>,
        actual: Option<Digest>,
    ) -> Result<(), StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        self.database
            .write(move |connection| {
                let session = hold.begin_write(connection, &source, 0, 0)?.session.to_string();
                let [intended, actual] = [intended, actual].map(|digest| digest.map(|digest| digest.to_string()));
                connection
                    .prepare_cached(
                        "UPDATE file_changes SET after = ?4 WHERE session = ?1 AND after IS ?3 AND ordinal = \
                         (SELECT max(ordinal) FROM file_changes WHERE session = ?1 AND path = ?2)",
                    )?
                    .execute(params![session, path, intended, actual])?;
                Ok(())
            })
            .await
    }

    /// Returns the change sets of a session, by number.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn change_sets(&self, session: SessionId) -> Result<Vec<ChangeSet>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT number, agent, turn, reverts, last_row, undone, changes FROM change_sets JOIN \
                 (SELECT number, count(undone_by) AS undone, count(*) AS changes FROM file_changes WHERE session = ?1 \
                  GROUP BY number) USING (number) WHERE session = ?1 ORDER BY number";
            rows(connection, sql, [session.to_string()], |row| {
                let (agent, reverts): (String, String) = (row.get(1)?, row.get(3)?);
                Ok(ChangeSet {
                    number: row.get::<_, i64>(0)?.cast_unsigned(),
                    agent: agent.parse().map_err(|_| BAD)?,
                    turn: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
                    reverts: serde_json::from_str(&reverts).map_err(|_| BAD)?,
                    last_row: row.get::<_, i64>(4)?.cast_unsigned(),
                    undone: match (row.get::<_, i64>(5)?, row.get::<_, i64>(6)?) {
                        (0, _) => Undone::None,
                        (undone, changes) if undone < changes => Undone::Part,
                        _ => Undone::All,
                    },
                })
            })
        })
    }

    /// Returns all changes of the files that the sets `numbers` changed, including changes by other sets, in the order in
    /// which they began.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn file_changes(&self, session: SessionId, numbers: &[u64]) -> Result<Vec<FileChangeRow>, StoreError> {
        let numbers = serde_json::json!(numbers).to_string();
        self.database.read(|connection| {
            let sql = "SELECT number, path, before, after, mode, kept, undone_by IS NOT NULL FROM file_changes WHERE session = ?1 AND path IN \
                 (SELECT path FROM file_changes WHERE session = ?1 AND number IN (SELECT value FROM json_each(?2))) \
                 ORDER BY ordinal";
            rows(connection, sql, params![session.to_string(), numbers], read)
        })
    }

    /// Returns the total size of the contents that are kept for a session, in bytes.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn kept_bytes(&self, session: SessionId) -> Result<u64, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT kept_bytes FROM sessions WHERE id = ?")?;
            let kept: Option<i64> = query.query_row([session.to_string()], |row| row.get(0)).optional()?;
            Ok(kept.unwrap_or_default().cast_unsigned())
        })
    }

    /// Records that the command with the call `call` has undone the changes that the sets `numbers` made to the files `paths`. If
    /// these sets had themselves undone changes to the files, those changes are in force again. Returns the number of the command's
    /// own set; `None` if it changed no file.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error.
    pub async fn end_reverting(
        &self,
        hold: &Hold,
        call: CallId,
        numbers: &[u64],
        paths: &[String],
    ) -> Result<Option<u64>, StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        let [numbers, paths] = [serde_json::json!(numbers), serde_json::json!(paths)].map(|list| list.to_string());
        self.database
            .write(move |connection| {
                let session = hold.begin_write(connection, &source, 0, 0)?.session.to_string();
                let own: Option<i64> = connection
                    .prepare_cached("SELECT number FROM change_sets WHERE session = ? AND call = ?")?
                    .query_row(params![session, call.as_bytes()], |row| row.get(0))
                    .optional()?;
                let is_named = "session = ?1 AND path IN (SELECT value FROM json_each(?3))";
                connection
                    .prepare_cached(&format!(
                        "UPDATE file_changes SET undone_by = NULL WHERE {is_named} \
                         AND undone_by IN (SELECT value FROM json_each(?2))"
                    ))?
                    .execute(params![session, numbers, paths])?;
                connection
                    .prepare_cached(&format!(
                        "UPDATE file_changes SET undone_by = ?4 WHERE {is_named} AND undone_by IS NULL \
                         AND number IN (SELECT value FROM json_each(?2))"
                    ))?
                    .execute(params![session, numbers, paths, own.unwrap_or(0)])?;
                Ok(own.map(i64::cast_unsigned))
            })
            .await
    }
}

impl Store {
    /// Returns the outcome data of the agent's `/undo` commands since the user's last message that began a turn, in order.
    /// Dropped messages do not count.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn undone_changes(&self, session: SessionId, agent: AgentId) -> Result<Vec<Value>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT json_extract(data, '$.data') FROM messages INDEXED BY messages_by_agent \
                 WHERE agent IN (SELECT ?1 UNION SELECT rewound FROM agents WHERE uuid = ?1 AND rewound IS NOT NULL) AND session = ?2 AND kind = 'command' AND json_extract(data, '$.code') = ?3 AND seq > coalesce( \
                 (SELECT max(began) FROM turns JOIN messages AS said ON said.session = turns.session AND said.seq = turns.began \
                  WHERE turns.session = ?2 AND turns.agent IN (SELECT ?1 UNION SELECT rewound FROM agents WHERE uuid = ?1 AND rewound IS NOT NULL) AND turns.cause = ?4 AND said.dropped = 0), 0) ORDER BY seq";
            let (code, cause) = (Code::ChangeUndone.as_str(), TurnCause::Person.as_str());
            rows(connection, sql, params![agent.to_string(), session.to_string(), code, cause], |row| {
                serde_json::from_str(&row.get::<_, String>(0)?).map_err(|_| BAD)
            })
        })
    }
}

fn find_set(
    connection: &Connection,
    session: SessionId,
    change: &NewFileChange,
    turn: Option<i64>,
) -> Result<Option<i64>, StoreError> {
    let session = session.to_string();
    let found = match turn {
        Some(turn) => connection
            .prepare_cached("SELECT number FROM change_sets WHERE session = ? AND agent = ? AND turn = ?")?
            .query_row(params![session, change.agent.to_string(), turn], |row| row.get(0)),
        None => connection
            .prepare_cached("SELECT number FROM change_sets WHERE session = ? AND call = ?")?
            .query_row(params![session, change.call.as_bytes()], |row| row.get(0)),
    };
    Ok(found.optional()?)
}

fn begin_set(
    connection: &Connection,
    write: &SessionWrite,
    change: &NewFileChange,
    turn: Option<i64>,
) -> Result<i64, StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO change_sets (session, number, agent, turn, call, reverts, at, last_row) \
         SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7 FROM change_sets WHERE session = ?1 RETURNING number",
    )?;
    let call = turn.is_none().then_some(change.call.as_bytes());
    let (agent, reverts) = (change.agent.to_string(), serde_json::json!(change.reverts).to_string());
    let (session, at, last_row) = (write.session.to_string(), write.unix_ms, write.last_row);
    let number = insert.query_row(params![session, agent, turn, call, reverts, at, last_row], |row| row.get(0))?;
    Ok(number)
}

/// Adds a change to its set. If the file's last change is in the same set and left the current contents, that change is extended.
/// Otherwise adds a row and returns true.
fn add(connection: &Connection, session: SessionId, number: i64, change: &NewFileChange) -> Result<bool, StoreError> {
    let session = session.to_string();
    let (before, after) = (change.before.map(|it| it.to_string()), change.after.map(|it| it.to_string()));
    let continued = connection
        .prepare_cached(
            "UPDATE file_changes SET after = :after WHERE session = :session AND number = :number AND after IS :before \
             AND ordinal = (SELECT max(ordinal) FROM file_changes WHERE session = :session AND path = :path)",
        )?
        .execute(named_params! {
            ":after": after, ":before": before, ":session": session, ":number": number, ":path": change.path
        })?;
    if continued > 0 {
        return Ok(false);
    }
    let size = i64::try_from(change.size).unwrap_or(i64::MAX);
    let is_kept = change.retained.is_some() || change.before.is_none();
    connection
        .prepare_cached(
            "INSERT INTO file_changes (session, ordinal, number, path, before, after, size, mode, kept) \
             SELECT :session, coalesce(max(ordinal), 0) + 1, :number, :path, :before, :after, :size, :mode, :kept \
             FROM file_changes WHERE session = :session",
        )?
        .execute(named_params! {
            ":session": session,
            ":number": number,
            ":path": change.path,
            ":before": before,
            ":after": after,
            ":size": size,
            ":mode": change.mode,
            ":kept": is_kept,
        })?;
    if is_kept {
        connection
            .prepare_cached("UPDATE sessions SET kept_bytes = min(kept_bytes + ?, 9223372036854775807) WHERE id = ?")?
            .execute(params![size, session])?;
    }
    Ok(true)
}

fn read(row: &Row<'_>) -> Result<FileChangeRow, StoreError> {
    let digest = |column| -> Result<Option<Digest>, StoreError> {
        let text: Option<String> = row.get(column)?;
        text.map(|text| text.parse().map_err(|_| BAD)).transpose()
    };
    Ok(FileChangeRow {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        path: row.get(1)?,
        before: digest(2)?,
        after: digest(3)?,
        mode: row.get(4)?,
        is_kept: row.get(5)?,
        is_undone: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    use patchbay_core::{LineId, MessageKind};

    use super::*;
    use crate::testing::TestTree;

    fn digest(contents: &str) -> Option<Digest> {
        (!contents.is_empty()).then(|| Digest::of(contents.as_bytes()))
    }

    /// Changes a file from `before` to `after`. An empty string means that the file does not exist.
    async fn change(tree: &TestTree, call: CallId, path: &str, before: &str, after: &str) {
        reverting(tree, call, &[], path, before, after).await;
    }

    async fn reverting(tree: &TestTree, call: CallId, reverts: &[u64], path: &str, before: &str, after: &str) {
        let retained = (!before.is_empty()).then(|| tree.store.store_attachments([before.as_bytes()]).unwrap());
        let change = NewFileChange {
            agent: tree.root,
            call,
            in_turn: false,
            reverts: reverts.to_vec(),
            path: path.to_owned(),
            before: digest(before),
            after: digest(after),
            size: before.len() as u64,
            mode: (!before.is_empty()).then_some(0o644),
            retained,
        };
        tree.store.begin_file_change(&tree.hold, change).await.unwrap();
    }

    fn call() -> CallId {
        CallId::of_line(LineId::random())
    }

    async fn changes(tree: &TestTree, numbers: &[u64]) -> Vec<(u64, String, Option<Digest>, Option<Digest>)> {
        let rows = tree.store.file_changes(tree.session(), numbers).await.unwrap();
        rows.into_iter().map(|row| (row.number, row.path, row.before, row.after)).collect()
    }

    #[tokio::test]
    async fn changes_of_a_call_are_one_set() {
        let tree = TestTree::new().await;
        let (first, second) = (call(), call());
        change(&tree, first, "a", "", "1").await;
        change(&tree, first, "a", "1", "2").await;
        change(&tree, first, "b", "x", "").await;
        change(&tree, second, "a", "2", "3").await;
        let numbers: Vec<u64> =
            tree.store.change_sets(tree.session()).await.unwrap().iter().map(|set| set.number).collect();
        assert_eq!(numbers, [1, 2]);
        let a = |number, before, after| (number, "a".to_owned(), digest(before), digest(after));
        let b = (1, "b".to_owned(), digest("x"), None);
        assert_eq!(changes(&tree, &[1]).await, [a(1, "", "2"), b.clone(), a(2, "2", "3")]);
        assert_eq!(changes(&tree, &[2]).await, [a(1, "", "2"), a(2, "2", "3")]);
        // The first set changes the file again after the second one, and after a change from outside.
        change(&tree, first, "a", "3", "4").await;
        change(&tree, first, "a", "other", "5").await;
        assert_eq!(changes(&tree, &[2]).await, [a(1, "", "2"), a(2, "2", "3"), a(1, "3", "4"), a(1, "other", "5")]);
        assert_eq!(tree.store.kept_bytes(tree.session()).await.unwrap(), 1 + 1 + 1 + 5);
    }

    #[tokio::test]
    async fn changes_of_a_turn_are_one_set() {
        use crate::{NewTurn, SessionChange, testing::message};
        use patchbay_core::{TurnCause, TurnState};
        let tree = TestTree::new().await;
        let turn = NewTurn { agent: tree.root, cause: TurnCause::Person, state: TurnState::Running, began: None };
        let change = SessionChange {
            messages: vec![message(tree.root, MessageKind::User, "go")],
            begins_turns: vec![turn],
            ..SessionChange::default()
        };
        let began = tree.commit(change).await.unwrap()[0].seq;
        for path in ["a", "b"] {
            let change = NewFileChange {
                agent: tree.root,
                call: call(),
                in_turn: true,
                reverts: Vec::new(),
                path: path.to_owned(),
                before: None,
                after: digest("x"),
                size: 0,
                mode: None,
                retained: None,
            };
            tree.store.begin_file_change(&tree.hold, change).await.unwrap();
        }
        let sets = tree.store.change_sets(tree.session()).await.unwrap();
        let (agent, turn) = (tree.root, Some(began));
        let set = ChangeSet { number: 1, agent, turn, reverts: vec![], last_row: began, undone: Undone::None };
        assert_eq!(sets, [set]);
    }

    #[tokio::test]
    async fn undos_since_the_last_message_are_found() {
        use crate::{DroppedMessage, NewMessage, NewTurn, SessionChange, testing::message};
        use patchbay_core::TurnState;
        use serde_json::json;
        let tree = TestTree::new().await;
        let undid = async |change: u64, code: &str| {
            let data = Some(json!({"status": "ok", "code": code, "message": "", "data": {"change": change}}));
            let row = NewMessage { data, ..message(tree.root, MessageKind::Command, "/undo") };
            tree.commit(SessionChange { messages: vec![row], ..SessionChange::default() }).await.unwrap();
        };
        let said = async |cause: TurnCause| {
            let turn = NewTurn { agent: tree.root, cause, state: TurnState::Done, began: None };
            let messages = vec![message(tree.root, MessageKind::User, "go")];
            let change = SessionChange { messages, begins_turns: vec![turn], ..SessionChange::default() };
            tree.commit(change).await.unwrap()[0].seq
        };
        let found = async || {
            let undone = tree.store.undone_changes(tree.session(), tree.root).await.unwrap();
            undone.iter().map(|data| data["change"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        undid(1, "change_undone").await;
        assert_eq!(found().await, [1]);
        let first = said(TurnCause::Person).await;
        undid(2, "change_undone").await;
        undid(3, "change_kept").await;
        // A turn that mail began does not contain the notice about undone changes.
        said(TurnCause::Mail).await;
        undid(4, "change_undone").await;
        assert_eq!(found().await, [2, 4]);
        // The next message repeats the notices of a dropped message.
        let drops = Some(DroppedMessage { agent: tree.root, first, last: first });
        tree.commit(SessionChange { drops, ..SessionChange::default() }).await.unwrap();
        assert_eq!(found().await, [1, 2, 4]);
    }

    #[tokio::test]
    async fn undone_set_can_come_back() {
        let tree = TestTree::new().await;
        let (first, undo, redo) = (call(), call(), call());
        let end = async |call, number: u64| {
            tree.store.end_reverting(&tree.hold, call, &[number], &["a".to_owned()]).await.unwrap()
        };
        change(&tree, first, "a", "", "1").await;
        reverting(&tree, undo, &[1], "a", "1", "").await;
        assert_eq!(end(undo, 1).await, Some(2));
        let state = async || {
            let sets = tree.store.change_sets(tree.session()).await.unwrap();
            sets.iter().map(|set| (set.undone, set.reverts.clone())).collect::<Vec<_>>()
        };
        assert_eq!(state().await, [(Undone::All, vec![]), (Undone::None, vec![1])]);
        reverting(&tree, redo, &[2], "a", "", "1").await;
        assert_eq!(end(redo, 2).await, Some(3));
        assert_eq!(state().await, [(Undone::None, vec![]), (Undone::All, vec![1]), (Undone::None, vec![2])]);
        // The file already had its earlier contents, so the command changed nothing.
        assert_eq!(end(call(), 1).await, None);
        assert_eq!(state().await[0], (Undone::All, vec![]));
    }

    #[tokio::test]
    async fn each_file_of_a_set_is_undone_by_itself() {
        let tree = TestTree::new().await;
        let (first, undo, rest) = (call(), call(), call());
        for path in ["a", "b"] {
            change(&tree, first, path, "", "1").await;
        }
        let end = async |call, number: u64, path: &str| {
            tree.store.end_reverting(&tree.hold, call, &[number], &[path.to_owned()]).await.unwrap()
        };
        let undone = async || {
            let rows = tree.store.file_changes(tree.session(), &[1]).await.unwrap();
            let of_first = rows.into_iter().filter(|row| row.number == 1);
            let undone: String = of_first.filter(|row| row.is_undone).map(|row| row.path).collect();
            (tree.store.change_sets(tree.session()).await.unwrap()[0].undone, undone)
        };
        reverting(&tree, undo, &[1], "a", "1", "").await;
        end(undo, 1, "a").await;
        assert_eq!(undone().await, (Undone::Part, "a".to_owned()));
        reverting(&tree, rest, &[1], "b", "1", "").await;
        end(rest, 1, "b").await;
        assert_eq!(undone().await, (Undone::All, "ab".to_owned()));
        // Only the file that the second set had undone comes back.
        let redo = call();
        reverting(&tree, redo, &[2], "a", "", "1").await;
        end(redo, 2, "a").await;
        assert_eq!(undone().await, (Undone::Part, "b".to_owned()));
    }

    #[tokio::test]
    async fn failed_change_has_the_actual_contents() {
        let tree = TestTree::new().await;
        let correct = async |intended: &str, actual: &str| {
            let (intended, actual) = (digest(intended), digest(actual));
            tree.store.correct_file_change(&tree.hold, "a".to_owned(), intended, actual).await.unwrap();
        };
        let call = call();
        change(&tree, call, "a", "", "1").await;
        correct("1", "").await;
        change(&tree, call, "a", "", "2").await;
        change(&tree, call, "a", "2", "3").await;
        correct("3", "2").await;
        // The last change no longer leaves "3", so this does nothing.
        correct("3", "4").await;
        change(&tree, call, "a", "2", "").await;
        correct("", "2").await;
        assert_eq!(changes(&tree, &[1]).await, [(1, "a".to_owned(), None, digest("2"))]);
    }

    #[tokio::test]
    async fn contents_are_collected_with_their_session() {
        let tree = TestTree::new().await;
        let call = call();
        change(&tree, call, "a", "before", "after").await;
        assert_eq!(tree.store.collect().await.unwrap().attachments, 0);
        // Undoing the call does not need the contents between its two writes.
        change(&tree, call, "a", "after", "last").await;
        assert_eq!(tree.store.collect().await.unwrap().attachments, 1);
        let before = digest("before").unwrap();
        assert_eq!(tree.store.attachment(&before).unwrap().as_deref(), Some(&b"before"[..]));
        tree.store.remove_session(tree.session()).await.unwrap();
        assert_eq!(tree.store.collect().await.unwrap().attachments, 1);
    }
}

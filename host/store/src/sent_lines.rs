//! Lines that clients sent with a key, which makes a line run only once however often it is sent. Keys are kept for a day, even
//! across restarts, and longer while the line waits or its turn runs.

use std::collections::BTreeMap;

use patchbay_core::{CallId, Digest, LineId, PrincipalId, SessionId};
use rusqlite::{OptionalExtension as _, params};

use crate::{
    MessageRow, Store, StoreError,
    database::rows,
    messages::{columns, read},
};

/// How long an idempotency key is kept, in seconds.
const KEPT_S: i64 = 24 * 3_600;
/// Deletes old keys, unless their line is open: it still waits, or it began or joined a turn that is still running.
const EXPIRE: &str = "DELETE FROM sent_lines WHERE created_at <= ? AND coalesce(line, '') NOT IN ( \
     SELECT line FROM queued_lines UNION \
     SELECT json_extract(messages.data, '$.line') FROM turns INDEXED BY turns_open \
     JOIN messages ON messages.session = turns.session AND messages.seq >= turns.began \
     WHERE turns.state IN ('waiting', 'running') AND messages.kind IN ('user', 'skill', 'command') \
     AND (messages.seq = turns.began OR json_extract(messages.data, '$.joined') = turns.began) \
     AND json_extract(messages.data, '$.line') IS NOT NULL)";

/// The result of looking up a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentLine {
    /// Nothing was sent with it. The caller submits the line.
    New,
    /// It was sent with the same request, as this line. The process may have ended before the line ran.
    Sent(LineId),
    /// It was sent with another request, or an earlier build received it without storing the id of its line.
    Other,
}

impl Store {
    /// Looks up the key of a line, and keeps it with the id `line` if it is new. `request` is the digest of everything that
    /// defines the line.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn begin_sent_line(
        &self,
        person: &PrincipalId,
        key: &str,
        request: Digest,
        line: LineId,
    ) -> Result<SentLine, StoreError> {
        let (person, key, now) = (person.as_str().to_owned(), key.to_owned(), self.source.unix_s());
        self.database
            .write(move |connection| {
                connection.prepare_cached(EXPIRE)?.execute([now.saturating_sub(KEPT_S)])?;
                let mut query =
                    connection.prepare_cached("SELECT request, line FROM sent_lines WHERE person = ? AND key = ?")?;
                let known: Option<(String, Option<String>)> =
                    query.query_row(params![person, key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
                match known {
                    None => {
                        let insert =
                            "INSERT INTO sent_lines (person, key, request, line, created_at) VALUES (?, ?, ?, ?, ?)";
                        connection.execute(insert, params![person, key, request.to_string(), line.to_string(), now])?;
                        Ok(SentLine::New)
                    }
                    Some((known, Some(line))) if known == request.to_string() => {
                        Ok(SentLine::Sent(line.parse().map_err(|_| StoreError::BadRow("sent line"))?))
                    }
                    Some(_) => Ok(SentLine::Other),
                }
            })
            .await
    }

    /// Returns the stored keys, by the id of the line that was sent with each.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn sent_keys(&self) -> Result<BTreeMap<LineId, String>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT line, key FROM sent_lines WHERE line IS NOT NULL";
            rows(connection, sql, [], |row| {
                let line: String = row.get(0)?;
                Ok((line.parse().map_err(|_| StoreError::BadRow("sent line"))?, row.get(1)?))
            })
        })
    }

    /// Returns the rows of a line that was sent with a key, in order: the message or the instructions of a skill, and the command.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn rows_of_line(&self, session: SessionId, line: LineId) -> Result<Vec<MessageRow>, StoreError> {
        self.database.read(|connection| {
            // Tool results can be large, so their data is not read.
            let sql = format!(
                "SELECT {} FROM messages WHERE session = ? AND kind IN ('user', 'skill', 'capture', 'command') \
                 AND json_extract(data, '$.line') = ? ORDER BY seq",
                columns()
            );
            rows(connection, &sql, params![session.to_string(), line.to_string()], read)
        })
    }

    /// Returns whether a call has begun its first effect, or has ended.
    ///
    /// # Errors
    /// A database error.
    pub async fn has_call(&self, call: CallId) -> Result<bool, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM calls WHERE call = ?)")?;
            Ok(query.query_row(params![call.as_bytes()], |row| row.get(0))?)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::{Duration, SystemTime},
    };

    use patchbay_core::{MessageKind, TurnCause, TurnState};

    use super::*;
    use crate::{
        EndedTurn, NewMessage, NewTurn, QueueRow, SessionChange, Source,
        testing::{TestTree, message},
    };

    #[tokio::test]
    async fn keys_are_kept_for_a_day_and_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Arc::new(AtomicU64::new(1_000));
        let open = || {
            let shown = Arc::clone(&seconds);
            let now = move || SystemTime::UNIX_EPOCH + Duration::from_secs(shown.load(Ordering::Relaxed));
            Store::open_with(folder.path(), Source::new(now, || uuid::Uuid::new_v4().into_bytes())).unwrap()
        };
        let store = open();
        let (me, ada) = (PrincipalId::LOCAL, "ada".parse().unwrap());
        let (request, line) = (Digest::of(b"line"), LineId::from_bytes([7; 16]));
        let begin = async |store: &Store, person: &PrincipalId, request: Digest, line: u8| {
            store.begin_sent_line(person, "k", request, LineId::from_bytes([line; 16])).await.unwrap()
        };
        assert_eq!(begin(&store, &me, request, 7).await, SentLine::New);
        assert_eq!(begin(&store, &me, request, 8).await, SentLine::Sent(line));
        drop(store);
        let store = open();
        assert_eq!(begin(&store, &me, request, 8).await, SentLine::Sent(line));
        assert_eq!(store.sent_keys().await.unwrap(), BTreeMap::from([(line, "k".to_owned())]));
        assert_eq!(begin(&store, &me, Digest::of(b"other"), 8).await, SentLine::Other);
        assert_eq!(begin(&store, &ada, request, 9).await, SentLine::New);
        seconds.store(1_000 + 24 * 3_600 - 1, Ordering::Relaxed);
        assert_eq!(begin(&store, &me, request, 8).await, SentLine::Sent(line));
        seconds.store(1_000 + 24 * 3_600, Ordering::Relaxed);
        assert_eq!(begin(&store, &me, request, 8).await, SentLine::New);
    }

    fn keyed(agent: patchbay_core::AgentId, line: LineId, data: serde_json::Value) -> NewMessage {
        let mut data = data;
        data["key"] = "k".into();
        data["line"] = line.to_string().into();
        NewMessage { data: Some(data), ..message(agent, MessageKind::User, "hello") }
    }

    #[tokio::test]
    async fn rows_of_an_earlier_line_with_the_key_are_not_found() {
        let TestTree { home: _home, store, hold, root: agent } = TestTree::new().await;
        let [first, second] = [1, 2].map(|byte| LineId::from_bytes([byte; 16]));
        let messages = vec![keyed(agent, first, serde_json::json!({}))];
        let rows = store.commit(&hold, SessionChange { messages, ..SessionChange::default() }).await.unwrap();
        assert_eq!(store.rows_of_line(hold.session(), first).await.unwrap(), rows);
        assert_eq!(store.rows_of_line(hold.session(), second).await.unwrap(), []);
    }

    #[tokio::test]
    async fn keys_of_open_lines_do_not_expire() {
        let TestTree { home: _home, store, hold, root: agent } = TestTree::new().await;
        let [waiting, runs, joined, done, crashed] = [1, 2, 3, 4, 5].map(|byte| LineId::from_bytes([byte; 16]));
        for line in [waiting, runs, joined, done, crashed] {
            store.begin_sent_line(&PrincipalId::LOCAL, &line.to_string(), Digest::of(b""), line).await.unwrap();
        }
        let row = QueueRow { line: waiting, agent, position: 1, text: "later".to_owned(), attachments: Vec::new() };
        store.queue_line(&hold, row, None).await.unwrap();
        let turn = |line: LineId, data: serde_json::Value| SessionChange {
            messages: vec![keyed(agent, line, data)],
            begins_turns: vec![NewTurn { agent, cause: TurnCause::Person, state: TurnState::Running, began: None }],
            ..SessionChange::default()
        };
        let ended = |began| EndedTurn { agent, began, state: TurnState::Done, code: None };
        let began = store.commit(&hold, turn(done, serde_json::json!({}))).await.unwrap()[0].seq;
        let change = SessionChange { ends_turns: vec![ended(began)], ..turn(runs, serde_json::json!({})) };
        let began = store.commit(&hold, change).await.unwrap()[0].seq;
        let messages = vec![keyed(agent, joined, serde_json::json!({"joined": began}))];
        store.commit(&hold, SessionChange { messages, ..SessionChange::default() }).await.unwrap();
        let age = |connection: &rusqlite::Connection| {
            connection.execute("UPDATE sent_lines SET created_at = created_at - ?", [KEPT_S]).map_err(StoreError::from)
        };
        assert_eq!(store.database.write(age).await.unwrap(), 5);
        let new = LineId::from_bytes([6; 16]);
        assert_eq!(
            store.begin_sent_line(&PrincipalId::LOCAL, "new", Digest::of(b""), new).await.unwrap(),
            SentLine::New
        );
        let kept: Vec<LineId> = store.sent_keys().await.unwrap().into_keys().collect();
        assert_eq!(kept, [waiting, runs, joined, new]);
    }
}

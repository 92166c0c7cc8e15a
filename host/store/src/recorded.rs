//! Reads recordings of calls, for `patchbay journal fixture` and `patchbay sessions fixtures`.

use patchbay_core::{CallId, Digest, SessionId};
use rusqlite::{OptionalExtension as _, params};

use crate::{Store, StoreError, database::rows};

/// The number and size of the recordings of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedSize {
    /// Number of recorded calls.
    pub calls: u64,
    /// Size of the recordings, in bytes. Contents that several calls share count once for each call.
    pub bytes: u64,
}

impl Store {
    /// Returns the number and size of the recordings of a session.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub fn recorded_size(&self, session: SessionId) -> Result<RecordedSize, StoreError> {
        self.database.read(|connection| {
            let mut query = connection
                .prepare_cached("SELECT count(*), coalesce(sum(bytes), 0) FROM recorded_calls WHERE session = ?")?;
            Ok(query.query_row(params![session.to_string()], |row| {
                let (calls, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
                Ok(RecordedSize { calls: calls.cast_unsigned(), bytes: bytes.cast_unsigned() })
            })?)
        })
    }

    /// Returns the recorded calls of a session, in the order in which they ended.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn recorded_calls(&self, session: SessionId) -> Result<Vec<CallId>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT call FROM recorded_calls JOIN calls ON calls.id = call_row WHERE recorded_calls.session = ? \
                 ORDER BY call_row";
            rows(connection, sql, params![session.to_string()], |row| {
                    let bytes: Vec<u8> = row.get(0)?;
                    let bytes = bytes.try_into().map_err(|_| StoreError::BadRow("recorded call"))?;
                    Ok(CallId::from_bytes(bytes))
                })
        })
    }

    /// Returns the recording of a call as JSON; `None` if it was not recorded.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn recording(&self, call: CallId) -> Result<Option<String>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT recording FROM recorded_calls JOIN calls ON calls.id = call_row WHERE call = ?";
            Ok(connection.prepare_cached(sql)?.query_row(params![call.as_bytes()], |row| row.get(0)).optional()?)
        })
    }

    /// Returns the content that recordings name by this digest; `None` if it does not exist.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn recorded_content(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT content FROM recorded_contents WHERE digest = ?";
            Ok(connection.prepare_cached(sql)?.query_row(params![digest.as_bytes()], |row| row.get(0)).optional()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        JournalFilter, JournalRow, JournalSettings, JournaledCall, NewRecording, PendingRecording,
        testing::{new_session, new_store},
    };

    fn recording(text: &str, contents: &[&[u8]]) -> NewRecording {
        let contents = contents.iter().map(|content| (Digest::of(content), content.to_vec())).collect();
        NewRecording { recording: text.to_owned(), contents }
    }

    fn recorded(row: JournalRow, recording: NewRecording) -> JournaledCall {
        JournaledCall { recording: Some(PendingRecording::new(|| Some(recording))), ..row.into() }
    }

    fn recorded_row(session: SessionId, recording: NewRecording) -> JournaledCall {
        recorded(JournalRow::for_test(session), recording)
    }

    async fn has(store: &Store, content: &[u8]) -> bool {
        store.recorded_content(Digest::of(content)).await.unwrap().as_deref() == Some(content)
    }

    #[tokio::test]
    async fn recording_is_stored_with_its_row_and_removed_with_its_session() {
        let (_home, store) = new_store();
        let [(one, _), (two, _)] = [new_session(&store).await, new_session(&store).await];
        let first = recorded_row(one.session(), recording("{}", &[b"shared", b"own"]));
        let second = recorded_row(two.session(), recording("[]", &[b"shared"]));
        let calls = [first.row.call, second.row.call];
        store.journal(first).await;
        store.journal(second).await;
        store.journal(JournalRow::for_test(one.session())).await;
        store.settle().await.unwrap();
        assert_eq!(store.recording(calls[0]).await.unwrap().as_deref(), Some("{}"));
        assert_eq!(store.recorded_size(one.session()).unwrap(), RecordedSize { calls: 1, bytes: 11 });
        assert_eq!(store.recorded_calls(one.session()).await.unwrap(), [calls[0]]);
        assert!(has(&store, b"shared").await && has(&store, b"own").await);
        store.remove_session(one.session()).await.unwrap();
        assert_eq!(store.recording(calls[0]).await.unwrap(), None);
        assert_eq!(store.recorded_size(one.session()).unwrap(), RecordedSize::default());
        // The other session still has the shared content.
        assert!(has(&store, b"shared").await && !has(&store, b"own").await);
        // The journal keeps its rows.
        assert_eq!(store.journal_rows(&JournalFilter::default(), 0, 9).await.unwrap().len(), 3);
        store.remove_session(two.session()).await.unwrap();
        assert!(!has(&store, b"shared").await);
    }

    #[tokio::test]
    async fn recording_of_a_call_with_effects_replaces_nothing_else() {
        let (_home, store) = new_store();
        let (hold, agent) = new_session(&store).await;
        let row = JournalRow::for_test(hold.session());
        let open = crate::OpenCall { row: Box::new(row.clone()), agent, line: Some("/x".to_owned()) };
        store.begin_calls(&hold, vec![open]).await.unwrap();
        let call = row.call;
        store.end_call(recorded(row, recording("{}", &[b"c"])), true);
        store.settle().await.unwrap();
        assert_eq!(store.unsettled_calls(hold.session()).await.unwrap().len(), 1);
        assert_eq!(store.recording(call).await.unwrap().as_deref(), Some("{}"));
    }

    #[tokio::test]
    async fn recordings_go_with_old_rows_and_removed_sessions() {
        let (_home, store) = new_store();
        let store = store.with_journal(JournalSettings { content: false, keep: 1 });
        let (hold, _) = new_session(&store).await;
        store.journal(recorded_row(hold.session(), recording("{}", &[b"old"]))).await;
        for _ in 0..64 {
            store.journal(JournalRow::for_test(hold.session())).await;
        }
        store.settle().await.unwrap();
        assert!(!has(&store, b"old").await);
        // The session is removed while the recording waits.
        let row = recorded_row(hold.session(), recording("{}", &[b"late"]));
        let call = row.row.call;
        store.journal(row).await;
        store.remove_session(hold.session()).await.unwrap();
        store.settle().await.unwrap();
        assert!(!has(&store, b"late").await);
        assert_eq!(store.recording(call).await.unwrap(), None);
    }

    /// Jobs that are committed in between do not keep recordings waiting, and need not wait for them.
    #[tokio::test]
    async fn recordings_are_written_without_being_asked_for() {
        let (_home, store) = new_store();
        let (hold, _) = new_session(&store).await;
        let calls: Vec<_> = (0..300).map(|_| recorded_row(hold.session(), recording("{}", &[]))).collect();
        let last = calls[299].row.call;
        for call in calls {
            store.journal(call).await;
            store.database.write(|_| Ok::<_, StoreError>(())).await.unwrap();
        }
        for _ in 0..10_000 {
            if store.recording(last).await.unwrap().is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(store.recorded_size(hold.session()).unwrap().calls, 300);
    }

    /// Recordings are made on the writer thread in the order of their rows, whether or not their commit is due.
    #[tokio::test]
    async fn recording_that_panics_or_is_empty_loses_no_row() {
        let (_home, store) = new_store();
        let (hold, agent) = new_session(&store).await;
        let pending = |make: fn() -> Option<NewRecording>| JournaledCall {
            recording: Some(PendingRecording::new(make)),
            ..JournalRow::for_test(hold.session()).into()
        };
        let made = || Some(NewRecording { recording: std::thread::current().name()?.to_owned(), contents: Vec::new() });
        let mut calls = Vec::new();
        for is_slow in [false, true] {
            for call in [pending(|| panic!("in a test")), pending(|| None), pending(made)] {
                calls.push(call.row.call);
                store.journal(call).await;
            }
            if is_slow {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            store.settle().await.unwrap();
        }
        let makers: [fn() -> Option<NewRecording>; 2] = [|| panic!("in a test"), made];
        for make in makers {
            let call = pending(make);
            let open = crate::OpenCall { row: call.row.clone(), agent, line: None };
            store.begin_calls(&hold, vec![open]).await.unwrap();
            calls.push(call.row.call);
            store.end_call(call, true);
        }
        store.settle().await.unwrap();
        assert_eq!(store.journal_rows(&JournalFilter::default(), 0, 9).await.unwrap().len(), 8);
        let mut found = Vec::new();
        for call in &calls {
            found.push(store.recording(*call).await.unwrap());
        }
        let made = Some("store".to_owned());
        assert_eq!(found, [None, None, made.clone(), None, None, made.clone(), None, made]);
    }
}

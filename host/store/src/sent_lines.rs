//! Lines that clients sent with a key, which makes a line run once however often it is sent. Kept for a day, also over restarts.

use patchbay_core::{Digest, LineId, PrincipalId};
use rusqlite::{OptionalExtension as _, params};

use crate::{Store, StoreError};

/// How long a key is kept, in seconds.
const KEPT_S: i64 = 24 * 3_600;

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentLine {
    /// Nothing was sent with it. The caller submits the line, and then calls [`Store::set_sent_line`].
    New,
    /// It was sent with the same request, and is this line.
    Sent(LineId),
    /// It was sent with another request.
    Other,
    /// It was sent with the same request, and the process ended before the line was known. It may have run.
    Unknown,
}

impl Store {
    /// Looks up the key of a line, and keeps it if it is new. `request` is the digest of everything that makes the line.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn begin_sent_line(
        &self,
        person: &PrincipalId,
        key: &str,
        request: Digest,
    ) -> Result<SentLine, StoreError> {
        let (person, key, now) = (person.as_str().to_owned(), key.to_owned(), self.source.unix_s());
        self.database
            .write(move |connection| {
                connection.execute("DELETE FROM sent_lines WHERE created_at <= ?", [now.saturating_sub(KEPT_S)])?;
                let mut query =
                    connection.prepare_cached("SELECT request, line FROM sent_lines WHERE person = ? AND key = ?")?;
                let known: Option<(String, Option<String>)> =
                    query.query_row(params![person, key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
                match known {
                    None => {
                        let insert = "INSERT INTO sent_lines (person, key, request, created_at) VALUES (?, ?, ?, ?)";
                        connection.execute(insert, params![person, key, request.to_string(), now])?;
                        Ok(SentLine::New)
                    }
                    Some((known, _)) if known != request.to_string() => Ok(SentLine::Other),
                    Some((_, None)) => Ok(SentLine::Unknown),
                    Some((_, Some(line))) => {
                        Ok(SentLine::Sent(line.parse().map_err(|_| StoreError::BadRow("sent line"))?))
                    }
                }
            })
            .await
    }

    /// Stores the line of a key.
    ///
    /// # Errors
    /// A database error.
    pub async fn set_sent_line(&self, person: &PrincipalId, key: &str, line: LineId) -> Result<(), StoreError> {
        let (person, key) = (person.as_str().to_owned(), key.to_owned());
        self.database
            .write(move |connection| {
                let update = "UPDATE sent_lines SET line = ? WHERE person = ? AND key = ?";
                connection.execute(update, params![line.to_string(), person, key])?;
                Ok(())
            })
            .await
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

    use super::*;
    use crate::Source;

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
        assert_eq!(store.begin_sent_line(&me, "k", request).await.unwrap(), SentLine::New);
        assert_eq!(store.begin_sent_line(&me, "k", request).await.unwrap(), SentLine::Unknown);
        store.set_sent_line(&me, "k", line).await.unwrap();
        drop(store);
        let store = open();
        assert_eq!(store.begin_sent_line(&me, "k", request).await.unwrap(), SentLine::Sent(line));
        assert_eq!(store.begin_sent_line(&me, "k", Digest::of(b"other")).await.unwrap(), SentLine::Other);
        assert_eq!(store.begin_sent_line(&ada, "k", request).await.unwrap(), SentLine::New);
        seconds.store(1_000 + 24 * 3_600 - 1, Ordering::Relaxed);
        assert_eq!(store.begin_sent_line(&me, "k", request).await.unwrap(), SentLine::Sent(line));
        seconds.store(1_000 + 24 * 3_600, Ordering::Relaxed);
        assert_eq!(store.begin_sent_line(&me, "k", request).await.unwrap(), SentLine::New);
    }
}

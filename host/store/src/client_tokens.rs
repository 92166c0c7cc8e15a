//! The tokens that let clients use `patchbay serve`. Only their digests are stored, so a copy of the database gives no access.
//! `patchbay token` maintains them; `serve` looks one up for each request.

use std::{fmt, str::FromStr};

use patchbay_core::{Digest, Name, PrincipalId, text};
use rusqlite::{Row, params};

use crate::{Store, StoreError};

/// The shortest time between two updates of `used_at`, in seconds. Clients send many requests, and an approximate time is enough
/// to find unused tokens.
const USE_INTERVAL_S: i64 = 3_600;

/// Written for an empty list of rights: clients can only read.
const NO_RIGHTS: &str = "none";

/// The rights of clients with a token, besides reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenRights {
    /// Send lines: messages and commands.
    pub lines: bool,
    /// Answer questions, for one call or one session. Without it, a question waits for another client.
    pub answers: bool,
    /// Answer questions with *always*, which applies to later sessions, too.
    pub grants: bool,
}

/// A string that is not a list of rights.
#[derive(Debug, thiserror::Error)]
#[error("unknown right '{}': use none, or a comma-separated list of lines, answers and grants", text::excerpt(.0, 40))]
pub struct TokenRightsError(String);

impl FromStr for TokenRights {
    type Err = TokenRightsError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let mut rights = Self::default();
        if list == NO_RIGHTS {
            return Ok(rights);
        }
        for right in list.split(',') {
            match right {
                "lines" => rights.lines = true,
                "answers" => rights.answers = true,
                "grants" => rights.grants = true,
                _ => return Err(TokenRightsError(right.to_owned())),
            }
        }
        Ok(rights)
    }
}

impl fmt::Display for TokenRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [(self.lines, "lines"), (self.answers, "answers"), (self.grants, "grants")];
        let rights = named.into_iter().filter_map(|(has, right)| has.then_some(right)).collect::<Vec<_>>().join(",");
        f.write_str(if rights.is_empty() { NO_RIGHTS } else { &rights })
    }
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientToken {
    /// The user's name for it. The journal shows it with the questions that its clients answered.
    pub name: Name,
    /// SHA-256 of the token. A connection is closed when no token has this digest any more.
    pub digest: Digest,
    /// The user that it belongs to.
    pub person: PrincipalId,
    /// The rights of its clients.
    pub may: TokenRights,
    /// When it was added, in seconds since 1970.
    pub created_at: i64,
    /// When it stops working, in seconds since 1970; `None` for never.
    pub expires_at: Option<i64>,
    /// Approximately when it was last used, in seconds since 1970; `None` if it was never used.
    pub used_at: Option<i64>,
}

impl ClientToken {
    /// Returns whether the token no longer works at `now`, in seconds since 1970.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|expires| expires <= now)
    }
}

const COLUMNS: &str = "name, digest, person, may, created_at, expires_at, used_at";

impl Store {
    /// Stores a token by its digest, valid for `seconds` or forever. Returns false, and changes nothing, if the name is taken.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn add_client_token(
        &self,
        name: Name,
        digest: Digest,
        may: TokenRights,
        seconds: Option<i64>,
    ) -> Result<bool, StoreError> {
        let now = self.source.unix_s();
        let expires_at = seconds.map(|seconds| now.saturating_add(seconds));
        self.database
            .decide(move |connection| {
                let added = connection.execute(
                    "INSERT INTO client_tokens (name, digest, person, may, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?) \
                     ON CONFLICT (name) DO NOTHING",
                    params![
                        name.as_str(),
                        digest.to_string(),
                        PrincipalId::LOCAL.as_str(),
                        may.to_string(),
                        now,
                        expires_at
                    ],
                )?;
                Ok(added > 0)
            })
            .await
    }

    /// Removes a token. Returns whether it existed.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn remove_client_token(&self, name: &Name) -> Result<bool, StoreError> {
        let name = name.to_string();
        self.database
            .decide(move |connection| Ok(connection.execute("DELETE FROM client_tokens WHERE name = ?", [name])? > 0))
            .await
    }

    /// Returns all tokens, including expired ones, sorted by name.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn client_tokens(&self) -> Result<Vec<ClientToken>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare(&format!("SELECT {COLUMNS} FROM client_tokens ORDER BY name"))?;
            let mut rows = query.query([])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(read(row)?);
            }
            Ok(tokens)
        })
    }

    /// Returns the token with this digest, unless it has expired or was removed, even by another process. It is a point query,
    /// cheap enough for each request and for repeated checks of an open connection.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error. On an error, the client must be refused.
    pub async fn client_token(&self, digest: &Digest) -> Result<Option<ClientToken>, StoreError> {
        let now = self.source.unix_s();
        self.database.read(|connection| {
            let mut query =
                connection.prepare_cached(&format!("SELECT {COLUMNS} FROM client_tokens WHERE digest = ?"))?;
            let mut rows = query.query([digest.to_string()])?;
            let token = rows.next()?.map(read).transpose()?;
            Ok(token.filter(|token| !token.has_expired(now)))
        })
    }

    /// Records that a token is in use. Does not wait for the commit, and does nothing within an hour of the last update.
    pub async fn note_token_use(&self, token: &ClientToken) {
        let now = self.source.unix_s();
        if token.used_at.is_some_and(|used| used.saturating_add(USE_INTERVAL_S) > now) {
            return;
        }
        let digest = token.digest.to_string();
        let record = move |connection: &rusqlite::Connection| {
            connection.execute("UPDATE client_tokens SET used_at = ? WHERE digest = ?", params![now, digest])?;
            Ok(())
        };
        self.database.write_later("the last use of a token", record).await;
    }
}

fn read(row: &Row<'_>) -> Result<ClientToken, StoreError> {
    fn parsed<T: FromStr>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
        let text = row.get_ref(column)?.as_str().unwrap_or_default();
        text.parse().map_err(|_| StoreError::BadRow("token"))
    }
    Ok(ClientToken {
        name: parsed(row, 0)?,
        digest: parsed(row, 1)?,
        person: parsed(row, 2)?,
        may: parsed(row, 3)?,
        created_at: row.get(4)?,
        expires_at: row.get(5)?,
        used_at: row.get(6)?,
    })
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

    /// Opens a store whose clock shows the returned number of seconds.
    fn clocked(folder: &std::path::Path) -> (Arc<AtomicU64>, Store) {
        let seconds = Arc::new(AtomicU64::new(1_000));
        let shown = Arc::clone(&seconds);
        let now = move || SystemTime::UNIX_EPOCH + Duration::from_secs(shown.load(Ordering::Relaxed));
        let source = Source::new(now, || uuid::Uuid::new_v4().into_bytes());
        (seconds, Store::open_with(folder, source).unwrap())
    }

    fn name(name: &str) -> Name {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn tokens_work_until_they_expire_or_are_removed_by_any_process() {
        let folder = tempfile::tempdir().unwrap();
        let (seconds, ours) = clocked(folder.path());
        let theirs = Store::open(folder.path()).unwrap();
        let may: TokenRights = "lines,grants".parse().unwrap();
        let (laptop, phone) = (Digest::of(b"laptop"), Digest::of(b"phone"));
        assert!(ours.add_client_token(name("laptop"), laptop, may, Some(60)).await.unwrap());
        assert!(theirs.add_client_token(name("phone"), phone, TokenRights::default(), None).await.is_ok());
        assert!(!ours.add_client_token(name("laptop"), Digest::of(b"other"), may, None).await.unwrap());

        let found = ours.client_token(&laptop).await.unwrap().unwrap();
        assert_eq!(
            (found.name.as_str(), found.may, found.expires_at, found.used_at),
            ("laptop", may, Some(1_060), None)
        );
        assert_eq!(ours.client_token(&Digest::of(b"other")).await.unwrap(), None);
        seconds.store(1_059, Ordering::Relaxed);
        assert!(ours.client_token(&laptop).await.unwrap().is_some());
        seconds.store(1_060, Ordering::Relaxed);
        assert_eq!(ours.client_token(&laptop).await.unwrap(), None);
        let names: Vec<_> =
            ours.client_tokens().await.unwrap().into_iter().map(|token| token.name.to_string()).collect();
        assert_eq!(names, ["laptop", "phone"], "an expired token is still listed");

        assert!(theirs.remove_client_token(&name("phone")).await.unwrap());
        assert_eq!(ours.client_token(&phone).await.unwrap(), None);
        assert!(!ours.remove_client_token(&name("phone")).await.unwrap());
    }

    #[tokio::test]
    async fn uses_are_recorded_once_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let (seconds, store) = clocked(folder.path());
        let digest = Digest::of(b"token");
        let may = TokenRights { lines: true, ..TokenRights::default() };
        store.add_client_token(name("laptop"), digest, may, None).await.unwrap();
        for (at, recorded) in [(2_000, 2_000), (5_599, 2_000), (5_600, 5_600)] {
            seconds.store(at, Ordering::Relaxed);
            store.note_token_use(&store.client_token(&digest).await.unwrap().unwrap()).await;
            store.settle().await.unwrap();
            assert_eq!(store.client_token(&digest).await.unwrap().unwrap().used_at, Some(recorded), "{at}");
        }
    }

    #[test]
    fn rights_are_a_list_without_unknown_words() {
        for list in ["none", "lines", "lines,answers", "grants", "lines,answers,grants"] {
            assert_eq!(list.parse::<TokenRights>().unwrap().to_string(), list);
        }
        assert_eq!("answers,lines,lines".parse::<TokenRights>().unwrap().to_string(), "lines,answers");
        for wrong in ["", "lines,", "Lines", "lines, answers", "all"] {
            assert!(wrong.parse::<TokenRights>().is_err(), "{wrong}");
        }
    }
}

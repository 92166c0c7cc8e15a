//! The sessions of clients that speak 2026-07-28 over HTTP, whose requests are not tied to a connection. A client has
//! one session, found by the client's name. Unfortunately such a client never announces that it leaves, so its session
//! is closed when a new client needs the slot.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use patchbay_core::Asker;

use super::super::{
    SessionSource,
    open_session::{LazySession, OpenSession},
};

/// Limit of sessions for open connections, and a separate limit of the same size for clients without a connection.
pub(super) const SESSIONS: usize = 32;
/// A session ends after this time without a request.
pub(super) const IDLE: Duration = Duration::from_secs(30 * 60);

/// The sessions of a server over HTTP.
pub(crate) struct ClientSessions {
    source: Arc<dyn SessionSource>,
    clients: Mutex<BTreeMap<Asker, ClientSession>>,
    /// Each running call has a clone, including calls in the sessions of connections.
    calls: Arc<()>,
}

struct ClientSession {
    session: Arc<LazySession>,
    used: Instant,
}

impl ClientSession {
    /// Returns whether a request is using or opening the session.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.session) > 1 || self.session.is_in_use()
    }
}

impl ClientSessions {
    pub(super) fn new(source: Arc<dyn SessionSource>) -> Arc<Self> {
        Arc::new(Self { source, clients: Mutex::default(), calls: Arc::default() })
    }

    /// Returns the source that opens sessions.
    pub(crate) fn source(&self) -> &dyn SessionSource {
        &*self.source
    }

    /// Counts a call until the returned value is dropped.
    pub(crate) fn begin_call(&self) -> Arc<()> {
        Arc::clone(&self.calls)
    }

    /// Returns whether a call is running.
    pub(super) fn is_calling(&self) -> bool {
        Arc::strong_count(&self.calls) > 1
    }

    /// Returns the session of a client, and opens it if necessary. If there are too many sessions, the one that has been idle
    /// longest ends.
    ///
    /// # Errors
    /// A message if no session can be opened.
    pub(crate) async fn of_client(&self, client: &Asker) -> Result<Arc<OpenSession>, String> {
        let session = self.entry(client, Instant::now())?;
        session.get(self.source()).await
    }

    fn entry(&self, client: &Asker, now: Instant) -> Result<Arc<LazySession>, String> {
        let mut clients = self.clients.lock();
        if let Some(known) = clients.get_mut(client) {
            known.used = now;
            return Ok(Arc::clone(&known.session));
        }
        if clients.len() >= SESSIONS {
            let idle = clients.iter().filter(|(_, session)| !session.is_in_use());
            let longest = idle.min_by_key(|(_, session)| session.used).map(|(client, _)| client.clone());
            let longest =
                longest.ok_or_else(|| format!("calls of {SESSIONS} MCP clients are running; wait for one"))?;
            clients.remove(&longest);
        }
        let session = Arc::<LazySession>::default();
        clients.insert(client.clone(), ClientSession { session: Arc::clone(&session), used: now });
        Ok(session)
    }

    /// Returns whether a client has a session.
    pub(super) fn is_any(&self) -> bool {
        !self.clients.lock().is_empty()
    }

    /// Ends sessions that have not been used for [`IDLE`] at the time `now`.
    pub(super) fn expire(&self, now: Instant) {
        let mut clients = self.clients.lock();
        clients.retain(|_, client| client.is_in_use() || now.saturating_duration_since(client.used) < IDLE);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use patchbay_sandbox::Content;

    use super::{
        super::super::{ClientCall, OfferedTool, ServedError, ServedSession},
        *,
    };

    struct Empty;

    impl ServedSession for Empty {
        fn tools(&self) -> BoxFuture<'_, Vec<OfferedTool>> {
            Box::pin(async { Vec::new() })
        }

        fn call<'a>(&'a self, _: ClientCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, ServedError>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn workspace(&self) -> &str {
            "/"
        }
    }

    struct Opens;

    impl SessionSource for Opens {
        fn open(&self) -> BoxFuture<'_, Result<Arc<dyn ServedSession>, ServedError>> {
            Box::pin(async { Ok(Arc::new(Empty) as Arc<dyn ServedSession>) })
        }
    }

    fn client(number: usize) -> Asker {
        Asker::mcp_client(&format!("client-{number}"))
    }

    #[tokio::test]
    async fn client_keeps_its_session_until_it_expires() {
        let sessions = ClientSessions::new(Arc::new(Opens));
        let first = sessions.of_client(&client(1)).await.unwrap();
        assert!(Arc::ptr_eq(&first, &sessions.of_client(&client(1)).await.unwrap()));
        assert!(!Arc::ptr_eq(&first, &sessions.of_client(&client(2)).await.unwrap()));
        sessions.expire(Instant::now() + IDLE);
        assert!(Arc::ptr_eq(&first, &sessions.of_client(&client(1)).await.unwrap()), "it is in use");
        let ended = Arc::downgrade(&first);
        drop(first);
        sessions.expire(Instant::now() + IDLE - Duration::from_secs(1));
        assert!(ended.upgrade().is_some());
        sessions.expire(Instant::now() + IDLE);
        assert!(ended.upgrade().is_none());
    }

    #[tokio::test]
    async fn longest_idle_client_makes_room() {
        let sessions = ClientSessions::new(Arc::new(Opens));
        let (mut first, mut all) = (None, Vec::new());
        for number in 0..SESSIONS {
            let session = sessions.of_client(&client(number)).await.unwrap();
            all.push(Arc::downgrade(&session));
            first.get_or_insert(session);
        }
        let is_open = |number: usize| all[number].upgrade().is_some();
        sessions.of_client(&client(SESSIONS)).await.unwrap();
        assert!(is_open(0) && !is_open(1) && is_open(2), "a request of the first one runs");
        drop(first);
        sessions.of_client(&client(SESSIONS + 1)).await.unwrap();
        assert!(!is_open(0) && is_open(2));
        assert_eq!(sessions.clients.lock().len(), SESSIONS);
    }

    #[tokio::test]
    async fn new_client_is_refused_while_calls_of_all_others_run() {
        let sessions = ClientSessions::new(Arc::new(Opens));
        let mut running = Vec::new();
        for number in 0..SESSIONS {
            running.push(sessions.of_client(&client(number)).await.unwrap());
        }
        let error = sessions.of_client(&client(SESSIONS)).await.err().unwrap();
        assert_eq!(error, "calls of 32 MCP clients are running; wait for one");
        running.pop();
        assert!(sessions.of_client(&client(SESSIONS)).await.is_ok());
    }
}

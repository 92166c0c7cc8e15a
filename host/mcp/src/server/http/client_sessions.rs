//! The sessions of clients that speak 2026-07-28 over HTTP, whose requests are not tied to a connection. A client has one session,
//! found by the name that it gives.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use parking_lot::Mutex;
use patchbay_core::Asker;

use super::{
    super::{
        SessionSource,
        open_session::{LazySession, OpenSession, SessionPlaces},
    },
    IDLE, SESSIONS,
};

/// Limit of the names that are remembered, also of clients whose session could not be opened.
const CLIENTS: usize = 256;

/// The sessions of a server over HTTP.
pub(crate) struct ClientSessions {
    sessions: SessionPlaces,
    clients: Mutex<BTreeMap<Asker, ClientSession>>,
}

struct ClientSession {
    session: Arc<LazySession>,
    used: Instant,
}

impl ClientSessions {
    pub(super) fn new(source: Arc<dyn SessionSource>) -> Arc<Self> {
        Arc::new(Self { sessions: SessionPlaces::new(source, SESSIONS), clients: Mutex::default() })
    }

    /// Returns what opens sessions of connections.
    pub(crate) fn sessions(&self) -> &SessionPlaces {
        &self.sessions
    }

    /// Returns the session of a client; opens it if there is none.
    ///
    /// # Errors
    /// A message if no session can be opened.
    pub(crate) async fn of_client(&self, client: &Asker) -> Result<Arc<OpenSession>, String> {
        let session = self.entry(client, Instant::now())?;
        session.get(&self.sessions).await
    }

    fn entry(&self, client: &Asker, now: Instant) -> Result<Arc<LazySession>, String> {
        let mut clients = self.clients.lock();
        if let Some(known) = clients.get_mut(client) {
            known.used = now;
            return Ok(Arc::clone(&known.session));
        }
        if clients.len() >= CLIENTS {
            return Err(format!(
                "{CLIENTS} MCP clients have used this server in the last half hour, which is the limit"
            ));
        }
        let session = Arc::<LazySession>::default();
        clients.insert(client.clone(), ClientSession { session: Arc::clone(&session), used: now });
        Ok(session)
    }

    /// Ends sessions that were not used since [`IDLE`] before `now`. One that runs a call stays until the call has ended.
    pub(super) fn expire(&self, now: Instant) {
        self.clients.lock().retain(|_, client| now.saturating_duration_since(client.used) < IDLE);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use patchbay_sandbox::{BoxFuture, Content};

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
        sessions.expire(Instant::now() + IDLE - Duration::from_secs(1));
        assert!(Arc::ptr_eq(&first, &sessions.of_client(&client(1)).await.unwrap()));
        sessions.expire(Instant::now() + IDLE);
        assert!(!Arc::ptr_eq(&first, &sessions.of_client(&client(1)).await.unwrap()));
    }

    #[tokio::test]
    async fn sessions_and_clients_are_limited() {
        let sessions = ClientSessions::new(Arc::new(Opens));
        for number in 0..SESSIONS {
            sessions.of_client(&client(number)).await.unwrap();
        }
        let error = sessions.of_client(&client(SESSIONS)).await.err().unwrap();
        assert!(error.contains("32 MCP sessions are open"), "{error}");
        assert!(sessions.sessions().open().await.is_err());
        for number in SESSIONS..2 * CLIENTS {
            assert!(sessions.of_client(&client(number)).await.is_err());
        }
        assert_eq!(sessions.clients.lock().len(), CLIENTS);
        sessions.expire(Instant::now() + IDLE);
        assert!(sessions.of_client(&client(0)).await.is_ok());
    }
}

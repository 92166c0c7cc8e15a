//! Sessions that can outlive their clients and have several at a time. `serve` and `acp` keep their sessions here.
//!
//! - [`SharedSessions`]: the sessions that the process keeps open until they have been idle for long enough.
//! - [`SharedSession`]: one such session, with its clients and the open questions, which all clients are asked.
//! - [`Seat`]: one client of one session.

mod questions;
mod sent_once;
mod shared;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_core::SessionId;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{ClientIdentity, Host, Session, SessionError};

pub use questions::OpenQuestion;
pub use sent_once::{OnceLine, SentOnce};
pub use shared::{Seat, SeatEvent, SharedSession};

/// How often to look for unused sessions.
const SWEEP: Duration = Duration::from_secs(1);

/// How long sessions and questions are kept.
#[derive(Clone, Copy, Debug)]
pub struct KeepSettings {
    /// How long a session stays open without a client and while nothing runs in it.
    pub idle: Duration,
    /// How long a question waits for its answer. After that, the answer is no.
    pub question: Duration,
}

/// The sessions that a process keeps open.
pub struct SharedSessions {
    host: Arc<Host>,
    keep: KeepSettings,
    open: Mutex<BTreeMap<SessionId, Arc<SharedSession>>>,
}

impl SharedSessions {
    /// Returns a registry without sessions. [`SharedSessions::sweep`] closes unused ones.
    pub fn new(host: Arc<Host>, keep: KeepSettings) -> Arc<Self> {
        Arc::new(Self { host, keep, open: Mutex::default() })
    }

    /// Returns the host of the sessions.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Creates a session with this client; `None` is the front of the process.
    ///
    /// # Errors
    /// The same as for [`Host::new_session`].
    pub async fn create(&self, workspace: &Path, client: Option<ClientIdentity>) -> Result<Seat, SessionError> {
        Ok(self.share(self.host.new_session(workspace).await?, client))
    }

    /// Adds a client to the session `id`, which is resumed if it is not open.
    ///
    /// # Errors
    /// The same as for [`Host::resume`].
    pub async fn open(&self, id: SessionId, client: Option<ClientIdentity>) -> Result<Seat, SessionError> {
        loop {
            let seat = self.share(self.host.resume(id).await?, client.clone());
            // The session may have been idle, and begun to close meanwhile.
            if !seat.shared().session().is_closing() {
                return Ok(seat);
            }
        }
    }

    /// Returns the open sessions, sorted by id.
    pub fn all(&self) -> Vec<Arc<SharedSession>> {
        self.open.lock().values().cloned().collect()
    }

    /// Returns the session `id` if it is open.
    pub fn get(&self, id: SessionId) -> Option<Arc<SharedSession>> {
        self.open.lock().get(&id).cloned()
    }

    /// Closes a session for all its clients, and stops its turns.
    pub async fn close(&self, id: SessionId) {
        let shared = self.open.lock().remove(&id);
        if let Some(shared) = shared {
            shared.session().stop_all();
            shared.session().close().await;
        }
    }

    /// Forgets the sessions that their clients have closed.
    pub fn forget_closed(&self) {
        self.open.lock().retain(|_, shared| !shared.session().is_closing());
    }

    /// Ends the turns that an earlier process left running, in all stored sessions. Runs nothing: waiting lines stay held. A
    /// session that another process has open is left alone.
    ///
    /// # Errors
    /// The stored sessions could not be read.
    pub async fn settle(&self) -> Result<(), SessionError> {
        for session in self.host.store().sessions().await? {
            if self.host.store().open_turns(session.id).await?.is_empty() {
                continue;
            }
            match self.open(session.id, None).await {
                Ok(seat) => {
                    let shared = Arc::clone(seat.shared());
                    drop(seat);
                    // Closed as if it had been idle for long enough, unless a client has joined meanwhile.
                    if self.remove_unused(&shared, Instant::now() + self.keep.idle + SWEEP) {
                        shared.session().close().await;
                    }
                }
                Err(error) => tracing::info!("session {} is not settled: {error}", session.id),
            }
        }
        Ok(())
    }

    /// Returns whether something runs in any session.
    pub fn is_any_busy(&self) -> bool {
        self.open.lock().values().any(|shared| !shared.session().is_idle())
    }

    /// Closes the sessions in which nothing runs. The turns of the others are interrupted when the process ends.
    pub async fn close_idle(&self) {
        for shared in self.all() {
            if shared.session().is_idle() {
                shared.session().close().await;
            }
        }
        self.forget_closed();
    }

    /// Closes sessions that have had no client and nothing to do for long enough, until `stopped` is cancelled.
    pub async fn sweep(&self, stopped: CancellationToken) {
        let mut ticks = interval(SWEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
            let now = Instant::now();
            for shared in self.all() {
                if self.remove_unused(&shared, now) {
                    tracing::info!(session = %shared.session().id(), "closing an idle session");
                    shared.session().close().await;
                }
            }
        }
    }

    /// Adds the client to the shared session. This happens under the lock, because a sweep must not remove the session in
    /// between.
    fn share(&self, session: Arc<Session>, client: Option<ClientIdentity>) -> Seat {
        let mut open = self.open.lock();
        let shared = match open.get(&session.id()) {
            Some(shared) if Arc::ptr_eq(shared.session(), &session) => Arc::clone(shared),
            _ => {
                let id = session.id();
                let shared = SharedSession::new(session, self.keep.question);
                open.insert(id, Arc::clone(&shared));
                shared
            }
        };
        shared.join(client)
    }

    /// Removes a session that was closed or is unused. Returns whether it was removed.
    fn remove_unused(&self, shared: &Arc<SharedSession>, now: Instant) -> bool {
        let mut open = self.open.lock();
        let id = shared.session().id();
        let is_it = open.get(&id).is_some_and(|open| Arc::ptr_eq(open, shared));
        let is_unused = shared.session().is_closing() || shared.is_unused_since(now, self.keep.idle);
        if is_it && is_unused {
            open.remove(&id);
        }
        is_it && is_unused
    }
}

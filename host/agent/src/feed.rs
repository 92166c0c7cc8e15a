use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use patchbay_core::{AgentId, Event, EventKind, SessionId};
use patchbay_store::{Hold, Message, SessionChange, Store, StoreError};
use tokio::sync::{Mutex, broadcast};

use crate::{
    Subscription,
    events::{self, QUEUE},
};

/// Where all that happens in a session goes: into the store, and then to whoever listens.
pub struct Feed {
    hold: Hold,
    store: Store,
    live: broadcast::Sender<Event>,
    last_seq: AtomicU64,
    /// Rows are told in the order of their numbers, whoever commits them.
    order: Mutex<()>,
}

impl Feed {
    /// Creates the feed of the session of `hold`, whose last row has the number `last_seq`.
    pub fn new(hold: Hold, store: Store, last_seq: u64) -> Arc<Self> {
        let live = broadcast::Sender::new(QUEUE);
        Arc::new(Self { hold, store, live, last_seq: AtomicU64::new(last_seq), order: Mutex::default() })
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.hold.session()
    }

    /// The right to write the session. It ends when another process takes the session over.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The store that it writes to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The number of the session's last row; 0 where it has none.
    pub fn last_seq(&self) -> u64 {
        self.last_seq.load(Ordering::Relaxed)
    }

    /// Events from row `from` on (1 is the first), replayed and then live.
    pub fn subscribe(&self, from: u64) -> Subscription {
        // Subscribed before the replay: what is committed meanwhile comes twice, and is given once.
        Subscription::new(self.session(), self.store.clone(), self.live.subscribe(), from)
    }

    /// Commits `change`, then has `applied` change what this process knows, then tells of the rows. On a task of its own:
    /// whoever drops this meanwhile must not leave the store and this process of two minds.
    ///
    /// # Errors
    /// The database. Nothing has changed then.
    pub async fn commit(
        self: &Arc<Self>,
        change: SessionChange,
        applied: impl FnOnce() + Send + 'static,
    ) -> Result<Vec<Message>, StoreError> {
        let feed = Arc::clone(self);
        let commit = async move {
            let _order = feed.order.lock().await;
            let rows = feed.store.commit(&feed.hold, change).await?;
            applied();
            for row in &rows {
                feed.last_seq.store(row.seq, Ordering::Relaxed);
                // Nobody may be listening.
                let _ = feed.live.send(events::event(feed.session(), row.clone()));
            }
            Ok(rows)
        };
        tokio::spawn(commit).await.unwrap_or(Err(StoreError::WriterGone))
    }

    /// Tells of something that is not stored.
    pub fn tell(&self, agent: AgentId, kind: EventKind) {
        let _ = self.live.send(events::live(self.session(), agent, self.last_seq(), kind));
    }
}

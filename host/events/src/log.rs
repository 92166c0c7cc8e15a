//! The one way into the rows of a session: a change is committed, then applied in this process, then published.

use std::sync::{
    Arc, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use patchbay_core::{AgentId, Event, EventKind, SessionId};
use patchbay_store::{Hold, MessageRow, PartialPiece, SessionChange, Store, StoreError};
use tokio::sync::{Mutex, oneshot};

use crate::{Bus, Subscription, TokenBudget, subscription};

/// The event log of one session: rows go to the store and then to the subscriptions, live events to the subscriptions alone.
pub struct EventLog {
    hold: Hold,
    store: Store,
    bus: Box<dyn Bus>,
    budget: Arc<TokenBudget>,
    last_seq: AtomicU64,
    /// Held from a commit until its rows are published, so that rows are published in the order of their numbers.
    order: Mutex<()>,
    /// Pieces of answers under way that no write has taken yet, each with the sender of its result.
    due: std::sync::Mutex<Vec<(PartialPiece, oneshot::Sender<bool>)>>,
    /// Held while pieces are written.
    writing: Mutex<()>,
}

impl EventLog {
    /// The log of the session of `hold`, whose last row has the number `last_seq` and whose tokens `budget` counts.
    pub fn new(
        hold: Hold,
        store: Store,
        last_seq: u64,
        budget: Arc<TokenBudget>,
        bus: impl Bus + 'static,
    ) -> Arc<Self> {
        let (bus, last_seq) = (Box::new(bus), AtomicU64::new(last_seq));
        Arc::new(Self {
            hold,
            store,
            bus,
            budget,
            last_seq,
            order: Mutex::default(),
            due: Default::default(),
            writing: Mutex::default(),
        })
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

    /// The tokens of the session.
    pub fn budget(&self) -> &Arc<TokenBudget> {
        &self.budget
    }

    /// The number of the session's last row; 0 where it has none.
    pub fn last_seq(&self) -> u64 {
        self.last_seq.load(Ordering::Relaxed)
    }

    /// Events from row `from` on (1 is the first), read from the store and then live.
    pub fn subscribe(&self, from: u64) -> Subscription {
        // The live receiver comes first: a row that is committed during the replay comes twice, and is given once.
        Subscription::new(self.session(), self.store.clone(), self.bus.subscribe(), from)
    }

    /// Commits `change` and the tokens that were used since the last commit, then calls `applied` so that this process knows
    /// the change too, then publishes the rows. It runs on a task of its own and ends also if this future is dropped, so
    /// that store and process never differ.
    ///
    /// # Errors
    /// The database. Nothing has changed then.
    pub async fn commit(
        self: &Arc<Self>,
        change: SessionChange,
        applied: impl FnOnce() + Send + 'static,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let log = Arc::clone(self);
        let commit = async move {
            let _order = log.order.lock().await;
            let tokens = log.budget.take_unsaved();
            let change = SessionChange { tokens: change.tokens.saturating_add(tokens), ..change };
            let rows = log.store.commit(&log.hold, change).await.inspect_err(|_| log.budget.put_back(tokens))?;
            applied();
            for row in &rows {
                log.last_seq.store(row.seq, Ordering::Relaxed);
                log.bus.publish(subscription::event(log.session(), row.clone()));
            }
            Ok(rows)
        };
        tokio::spawn(commit).await.unwrap_or(Err(StoreError::WriterGone))
    }

    /// Stores a piece of an answer under way, so that a crash loses little of it. One write takes along the pieces of all
    /// agents that are due. Returns whether it was stored; a failure is logged, since the row of the whole answer follows.
    pub async fn keep_piece(&self, piece: PartialPiece) -> bool {
        let (sender, stored) = oneshot::channel();
        self.due.lock().unwrap_or_else(PoisonError::into_inner).push((piece, sender));
        let writing = self.writing.lock().await;
        let mut due = std::mem::take(&mut *self.due.lock().unwrap_or_else(PoisonError::into_inner));
        // The answer of a turn that was stopped meanwhile is a row already.
        due.retain(|(_, sender)| !sender.is_closed());
        if !due.is_empty() {
            let (pieces, senders): (Vec<_>, Vec<_>) = due.into_iter().unzip();
            let written = self.store.checkpoint(&self.hold, pieces).await;
            if let Err(error) = &written {
                tracing::warn!("an answer under way could not be stored: {error}");
            }
            for sender in senders {
                // An error says that the turn has ended meanwhile.
                let _ = sender.send(written.is_ok());
            }
        }
        drop(writing);
        stored.await.unwrap_or(false)
    }

    /// Publishes an event that is not stored.
    pub fn publish(&self, agent: AgentId, kind: EventKind) {
        self.bus.publish(Event { session: self.session(), agent, seq: self.last_seq(), kind });
    }
}

#[cfg(test)]
mod tests;

//! The only way to change a session's rows: a change is committed, then applied in memory, then published. Agents and the
//! session use it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use patchbay_core::{AgentId, Event, EventKind, SessionId};
use patchbay_store::{Hold, MessageRow, ModelUsage, PartialPiece, SessionChange, Store, StoreError};
use tokio::sync::{Mutex, oneshot};

use crate::{Bus, Subscription, TokenBudget, subscription};

/// The event log of one session. Rows go to the store and then to the subscriptions; live events only to the subscriptions.
pub struct EventLog {
    hold: Hold,
    store: Store,
    bus: Box<dyn Bus>,
    budget: Arc<TokenBudget>,
    last_seq: AtomicU64,
    /// Locked from a commit until its rows are published, which keeps the published rows in order.
    order: Mutex<()>,
    /// Pieces of unfinished answers that are waiting for a write, each with the sender of its result.
    due: parking_lot::Mutex<Vec<(PartialPiece, oneshot::Sender<bool>)>>,
    /// Locked while pieces are written.
    writing: Mutex<()>,
}

impl EventLog {
    /// Creates the log of the session that `hold` permits to write. `last_seq` is the number of its last
    /// row; `budget` counts its tokens.
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

    /// Returns the id of the session.
    pub fn session(&self) -> SessionId {
        self.hold.session()
    }

    /// Returns the right to write the session. It ends when another process takes the session over.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Returns the store that contains the session.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the budget that counts the session's tokens.
    pub fn budget(&self) -> &Arc<TokenBudget> {
        &self.budget
    }

    /// Returns the tokens that the session has used by model, sorted by provider and model, including requests that are
    /// not stored yet. Requests under way are not included.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn usage(&self) -> Result<Vec<ModelUsage>, StoreError> {
        // Prevents a commit between the two reads.
        let _order = self.order.lock().await;
        let stored = self.store.usage(self.session()).await?;
        Ok(ModelUsage::sums(stored.into_iter().chain(self.budget.unsaved_usage())))
    }

    /// Returns the number of the session's last row; 0 if it has none.
    pub fn last_seq(&self) -> u64 {
        self.last_seq.load(Ordering::Relaxed)
    }

    /// Subscribes to the events from row `from` on (1 is the first): first rows from the store, then live events.
    pub fn subscribe(&self, from: u64) -> Subscription {
        // The live receiver is created first. Rows that are committed during the replay arrive twice; the subscription drops
        // the duplicates.
        Subscription::new(self.session(), self.store.clone(), self.bus.subscribe(), from)
    }

    /// Commits `change` together with the tokens used since the last commit, then calls `applied` to update the
    /// process's state, then publishes the rows. The commit runs in its own task, so dropping the future cannot leave
    /// memory and database inconsistent.
    ///
    /// # Errors
    /// Errors of the store; nothing has changed then.
    pub async fn commit(
        self: &Arc<Self>,
        change: SessionChange,
        applied: impl FnOnce() + Send + 'static,
    ) -> Result<Vec<MessageRow>, StoreError> {
        self.commit_prepared(async { Ok((change, ())) }, |rows, ()| {
            applied();
            rows.to_vec()
        })
        .await
    }

    /// Like [`EventLog::commit`], for a change that depends on stored data: no other commit comes between the end of
    /// `prepare`, which returns the change, and the change itself. `applied` receives the new rows and the second value
    /// returned by `prepare`; its result is returned.
    ///
    /// # Errors
    /// Errors of `prepare` and of the store; nothing has changed then.
    pub async fn commit_prepared<T, R, E>(
        self: &Arc<Self>,
        prepare: impl Future<Output = Result<(SessionChange, T), E>> + Send + 'static,
        applied: impl FnOnce(&[MessageRow], T) -> R + Send + 'static,
    ) -> Result<R, E>
    where
        T: Send + 'static,
        R: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let log = Arc::clone(self);
        let commit = async move {
            let _order = log.order.lock().await;
            let (change, more) = prepare.await?;
            let (tokens, usage) = (log.budget.take_unsaved(), log.budget.take_unsaved_usage());
            let change = SessionChange {
                tokens: change.tokens.saturating_add(tokens),
                usage: change.usage.into_iter().chain(usage.iter().cloned()).collect(),
                ..change
            };
            let rows = log.store.commit(&log.hold, change).await.inspect_err(|_| log.budget.put_back(tokens, usage))?;
            let result = applied(&rows, more);
            for row in rows {
                log.last_seq.store(row.seq, Ordering::Relaxed);
                log.bus.publish(subscription::event(log.session(), row));
            }
            Ok(result)
        };
        tokio::spawn(commit).await.unwrap_or(Err(StoreError::WriterGone.into()))
    }

    /// Stores a piece of an unfinished answer, to limit what a crash can lose. One write includes the due
    /// pieces of all agents. Returns whether the piece was stored. A failure is only logged, since the
    /// complete answer is stored later.
    pub async fn keep_piece(&self, piece: PartialPiece) -> bool {
        let (sender, stored) = oneshot::channel();
        self.due.lock().push((piece, sender));
        let writing = self.writing.lock().await;
        let mut due = std::mem::take(&mut *self.due.lock());
        // A closed sender belongs to a stopped turn, whose answer is already a row.
        due.retain(|(_, sender)| !sender.is_closed());
        if !due.is_empty() {
            let (pieces, senders): (Vec<_>, Vec<_>) = due.into_iter().unzip();
            let written = self.store.checkpoint(&self.hold, pieces).await;
            if let Err(error) = &written {
                tracing::warn!("cannot store a piece of an unfinished answer: {error}");
            }
            for sender in senders {
                // An error means that the turn has ended.
                let _ = sender.send(written.is_ok());
            }
        }
        drop(writing);
        stored.await.unwrap_or(false)
    }

    /// Publishes a live event, which is not stored.
    pub fn publish(&self, agent: AgentId, kind: EventKind) {
        self.bus.publish(Event { session: self.session(), agent, seq: self.last_seq(), kind });
    }
}

#[cfg(test)]
mod tests;

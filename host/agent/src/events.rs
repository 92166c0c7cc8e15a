//! Events: replayed from the store, then live. A subscriber that is slow reads again from the store.

use std::collections::VecDeque;

use patchbay_core::{AgentId, Event, EventKind, SessionId};
use patchbay_store::{Message, Store, StoreError};
use tokio::sync::broadcast::{self, error::RecvError};

/// Events that wait for a slow subscriber.
pub(crate) const QUEUE: usize = 1024;
/// Rows that one replay step reads.
const PAGE: u32 = 256;

/// What a subscriber is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Something happened.
    Event(Event),
    /// The subscriber was too slow: this many live events are gone. Stored ones follow; no row is missed.
    Lagged(u64),
}

/// Events of one session, in order.
pub struct Subscription {
    session: SessionId,
    store: Store,
    live: broadcast::Receiver<Event>,
    /// The next row that has not been given yet.
    next: u64,
    replay: VecDeque<Event>,
    /// Whether rows may be in the store that neither were replayed nor will come live.
    behind: bool,
}

impl Subscription {
    pub(crate) fn new(session: SessionId, store: Store, live: broadcast::Receiver<Event>, from: u64) -> Self {
        Self { session, store, live, next: from.max(1), replay: VecDeque::new(), behind: true }
    }

    /// The next event, waiting for it; none when the session is gone.
    ///
    /// # Errors
    /// The database, while replaying.
    pub async fn next(&mut self) -> Result<Option<Received>, StoreError> {
        loop {
            if let Some(event) = self.replayed().await? {
                return Ok(Some(Received::Event(event)));
            }
            match self.live.recv().await {
                Ok(event) => {
                    if let Some(event) = self.fresh(event) {
                        return Ok(Some(Received::Event(event)));
                    }
                }
                Err(RecvError::Lagged(missed)) => {
                    self.behind = true;
                    return Ok(Some(Received::Lagged(missed)));
                }
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }

    /// The next event that is there already.
    ///
    /// # Errors
    /// The database, while replaying.
    pub async fn try_next(&mut self) -> Result<Option<Received>, StoreError> {
        loop {
            if let Some(event) = self.replayed().await? {
                return Ok(Some(Received::Event(event)));
            }
            match self.live.try_recv() {
                Ok(event) => {
                    if let Some(event) = self.fresh(event) {
                        return Ok(Some(Received::Event(event)));
                    }
                }
                Err(broadcast::error::TryRecvError::Lagged(missed)) => {
                    self.behind = true;
                    return Ok(Some(Received::Lagged(missed)));
                }
                Err(_) => return Ok(None),
            }
        }
    }

    async fn replayed(&mut self) -> Result<Option<Event>, StoreError> {
        if self.replay.is_empty() && self.behind {
            let rows = self.store.messages(self.session, self.next, PAGE).await?;
            self.behind = rows.len() == PAGE as usize;
            if let Some(last) = rows.last() {
                self.next = last.seq + 1;
            }
            self.replay.extend(rows.into_iter().map(|row| event(self.session, row)));
        }
        Ok(self.replay.pop_front())
    }

    /// A live event, unless the replay gave it already.
    fn fresh(&mut self, event: Event) -> Option<Event> {
        if matches!(event.kind, EventKind::Message { .. }) {
            if event.seq < self.next {
                return None;
            }
            self.next = event.seq + 1;
        }
        Some(event)
    }
}

/// A row as an event.
pub(crate) fn event(session: SessionId, row: Message) -> Event {
    let Message { seq, agent, kind, content, data } = row;
    Event { session, agent, seq, kind: EventKind::Message { kind, content, data } }
}

/// A live event, which is not stored.
pub(crate) fn live(session: SessionId, agent: AgentId, seq: u64, kind: EventKind) -> Event {
    Event { session, agent, seq, kind }
}

#[cfg(test)]
mod tests;

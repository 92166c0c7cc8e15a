//! A subscription to one session: stored rows first, then live events. Every row is received exactly once.

use std::collections::{BTreeSet, VecDeque};

use patchbay_core::{AgentId, Event, EventKind, SessionId};
use patchbay_store::{MessageRow, Store, StoreError};

use crate::{BusError, BusReceiver};

/// Number of rows that are read from the store at a time.
const PAGE: u32 = 256;

/// An item of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The next event of the session.
    Event(Event),
    /// The subscriber was too slow and lost this many live events. Lost rows are read from the store and returned next.
    Lagged(u64),
}

/// The events of one session, in order. [`EventLog::subscribe`](crate::EventLog::subscribe) creates it.
pub struct Subscription {
    session: SessionId,
    store: Store,
    live: Box<dyn BusReceiver>,
    /// The number after the last row that was read from the store or returned.
    next: u64,
    /// Events that are returned before any event from the bus.
    ready: VecDeque<Event>,
    /// Whether the store may have rows that will not arrive live.
    behind: bool,
    /// A live event to return after rows that are not read yet.
    held: Option<Event>,
    /// The agents whose deltas are returned; `None` for all.
    deltas_of: Option<BTreeSet<AgentId>>,
}

impl Subscription {
    pub(crate) fn new(session: SessionId, store: Store, live: Box<dyn BusReceiver>, from: u64) -> Self {
        let (ready, next) = (VecDeque::new(), from.max(1));
        Self { session, store, live, next, ready, behind: true, held: None, deltas_of: None }
    }

    /// Drops the deltas of all agents except `agents` from now on, so [`Subscription::next`] does not return for them. Rows
    /// and other events of all agents are still returned.
    pub fn only_deltas_of(&mut self, agents: impl IntoIterator<Item = AgentId>) {
        self.deltas_of = Some(agents.into_iter().collect());
    }

    /// Waits for the next event; returns `None` when the session has ended. The future is cancel-safe.
    ///
    /// # Errors
    /// Errors of the store while rows are read.
    pub async fn next(&mut self) -> Result<Option<Received>, StoreError> {
        loop {
            if let Some(event) = self.take_ready().await? {
                return Ok(Some(Received::Event(event)));
            }
            let event = self.live.next().await;
            match self.receive(event) {
                Some(Ok(received)) => return Ok(Some(received)),
                Some(Err(Ended)) => return Ok(None),
                None => {}
            }
        }
    }

    /// Returns the next event, or `None` if there is none yet or the session has ended. It may read the store, but it does not wait
    /// for a live event.
    ///
    /// # Errors
    /// The same as [`Subscription::next`].
    pub async fn try_next(&mut self) -> Result<Option<Received>, StoreError> {
        loop {
            if let Some(event) = self.take_ready().await? {
                return Ok(Some(Received::Event(event)));
            }
            let Some(event) = self.live.try_next().transpose() else { return Ok(None) };
            match self.receive(event) {
                Some(Ok(received)) => return Ok(Some(received)),
                Some(Err(Ended)) => return Ok(None),
                None => {}
            }
        }
    }

    /// Returns the next row to replay, then the live event that was held back.
    async fn take_ready(&mut self) -> Result<Option<Event>, StoreError> {
        if self.ready.is_empty() && self.behind {
            let rows = self.store.messages(self.session, self.next, PAGE).await?;
            self.behind = rows.len() == PAGE as usize;
            if let Some(last) = rows.last() {
                self.next = last.seq + 1;
            }
            self.ready.extend(rows.into_iter().map(|row| event(self.session, row)));
        }
        match self.ready.pop_front() {
            Some(event) => Ok(Some(event)),
            None => Ok(self.held.take()),
        }
    }

    /// Processes a live event: returns it, drops it, or holds it back until missing rows are read.
    fn receive(&mut self, received: Result<Event, BusError>) -> Option<Result<Received, Ended>> {
        let event = match received {
            Ok(event) => event,
            Err(BusError::Lagged(lost)) => {
                self.behind = true;
                return Some(Ok(Received::Lagged(lost)));
            }
            Err(BusError::Closed) => return Some(Err(Ended)),
        };
        if matches!(event.kind, EventKind::Message { .. }) {
            match event.seq.cmp(&self.next) {
                // The row was already returned.
                std::cmp::Ordering::Less => return None,
                std::cmp::Ordering::Equal => self.next += 1,
                // Earlier rows are missing; the store has them and this one.
                std::cmp::Ordering::Greater => {
                    self.behind = true;
                    return None;
                }
            }
        } else if !self.wants(&event) {
            return None;
        } else if event.seq >= self.next {
            // The event happened after rows that are missing.
            self.behind = true;
            self.held = Some(event);
            return None;
        }
        Some(Ok(Received::Event(event)))
    }

    fn wants(&self, event: &Event) -> bool {
        match (&event.kind, &self.deltas_of) {
            (EventKind::Delta { .. }, Some(agents)) => agents.contains(&event.agent),
            _ => true,
        }
    }
}

/// The session has ended; the subscription returns `None`.
struct Ended;

/// Converts a row to an event.
pub(crate) fn event(session: SessionId, row: MessageRow) -> Event {
    let MessageRow { seq, agent, kind, content, data } = row;
    Event { session, agent, seq, kind: EventKind::Message { kind, content, data } }
}

#[cfg(test)]
mod tests;

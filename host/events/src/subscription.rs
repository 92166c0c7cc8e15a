//! Following a session: its rows from the store, then its events as they happen. No row is missed, none comes twice.

use std::collections::{BTreeSet, VecDeque};

use patchbay_core::{AgentId, Event, EventKind, SessionId};
use patchbay_store::{MessageRow, Store, StoreError};

use crate::{BusError, BusReceiver};

/// Rows that one read of the store gives.
const PAGE: u32 = 256;

/// What a subscriber is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Something happened.
    Event(Event),
    /// The subscriber was too slow: this many live events are lost. Rows are not: they follow.
    Lagged(u64),
}

/// The events of one session, in order. Made by [`EventLog::subscribe`](crate::EventLog::subscribe).
pub struct Subscription {
    session: SessionId,
    store: Store,
    live: Box<dyn BusReceiver>,
    /// The next row that has not been given yet.
    next: u64,
    /// Events to give before anything else.
    ready: VecDeque<Event>,
    /// Whether the store may have rows that were not given and that will not come live.
    behind: bool,
    /// A live event that follows rows which are not given yet.
    held: Option<Event>,
    /// The agents whose deltas are given; `None`: all.
    deltas_of: Option<BTreeSet<AgentId>>,
}

impl Subscription {
    pub(crate) fn new(session: SessionId, store: Store, live: Box<dyn BusReceiver>, from: u64) -> Self {
        let (ready, next) = (VecDeque::new(), from.max(1));
        Self { session, store, live, next, ready, behind: true, held: None, deltas_of: None }
    }

    /// Gives deltas of `agents` alone from now on; without this call, of all. A front that shows one agent of many is not
    /// woken for the others. Rows and all other events come from every agent.
    pub fn only_deltas_of(&mut self, agents: impl IntoIterator<Item = AgentId>) {
        self.deltas_of = Some(agents.into_iter().collect());
    }

    /// Waits for the next event; `None` once the session has ended. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The database, while rows are read from it.
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

    /// Returns the next event that is there already, without waiting for one to happen; `None` where there is none.
    ///
    /// # Errors
    /// As [`Subscription::next`].
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

    /// Rows that are due come first, then the live event that waited for them.
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

    /// Takes what came live: it is given, or dropped, or it waits for rows that were missed.
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
                // It was given already.
                std::cmp::Ordering::Less => return None,
                std::cmp::Ordering::Equal => self.next += 1,
                // The rows before it did not come: the store has them and this one.
                std::cmp::Ordering::Greater => {
                    self.behind = true;
                    return None;
                }
            }
        } else if !self.wants(&event) {
            return None;
        } else if event.seq >= self.next {
            // It happened after rows that did not come.
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

/// The session has ended.
struct Ended;

/// A row as an event.
pub(crate) fn event(session: SessionId, row: MessageRow) -> Event {
    let MessageRow { seq, agent, kind, content, data } = row;
    Event { session, agent, seq, kind: EventKind::Message { kind, content, data } }
}

#[cfg(test)]
mod tests;

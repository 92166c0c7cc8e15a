//! A session with a store and a bus, for the tests of this crate.

use patchbay_core::{AgentId, Digest, Event, EventKind, MessageKind, PrincipalId, SessionId};
use patchbay_store::{Hold, MessageRow, NewMessage, NewSnapshot, SessionChange, SessionRow, Store};

use crate::{Broadcast, Bus as _, Subscription, subscription::event};

/// A session with one agent in its own store, and a bus.
pub(crate) struct TestSession {
    _home: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) hold: Hold,
    pub(crate) session: SessionId,
    pub(crate) agent: AgentId,
    pub(crate) bus: Broadcast,
}

impl TestSession {
    pub(crate) async fn new(queue: usize) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let (session, agent) = (SessionId::random(), AgentId::random());
        let components = store.retain_components().unwrap();
        let snapshot = NewSnapshot::empty(Digest::of(b""), String::new(), components);
        let row = SessionRow {
            id: session,
            workspace: String::new(),
            agent,
            persona: String::new(),
            snapshot: snapshot.digest,
            snapshot_version: 1,
            owner: PrincipalId::LOCAL,
        };
        let hold = store.create_session(row, snapshot).await.unwrap();
        Self { _home: home, store, hold, session, agent, bus: Broadcast::with_capacity(queue) }
    }

    /// Commits rows and publishes them, like [`EventLog`](crate::EventLog).
    pub(crate) async fn say(&self, count: usize) {
        for row in self.commit(count).await {
            self.bus.publish(event(self.session, row));
        }
    }

    /// Commits rows without publishing them.
    pub(crate) async fn commit(&self, count: usize) -> Vec<MessageRow> {
        let mut rows = Vec::new();
        for _ in 0..count {
            let message =
                NewMessage { agent: self.agent, kind: MessageKind::User, content: "x".to_owned(), data: None };
            let change = SessionChange { messages: vec![message], ..SessionChange::default() };
            rows.extend(self.store.commit(&self.hold, change).await.unwrap());
        }
        rows
    }

    pub(crate) fn progress(&self, seq: u64) {
        let kind = EventKind::Progress { tool: "t".to_owned(), text: "p".to_owned() };
        self.bus.publish(Event { session: self.session, agent: self.agent, seq, kind });
    }

    pub(crate) fn subscribe(&self, from: u64) -> Subscription {
        Subscription::new(self.session, self.store.clone(), self.bus.subscribe(), from)
    }
}

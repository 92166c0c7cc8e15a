//! A stored session for the unit tests of this crate.

use patchbay_core::{AgentId, Digest, PrincipalId, SessionId};

use crate::{Hold, NewSnapshot, SessionRow, Store};

/// Creates a session with an empty snapshot and returns its hold and its only agent.
pub(crate) async fn new_session(store: &Store) -> (Hold, AgentId) {
    let snapshot = NewSnapshot::empty(Digest::of(b""), String::new(), store.retain_components().unwrap());
    let row = SessionRow {
        id: SessionId::random(),
        workspace: "/w".to_owned(),
        agent: AgentId::random(),
        persona: "{}".to_owned(),
        snapshot: snapshot.digest,
        snapshot_version: 1,
        owner: PrincipalId::LOCAL,
    };
    let agent = row.agent;
    (store.create_session(row, snapshot).await.unwrap(), agent)
}

//! Stored sessions for the unit tests of this crate.

use patchbay_core::{AgentId, Digest, MessageKind, PrincipalId, SessionId};

use crate::{
    AgentModel, Hold, MessageRow, NewAgent, NewMail, NewMessage, NewSnapshot, SessionChange, SessionRow, Store,
    StoreError,
};

/// Creates a session with an empty snapshot and returns its hold and its only agent.
pub(crate) async fn new_session(store: &Store) -> (Hold, AgentId) {
    let snapshot = NewSnapshot::empty(Digest::of(b""), String::new(), store.retain_components().unwrap());
    let row = session_row(&snapshot);
    let agent = row.agent;
    (store.create_session(row, snapshot).await.unwrap(), agent)
}

/// Returns a session with this snapshot.
pub(crate) fn session_row(snapshot: &NewSnapshot) -> SessionRow {
    SessionRow {
        id: SessionId::random(),
        workspace: "/w".to_owned(),
        agent: AgentId::random(),
        persona: "{}".to_owned(),
        snapshot: snapshot.digest,
        snapshot_version: 1,
        owner: PrincipalId::LOCAL,
    }
}

/// Returns an empty store and its folder.
pub(crate) fn new_store() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    (home, store)
}

/// Returns a runtime for property tests, whose bodies are not async.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Undoes the migrations after 22, for tests that need the database of an older build.
pub(crate) const TO_22: &str = "\
    ALTER TABLE grants RENAME TO placed; \
    CREATE TABLE grants (root TEXT NOT NULL, workspace TEXT NOT NULL, skill TEXT NOT NULL, capability TEXT NOT NULL, \
        component TEXT NOT NULL, created_at INTEGER NOT NULL, skill_digest TEXT NOT NULL DEFAULT '', \
        PRIMARY KEY (root, workspace, skill, capability)) STRICT, WITHOUT ROWID; \
    INSERT INTO grants SELECT root, workspace, skill, capability, '', created_at, skill_digest FROM placed; \
    DROP TABLE placed; \
    ALTER TABLE agents DROP COLUMN rewound; \
    ALTER TABLE agents DROP COLUMN depth; \
    ALTER TABLE agents DROP COLUMN tasks; \
    ALTER TABLE agents RENAME COLUMN parent_uuid TO parent; \
    ALTER TABLE agents RENAME COLUMN fork_message_id TO fork_point; \
    DROP TABLE upgrades; \
    DROP TABLE change_sets; \
    DROP TABLE file_changes; \
    ALTER TABLE sessions DROP COLUMN revision; \
    ALTER TABLE sessions DROP COLUMN title; \
    ALTER TABLE sessions DROP COLUMN kept_bytes; \
    DROP TABLE spending; \
    DROP TABLE reservations; \
    DROP TABLE package_changes; \
    DROP TABLE server_allowances; \
    DROP TABLE client_tokens; \
    DROP TABLE sent_lines; \
    DROP TABLE recorded_content_uses; DROP TABLE recorded_contents; DROP TABLE recorded_calls";

/// A session in its own store.
pub(crate) struct TestTree {
    pub(crate) home: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) hold: Hold,
    pub(crate) root: AgentId,
}

impl TestTree {
    pub(crate) async fn new() -> Self {
        let (home, store) = new_store();
        let (hold, root) = new_session(&store).await;
        Self { home, store, hold, root }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.hold.session()
    }

    pub(crate) async fn commit(&self, change: SessionChange) -> Result<Vec<MessageRow>, StoreError> {
        self.store.commit(&self.hold, change).await
    }

    /// Forks an agent without rows.
    pub(crate) async fn fork(&self, parent: AgentId) -> AgentId {
        let agent = new_agent(parent);
        let id = agent.id;
        self.commit(SessionChange { new_agent: Some(agent), ..SessionChange::default() }).await.unwrap();
        id
    }

    pub(crate) async fn kill(&self, agents: &[AgentId]) {
        self.commit(SessionChange { kills: agents.to_vec(), ..SessionChange::default() }).await.unwrap();
    }

    /// Appends a row and returns its number.
    pub(crate) async fn add(&self, agent: AgentId, kind: MessageKind, content: &str) -> u64 {
        self.add_row(message(agent, kind, content)).await
    }

    /// Like [`TestTree::add`], for a row with data.
    pub(crate) async fn add_row(&self, row: NewMessage) -> u64 {
        let change = SessionChange { messages: vec![row], ..SessionChange::default() };
        self.commit(change).await.unwrap()[0].seq
    }

    /// Returns the texts of a conversation.
    pub(crate) async fn sent(&self, agent: AgentId) -> Vec<String> {
        let rows = self.store.conversation(agent).await.unwrap();
        for (at, last) in rows.iter().enumerate() {
            let later = &rows[at + 1..];
            if later.iter().all(|row| row.agent == agent && row.seq > last.seq) {
                let added = self.store.conversation_since(self.session(), agent, last.seq).await.unwrap();
                let is_summarised = later.iter().any(|row| row.kind == MessageKind::Compaction);
                assert_eq!(added.as_deref(), (!is_summarised).then_some(later));
            }
        }
        rows.into_iter().map(|row| row.content).collect()
    }

    /// Returns the steps of SQLite's query plan for a statement.
    pub(crate) fn plan(&self, sql: &str) -> Vec<String> {
        let database = self.database();
        let mut query = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = query.query_map(rusqlite::params_from_iter(vec![0; query.parameter_count()]), |row| row.get(3));
        steps.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Opens a separate connection to the database.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.home.path().join("patchbay.db")).unwrap()
    }
}

/// Returns a child of `parent` with a new id.
pub(crate) fn new_agent(parent: AgentId) -> NewAgent {
    NewAgent { id: AgentId::random(), parent, rewinds: None, foreground: true, model: AgentModel::default() }
}

/// Returns a row without data.
pub(crate) fn message(agent: AgentId, kind: MessageKind, content: &str) -> NewMessage {
    NewMessage { agent, kind, content: content.to_owned(), data: None }
}

/// Returns a mail without an inbox limit.
pub(crate) fn letter(from: AgentId, to: AgentId, body: &str) -> NewMail {
    NewMail { from, to, body: body.to_owned(), limit: None, wakes: true }
}

/// Asserts that a change was refused because `agent` is dead.
#[track_caller]
pub(crate) fn assert_dead<T: std::fmt::Debug>(result: Result<T, StoreError>, agent: AgentId) {
    assert!(matches!(result, Err(StoreError::AgentDead(dead)) if dead == agent), "{result:?}");
}

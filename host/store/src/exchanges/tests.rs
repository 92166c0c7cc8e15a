//! Tests of the last message and of dropped messages.

use serde_json::{Value, json};

use super::*;
use crate::{Hold, NewMessage, SessionChange, testing::new_session};

/// A session with one agent in its own store.
struct Conversation {
    _home: tempfile::TempDir,
    store: Store,
    hold: Hold,
    agent: AgentId,
}

impl Conversation {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let (hold, agent) = new_session(&store).await;
        Self { _home: home, store, hold, agent }
    }

    /// Adds rows in one commit.
    async fn add(&self, rows: &[(MessageKind, &str, Value)]) {
        let row = |(kind, content, data): &(MessageKind, &str, Value)| NewMessage {
            agent: self.agent,
            kind: *kind,
            content: (*content).to_owned(),
            data: Some(data.clone()),
        };
        let change = SessionChange { messages: rows.iter().map(row).collect(), ..SessionChange::default() };
        self.store.commit(&self.hold, change).await.unwrap();
    }

    /// Returns the texts of the last message, the text of its last answer, and the number of its answers.
    async fn last(&self) -> Option<(Vec<String>, Option<String>, u32)> {
        let last = self.store.last_message(self.hold.session(), self.agent).await.unwrap()?;
        let texts = last.rows.into_iter().map(|row| row.content).collect();
        Some((texts, last.answer.map(|row| row.content), last.answers))
    }

    async fn drop_last(&self) {
        let last = self.store.last_message(self.hold.session(), self.agent).await.unwrap().unwrap();
        let message = DroppedMessage {
            agent: self.agent,
            first: last.rows.first().unwrap().seq,
            last: last.rows.last().unwrap().seq,
        };
        let change = SessionChange { drops: Some(message), ..SessionChange::default() };
        self.store.commit(&self.hold, change).await.unwrap();
    }

    async fn sent(&self) -> Vec<String> {
        let rows = self.store.conversation(self.agent).await.unwrap();
        rows.into_iter().map(|row| row.content).collect()
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn last_message_is_found_with_its_answers() {
    use MessageKind::{Assistant, Command, Skill, Tool, User};
    let conversation = Conversation::new().await;
    assert_eq!(conversation.last().await, None);
    conversation.add(&[(User, "one", Value::Null)]).await;
    assert_eq!(conversation.last().await, Some((texts(&["one"]), None, 0)));
    conversation.add(&[(Assistant, "first", Value::Null)]).await;
    conversation.add(&[(Tool, "result", Value::Null)]).await;
    conversation.add(&[(Assistant, "last", Value::Null)]).await;
    assert_eq!(conversation.last().await, Some((texts(&["one"]), Some("last".to_owned()), 2)));
    // Instructions and their input are one message; the row of another command may follow it.
    conversation.add(&[(Skill, "Do it.", Value::Null), (User, "there", Value::Null)]).await;
    conversation.add(&[(Command, "/skills", json!({"code": "skills_listed"}))]).await;
    assert_eq!(conversation.last().await, Some((texts(&["Do it.", "there"]), None, 0)));
    // Instructions without input wait for the next message.
    conversation.add(&[(Skill, "Later.", Value::Null), (Command, "/later", json!({"code": "skill_added"}))]).await;
    assert_eq!(conversation.last().await, Some((texts(&["Do it.", "there"]), None, 0)));
    conversation.add(&[(User, "now", Value::Null)]).await;
    assert_eq!(conversation.last().await, Some((texts(&["now"]), None, 0)));
}

#[tokio::test]
async fn dropped_messages_are_neither_sent_nor_listed() {
    use MessageKind::{Assistant, Command, Skill, Tool, User};
    let conversation = Conversation::new().await;
    conversation.add(&[(User, "one", Value::Null)]).await;
    conversation.add(&[(Assistant, "first", Value::Null)]).await;
    conversation.add(&[(Skill, "Do it.", Value::Null), (User, "there", Value::Null)]).await;
    conversation.add(&[(Assistant, "", Value::Null)]).await;
    conversation.add(&[(Skill, "Later.", Value::Null), (Command, "/later", json!({"code": "skill_added"}))]).await;
    conversation.add(&[(Tool, "result", Value::Null)]).await;
    conversation.drop_last().await;
    assert_eq!(conversation.sent().await, ["one", "first", "Later."]);
    assert_eq!(conversation.last().await, Some((texts(&["one"]), Some("first".to_owned()), 1)));
    let (store, session) = (&conversation.store, conversation.hold.session());
    let (later, none) = store.exchange_before(session, conversation.agent, u64::MAX).await.unwrap().unwrap();
    assert_eq!((&*later.content, none), ("Later.", None));
    assert_eq!(store.messages_before(session, conversation.agent, later.seq).await.unwrap(), 2);
    let (one, first) = store.exchange_before(session, conversation.agent, later.seq).await.unwrap().unwrap();
    assert_eq!((&*one.content, &*first.unwrap().content), ("one", "first"));
    assert_eq!(store.exchange_before(session, conversation.agent, one.seq).await.unwrap(), None);
    // A dropped summary no longer replaces what it summarised.
    conversation.add(&[(User, "two", Value::Null)]).await;
    conversation.add(&[(MessageKind::Compaction, "Summary.", json!({"keep_from": null}))]).await;
    assert_eq!(conversation.sent().await, ["Summary."]);
    conversation.drop_last().await;
    assert_eq!(conversation.sent().await, ["one", "first", "Later."]);
    // All rows are still stored.
    assert_eq!(store.messages(session, 1, 99).await.unwrap().len(), 10);
}

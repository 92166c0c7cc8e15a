//! The last task of an agent and its work since then, taken from its rows. `session` lists it.

use patchbay_core::{AgentId, AssistantPart, AssistantRecord, MessageKind, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    MessageRow, Store, StoreError,
    messages::{MAX_CONTENT, read},
    turns,
};

/// Maximum number of characters of a task that are read.
const TASK: u32 = 1_000;
/// How many of the newest rows of a turn are searched for its last call. An answer may have many calls, each with a result.
const ROWS: u32 = 200;

/// The current work of one agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentWork {
    /// The last message to the agent: a user's text or a skill. At most its first 1,000 characters are read. Mail that
    /// woke the agent does not count as a task. `None` before the first message.
    pub task: Option<MessageRow>,
    /// The tool that the last turn is calling or has called last; `None` if it called none.
    pub last_tool: Option<String>,
    /// Seconds since the running turn began, or else since the last row of the conversation was written; `None` without rows.
    pub age_s: Option<u64>,
}

impl Store {
    /// Returns the work of an agent. Rows that it has inherited do not count.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn agent_work(&self, session: SessionId, agent: AgentId) -> Result<AgentWork, StoreError> {
        let now = self.source.unix_s();
        self.database.read(|connection| {
            // All statements read the same state of the database.
            let _transaction = connection.unchecked_transaction()?;
            let task = task(connection, session, agent)?;
            let open = turns::open_turn(connection, session, agent)?;
            let began = open.or(task.as_ref().map(|task| task.seq.cast_signed())).unwrap_or_default();
            let since = match open {
                Some(began) => written_at(connection, session, began)?,
                None => last_written_at(connection, session, agent)?,
            };
            let age_s = since.map(|since| u64::try_from(now.saturating_sub(since)).unwrap_or_default());
            Ok(AgentWork { last_tool: last_tool(connection, session, agent, began)?, task, age_s })
        })
    }
}

fn task(connection: &Connection, session: SessionId, agent: AgentId) -> Result<Option<MessageRow>, StoreError> {
    let sql = format!(
        "SELECT seq, agent, kind, iif(octet_length(content) > {MAX_CONTENT}, '', substr(content, 1, {TASK})), \
         CASE kind WHEN 'skill' THEN data END FROM messages INDEXED BY messages_by_agent \
         WHERE agent = ? AND session = ? AND kind IN ('user', 'skill') AND dropped = 0 \
         AND (kind <> 'user' OR json_type(data, '$.notification') IS NULL) ORDER BY seq DESC LIMIT 1"
    );
    let mut query = connection.prepare_cached(&sql)?;
    let mut rows = query.query(params![agent.to_string(), session.to_string()])?;
    rows.next()?.map(read).transpose()
}

fn written_at(connection: &Connection, session: SessionId, seq: i64) -> Result<Option<i64>, StoreError> {
    let mut query = connection.prepare_cached("SELECT created_at FROM messages WHERE session = ? AND seq = ?")?;
    Ok(query.query_row(params![session.to_string(), seq], |row| row.get(0)).optional()?)
}

fn last_written_at(connection: &Connection, session: SessionId, agent: AgentId) -> Result<Option<i64>, StoreError> {
    let mut query = connection.prepare_cached(
        "SELECT created_at FROM messages INDEXED BY messages_by_agent WHERE agent = ? AND session = ? \
         AND kind IN ('user', 'skill', 'assistant', 'tool') ORDER BY seq DESC LIMIT 1",
    )?;
    Ok(query.query_row(params![agent.to_string(), session.to_string()], |row| row.get(0)).optional()?)
}

/// Finds the last answer with calls, and returns the tool of its first call without a result. If all calls have results,
/// returns the tool of the last call. Rows before number `began` do not count.
fn last_tool(
    connection: &Connection,
    session: SessionId,
    agent: AgentId,
    began: i64,
) -> Result<Option<String>, StoreError> {
    let mut query = connection.prepare_cached(&format!(
        "SELECT kind, CASE kind WHEN 'tool' THEN json_extract(data, '$.call_id') END, data \
         FROM messages INDEXED BY messages_by_agent \
         WHERE agent = ? AND session = ? AND seq >= ? AND kind IN ('assistant', 'tool') ORDER BY seq DESC LIMIT {ROWS}"
    ))?;
    let mut rows = query.query(params![agent.to_string(), session.to_string(), began])?;
    let mut ended = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get_ref(0)?.as_str().ok() != Some(MessageKind::Assistant.as_str()) {
            ended.extend(row.get::<_, Option<String>>(1)?);
            continue;
        }
        let data: Option<String> = row.get(2)?;
        // Data of another build is treated as an answer without calls.
        let record = data.and_then(|data| serde_json::from_str::<Value>(&data).ok());
        let record = record.and_then(|record| AssistantRecord::deserialize(record).ok()).unwrap_or_default();
        let calls: Vec<_> = record.parts.iter().filter_map(AssistantPart::tool_call).collect();
        let running = calls.iter().find(|call| !ended.contains(&call.id));
        if let Some(call) = running.or(calls.last()) {
            return Ok(Some(call.name.clone()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use patchbay_core::{ToolRecord, TurnCause, TurnState};
    use serde_json::json;

    use super::*;
    use crate::{
        EndedTurn, NewMessage, NewTurn, SessionChange,
        testing::{TestTree, message},
    };

    fn answer(agent: AgentId, calls: &[(&str, &str)]) -> NewMessage {
        let call = |(id, name): &(&str, &str)| AssistantPart::ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            input: "{}".to_owned(),
            opaque: None,
            call_tool: None,
        };
        let record = AssistantRecord { parts: calls.iter().map(call).collect(), ..AssistantRecord::default() };
        NewMessage { data: serde_json::to_value(record).ok(), ..message(agent, MessageKind::Assistant, "") }
    }

    fn result(agent: AgentId, call_id: &str) -> NewMessage {
        let (call_id, name) = (call_id.to_owned(), String::new());
        let record = ToolRecord { call_id, name, error: None, content: Vec::new() };
        NewMessage { data: serde_json::to_value(record).ok(), ..message(agent, MessageKind::Tool, "") }
    }

    #[tokio::test]
    async fn work_is_the_task_the_last_tool_and_the_age() {
        let tree = TestTree::new().await;
        let work = async || tree.store.agent_work(tree.session(), tree.root).await.unwrap();
        assert_eq!(work().await, AgentWork::default());
        let turn = NewTurn { agent: tree.root, cause: TurnCause::Person, state: TurnState::Running, began: None };
        let messages = vec![message(tree.root, MessageKind::User, "Read the logs")];
        let change = SessionChange { messages, begins_turns: vec![turn], ..SessionChange::default() };
        let began = tree.commit(change).await.unwrap()[0].seq;
        let old = "UPDATE messages SET created_at = created_at - 90 WHERE seq = ?";
        assert_eq!(tree.database().execute(old, [began.cast_signed()]).unwrap(), 1);
        tree.add_row(answer(tree.root, &[("1", "grep__search"), ("2", "files__read")])).await;
        let first = work().await;
        assert_eq!(first.task.unwrap().content, "Read the logs");
        assert_eq!(first.last_tool.as_deref(), Some("grep__search"));
        assert!((90..100).contains(&first.age_s.unwrap()), "{:?}", first.age_s);
        tree.add_row(result(tree.root, "1")).await;
        assert_eq!(work().await.last_tool.as_deref(), Some("files__read"));
        tree.add_row(result(tree.root, "2")).await;
        tree.add_row(answer(tree.root, &[])).await;
        // The command does not reset the age of an idle agent.
        tree.add(tree.root, MessageKind::Command, "/agents").await;
        let ended = EndedTurn { agent: tree.root, began, state: TurnState::Done, code: None };
        tree.commit(SessionChange { ends_turns: vec![ended], ..SessionChange::default() }).await.unwrap();
        let idle = work().await;
        assert_eq!(idle.last_tool.as_deref(), Some("files__read"));
        assert!(idle.age_s.unwrap() < 10, "{:?}", idle.age_s);
    }

    #[tokio::test]
    async fn mail_is_no_task_and_earlier_calls_are_not_the_last_ones() {
        let tree = TestTree::new().await;
        tree.add(tree.root, MessageKind::User, "first").await;
        tree.add_row(answer(tree.root, &[("1", "a__b")])).await;
        let data = Some(json!({"skill": "plan"}));
        tree.add_row(NewMessage { data, ..message(tree.root, MessageKind::Skill, &"long ".repeat(999)) }).await;
        let data = Some(json!({"notification": true}));
        tree.add_row(NewMessage { data, ..message(tree.root, MessageKind::User, "[Notification: …]") }).await;
        let work = tree.store.agent_work(tree.session(), tree.root).await.unwrap();
        let task = work.task.unwrap();
        assert_eq!((task.kind, task.content.chars().count()), (MessageKind::Skill, TASK as usize));
        assert_eq!(task.data, Some(json!({"skill": "plan"})));
        assert_eq!(work.last_tool, None);
        let child = tree.fork(tree.root).await;
        assert_eq!(tree.store.agent_work(tree.session(), child).await.unwrap(), AgentWork::default());
    }
}

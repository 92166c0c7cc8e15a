//! A change to a session: everything that one line, one step of a turn or one tool changes, in one transaction. Called by
//! `events`.

use patchbay_core::{AgentId, CallId, LineId};
use rusqlite::{Connection, params};

use crate::{
    AgentModel, AgentWindow, DroppedMessage, EndedTurn, Hold, MessageRow, ModelUsage, NewAgent, NewMail, NewMessage,
    NewSnapshot, NewTurn, RetainedAttachments, Source, Store, StoreError, agents, attachments, calls, exchanges, mail,
    messages, partials, queued_lines, snapshots, turns, usage, windows,
};

/// A change to a session, committed in one transaction. The default changes nothing.
#[derive(Clone, Debug, Default)]
pub struct SessionChange {
    /// Agents that must be alive. If one is not, nothing is changed.
    pub requires_alive: Vec<AgentId>,
    /// An agent to create by a fork or `/rewind`.
    pub new_agent: Option<NewAgent>,
    /// The mail to send, in this order.
    pub mail: Vec<NewMail>,
    /// Agents to kill. Their waiting lines are deleted, and they stop capturing. Their turns, partial answers and calls do
    /// not end by themselves; `ends_turns`, `ends_partial` and `settles` end them. All of their calls must be settled.
    pub kills: Vec<AgentId>,
    /// The new agent in view; `None` keeps the current one.
    pub view: Option<AgentId>,
    /// The new title of the session; `None` keeps the current one.
    pub title: Option<String>,
    /// The new persona, as JSON; `None` keeps the current one.
    pub persona: Option<String>,
    /// The new snapshot and its version; `None` keeps the current one.
    pub snapshot: Option<(NewSnapshot, u64)>,
    /// The new model of an agent.
    pub model: Option<(AgentId, AgentModel)>,
    /// A model's context window at an agent's first request to the model. It does not replace a stored window.
    pub window: Option<AgentWindow>,
    /// Tokens used by models, without those read from a cache, to be added to the session's count.
    pub tokens: u64,
    /// The same tokens by agent, to be added to the agents' counts.
    pub agent_tokens: Vec<(AgentId, u64)>,
    /// Tokens of requests that have no row, by model. `tokens` includes them, except for cache reads.
    pub usage: Vec<ModelUsage>,
    /// Agents whose partial answers are complete; the pieces are deleted.
    pub ends_partial: Vec<AgentId>,
    /// Calls whose results are among `messages`; see [`Store::end_call`].
    pub settles: Vec<CallId>,
    /// The waiting line that `messages` come from. It leaves the queue in the same transaction; see [`Store::queue_line`].
    pub begins: Option<LineId>,
    /// The contents of attachments that rows among `messages` name.
    pub attachments: Option<RetainedAttachments>,
    /// The message to drop from the conversation.
    pub drops: Option<DroppedMessage>,
    /// The mail to mark as read: recipients and numbers.
    pub reads_mail: Vec<(AgentId, u64)>,
    /// The mail to delete: its recipient and number.
    pub deletes_mail: Option<(AgentId, u64)>,
    /// The agent whose unread mail a notification among `messages` counts.
    pub counts_mail: Option<AgentId>,
    /// The new tasks of an agent, as JSON.
    pub tasks: Option<(AgentId, String)>,
    /// The agent that begins (`true`) or ends (`false`) capturing its lines.
    pub capture: Option<(AgentId, bool)>,
    /// The turns that end with this change.
    pub ends_turns: Vec<EndedTurn>,
    /// Rows to append, in order.
    pub messages: Vec<NewMessage>,
    /// Turns that begin, with rows among `messages`, or that run again.
    pub begins_turns: Vec<NewTurn>,
}

impl Store {
    /// Commits a change in one transaction. Returns the new rows with their numbers.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another process has taken the session over, [`StoreError::SessionNotFound`] if it was
    /// removed, [`StoreError::AgentDead`] if an agent of `requires_alive`, the parent of the new agent or a recipient of mail
    /// is not alive, [`StoreError::CallBegan`] if an agent that is killed has an unsettled call, [`StoreError::InboxFull`], or a
    /// database error. On an error, nothing changes.
    pub async fn commit(&self, hold: &Hold, change: SessionChange) -> Result<Vec<MessageRow>, StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        let _held =
            (change.snapshot.as_ref().map(|(snapshot, _)| snapshot.components.clone()), change.attachments.clone());
        let (turns, tokens) = (change.ends_turns.len(), change.tokens);
        let rows = self.database.write(move |connection| apply(connection, &hold, &source, change)).await?;
        self.counts.committed(turns, tokens);
        Ok(rows)
    }
}

fn apply(
    connection: &Connection,
    hold: &Hold,
    source: &Source,
    change: SessionChange,
) -> Result<Vec<MessageRow>, StoreError> {
    let write = hold.begin_write(connection, source, change.messages.len(), change.tokens)?;
    let session = hold.session();
    let id = session.to_string();
    for agent in change.requires_alive {
        agents::require_alive(connection, session, agent)?;
    }
    if let Some(agent) = change.new_agent {
        agents::create(connection, &write, &agent)?;
    }
    mail::send(connection, &write, change.mail, &change.kills)?;
    agents::kill(connection, session, &change.kills)?;
    if let Some(agent) = change.view {
        connection.execute("UPDATE sessions SET agent = ? WHERE id = ?", params![agent.to_string(), id])?;
    }
    if let Some(title) = change.title {
        connection.execute("UPDATE sessions SET title = ? WHERE id = ?", params![title, id])?;
    }
    if let Some(persona) = change.persona {
        connection.execute("UPDATE sessions SET persona = ? WHERE id = ?", params![persona, id])?;
    }
    if let Some((snapshot, version)) = change.snapshot {
        snapshots::insert(connection, &snapshot)?;
        connection.execute(
            "UPDATE sessions SET snapshot = ?, snapshot_version = ? WHERE id = ?",
            params![snapshot.digest.to_string(), version.cast_signed(), id],
        )?;
    }
    if let Some((agent, model)) = change.model {
        agents::set_model(connection, agent, &model)?;
    }
    if let Some(window) = change.window {
        windows::keep(connection, &window)?;
    }
    usage::add(connection, session, change.usage)?;
    for (agent, tokens) in change.agent_tokens {
        agents::add_tokens(connection, agent, tokens)?;
    }
    for agent in change.ends_partial {
        partials::end(connection, agent)?;
    }
    for call in change.settles {
        calls::settle(connection, call)?;
    }
    for agent in change.kills {
        calls::require_settled(connection, agent)?;
    }
    if let Some(line) = change.begins {
        queued_lines::remove(connection, session, line)?;
    }
    if let Some(retained) = change.attachments {
        attachments::name(connection, session, &retained)?;
    }
    if let Some(message) = change.drops {
        exchanges::drop_message(connection, session, message)?;
    }
    for (recipient, number) in change.reads_mail {
        mail::mark_read(connection, recipient, number)?;
    }
    if let Some((recipient, number)) = change.deletes_mail {
        mail::delete(connection, recipient, number)?;
    }
    if let Some(recipient) = change.counts_mail {
        mail::mark_counted(connection, recipient)?;
    }
    if let Some((agent, begins)) = change.capture {
        agents::capture(connection, agent, begins, write.last_row)?;
    }
    change.tasks.map(|(agent, tasks)| agents::set_tasks(connection, agent, &tasks)).transpose()?;
    turns::end(connection, session, &change.ends_turns)?;
    let written = messages::append(connection, &write, change.messages)?;
    turns::begin(connection, session, &change.begins_turns, &written)?;
    Ok(written)
}

#[cfg(test)]
mod tests;

//! Agents: their position in a session's tree, their models, and the lines that they capture. Written through
//! [`Store::commit`](crate::Store::commit); read by `session`, and by `agent` at each turn.

use patchbay_core::{AgentId, SessionId};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::{Store, StoreError, database::rows, hold::SessionWrite, turns, windows};

/// The model of an agent. All fields are `None` until one is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentModel {
    /// The provider's name, as in `config.toml`.
    pub provider: Option<String>,
    /// The model's id, as the provider spells it.
    pub model: Option<String>,
    /// The name of the thinking level.
    pub thinking_level: Option<String>,
    /// A temporary replacement of the model, as JSON.
    pub model_override: Option<String>,
}

/// An agent of a session, as a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    /// The id that identifies the agent.
    pub id: AgentId,
    /// The agent that it was forked from; `None` for the root.
    pub parent: Option<AgentId>,
    /// The agent that this agent rewinds, if `/rewind` created it; otherwise `None`.
    pub rewound: Option<AgentId>,
    /// The number of the last row that it inherits, from its parent or from the rewound agent. 0 if it inherits no rows.
    pub fork_point: u64,
    /// Its distance from the root. An agent created by `/rewind` has the depth of the rewound agent.
    pub depth: u64,
    /// Its position in the order in which the session's agents were created; 0 for the root.
    pub ordinal: u64,
    /// False once the agent was killed.
    pub alive: bool,
    /// Whether the user created it.
    pub foreground: bool,
    /// Whether its lines are captured: collected as the task of a child, and not run.
    pub capturing: bool,
    /// The model that the agent uses.
    pub model: AgentModel,
    /// Tokens that its models have used.
    pub tokens: u64,
}

/// An agent to create. It inherits its parent's conversation up to the parent's open turn; without an open turn, up to
/// the session's last row before this change. If it rewinds another agent, it inherits that agent's conversation instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAgent {
    /// The id that identifies the agent.
    pub id: AgentId,
    /// The agent that it is forked from. It must be alive.
    pub parent: AgentId,
    /// The agent that it rewinds, and the number of the first row that it does not inherit.
    pub rewinds: Option<(AgentId, u64)>,
    /// Whether the user creates it.
    pub foreground: bool,
    /// The model that the agent uses.
    pub model: AgentModel,
}

/// Counters of an agent's work and mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// Number of turns of the agent.
    pub turns: u64,
    /// Number of messages in its inbox.
    pub mails: u64,
    /// Number of unread messages in its inbox.
    pub unread: u64,
}

const BAD: StoreError = StoreError::BadRow("agent");

/// Length of a UUID with hyphens.
const UUID_LENGTH: usize = 36;
/// The number of digits before each hyphen of a UUID.
const HYPHENS: [usize; 4] = [8, 12, 16, 20];

/// Checks that `agent` is an agent of the session and was not killed.
///
/// # Errors
/// [`StoreError::AgentDead`], or a database error.
pub(crate) fn require_alive(connection: &Connection, session: SessionId, agent: AgentId) -> Result<(), StoreError> {
    let alive = connection
        .prepare_cached("SELECT 1 FROM agents WHERE uuid = ? AND session = ? AND status = 'running'")?
        .exists(params![agent.to_string(), session.to_string()])?;
    if alive { Ok(()) } else { Err(StoreError::AgentDead(agent)) }
}

/// Returns whether `agent` was killed.
pub(crate) fn is_dead(connection: &Connection, agent: AgentId) -> Result<bool, StoreError> {
    let mut query = connection.prepare_cached("SELECT 1 FROM agents WHERE uuid = ? AND status = 'dead'")?;
    Ok(query.exists(params![agent.to_string()])?)
}

/// Creates an agent. `write.last_row` is the session's last row before the change.
pub(crate) fn create(connection: &Connection, write: &SessionWrite, agent: &NewAgent) -> Result<(), StoreError> {
    let NewAgent { id, parent, rewinds, foreground, model } = agent;
    let session = write.session;
    require_alive(connection, session, *parent)?;
    let (heir_of, fork_point) = match rewinds {
        Some((rewound, before)) => (*rewound, before.saturating_sub(1).cast_signed()),
        None => {
            let open = turns::open_turn(connection, session, *parent)?;
            (*parent, open.map_or(write.last_row, |began| began - 1))
        }
    };
    let rewound = rewinds.map(|(rewound, _)| rewound.to_string());
    connection
        .prepare_cached(
            "INSERT INTO agents (uuid, session, created_at, parent_uuid, fork_message_id, foreground, ordinal, rewound, depth) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT coalesce(max(ordinal) + 1, 0) FROM agents WHERE session = ?2), ?7, \
             (SELECT depth + (?7 IS NULL) FROM agents WHERE uuid = ?8))",
        )?
        .execute(params![
            id.to_string(),
            session.to_string(),
            write.unix_s(),
            parent.to_string(),
            fork_point,
            foreground,
            rewound,
            heir_of.to_string()
        ])?;
    windows::inherit(connection, heir_of, *id)?;
    set_model(connection, *id, model)
}

/// Marks agents as dead, deletes their waiting lines and ends their capturing.
pub(crate) fn kill(connection: &Connection, session: SessionId, agents: &[AgentId]) -> Result<(), StoreError> {
    let session = session.to_string();
    for agent in agents {
        let agent = agent.to_string();
        connection
            .prepare_cached("UPDATE agents SET status = 'dead', capturing = NULL WHERE uuid = ? AND session = ?")?
            .execute(params![agent, session])?;
        connection
            .prepare_cached("DELETE FROM queued_lines WHERE session = ? AND agent = ?")?
            .execute(params![session, agent])?;
        // A result that arrived while the kill was being prepared does not become a row.
        connection.prepare_cached("DELETE FROM early_results WHERE agent = ?")?.execute([agent])?;
    }
    Ok(())
}

pub(crate) fn set_model(connection: &Connection, agent: AgentId, model: &AgentModel) -> Result<(), StoreError> {
    let AgentModel { provider, model, thinking_level, model_override } = model;
    connection.execute(
        "UPDATE agents SET provider = ?, model = ?, thinking_level = ?, model_override = ? WHERE uuid = ?",
        params![provider, model, thinking_level, model_override, agent.to_string()],
    )?;
    Ok(())
}

/// Adds tokens to an agent's count, which stops at the largest integer.
pub(crate) fn add_tokens(connection: &Connection, agent: AgentId, tokens: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE agents SET tokens = min(tokens + ?, 9223372036854775807) WHERE uuid = ?")?
        .execute(params![i64::try_from(tokens).unwrap_or(i64::MAX), agent.to_string()])?;
    Ok(())
}

/// Begins or ends capturing. `last` is the number of the session's last row before the change.
pub(crate) fn capture(connection: &Connection, agent: AgentId, begins: bool, last: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE agents SET capturing = ? WHERE uuid = ?")?
        .execute(params![begins.then_some(last), agent.to_string()])?;
    Ok(())
}

/// Replaces the tasks of an agent.
pub(crate) fn set_tasks(connection: &Connection, agent: AgentId, tasks: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE agents SET tasks = ? WHERE uuid = ?")?
        .execute(params![tasks, agent.to_string()])?;
    Ok(())
}

const COLUMNS: &str = "uuid, parent_uuid, fork_message_id, ordinal, status, foreground, capturing IS NOT NULL, tokens, \
                       provider, model, thinking_level, model_override, rewound, depth";

fn read(row: &Row<'_>) -> Result<AgentRow, StoreError> {
    let (id, status): (String, String) = (row.get(0)?, row.get(4)?);
    let other = |column| -> Result<Option<AgentId>, StoreError> {
        let id: Option<String> = row.get(column)?;
        id.map(|id| id.parse().map_err(|_| BAD)).transpose()
    };
    Ok(AgentRow {
        id: id.parse().map_err(|_| BAD)?,
        parent: other(1)?,
        rewound: other(12)?,
        depth: row.get::<_, i64>(13)?.cast_unsigned(),
        fork_point: row.get::<_, i64>(2)?.cast_unsigned(),
        ordinal: row.get::<_, i64>(3)?.cast_unsigned(),
        alive: status == "running",
        foreground: row.get(5)?,
        capturing: row.get(6)?,
        tokens: row.get::<_, i64>(7)?.cast_unsigned(),
        model: AgentModel {
            provider: row.get(8)?,
            model: row.get(9)?,
            thinking_level: row.get(10)?,
            model_override: row.get(11)?,
        },
    })
}

/// Returns the agents that match `condition`, a WHERE clause that may end with ORDER BY and LIMIT.
fn select(connection: &Connection, condition: &str, params: impl Params) -> Result<Vec<AgentRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM agents WHERE {condition}");
    rows(connection, &sql, params, read)
}

/// Converts the beginning of a UUID to the stored form, in lower case with hyphens. `None` if no UUID begins with `prefix`.
fn stored_prefix(prefix: &str) -> Option<String> {
    if prefix.len() > UUID_LENGTH {
        return None;
    }
    let hyphenated = prefix.contains('-');
    let mut stored = String::with_capacity(UUID_LENGTH);
    for (digits, digit) in prefix.bytes().filter(|byte| *byte != b'-').enumerate() {
        if !digit.is_ascii_hexdigit() {
            return None;
        }
        if HYPHENS.contains(&digits) {
            stored.push('-');
        }
        stored.push(char::from(digit.to_ascii_lowercase()));
    }
    if hyphenated && prefix.ends_with('-') {
        stored.push('-');
    }
    let same = !hyphenated || stored.eq_ignore_ascii_case(prefix);
    (same && stored.len() <= UUID_LENGTH).then_some(stored)
}

impl Store {
    /// Returns the model of `agent`.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] if the agent does not exist, or a database error.
    pub async fn agent_model(&self, agent: AgentId) -> Result<AgentModel, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM agents WHERE uuid = ?"))?;
            let mut rows = query.query(params![agent.to_string()])?;
            Ok(rows.next()?.map(read).transpose()?.ok_or(BAD)?.model)
        })
    }

    /// Returns the tasks of `agent`, as JSON; `None` if it never had any.
    ///
    /// # Errors
    /// A database error.
    pub async fn tasks(&self, agent: AgentId) -> Result<Option<String>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT tasks FROM agents WHERE uuid = ?")?;
            Ok(query.query_row(params![agent.to_string()], |row| row.get(0)).optional()?.flatten())
        })
    }

    /// Returns the living agents of a session, in the order of their creation.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn agents(&self, session: SessionId) -> Result<Vec<AgentRow>, StoreError> {
        self.database.read(|connection| {
            select(connection, "session = ? AND status = 'running' ORDER BY ordinal", params![session.to_string()])
        })
    }

    /// Returns the `limit` most recently created agents of a session that were killed, in the order of their creation, and
    /// the number of all killed agents.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn dead_agents(&self, session: SessionId, limit: u32) -> Result<(Vec<AgentRow>, u64), StoreError> {
        self.database.read(|connection| {
            let condition = "session = ? AND status = 'dead' ORDER BY ordinal DESC LIMIT ?";
            let mut agents = select(connection, condition, params![session.to_string(), limit])?;
            agents.reverse();
            let all: i64 = connection
                .prepare_cached("SELECT count(*) FROM agents WHERE session = ? AND status = 'dead'")?
                .query_row(params![session.to_string()], |row| row.get(0))?;
            Ok((agents, all.cast_unsigned()))
        })
    }

    /// Returns the agent `id` of a session, even if it was killed; `None` if the session has no such agent.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn agent(&self, session: SessionId, id: AgentId) -> Result<Option<AgentRow>, StoreError> {
        self.database.read(|connection| {
            let found = select(connection, "uuid = ? AND session = ?", params![id.to_string(), session.to_string()])?;
            Ok(found.into_iter().next())
        })
    }

    /// Counts the turns and messages of all agents of a session, including dead ones.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn agent_counts(&self, session: SessionId) -> Result<Vec<(AgentId, AgentCounts)>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT uuid, (SELECT count(*) FROM turns WHERE turns.session = agents.session AND turns.agent = uuid), \
                 (SELECT count(*) FROM mail WHERE recipient = uuid), \
                 (SELECT count(*) FROM mail WHERE recipient = uuid AND read = 0) FROM agents WHERE session = ?";
            rows(connection, sql, params![session.to_string()], |row| {
                let agent: String = row.get(0)?;
                let count = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
                let of_agent = AgentCounts { turns: count(1)?, mails: count(2)?, unread: count(3)? };
                Ok((agent.parse().map_err(|_| BAD)?, of_agent))
            })
        })
    }

    /// Returns at most `limit` agents of a session whose UUID begins with `prefix`, including killed agents, in the order
    /// of their creation. The prefix may have upper-case letters, and all of its hyphens or none.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn agents_with_prefix(
        &self,
        session: SessionId,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<AgentRow>, StoreError> {
        let Some(prefix) = stored_prefix(prefix) else { return Ok(Vec::new()) };
        // A whole id is looked up directly, without scanning the session's other agents.
        if let Ok(whole) = prefix.parse() {
            return Ok(self.agent(session, whole).await?.into_iter().collect());
        }
        self.database.read(|connection| {
            // UUIDs consist of `-`, digits and `a` to `f`. Therefore `prefix` followed by `g` sorts after every
            // UUID that begins with `prefix`.
            let condition = "session = ?1 AND uuid BETWEEN ?2 AND ?2 || 'g' ORDER BY ordinal LIMIT ?3";
            select(connection, condition, params![session.to_string(), prefix, limit])
        })
    }

    /// Returns the lines that an agent has captured since capturing began, in order; none if it is not capturing.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn captured(&self, agent: AgentId) -> Result<Vec<String>, StoreError> {
        self.database.read(|connection| {
            let began: Option<(String, Option<i64>)> = connection
                .prepare_cached("SELECT session, capturing FROM agents WHERE uuid = ?")?
                .query_row(params![agent.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((session, Some(began))) = began else { return Ok(Vec::new()) };
            let sql = "SELECT content FROM messages WHERE agent = ? AND session = ? AND seq > ? AND kind = 'capture' ORDER BY seq";
            rows(connection, sql, params![agent.to_string(), session, began], |row| Ok(row.get(0)?))
        })
    }

    /// Returns the number of tokens that models have used in `session`, without those read from a cache.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], or a database error.
    pub async fn tokens(&self, session: SessionId) -> Result<u64, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT tokens FROM sessions WHERE id = ?")?;
            let tokens: Option<i64> = query.query_row(params![session.to_string()], |row| row.get(0)).optional()?;
            tokens.map(i64::cast_unsigned).ok_or(StoreError::SessionNotFound(session))
        })
    }
}

#[cfg(test)]
mod tests;

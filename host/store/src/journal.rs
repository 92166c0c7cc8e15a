//! The journal: one row for each call of a tool by a user, a model or another tool. Inputs and outputs are recorded by
//! hash and size, and by content only if the operator enables it. Written by `tools`; read by `patchbay journal`.

use std::collections::HashMap;

use patchbay_core::{Asker, CallId, Code, Digest, SessionId};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, ToSql, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    JournaledCall, OpenCall, PendingRecording, Store, StoreError,
    database::rows,
    recordings::{self, LateRecording, WrittenRow},
};

/// How much the journal keeps: `[journal]` in `config.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSettings {
    /// Whether inputs and outputs are kept, at most 16 KiB of each. Otherwise a row records a call without its contents.
    pub content: bool,
    /// Number of rows to keep; the oldest are deleted, about 64 at a time. The default is enough for months of use by
    /// one person, in about 50 MB.
    #[schemars(range(min = 1, max = Self::MAX_KEEP))]
    pub keep: u32,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self { content: false, keep: 100_000 }
    }
}

impl JournalSettings {
    /// The most bytes kept of one input or output. Together with [`JournalSettings::keep`] it bounds the size of the file.
    pub const CONTENT_BYTES: usize = 16 << 10;
    /// Maximum of [`JournalSettings::keep`].
    pub const MAX_KEEP: u32 = 10_000_000;
}

/// Number of new rows after which old ones are deleted.
const TRIM_EVERY: i64 = 64;

/// Number of new rows after which unused call sites are deleted. Less often, because finding them reads the whole journal.
const TRIM_SITES_EVERY: i64 = 64 * TRIM_EVERY;

/// One call of a tool, as a row of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    /// Start time in milliseconds since 1970.
    pub at: i64,
    /// The id that identifies the call.
    pub call: CallId,
    /// The calling tool's call; `None` for an outermost call. The calling tool ends later, so its row is written
    /// after this row.
    pub parent: Option<CallId>,
    /// The session it belongs to.
    pub session: SessionId,
    /// The session's workspace: its canonical path.
    pub workspace: String,
    /// The caller of the outermost call.
    pub asker: Asker,
    /// The root of the skill's identity: `bundled`, `user` or `workspace`; `internal` for a tool of the host.
    pub root: String,
    /// The skill's name; `patchbay` for a tool of the host.
    pub skill: String,
    /// The tool's name without its skill.
    pub tool: String,
    /// The digest of the component; the digest of an empty string for a tool of the host.
    pub component: Digest,
    /// The digest of the call's input.
    pub input_hash: Digest,
    /// The capabilities that were used, as written in grants. Sorted when stored.
    pub grants: Vec<String>,
    /// The user's approvals for this call beyond the grants, in order.
    pub approvals: Vec<RecordedApproval>,
    /// Fuel used, about one unit for each instruction.
    pub fuel: u64,
    /// Wall-clock time in microseconds.
    pub time_us: u64,
    /// Peak size of memories and tables in bytes.
    pub peak_memory: u64,
    /// Number of calls from the guest to the host.
    pub host_calls: u64,
    /// Bytes of result and progress, as counted by the limit on output.
    pub output_bytes: u64,
    /// The code of the failure; `None` if the call succeeded.
    pub failure: Option<Code>,
    /// The input as JSON; `None` unless [`JournalSettings::content`] is set.
    pub input: Option<String>,
    /// The answer, or the message of the failure; `None` unless [`JournalSettings::content`] is set.
    pub output: Option<String>,
}

impl JournalRow {
    /// Returns `ok`, or the code of the failure.
    pub fn outcome(&self) -> &'static str {
        self.failure.map_or("ok", Code::as_str)
    }

    /// Returns the row of a call without grants, contents or a failure. All of its numbers are different.
    #[cfg(test)]
    pub(crate) fn for_test(session: SessionId) -> Self {
        Self {
            at: 1_795_291_440_123,
            call: CallId::random(),
            parent: None,
            session,
            workspace: "/w".to_owned(),
            asker: Asker::Person(patchbay_core::PrincipalId::LOCAL),
            root: "user".to_owned(),
            skill: "notes".to_owned(),
            tool: "add".to_owned(),
            component: Digest::of(b"x"),
            input_hash: Digest::of(b"{}"),
            grants: Vec::new(),
            approvals: Vec::new(),
            fuel: 1,
            time_us: 2,
            peak_memory: 3,
            host_calls: 4,
            output_bytes: 5,
            failure: None,
            input: None,
            output: None,
        }
    }
}

/// The user's approval of a capability that a skill was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedApproval {
    /// The capability, as written in grants.
    pub capability: String,
    /// How far the answer reaches: the name of an approval, such as `once`, `session` or `always`, or of the mode that
    /// allowed it. An approval for the session is recorded with each call that used it.
    pub answer: String,
    /// The digest of the action or input that was shown to the user; `None` in rows of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Digest>,
    /// The user: `person` or `person:ID`.
    pub by: String,
    /// The name of the client token that the answer came with; `None` if the process's own front asked the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// A stored row of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its number; later rows have higher numbers.
    pub id: u64,
    /// The row itself, without its number.
    pub row: JournalRow,
}

/// Selects rows of the journal. All fields that are set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalFilter {
    /// Only calls of this skill.
    pub skill: Option<String>,
    /// Only calls of this session.
    pub session: Option<SessionId>,
}

impl JournalFilter {
    /// Returns the SQL condition and its parameters.
    fn sql(&self) -> (String, Vec<Box<dyn ToSql>>) {
        let (mut sql, mut values) = (String::new(), Vec::<Box<dyn ToSql>>::new());
        if let Some(skill) = &self.skill {
            sql += " AND skill = ?";
            values.push(Box::new(skill.clone()));
        }
        if let Some(session) = self.session {
            sql += " AND session = ?";
            values.push(Box::new(session.to_string()));
        }
        (sql, values)
    }
}

impl Store {
    /// Replaces the journal settings of this store, for this process only.
    #[must_use]
    pub fn with_journal(mut self, settings: JournalSettings) -> Self {
        self.journal = settings;
        self
    }

    /// Returns the journal settings. Callers need not copy contents that are not kept.
    pub fn journal_settings(&self) -> JournalSettings {
        self.journal
    }

    /// Queues a row. Waits only for a permit of the queue. Later writes of this store are committed with it or after it. A
    /// row that cannot be written is logged. If the future is dropped, the row is still written, perhaps later.
    pub async fn journal(&self, call: impl Into<JournaledCall>) {
        self.database.add_row(self.new_row(call.into())).await;
    }

    /// Like [`Store::journal`], without waiting for a permit, for calls with a dropped future.
    pub fn journal_at_once(&self, call: impl Into<JournaledCall>) {
        self.database.add_row_now(self.new_row(call.into()));
    }

    fn new_row(&self, JournaledCall { row, recording }: JournaledCall) -> NewRow {
        self.counts.call_ended(row.outcome());
        NewRow { settings: self.journal, row, recording }
    }

    /// Returns at most `limit` rows after row `after` (0: from the first), the oldest first.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn journal_rows(
        &self,
        filter: &JournalFilter,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let (condition, mut values) = filter.sql();
        values.insert(0, Box::new(after.cast_signed()));
        values.push(Box::new(limit));
        self.database.read(|connection| {
            let sql = format!(
                "SELECT calls.id, at, call, parent, session, workspace, asker, root, skill, tool, component, input_hash, \
                 grants, fuel, time_us, peak_memory, host_calls, output_bytes, outcome, input, output, approvals \
                 FROM calls JOIN call_sites ON call_sites.id = site \
                 WHERE calls.id > ? AND outcome IS NOT NULL{condition} ORDER BY calls.id LIMIT ?"
            );
            rows(connection, &sql, rusqlite::params_from_iter(values), read)
        })
    }

    /// Returns the number of the row before the newest `count` rows, or 0 if no older rows exist.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn journal_before_newest(&self, filter: &JournalFilter, count: u32) -> Result<u64, StoreError> {
        let (condition, mut values) = filter.sql();
        values.push(Box::new(count));
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(&format!(
                "SELECT calls.id FROM calls JOIN call_sites ON call_sites.id = site \
                 WHERE outcome IS NOT NULL{condition} ORDER BY calls.id DESC LIMIT 1 OFFSET ?"
            ))?;
            let id: Option<i64> = query.query_row(rusqlite::params_from_iter(values), |row| row.get(0)).optional()?;
            Ok(id.unwrap_or(0).cast_unsigned())
        })
    }

    /// Returns the sessions that have rows in the journal, in order. Some may have been removed.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn journal_sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT DISTINCT session FROM call_sites WHERE id IN (SELECT site FROM calls WHERE outcome IS NOT NULL) \
                 ORDER BY session";
            rows(connection, sql, [], |row| parse(row, 0))
        })
    }
}

/// Deletes the contents and recordings of a session's rows and ends its open calls; the rows stay.
pub(crate) fn forget_contents(connection: &Connection, session: SessionId) -> rusqlite::Result<()> {
    recordings::remove(connection, session)?;
    let mut forget = connection.prepare_cached(
        "UPDATE calls SET input = NULL, output = NULL, outcome = coalesce(outcome, 'outcome_unknown'), unsettled = NULL, \
         agent = NULL, line = NULL WHERE site IN (SELECT id FROM call_sites WHERE session = ?)",
    )?;
    forget.execute(params![session.to_string()])?;
    Ok(())
}

/// A row to write, with the settings of its store.
pub(crate) struct NewRow {
    settings: JournalSettings,
    row: Box<JournalRow>,
    /// The recording of the call, which is written later.
    recording: Option<PendingRecording>,
}

/// The columns that all calls of one tool share.
#[derive(PartialEq, Eq, Hash)]
struct Site {
    session: SessionId,
    workspace: String,
    asker: Asker,
    root: String,
    skill: String,
    tool: String,
    component: Digest,
}

/// Writes the rows of one commit, and returns their recordings. A row that cannot be written is logged and does not affect the
/// others.
pub(crate) fn insert(connection: &Connection, rows: Vec<NewRow>) -> Vec<LateRecording> {
    let mut late = Vec::new();
    if rows.is_empty() {
        return late;
    }
    let count = rows.len();
    if let Err(error) = Inserts::new(connection).map(|mut inserts| {
        for NewRow { settings, row, recording } in rows {
            match inserts.insert(settings, *row) {
                Ok(row) => late.extend(recording.map(|recording| LateRecording::new(row, recording))),
                Err(error) => tracing::error!("a row of the journal is lost: {error}"),
            }
        }
    }) {
        tracing::error!("{count} rows of the journal are lost: {error}");
    }
    late
}

/// Writes open rows of calls that are about to have their first effect.
pub(crate) fn insert_open(
    connection: &Connection,
    settings: JournalSettings,
    calls: Vec<OpenCall>,
) -> rusqlite::Result<()> {
    let mut inserts = Inserts::new(connection)?;
    calls.into_iter().try_for_each(|call| inserts.insert_open(settings, call))
}

/// Replaces the open row of a call, and returns its recording. If there is none, the row is written only if the call has not
/// `begun`.
pub(crate) fn replace_open(
    connection: &Connection,
    settings: JournalSettings,
    JournaledCall { row, recording }: JournaledCall,
    begun: bool,
) -> rusqlite::Result<Option<LateRecording>> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM calls WHERE call = ? AND unsettled = 1 AND outcome IS NULL RETURNING agent, line",
    )?;
    let open = delete.query_row(params![row.call.as_bytes()], |open| {
        Ok((open.get::<_, Option<String>>(0)?, open.get::<_, Option<String>>(1)?))
    });
    let open = open.optional()?;
    if begun && open.is_none() {
        return Ok(None);
    }
    let is_outermost = row.parent.is_none();
    let row = Inserts::new(connection)?.insert(settings, *row)?;
    if let Some((agent, line)) = open.filter(|_| begun && is_outermost) {
        connection
            .prepare_cached("UPDATE calls SET unsettled = 1, agent = ?, line = ? WHERE id = ?")?
            .execute(params![agent, line, row.id])?;
    }
    Ok(recording.map(|recording| LateRecording::new(row, recording)))
}

/// The prepared statements for rows, and the call sites seen in this commit.
struct Inserts<'c> {
    connection: &'c Connection,
    statement: CachedStatement<'c>,
    sites: HashMap<Site, i64>,
}

impl<'c> Inserts<'c> {
    fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        let statement = connection.prepare_cached(
            "INSERT INTO calls (at, call, parent, site, input_hash, grants, fuel, time_us, peak_memory, host_calls, \
             output_bytes, outcome, input, output, approvals) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        Ok(Self { connection, statement, sites: HashMap::new() })
    }

    /// Writes a row.
    fn insert(&mut self, settings: JournalSettings, row: JournalRow) -> rusqlite::Result<WrittenRow> {
        let outcome = row.outcome();
        let JournalRow { session, workspace, asker, root, skill, tool, component, mut grants, approvals, .. } = row;
        let site = self.site(Site { session, workspace, asker, root, skill, tool, component })?;
        grants.sort_unstable();
        grants.dedup();
        let grants = (!grants.is_empty()).then(|| serde_json::Value::from(grants).to_string());
        let content = |text: Option<String>| text.filter(|_| settings.content).map(cut);
        self.statement.execute(params![
            row.at,
            row.call.as_bytes(),
            row.parent.as_ref().map(CallId::as_bytes),
            site,
            row.input_hash.as_bytes(),
            grants,
            row.fuel.cast_signed(),
            row.time_us.cast_signed(),
            row.peak_memory.cast_signed(),
            row.host_calls.cast_signed(),
            row.output_bytes.cast_signed(),
            outcome,
            content(row.input),
            content(row.output),
            approvals_as_json(&approvals),
        ])?;
        let id = self.connection.last_insert_rowid();
        self.trim(id, settings.keep)?;
        Ok(WrittenRow { id, call: row.call, session })
    }

    fn insert_open(&mut self, settings: JournalSettings, call: OpenCall) -> rusqlite::Result<()> {
        let OpenCall { row, agent, line } = call;
        let JournalRow { session, workspace, asker, root, skill, tool, component, approvals, .. } = *row;
        let site = self.site(Site { session, workspace, asker, root, skill, tool, component })?;
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO calls (at, call, parent, site, input_hash, fuel, time_us, peak_memory, host_calls, output_bytes, \
             input, unsettled, agent, line, approvals) VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, 0, ?, 1, ?, ?, ?) ON CONFLICT DO NOTHING",
        )?;
        let inserted = insert.execute(params![
            row.at,
            row.call.as_bytes(),
            row.parent.as_ref().map(CallId::as_bytes),
            site,
            row.input_hash.as_bytes(),
            row.input.filter(|_| settings.content).map(cut),
            agent.to_string(),
            line,
            approvals_as_json(&approvals),
        ])?;
        if inserted > 0 { self.trim(self.connection.last_insert_rowid(), settings.keep) } else { Ok(()) }
    }

    /// Deletes old rows after the insert of row `id`. The row number decides when to trim, not a count in memory, because many
    /// processes make only one call. Unsettled calls are kept.
    fn trim(&mut self, id: i64, keep: u32) -> rusqlite::Result<()> {
        if id % TRIM_EVERY != 0 {
            return Ok(());
        }
        let mut trim = self.connection.prepare_cached("DELETE FROM calls WHERE id <= ? AND unsettled IS NULL")?;
        trim.execute(params![id - i64::from(keep)])?;
        if id % TRIM_SITES_EVERY == 0 {
            let sql = "DELETE FROM call_sites WHERE id NOT IN (SELECT site FROM calls)";
            self.connection.prepare_cached(sql)?.execute([])?;
            self.sites.clear();
        }
        Ok(())
    }

    /// Returns the id of a call site; stores the site if it is new. Cached for one commit only, because another process
    /// may delete the site afterwards.
    fn site(&mut self, site: Site) -> rusqlite::Result<i64> {
        if let Some(id) = self.sites.get(&site) {
            return Ok(*id);
        }
        let (session, asker, component) =
            (site.session.to_string(), site.asker.to_string(), site.component.to_string());
        let values = params![session, site.workspace, asker, site.root, site.skill, site.tool, component];
        let mut find = self.connection.prepare_cached(
            "SELECT id FROM call_sites WHERE session = ? AND workspace = ? AND asker = ? AND root = ? AND skill = ? \
             AND tool = ? AND component = ?",
        )?;
        let id = match find.query_row(values, |row| row.get(0)).optional()? {
            Some(id) => id,
            None => {
                let mut add = self.connection.prepare_cached(
                    "INSERT INTO call_sites (session, workspace, asker, root, skill, tool, component) \
                     VALUES (?, ?, ?, ?, ?, ?, ?)",
                )?;
                add.insert(values)?
            }
        };
        self.sites.insert(site, id);
        Ok(id)
    }
}

/// Returns the stored form of approvals; `None` if there are none.
fn approvals_as_json(approvals: &[RecordedApproval]) -> Option<String> {
    (!approvals.is_empty()).then(|| serde_json::json!(approvals).to_string())
}

/// Cuts a text to the stored length; a cut text ends with `…`.
fn cut(mut text: String) -> String {
    if text.len() > JournalSettings::CONTENT_BYTES {
        text.truncate(text.floor_char_boundary(JournalSettings::CONTENT_BYTES));
        text.push('…');
    }
    text
}

fn read(row: &Row<'_>) -> Result<JournalEntry, StoreError> {
    let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let grants: Option<String> = row.get(12)?;
    let approvals: Option<String> = row.get(21)?;
    let outcome: String = row.get(18)?;
    let row = JournalEntry {
        id: number(0)?,
        row: JournalRow {
            at: row.get(1)?,
            call: bytes(row, 2)?.map(CallId::from_bytes).ok_or(BAD)?,
            parent: bytes(row, 3)?.map(CallId::from_bytes),
            session: parse(row, 4)?,
            workspace: row.get(5)?,
            asker: parse(row, 6)?,
            root: row.get(7)?,
            skill: row.get(8)?,
            tool: row.get(9)?,
            component: parse(row, 10)?,
            input_hash: bytes(row, 11)?.map(Digest::from_bytes).ok_or(BAD)?,
            grants: grants.map_or(Ok(Vec::new()), |grants| serde_json::from_str(&grants)).map_err(|_| BAD)?,
            approvals: approvals.map_or(Ok(Vec::new()), |json| serde_json::from_str(&json)).map_err(|_| BAD)?,
            fuel: number(13)?,
            time_us: number(14)?,
            peak_memory: number(15)?,
            host_calls: number(16)?,
            output_bytes: number(17)?,
            failure: match &*outcome {
                "ok" => None,
                word => Some(Code::from_word(word).ok_or(BAD)?),
            },
            input: row.get(19)?,
            output: row.get(20)?,
        },
    };
    Ok(row)
}

pub(crate) const BAD: StoreError = StoreError::BadRow("row of the journal");

/// Reads a column that must have exactly `N` bytes.
pub(crate) fn bytes<const N: usize>(row: &Row<'_>, column: usize) -> Result<Option<[u8; N]>, StoreError> {
    let bytes: Option<Vec<u8>> = row.get(column)?;
    bytes.map(|bytes| bytes.try_into().map_err(|_| BAD)).transpose()
}

pub(crate) fn parse<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| BAD)
}

#[cfg(test)]
mod tests;

//! Checks the stored agents, mail, turns and calls of a session in which nothing runs.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Row};
use serde_json::Value;

/// Asserts that the agents, mail, turns and conversations of a session are consistent.
pub fn check(database: &Connection, session: &str) {
    let ok: String = database.query_row("PRAGMA quick_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(ok, "ok");
    let agents = agents(database, session);
    check_tree(database, session, &agents);
    check_rows(database, session, &agents);
    check_mail(database, session, &agents);
    check_turns(database, session, &agents);
    check_calls(database, session);
    let leftovers = "SELECT count(*) FROM partial_pieces JOIN agents ON uuid = agent WHERE session = ?";
    assert_eq!(count(database, leftovers, session), 0, "partial answers are left");
    let lines =
        "SELECT count(*) FROM queued_lines JOIN agents ON uuid = agent WHERE agents.session = ? AND status = 'dead'";
    assert_eq!(count(database, lines, session), 0, "lines of dead agents wait");
}

struct Agent {
    parent: Option<String>,
    depth: i64,
    ordinal: i64,
    alive: bool,
    next_mail: i64,
}

fn all<T>(database: &Connection, sql: &str, session: &str, read: impl Fn(&Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
    let mut query = database.prepare(sql).expect("a query");
    let rows = query.query_map([session], |row| read(row)).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

fn count(database: &Connection, sql: &str, session: &str) -> i64 {
    database.query_row(sql, [session], |row| row.get(0)).expect("a count")
}

fn agents(database: &Connection, session: &str) -> BTreeMap<String, Agent> {
    let sql =
        "SELECT uuid, parent_uuid, ordinal, status, next_mail, depth FROM agents WHERE session = ? ORDER BY ordinal";
    let read = |row: &Row<'_>| {
        let alive = row.get::<_, String>(3)? == "running";
        let (parent, ordinal, next_mail, depth) = (row.get(1)?, row.get(2)?, row.get(4)?, row.get(5)?);
        Ok((row.get(0)?, Agent { parent, depth, ordinal, alive, next_mail }))
    };
    all(database, sql, session, read).into_iter().collect()
}

fn check_tree(database: &Connection, session: &str, agents: &BTreeMap<String, Agent>) {
    let view: String =
        database.query_row("SELECT agent FROM sessions WHERE id = ?", [session], |row| row.get(0)).expect("a view");
    assert!(agents.contains_key(&view), "the agent in view does not exist");
    let ordinals: BTreeSet<i64> = agents.values().map(|agent| agent.ordinal).collect();
    assert_eq!(ordinals.len(), agents.len(), "ordinals are distinct");
    let roots: Vec<_> = agents.values().filter(|agent| agent.parent.is_none()).collect();
    assert!(roots.len() == 1 && roots[0].alive && roots[0].ordinal == 0, "one living root");
    for (id, agent) in agents {
        let Some(parent) = &agent.parent else { continue };
        let parent = agents.get(parent).unwrap_or_else(|| panic!("the parent of {id} does not exist"));
        assert!(parent.ordinal < agent.ordinal, "{id} is older than its parent");
        assert!(parent.alive || !agent.alive, "{id} lives, its parent does not");
    }
    let capturing = "SELECT count(*) FROM agents WHERE session = ? AND status = 'dead' AND capturing IS NOT NULL";
    assert_eq!(count(database, capturing, session), 0, "a dead agent captures");
}

fn check_rows(database: &Connection, session: &str, agents: &BTreeMap<String, Agent>) {
    let rows = all(database, "SELECT seq, agent FROM messages WHERE session = ? ORDER BY seq", session, |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    });
    for (expected, (seq, agent)) in (1..).zip(&rows) {
        assert_eq!(*seq, expected, "rows are numbered without a gap");
        assert!(agents.contains_key(agent), "row {seq} has no agent");
    }
    let last = count(database, "SELECT last_seq FROM sessions WHERE id = ?", session);
    assert_eq!(usize::try_from(last), Ok(rows.len()));
}

fn check_mail(database: &Connection, session: &str, agents: &BTreeMap<String, Agent>) {
    let sql = "SELECT recipient, number, sender, sent_at FROM mail JOIN agents ON uuid = recipient WHERE session = ? \
               ORDER BY recipient, number";
    let mails = all(database, sql, session, |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, i64>(3)?))
    });
    for (recipient, number, sender, _) in &mails {
        assert!(*number >= 1 && *number < agents[recipient].next_mail, "number {number} was not given");
        assert!(agents.contains_key(sender), "mail {number} has no sender");
    }
    for pair in mails.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].3 < pair[1].3, "later mail has a later time");
    }
}

fn check_turns(database: &Connection, session: &str, agents: &BTreeMap<String, Agent>) {
    let sql = "SELECT turns.began, turns.agent, cause, state, code, messages.agent FROM turns LEFT JOIN messages \
               ON messages.session = turns.session AND seq = began WHERE turns.session = ?";
    let mut expected: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (began, agent, cause, state, code, row) in all(database, sql, session, |row| {
        let (cause, state, code): (String, String, Option<String>) = (row.get(2)?, row.get(3)?, row.get(4)?);
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, cause, state, code, row.get::<_, Option<String>>(5)?))
    }) {
        assert!(["done", "interrupted"].contains(&&*state), "turn {began} is open");
        assert_eq!(row.as_ref(), Some(&agent), "turn {began} has no first row");
        if cause != "person" && agents[&agent].depth > 0 {
            let (sure, perhaps) = expected.entry(agent).or_default();
            match code.as_deref() {
                // A parent that is also dead, or that killed the child, gets no report.
                Some("agent_dead") => *perhaps += 1,
                _ => *sure += 1,
            }
        }
    }
    let sql = "SELECT sender, recipient, body FROM mail JOIN agents ON uuid = recipient WHERE session = ?";
    let mut reports: BTreeMap<String, usize> = BTreeMap::new();
    for (sender, recipient, body) in all(database, sql, session, |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    }) {
        if body.starts_with("{\"status\":") {
            assert_eq!(agents[&sender].parent.as_ref(), Some(&recipient), "a report goes to the parent");
            *reports.entry(sender).or_default() += 1;
        }
    }
    for agent in agents.keys() {
        let (sure, perhaps) = expected.get(agent).copied().unwrap_or_default();
        let found = reports.get(agent).copied().unwrap_or_default();
        assert!((sure..=sure + perhaps).contains(&found), "{agent} sent {found} reports of {sure} turns");
    }
}

/// Each tool call of a model has at most one result, and no call is open.
fn check_calls(database: &Connection, session: &str) {
    let open = "SELECT count(*) FROM calls JOIN call_sites ON call_sites.id = site \
                WHERE session = ? AND (outcome IS NULL OR unsettled IS NOT NULL)";
    assert_eq!(count(database, open, session), 0, "a call is open");
    let sql = "SELECT agent, kind, coalesce(data, 'null') FROM messages \
               WHERE session = ? AND kind IN ('assistant', 'tool') ORDER BY agent, seq";
    let mut asked: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (agent, kind, data) in all(database, sql, session, |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    }) {
        let data: Value = serde_json::from_str(&data).expect("JSON");
        if kind == "assistant" {
            if data["interrupted"] != true {
                let parts = data["parts"].as_array().into_iter().flatten();
                let calls = parts.filter(|part| part["type"] == "tool_call");
                let ids = calls.map(|call| call["id"].as_str().expect("an id").to_owned());
                ids.for_each(|id| *asked.entry((agent.clone(), id)).or_default() += 1);
            }
        } else {
            let id = data["call_id"].as_str().expect("the id of a call");
            let left = asked.get_mut(&(agent, id.to_owned())).expect("a result of a call");
            *left = left.checked_sub(1).expect("one result for each call");
        }
    }
}

/// Asserts that every tool call of a model has a result. This holds if no turn was stopped.
pub fn check_all_calls_answered(database: &Connection, session: &str) {
    let results = count(database, "SELECT count(*) FROM messages WHERE session = ? AND kind = 'tool'", session);
    let sql = "SELECT count(*) FROM messages, json_each(data, '$.parts') AS part WHERE session = ? AND messages.kind = 'assistant' \
               AND coalesce(json_extract(data, '$.interrupted'), 0) = 0 AND json_extract(part.value, '$.type') = 'tool_call'";
    assert_eq!(count(database, sql, session), results, "each call has one result");
}

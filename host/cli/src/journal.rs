//! `patchbay journal`: prints the recorded tool calls. `main` calls it.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::{SessionId, text};
use patchbay_session::Host;
use patchbay_store::{JournalEntry, JournalFilter, RecordedApproval};
use serde_json::json;

use crate::{
    CliError,
    args::{Journal, JournalCommand},
    out::{note, say},
    recordings, sessions,
};

/// Rows of the table without `--limit`: a few screens.
const ROWS: u32 = 100;
/// Rows that are read from the store at a time.
const PAGE: u32 = 500;

pub(crate) async fn run(host: &Arc<Host>, arguments: &Journal) -> Result<ExitCode, CliError> {
    if let Some(JournalCommand::Fixture(fixture)) = &arguments.command {
        return recordings::call(host, fixture).await;
    }
    let session = match arguments.session.as_deref() {
        Some(id) => Some(find(host, id).await?),
        None => None,
    };
    let filter = JournalFilter { skill: arguments.plugin.clone(), session };
    let limit = arguments.limit.or((!arguments.json).then_some(ROWS));
    let before = match limit {
        Some(limit) => host.store().journal_before_newest(&filter, limit).await?,
        None => 0,
    };
    if arguments.json {
        each_row(host, &filter, before, |entry| say!("{}", object(&entry))).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = vec![HEADINGS.map(str::to_owned)];
    each_row(host, &filter, before, |entry| table.push(cells(&entry))).await?;
    if table.len() == 1 {
        let all = filter == JournalFilter::default();
        say!("{}", if all { "The journal is empty." } else { "The journal has no such calls." });
        return Ok(ExitCode::SUCCESS);
    }
    print(&table);
    if before > 0 {
        note("Note: there are older calls; --limit N shows the newest N.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the session whose id starts with `id`. It may be a removed session that only the journal still names.
async fn find(host: &Host, id: &str) -> Result<SessionId, CliError> {
    let mut sessions = host.store().journal_sessions().await?;
    sessions.extend(host.store().sessions().await?.iter().map(|session| session.id));
    sessions.sort_unstable();
    sessions.dedup();
    let words = || format!("neither the journal nor the list of sessions has a session '{}'.", text::excerpt(id, 80));
    sessions::one_of(sessions.into_iter(), id, words)
}

async fn each_row(
    host: &Host,
    filter: &JournalFilter,
    mut after: u64,
    mut take: impl FnMut(JournalEntry),
) -> Result<(), CliError> {
    loop {
        let page = host.store().journal_rows(filter, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.id;
        page.into_iter().for_each(&mut take);
    }
}

const COLUMNS: usize = 12;
const HEADINGS: [&str; COLUMNS] = [
    "CALL",
    "TIME (UTC)",
    "SESSION",
    "ASKED BY",
    "TOOL",
    "OUTCOME",
    "MS",
    "FUEL",
    "KIB",
    "HOST CALLS",
    "BYTES OUT",
    "GRANTS",
];
/// The columns that are aligned to the right.
const NUMBERS: std::ops::Range<usize> = 6..11;

fn cells(entry: &JournalEntry) -> [String; COLUMNS] {
    let row = &entry.row;
    let mut grants = row.grants.clone();
    for approval in &row.approvals {
        let shown = format!("{} ({} by {})", approval.capability, approval.answer, approval.by);
        match grants.iter().position(|grant| *grant == approval.capability) {
            Some(at) => grants[at] = shown,
            // Several acts of one call, or allowed and not used.
            None if !grants.contains(&shown) => grants.push(shown),
            None => {}
        }
    }
    let grants = if grants.is_empty() { "-".to_owned() } else { grants.join(",") };
    [
        entry.id.to_string(),
        when(row.at),
        row.session.short(),
        text::clean_line(&row.asker.to_string()),
        text::clean_line(&format!("{}__{}", row.skill, row.tool)),
        row.outcome().to_owned(),
        format!("{}.{:03}", row.time_us / 1000, row.time_us % 1000),
        row.fuel.to_string(),
        row.peak_memory.div_ceil(1024).to_string(),
        row.host_calls.to_string(),
        row.output_bytes.to_string(),
        text::clean_line(&grants),
    ]
}

fn print(table: &[[String; COLUMNS]]) {
    let mut widths = [0; COLUMNS];
    for row in table {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let cell = if NUMBERS.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:width$}") };
            line += &cell;
            line += "  ";
        }
        say!("{}", line.trim_end());
    }
}

/// Returns all recorded data of a call.
fn object(entry: &JournalEntry) -> serde_json::Value {
    let row = &entry.row;
    let mut object = json!({
        "id": entry.id,
        "at": when(row.at),
        "call": row.call.to_string(),
        "parent": row.parent.map(|call| call.to_string()),
        "session": row.session.to_string(),
        "workspace": text::clean_line(&row.workspace),
        "asker": text::clean_line(&row.asker.to_string()),
        "root": text::clean_line(&row.root),
        "skill": text::clean_line(&row.skill),
        "tool": text::clean_line(&row.tool),
        "component": row.component.to_string(),
        "input_hash": row.input_hash.to_string(),
        "grants": row.grants.iter().map(|grant| text::clean_line(grant)).collect::<Vec<_>>(),
        "approvals": row.approvals.iter().map(approval_object).collect::<Vec<_>>(),
        "fuel": row.fuel,
        "time_us": row.time_us,
        "peak_memory": row.peak_memory,
        "host_calls": row.host_calls,
        "output_bytes": row.output_bytes,
        "outcome": row.outcome(),
    });
    for (key, content) in [("input", &row.input), ("output", &row.output)] {
        if let Some(content) = content {
            object[key] = text::clean(content).into();
        }
    }
    object
}

/// Returns what a person allowed.
fn approval_object(approval: &RecordedApproval) -> serde_json::Value {
    let mut object = json!({
        "capability": text::clean_line(&approval.capability),
        "answer": text::clean_line(&approval.answer),
        "by": text::clean_line(&approval.by),
    });
    if let Some(shown) = approval.shown {
        object["shown"] = shown.to_string().into();
    }
    if let Some(client) = &approval.client {
        object["client"] = text::clean_line(client).into();
    }
    object
}

/// Formats a time in milliseconds since 1970 as UTC.
fn when(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_to_the_millisecond() {
        assert_eq!(when(1_795_291_440_007), "2026-11-21T20:04:00.007Z");
        assert_eq!(when(0), "1970-01-01T00:00:00.000Z");
    }
}

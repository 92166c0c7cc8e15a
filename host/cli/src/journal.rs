//! `patchbay journal`: prints the journal of tool calls. `main` calls it.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::{SessionId, text};
use patchbay_session::{Host, journal_object, journal_time};
use patchbay_store::{JournalEntry, JournalFilter};

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
        each_row(host, &filter, before, |entry| say!("{}", journal_object(&entry))).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = vec![HEADINGS.map(str::to_owned)];
    each_row(host, &filter, before, |entry| table.push(cells(&entry))).await?;
    if table.len() == 1 {
        let all = filter == JournalFilter::default();
        say!("{}", if all { "The journal is empty." } else { "No calls match." });
        return Ok(ExitCode::SUCCESS);
    }
    print(&table);
    if before > 0 {
        note("Note: older calls are left out; use --limit N to show the newest N.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the session whose id starts with `id`. It may be a removed session that only the journal still names.
async fn find(host: &Host, id: &str) -> Result<SessionId, CliError> {
    let mut sessions = host.store().journal_sessions().await?;
    sessions.extend(host.store().sessions().await?.iter().map(|session| session.id));
    sessions.sort_unstable();
    sessions.dedup();
    let words =
        || format!("no session in the journal or among stored sessions has the id '{}'.", text::excerpt(id, 80));
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
/// Right-aligned columns of the table, by index.
const NUMBERS: std::ops::Range<usize> = 6..11;

fn cells(entry: &JournalEntry) -> [String; COLUMNS] {
    let row = &entry.row;
    let mut grants = row.grants.clone();
    for approval in &row.approvals {
        let shown = format!("{} ({} by {})", approval.capability, approval.answer, approval.by);
        match grants.iter().position(|grant| *grant == approval.capability) {
            Some(at) => grants[at] = shown,
            // The call was approved more than once, or did not use the approved capability.
            None if !grants.contains(&shown) => grants.push(shown),
            None => {}
        }
    }
    let grants = if grants.is_empty() { "-".to_owned() } else { grants.join(",") };
    [
        entry.id.to_string(),
        journal_time(row.at),
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

//! `patchbay sessions`: lists, shows and removes stored sessions. `main` and `journal` use its lookup by id prefix, and `main` its
//! lookup of the newest session of a workspace.

mod expiry;
mod show;
mod shown_row;
mod tree;

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, SessionId, text};
use patchbay_session::{Host, workspace_path};
use patchbay_store::SessionSummary;
use serde_json::json;

use crate::{
    CliError,
    args::{SessionList, Sessions},
    config, day,
    home::HomeDirs,
    out::{note, say},
    recordings,
};

/// Length limit of a session's first words, in characters.
const FIRST_WORDS: usize = 60;

pub(crate) async fn run(host: &Arc<Host>, home: &HomeDirs, command: Sessions) -> Result<ExitCode, CliError> {
    match command {
        Sessions::List(arguments) => return list(host, arguments).await,
        Sessions::Rm { id } => {
            let id = find(host, &id).await?;
            host.remove_session(id).await?;
            say!("Removed session {id}.");
        }
        Sessions::Fixtures(arguments) => return recordings::session(host, &arguments).await,
        Sessions::Show(arguments) => return show::run(host, arguments).await,
        Sessions::Gc(arguments) => {
            let settings = config::read(&home.paths.config)?.sessions;
            return expiry::run(host, settings, arguments).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Returns the stored session whose id starts with `id`.
pub(crate) async fn find(host: &Host, id: &str) -> Result<SessionId, CliError> {
    let sessions = host.store().sessions().await?;
    let words = || format!("session '{}' not found. To list sessions: patchbay sessions --all", text::excerpt(id, 80));
    one_of(sessions.iter().map(|session| session.id), id, words)
}

/// Returns the most recent session of `workspace`. Unused sessions are skipped, because there is nothing to continue.
pub(crate) async fn newest(host: &Host, workspace: &Path) -> Result<SessionId, CliError> {
    let workspace = workspace_path(workspace)?;
    let sessions = host.store().sessions().await?;
    for session in sessions.iter().filter(|session| session.workspace == workspace) {
        if host.first_words(session.id, FIRST_WORDS).await?.is_some_and(|words| words != "/quit") {
            return Ok(session.id);
        }
    }
    let message = format!(
        "no session of {} to continue. To list sessions of all workspaces: patchbay sessions --all",
        text::clean_line(&workspace)
    );
    Err(CliError::new(Code::SessionNotFound, message))
}

/// Returns the only id of `sessions` that starts with `id`. `none` is the error message if no id does.
pub(crate) fn one_of(
    sessions: impl Iterator<Item = SessionId>,
    id: &str,
    none: impl FnOnce() -> String,
) -> Result<SessionId, CliError> {
    if id.is_empty() {
        return Err(CliError::new(Code::InvalidArgs, "expected a session id or the beginning of one."));
    }
    let matching: Vec<_> = sessions.filter(|session| session.to_string().starts_with(id)).collect();
    match &matching[..] {
        [one] => Ok(*one),
        [] => Err(CliError::new(Code::SessionNotFound, none())),
        several => {
            let ids: Vec<_> = several.iter().take(5).map(ToString::to_string).collect();
            Err(CliError::new(Code::InvalidArgs, format!("'{id}' matches several sessions: {}.", ids.join(", "))))
        }
    }
}

/// Lists the sessions of the current folder, or of all workspaces.
pub(crate) async fn list(host: &Host, arguments: SessionList) -> Result<ExitCode, CliError> {
    // If the current folder was deleted, it has no sessions.
    let here = workspace_path(Path::new(".")).unwrap_or_default();
    let sessions = host.store().sessions().await?;
    if arguments.json {
        for session in sessions.iter().filter(|session| arguments.all || session.workspace == here) {
            say!("{}", object(host, session).await?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        say!("No sessions.");
        return Ok(ExitCode::SUCCESS);
    }
    let (own, others): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|session| session.workspace == here);
    if !arguments.all {
        if own.is_empty() {
            say!("No sessions of this workspace.");
        }
        table(host, &own, "").await?;
        if !others.is_empty() {
            let (sessions, verb) = (count(others.len(), "session"), if others.len() == 1 { "is" } else { "are" });
            note(&format!(
                "Note: {sessions} of other workspaces {verb} not listed; to list all: patchbay sessions --all"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !own.is_empty() {
        say!("{} (this workspace)", text::clean_line(&here));
        table(host, &own, "  ").await?;
    }
    for (workspace, sessions) in by_workspace(others) {
        say!("{}", text::clean_line(&workspace));
        table(host, &sessions, "  ").await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Groups sessions by workspace. `sessions` are sorted with the newest first, so the most recently used workspace is first.
fn by_workspace(sessions: Vec<SessionSummary>) -> Vec<(String, Vec<SessionSummary>)> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<(String, Vec<SessionSummary>)> = Vec::new();
    for session in sessions {
        let at = *places.entry(session.workspace.clone()).or_insert_with(|| {
            groups.push((session.workspace.clone(), Vec::new()));
            groups.len() - 1
        });
        if let Some((_, sessions)) = groups.get_mut(at) {
            sessions.push(session);
        }
    }
    groups
}

/// Prints a line for each session: short id, age, and first words.
async fn table(host: &Host, sessions: &[SessionSummary], indent: &str) -> Result<(), CliError> {
    let now = jiff::Timestamp::now().as_second();
    let mut rows = Vec::with_capacity(sessions.len());
    for session in sessions {
        let words = host.first_words(session.id, FIRST_WORDS).await?;
        let open = host.session_holder(session.id).map(|process| format!(" (open in process {process})"));
        let recorded = match host.store().recorded_size(session.id)?.calls {
            0 => String::new(),
            calls => format!(" ({} recorded)", count(usize::try_from(calls).unwrap_or(usize::MAX), "call")),
        };
        let words = words.unwrap_or_else(|| "(no messages)".to_owned()) + &recorded + &open.unwrap_or_default();
        rows.push([host.store().short_id(session.id).await?, age(now.saturating_sub(session.used_at)), words]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let (ids, ages) = (width(0), width(1));
    for [id, age, words] in &rows {
        say!("{indent}{id:ids$}  {age:ages$}  {words}");
    }
    Ok(())
}

/// Returns the JSON object of a session.
async fn object(host: &Host, session: &SessionSummary) -> Result<serde_json::Value, CliError> {
    Ok(json!({
        "id": session.id.to_string(),
        "short_id": host.store().short_id(session.id).await?,
        "used_at": day::minute(session.used_at),
        "messages": session.messages,
        "workspace": session.workspace,
        "first_words": host.first_words(session.id, FIRST_WORDS).await?,
        "recorded_calls": host.store().recorded_size(session.id)?.calls,
        "open_in": host.session_holder(session.id),
    }))
}

/// Formats an elapsed time in seconds with a readable unit.
fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let ago = |unit: i64, name: &str| format!("{} ago", count(usize::try_from(seconds / unit).unwrap_or(0), name));
    match seconds {
        _ if seconds < MINUTE => "just now".to_owned(),
        _ if seconds < HOUR => ago(MINUTE, "minute"),
        _ if seconds < DAY => ago(HOUR, "hour"),
        _ if seconds < 14 * DAY => ago(DAY, "day"),
        _ if seconds < 60 * DAY => ago(7 * DAY, "week"),
        _ if seconds < 730 * DAY => ago(30 * DAY, "month"),
        _ => ago(365 * DAY, "year"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_plain_words() {
        for (seconds, words) in [
            (-5, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (3599, "59 minutes ago"),
            (3600, "1 hour ago"),
            (86_399, "23 hours ago"),
            (86_400, "1 day ago"),
            (14 * 86_400 - 1, "13 days ago"),
            (14 * 86_400, "2 weeks ago"),
            (60 * 86_400, "2 months ago"),
            (730 * 86_400, "2 years ago"),
        ] {
            assert_eq!(age(seconds), words, "{seconds}");
        }
    }
}

//! `patchbay sessions`: lists and removes stored sessions. `exec` and `journal` use its lookup by id prefix.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::{Code, SessionId, text};
use patchbay_session::Host;
use serde_json::json;

use crate::{CliError, args::Sessions, out::say};

pub(crate) async fn run(host: &Arc<Host>, command: Sessions) -> Result<ExitCode, CliError> {
    match command {
        Sessions::List { json } => list(host, json).await?,
        Sessions::Rm { id } => {
            let id = find(host, &id).await?;
            host.remove_session(id).await?;
            say!("Removed session {id}.");
        }
        Sessions::Gc => {
            let collected = host.collect().await?;
            say!(
                "Deleted {} and {} ({} bytes).",
                count(collected.snapshots, "snapshot"),
                count(collected.components, "component"),
                collected.bytes
            );
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
    let words = || format!("no session '{}'; 'patchbay sessions list' shows what there is.", text::excerpt(id, 80));
    one_of(sessions.iter().map(|session| session.id), id, words)
}

/// Returns the one id of `sessions` that starts with `id`; `none` is the message if there is none.
pub(crate) fn one_of(
    sessions: impl Iterator<Item = SessionId>,
    id: &str,
    none: impl FnOnce() -> String,
) -> Result<SessionId, CliError> {
    if id.is_empty() {
        return Err(CliError::new(Code::InvalidArgs, "a session's id is needed, or a beginning of it."));
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

async fn list(host: &Host, as_json: bool) -> Result<(), CliError> {
    let sessions = host.store().sessions().await?;
    if sessions.is_empty() && !as_json {
        say!("No sessions.");
    }
    for session in sessions {
        let used = jiff::Timestamp::from_second(session.used_at).unwrap_or_default().strftime("%Y-%m-%d %H:%M");
        if as_json {
            let object = json!({
                "id": session.id.to_string(),
                "used_at": used.to_string(),
                "messages": session.messages,
                "workspace": session.workspace,
            });
            say!("{object}");
        } else {
            say!("{}  {used}  {:>5} rows  {}", session.id, session.messages, text::clean_line(&session.workspace));
        }
    }
    Ok(())
}

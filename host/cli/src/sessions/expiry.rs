//! `patchbay sessions gc`: removes sessions that were not used for a long time, and data that no session needs.

use std::process::ExitCode;

use patchbay_core::Code;
use patchbay_session::Host;

use super::{count, table};
use crate::{CliError, age::Age, args::CollectGarbage, config::SessionSettings, out::say};

pub(super) async fn run(
    host: &Host,
    settings: SessionSettings,
    arguments: CollectGarbage,
) -> Result<ExitCode, CliError> {
    let CollectGarbage { older_than, dry_run } = arguments;
    let age = older_than.or_else(|| Age::days(settings.keep_days));
    // Sessions that were last used before this time are old.
    let before = age.map(|age| jiff::Timestamp::now().as_second().saturating_sub(age.seconds()));
    if dry_run {
        let Some(before) = before else {
            let message = "--dry-run requires --older-than, or keep_days in the table [sessions] of config.toml.";
            return Err(CliError::new(Code::InvalidArgs, message));
        };
        return list(host, before).await;
    }
    if let Some(before) = before {
        let removed = host.remove_unused_sessions(before).await?;
        let open = match removed.open {
            0 => String::new(),
            open => format!(" {} kept: open in another process.", count(open, "old session")),
        };
        say!("Removed {}.{open}", count(removed.removed, "session"));
    }
    let collected = host.collect().await?;
    let (snapshots, components) = (count(collected.snapshots, "snapshot"), count(collected.components, "component"));
    let mut deleted = vec![snapshots, components];
    deleted.extend((collected.attachments > 0).then(|| count(collected.attachments, "attached file")));
    let skills = collected.skill_files;
    deleted.extend((skills > 0).then(|| format!("the files of {}", count(skills, "skill"))));
    let last = deleted.pop().unwrap_or_default();
    let deleted = format!("{} and {last}", deleted.join(", "));
    say!("Deleted {deleted} ({} bytes).", collected.bytes);
    Ok(ExitCode::SUCCESS)
}

/// Lists the sessions that would be removed.
async fn list(host: &Host, before: i64) -> Result<ExitCode, CliError> {
    let mut old = host.store().sessions().await?;
    old.retain(|session| session.used_at < before && host.session_holder(session.id).is_none());
    say!("{} would be removed.", count(old.len(), "session"));
    table(host, &old, "  ").await?;
    Ok(ExitCode::SUCCESS)
}

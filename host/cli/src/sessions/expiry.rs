//! `patchbay sessions gc`: removes sessions that were not used for a long time, and data that no session needs.

use std::{process::ExitCode, str::FromStr};

use patchbay_core::{Code, text};
use patchbay_session::Host;

use super::{count, table};
use crate::{CliError, args::CollectGarbage, config::SessionSettings, out::say};

pub(super) async fn run(
    host: &Host,
    settings: SessionSettings,
    arguments: CollectGarbage,
) -> Result<ExitCode, CliError> {
    let CollectGarbage { older_than, dry_run } = arguments;
    let age = older_than.or_else(|| Age::days(settings.keep_days));
    // The time of the last use; sessions that were used before are old.
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
            open => format!(" {} stayed: open in another process.", count(open, "old session")),
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

/// A time without use, such as `30d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    hours: i64,
}

impl Age {
    /// Returns an age in days; `None` for 0.
    fn days(days: u32) -> Option<Self> {
        (days > 0).then_some(Self { hours: 24 * i64::from(days) })
    }

    fn seconds(self) -> i64 {
        3_600 * self.hours
    }
}

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = text::excerpt(text, 40);
            format!("'{text}' is not an age: a number from 1 and h (hours), d (days) or w (weeks), such as 30d")
        };
        let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
        let hours = match unit {
            "h" => 1,
            "d" => 24,
            "w" => 7 * 24,
            _ => return Err(wrong()),
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = number.parse().ok().filter(|number| is_number && *number > 0).ok_or_else(wrong)?;
        Ok(Self { hours: hours * i64::from(number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_number_and_a_unit() {
        let seconds = |text: &str| text.parse().map(Age::seconds);
        assert_eq!(seconds("1h"), Ok(3_600));
        assert_eq!(seconds("30d"), Ok(30 * 86_400));
        assert_eq!(seconds("2w"), Ok(14 * 86_400));
        for wrong in ["", "d", "30", "0d", "-1d", "+1d", "1.5d", "30m", "30 d", "30D", "\u{e4}", "99999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

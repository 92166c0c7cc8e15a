//! `patchbay plugin block`, `unblock` and `blocked`: maintain the list of components and skills that may not run.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::{Code, Digest, text};
use patchbay_session::Host;

use crate::{CliError, day, out::say};

/// Fewer digits could match another component later.
const FEWEST_DIGITS: usize = 8;

pub(crate) async fn block(host: &Arc<Host>, written: &str) -> Result<ExitCode, CliError> {
    let component = find(host, written).await?;
    // Blocking the digest of something other than a component has no effect, so the message points out a digest not seen here.
    let seen = !host.store().components_beginning(&component.to_hex(), 1).await?.is_empty();
    if host.store().block(component).await? {
        let unseen = if seen { "" } else { " It was not seen here yet, and will not run if it appears." };
        say!("{component} is blocked.{unseen} To unblock it: patchbay plugin unblock {component}");
    } else {
        say!("{component} is blocked already.");
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn unblock(host: &Arc<Host>, written: &str) -> Result<ExitCode, CliError> {
    let component = find(host, written).await?;
    if host.store().unblock(component).await? {
        say!("{component} is no longer blocked.");
    } else {
        say!("{component} was not blocked.");
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn list(host: &Arc<Host>) -> Result<ExitCode, CliError> {
    let blocks = host.store().blocked().await?;
    if blocks.is_empty() {
        say!("No component is blocked.");
    }
    for block in blocks {
        say!("{}  since {}", block.component, day::minute(block.since));
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a digest, with or without `sha256:`. A prefix is resolved among the components known to this home.
async fn find(host: &Host, written: &str) -> Result<Digest, CliError> {
    let refused = |message| Err(CliError::new(Code::InvalidArgs, message));
    let shown = text::excerpt(written, 80);
    let digits = written.strip_prefix("sha256:").unwrap_or(written).to_ascii_lowercase();
    if let Ok(digest) = format!("sha256:{digits}").parse() {
        return Ok(digest);
    }
    if !(FEWEST_DIGITS..64).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return refused(format!(
            "'{shown}' is not a digest: write sha256: and 64 hexadecimal digits, or at least the first {FEWEST_DIGITS} \
             digits of a component that was seen here."
        ));
    }
    match &host.store().components_beginning(&digits, 5).await?[..] {
        [one] => Ok(*one),
        [] => refused(format!(
            "no component seen here begins with '{shown}'. To block one that was not seen, write all 64 digits, which \
             '/help SKILL', 'patchbay plugin inspect FILE' and 'patchbay provider list --json' show."
        )),
        several => {
            let several: Vec<_> = several.iter().map(ToString::to_string).collect();
            refused(format!("'{shown}' matches several components: {}.", several.join(", ")))
        }
    }
}

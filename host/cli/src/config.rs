//! `config.toml`: every key has a default, unknown keys are errors.

use std::{collections::BTreeMap, fs, io, path::Path};

use patchbay_core::{Code, Name};
use patchbay_egress::{CredentialConfig, Egress, EgressLimits};
use patchbay_sandbox::Limits;
use patchbay_store::JournalSettings;
use serde::Deserialize;

use crate::Failure;

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// What one call of a plugin may use.
    pub(crate) limits: Limits,
    /// What is kept of each call.
    pub(crate) journal: JournalSettings,
    /// What one request over the network may take.
    pub(crate) egress: EgressLimits,
    /// The secrets that requests may carry, and where to.
    pub(crate) credentials: BTreeMap<Name, CredentialConfig>,
}

/// Reads `config.toml` in the folder `config`; where there is none, the defaults hold.
pub(crate) fn read(config: &Path) -> Result<Config, Failure> {
    let path = config.join("config.toml");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(error) => return Err(Failure::io(&path)(error)),
    };
    parse(&text).map_err(|error| Failure::new(Code::ConfigInvalid, format!("{}: {error}", path.display())))
}

fn parse(text: &str) -> Result<Config, String> {
    let config: Config = toml::from_str(text).map_err(|error| describe(text, &error))?;
    let Limits { time_ms, memory_bytes, concurrent_calls, .. } = config.limits;
    // More than these the machine's address space does not give, or nobody would wait for.
    for (key, value, range) in [
        ("limits.time_ms", time_ms, 1..=3_600_000),
        ("limits.memory_bytes", memory_bytes as u64, 64 << 10..=4 << 30),
        ("limits.concurrent_calls", concurrent_calls.into(), 1..=1_000),
        ("journal.keep", config.journal.keep.into(), 1..=JournalSettings::MAX_KEEP.into()),
    ] {
        if !range.contains(&value) {
            return Err(format!("{key} is {value}; it must be from {} to {}", range.start(), range.end()));
        }
    }
    Egress::new(config.egress.clone()).map_err(|error| error.to_string())?;
    Ok(config)
}

/// What is wrong and where. The line itself is not shown: somebody may have written a secret there.
fn describe(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return message.to_owned() };
    let (line, column) = (before.split('\n').count(), before.chars().rev().take_while(|c| *c != '\n').count() + 1);
    format!("line {line}, column {column}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_defaults_and_mistakes_are_named() {
        assert_eq!(parse(""), Ok(Config::default()));
        assert_eq!(parse("[limits]\nfuel = 5").map(|config| config.limits.fuel), Ok(5));
        let unknown = parse("[limits]\nfule = 5").unwrap_err();
        assert!(unknown.contains("fule") && unknown.contains("line 2, column 1"), "{unknown}");
        let bad = parse("[limits]\nfuel = \"x\"").unwrap_err();
        assert!(bad.contains("line 2, column 8"), "{bad}");
        assert_eq!(parse("[limits]\ntime_ms = 0").unwrap_err(), "limits.time_ms is 0; it must be from 1 to 3600000");
        assert_eq!(parse("[journal]\nkeep = 0").unwrap_err(), "journal.keep is 0; it must be from 1 to 10000000");
        assert_eq!(parse("[egress]\nidle_ms = 0").unwrap_err(), "egress.idle_ms is 0; it must be from 1 to 3600000");
        let path = parse("[credentials.a]\norigin = \"https://a.org/v1\"").unwrap_err();
        assert!(path.contains("neither path nor query") && path.contains("line 2, column 10"), "{path}");
    }

    #[test]
    fn a_secret_in_the_wrong_place_is_not_shown() {
        for text in [
            "[credentials.a]\ntoken = \"sk-12345\"",
            "[credentials]\na = \"sk-12345\"",
            "[credentials.a]\norigin = \"https://a.org\"\nenv = \"sk-12345\"",
            "[credentials.a]\norigin = \"sk-12345\"",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("line ") && !error.contains("12345"), "{text}: {error}");
        }
    }
}

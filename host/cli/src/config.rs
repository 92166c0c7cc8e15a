//! `config.toml`: every key has a default, unknown keys are errors.

use std::{fs, io, path::Path};

use patchbay_core::Code;
use patchbay_sandbox::Limits;
use serde::Deserialize;

use crate::Failure;

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// What one call of a plugin may use.
    pub(crate) limits: Limits,
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
    let config: Config = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let Limits { time_ms, memory_bytes, concurrent_calls, .. } = config.limits;
    // More than these the machine's address space does not give, or nobody would wait for.
    for (key, value, range) in [
        ("time_ms", time_ms, 1..=3_600_000),
        ("memory_bytes", memory_bytes as u64, 64 << 10..=4 << 30),
        ("concurrent_calls", concurrent_calls.into(), 1..=1_000),
    ] {
        if !range.contains(&value) {
            return Err(format!("limits.{key} is {value}; it must be from {} to {}", range.start(), range.end()));
        }
    }
    Ok(config)
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
    }
}

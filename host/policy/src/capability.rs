use std::{fmt, str::FromStr};

use patchbay_core::{Name, text};
use serde::{Deserialize, Serialize};

/// One thing a plugin may do. Its text form is the one of manifests, grants and errors: `kv`, `http:api.example.com`,
/// `http:*.example.com:8443`, `http:*`, `credential:github`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Capability {
    /// Its own key-value store.
    Kv,
    /// Requests to these hosts.
    Http(Host),
    /// Reading files below the workspace root.
    WorkspaceRead,
    /// Writing files below the workspace root.
    WorkspaceWrite,
    /// Completions by the model of the agent that runs the tool.
    Inference,
    /// Other tools of the session.
    Tools,
    /// The real clock.
    Clock,
    /// Real randomness.
    Random,
    /// A secret of the operator's, put in by the host.
    Credential(Name),
}

/// Which hosts an `http` capability covers. Names are lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// One host, on one port or on the scheme's own.
    One(String, Option<u16>),
    /// Every host below a domain, not the domain itself.
    Below(String, Option<u16>),
    /// Any public host.
    Any,
}

/// A text that is no capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not a capability; there are: kv, http:HOST[:PORT], http:*.HOST, http:*, workspace-read, workspace-write, \
     inference, tools, clock, random, credential:NAME",
    text::excerpt(.0, 80)
)]
pub struct CapabilityError(String);

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(written: &str) -> Result<Self, CapabilityError> {
        let error = || CapabilityError(written.to_owned());
        Ok(match written.split_once(':') {
            None => match written {
                "kv" => Self::Kv,
                "workspace-read" => Self::WorkspaceRead,
                "workspace-write" => Self::WorkspaceWrite,
                "inference" => Self::Inference,
                "tools" => Self::Tools,
                "clock" => Self::Clock,
                "random" => Self::Random,
                _ => return Err(error()),
            },
            Some(("http", host)) => Self::Http(parse_host(host).ok_or_else(error)?),
            Some(("credential", name)) => Self::Credential(name.parse().map_err(|_| error())?),
            Some(_) => return Err(error()),
        })
    }
}

/// `HOST[:PORT]`, `*.HOST[:PORT]` or `*`. Names and IPv4 addresses only: an address that needs brackets is none that a
/// plugin should be granted.
fn parse_host(written: &str) -> Option<Host> {
    if written == "*" {
        return Some(Host::Any);
    }
    let (host, port) = match written.rsplit_once(':') {
        // Digits alone: `u16` would also take a sign.
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => {
            (host, Some(port.parse().ok().filter(|p| *p > 0)?))
        }
        Some(_) => return None,
        None => (written, None),
    };
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let valid = |host: &str| host.len() <= 253 && host.split('.').all(label);
    match host.strip_prefix("*.") {
        Some(domain) => valid(domain).then(|| Host::Below(domain.to_owned(), port)),
        None => valid(host).then(|| Host::One(host.to_owned(), port)),
    }
}

impl TryFrom<String> for Capability {
    type Error = CapabilityError;

    fn try_from(text: String) -> Result<Self, CapabilityError> {
        text.parse()
    }
}

impl From<Capability> for String {
    fn from(capability: Capability) -> String {
        capability.to_string()
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kv => f.write_str("kv"),
            Self::Http(host) => write!(f, "http:{host}"),
            Self::WorkspaceRead => f.write_str("workspace-read"),
            Self::WorkspaceWrite => f.write_str("workspace-write"),
            Self::Inference => f.write_str("inference"),
            Self::Tools => f.write_str("tools"),
            Self::Clock => f.write_str("clock"),
            Self::Random => f.write_str("random"),
            Self::Credential(name) => write!(f, "credential:{name}"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, host, port) = match self {
            Self::Any => return f.write_str("*"),
            Self::One(host, port) => ("", host, port),
            Self::Below(host, port) => ("*.", host, port),
        };
        write!(f, "{prefix}{host}")?;
        port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_back_as_written() {
        for text in [
            "kv",
            "workspace-read",
            "workspace-write",
            "inference",
            "tools",
            "clock",
            "random",
            "http:api.example.com",
            "http:api.example.com:8443",
            "http:*.example.com",
            "http:*",
            "credential:github",
        ] {
            assert_eq!(text.parse::<Capability>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nothing_else_is_one() {
        for text in [
            "",
            "KV",
            "kv:all",
            "http",
            "http:",
            "http:Example.com",
            "http:a..b",
            "http:*.",
            "http:*.*",
            "http:a/b",
            "http:a:0",
            "http:a:+1",
            "http:a:65536",
            "http:[::1]",
            "http:u@h",
            "credential:",
            "credential:A",
            "files",
        ] {
            assert!(text.parse::<Capability>().is_err(), "{text}");
        }
    }
}

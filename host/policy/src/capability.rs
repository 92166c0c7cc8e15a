//! Capabilities and host patterns, and their text forms in manifests, grants and errors.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use patchbay_core::{Name, text};
use serde::{Deserialize, Serialize};

/// One thing that a plugin may do. The text form is used in manifests, grants and errors: `kv`, `http:api.example.com`,
/// `http:*.example.com:8443`, `http:*`, `credential:github`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Capability {
    /// The skill's own key-value store.
    Kv,
    /// HTTP requests to matching hosts.
    Http(HostPattern),
    /// Reading files below the workspace root.
    WorkspaceRead,
    /// Writing files below the workspace root.
    WorkspaceWrite,
    /// Deleting files below the workspace root.
    WorkspaceDelete,
    /// Completions from the model of the calling agent.
    Inference,
    /// Calls to the session's other tools.
    Tools,
    /// The real clock; otherwise time is virtual.
    Clock,
    /// Real randomness; otherwise a fixed sequence.
    Random,
    /// An operator secret that the host adds to requests. The plugin never sees it.
    Credential(Name),
}

/// The hosts that an `http` capability covers. Names are lower case. A pattern without a port covers only the scheme's
/// default port (443 for https, 80 for http), and so does `*`: access to a host doesn't mean access to every service on
/// it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// One host, on one port or on the scheme's default port.
    One(String, Option<u16>),
    /// Every host below a domain, but not the domain itself. Never an IP address.
    Below(String, Option<u16>),
    /// Any public host, on the scheme's default port. Whether a host is public depends on its resolved address, so
    /// `egress` checks that; [`HostPattern::covers`] returns true for any host.
    Any,
}

impl HostPattern {
    /// Returns the pattern for exactly this host. `port` is `None` for the scheme's default port.
    ///
    /// `host` must be normalised as in the URL standard: lower case, ASCII, an IPv4 address as four decimal numbers.
    /// Returns `None` for a host that no pattern can name: an IPv6 address, or one with an empty label or a trailing
    /// dot.
    pub fn exactly(host: &str, port: Option<u16>) -> Option<Self> {
        is_host(host).then(|| Self::One(host.to_owned(), port))
    }

    /// Returns whether the pattern covers a request to `host` on `port`. `host` is normalised as for
    /// [`HostPattern::exactly`]; `is_default_port` is whether `port` is the scheme's default.
    pub fn covers(&self, host: &str, port: u16, is_default_port: bool) -> bool {
        let has_port = |allowed: &Option<u16>| allowed.map_or(is_default_port, |allowed| allowed == port);
        match self {
            Self::One(one, allowed) => one == host && has_port(allowed),
            Self::Below(domain, allowed) => {
                let below = host.strip_suffix(domain.as_str()).and_then(|host| host.strip_suffix('.'));
                below.is_some_and(|label| !label.is_empty()) && host.parse::<Ipv4Addr>().is_err() && has_port(allowed)
            }
            Self::Any => is_default_port,
        }
    }

    /// Returns whether the pattern covers every request that `other` covers.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, Self::One(_, None) | Self::Below(_, None) | Self::Any) => true,
            (Self::Below(domain, port), Self::Below(other, other_port)) => {
                let is_below = || other.strip_suffix(domain.as_str()).is_some_and(|label| label.ends_with('.'));
                port == other_port && (domain == other || is_below())
            }
            (Self::Below(_, port), Self::One(host, other_port)) => {
                port == other_port && self.covers(host, port.unwrap_or_default(), port.is_none())
            }
            (one, other) => one == other,
        }
    }

    /// Returns a sort key that puts the most specific pattern first: a host, then domains from longest to shortest,
    /// then `*`. If two patterns are otherwise equal, the pattern with a port comes first.
    pub(crate) fn breadth(&self) -> impl Ord + use<> {
        match self {
            Self::One(_, port) => (0, 0, port.is_none()),
            // Longer domains sort first.
            Self::Below(domain, port) => (1, usize::MAX - domain.len(), port.is_none()),
            Self::Any => (2, 0, true),
        }
    }
}

impl Capability {
    /// Returns whether this capability allows everything that `other` does.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http(pattern), Self::Http(other)) => pattern.includes(other),
            (one, other) => one == other,
        }
    }

    /// Returns whether this capability lets a skill change workspace files.
    pub fn changes_workspace(&self) -> bool {
        matches!(self, Self::WorkspaceWrite | Self::WorkspaceDelete)
    }

    /// Returns whether a skill with this capability can change something outside of itself.
    pub fn has_effects(&self) -> bool {
        match self {
            Self::WorkspaceRead | Self::Clock | Self::Random => false,
            Self::Kv
            | Self::Http(_)
            | Self::WorkspaceWrite
            | Self::WorkspaceDelete
            | Self::Inference
            | Self::Tools
            | Self::Credential(_) => true,
        }
    }
}

/// The string that could not be parsed as a capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown capability '{}'; use kv, http:HOST[:PORT], http:*.HOST, http:*, workspace-read, workspace-write, \
     workspace-delete, inference, tools, clock, random or credential:NAME",
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
                "workspace-delete" => Self::WorkspaceDelete,
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

/// Parses `HOST[:PORT]`, `*.HOST[:PORT]` or `*`. IPv6 addresses are not supported.
fn parse_host(written: &str) -> Option<HostPattern> {
    if written == "*" {
        return Some(HostPattern::Any);
    }
    let (host, port) = match written.rsplit_once(':') {
        // Each port must have one spelling, but `u16` would also parse `+1` and `080`.
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0') => {
            (host, Some(port.parse().ok()?))
        }
        Some(_) => return None,
        None => (written, None),
    };
    match host.strip_prefix("*.") {
        Some(domain) => {
            (is_host(domain) && !ends_in_number(domain)).then(|| HostPattern::Below(domain.to_owned(), port))
        }
        None => HostPattern::exactly(host, port),
    }
}

/// Returns whether a pattern can name `host`: labels of letters, digits, `-` and `_`, or an IPv4 address.
fn is_host(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    let named = host.len() <= 253 && host.split('.').all(label);
    // URL parsers treat a host whose last label is a number as an IPv4 address, so `host` must be one, in normal form.
    named && (!ends_in_number(host) || host.parse::<Ipv4Addr>().is_ok())
}

/// Returns whether URL parsers treat `host` as an IPv4 address, valid or not. The URL standard looks only at the last
/// label.
fn ends_in_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host);
    last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
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
            Self::WorkspaceDelete => f.write_str("workspace-delete"),
            Self::Inference => f.write_str("inference"),
            Self::Tools => f.write_str("tools"),
            Self::Clock => f.write_str("clock"),
            Self::Random => f.write_str("random"),
            Self::Credential(name) => write!(f, "credential:{name}"),
        }
    }
}

impl fmt::Display for HostPattern {
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
    fn capabilities_with_effects() {
        for (capability, expected) in [
            ("workspace-read", false),
            ("clock", false),
            ("random", false),
            ("workspace-write", true),
            ("workspace-delete", true),
            ("kv", true),
            ("http:example.org", true),
            ("inference", true),
            ("tools", true),
            ("credential:key", true),
        ] {
            assert_eq!(capability.parse::<Capability>().unwrap().has_effects(), expected, "{capability}");
        }
    }

    #[test]
    fn capability_text_round_trips() {
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
            "http:*.example.com:8443",
            "http:my_bucket.example.com",
            "http:127.0.0.1:8080",
            "http:*",
            "credential:github",
        ] {
            assert_eq!(text.parse::<Capability>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_strings_are_not_capabilities() {
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
            "http:a:080",
            "http:a:",
            "http:a:65536",
            "http:[::1]",
            "http:::1",
            "http:u@h",
            "http:*:443",
            "http:example.com.",
            "http:2130706433",
            "http:127.1",
            "http:0x7f.0.0.1",
            "http:127.0.0.01",
            "http:a.256",
            "http:*.0.0.1",
            "http:*.0x1",
            "credential:",
            "credential:A",
            "files",
        ] {
            assert!(text.parse::<Capability>().is_err(), "{text}");
        }
    }

    #[test]
    fn host_patterns_cover_the_right_requests() {
        // Pattern, host, port, whether it is the default port, whether the pattern covers it.
        for (pattern, host, port, own, covered) in [
            ("example.com", "example.com", 443, true, true),
            ("example.com", "example.com", 80, true, true),
            ("example.com", "example.com", 8443, false, false),
            ("example.com", "www.example.com", 443, true, false),
            ("example.com", "example.com.evil.org", 443, true, false),
            ("example.com:8443", "example.com", 8443, false, true),
            ("example.com:8443", "example.com", 443, true, false),
            // An explicit port number is covered for both schemes.
            ("example.com:443", "example.com", 443, true, true),
            ("example.com:443", "example.com", 443, false, true),
            ("*.example.com", "www.example.com", 443, true, true),
            ("*.example.com", "a.b.example.com", 443, true, true),
            ("*.example.com", "example.com", 443, true, false),
            ("*.example.com", "badexample.com", 443, true, false),
            ("*.example.com", ".example.com", 443, true, false),
            ("*.example.com", "www.example.com", 8443, false, false),
            ("*.example.com:8443", "www.example.com", 8443, false, true),
            ("*.example.com:8443", "www.example.com", 443, true, false),
            ("127.0.0.1", "127.0.0.1", 443, true, true),
            ("127.0.0.1:8080", "127.0.0.1", 8080, false, true),
            ("*", "example.com", 443, true, true),
            ("*", "example.com", 8443, false, false),
            ("*", "localhost", 80, true, true),
        ] {
            let Ok(Capability::Http(parsed)) = format!("http:{pattern}").parse() else { panic!("{pattern}") };
            assert_eq!(parsed.covers(host, port, own), covered, "{pattern} and {host}:{port}");
        }
        // No string parses to this pattern. Even if one did, it would not cover an address.
        assert!(!HostPattern::Below("0.0.1".to_owned(), None).covers("127.0.0.1", 443, true));
    }

    #[test]
    fn exact_pattern_exists_for_writable_hosts_only() {
        assert_eq!(HostPattern::exactly("example.com", Some(8443)).unwrap().to_string(), "example.com:8443");
        for host in ["", "example.com.", "Example.com", "[::1]", "a b", "1.2.3", "*", "*.example.com"] {
            assert_eq!(HostPattern::exactly(host, None), None, "{host}");
        }
    }
}

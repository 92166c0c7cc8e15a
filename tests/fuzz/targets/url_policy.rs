//! Any URL against any patterns: `URL`, then lines of `ask PATTERN`, `grant PATTERN`, `stale PATTERN`.
//!
//! The target decides independently, from the texts alone, which requests are allowed.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use patchbay_core::text;
use patchbay_egress::{Origin, Target};
use patchbay_policy::{Capability, Denial, Grant, HostPattern, Identity, Permits, Root, Standing};

/// Number of lines that are used. Real skills request only a few.
const PATTERNS: usize = 16;

fuzz_target!(|input: &str| {
    let mut lines = input.split('\n');
    let url = lines.next().unwrap_or_default();
    let mut world = World::default();
    for line in lines.take(PATTERNS) {
        let Some((verb, pattern)) = line.split_once(' ') else { continue };
        let Some(pattern) = Pattern::read(pattern) else { continue };
        match verb {
            "ask" => world.asked.push(pattern),
            "grant" => world.granted.push(pattern),
            "stale" => world.stale.push(pattern),
            _ => {}
        }
    }
    match Target::parse(url) {
        Ok(target) => readable(url, &target, &world),
        Err(error) => {
            assert!(!Target::parse(&with_secret(url)).is_err_and(|error| error.to_string().contains(SECRET)));
            shown(&error.to_string());
            assert_eq!(host_and_port(url), None, "{url:?} is no URL: {error}");
        }
    }
});

/// Text that must not be in an error.
///
/// The fuzzer learns it and writes it everywhere. A scheme or a host, which errors may show, cannot contain a `|`.
const SECRET: &str = "sentinel|5ca1ab1e";

fn with_secret(url: &str) -> String {
    format!("{url}?q={SECRET}")
}

fn shown(message: &str) {
    assert!(!message.is_empty() && message.chars().count() <= 500, "{message:?}");
    assert_eq!(message, text::clean_line(message), "what is shown is one clean line");
}

fn readable(url: &str, target: &Target, world: &World) {
    let origin = target.origin();
    let (host, port, own) = (origin.host(), origin.port(), origin.is_default_port());
    assert!(HostPattern::exactly(host, None).is_some() && port > 0);
    assert_eq!(own, port == if origin.is_plain() { 80 } else { 443 });
    if let Some(read) = host_and_port(url) {
        let port = read.port.unwrap_or(if origin.is_plain() { 80 } else { 443 });
        assert_eq!((origin.is_plain(), host, origin.port()), (read.plain, read.host.as_str(), port), "{url:?}");
    }
    assert_eq!(origin.to_string().parse::<Origin>().as_ref(), Ok(origin), "an origin reads back as written");
    // Trailing spaces are not part of the URL.
    let url = url.trim_end_matches(' ');
    for longer in [format!("{url}#x"), with_secret(url)] {
        let longer = Target::parse(&longer).expect("the origin's end was read");
        assert_eq!(longer.origin(), origin);
        assert!(!format!("{longer:?}").contains(SECRET));
    }

    let found = world.permits(&[]).check_http(host, port, own);
    let best = world.rule(host, port, own);
    match &found {
        Ok(rule) => assert_eq!(Some(rule.to_string()), best.map(|pattern| pattern.text.clone())),
        Err(denial) => {
            assert!(best.is_none(), "{:?} allows {url:?}, denied: {denial}", best.map(|pattern| &pattern.text));
            shown(&denial.to_string());
            let (Denial::NotAsked { capability, .. }
            | Denial::NotGranted { capability, .. }
            | Denial::Stale { capability, .. }
            | Denial::OldSnapshot { capability, .. }) = denial
            else {
                panic!("no other denial is about a request: {denial}")
            };
            let told = world.permits(std::slice::from_ref(capability)).check_http(host, port, own);
            assert!(told.is_ok_and(|rule| Capability::Http(rule) == *capability), "what a denial names is enough");
        }
    }
    for pattern in world.asked.iter().chain(&world.granted).chain(&world.stale) {
        judge(target, pattern);
    }
}

/// Compares both decisions for one pattern.
fn judge(target: &Target, pattern: &Pattern) {
    let origin = target.origin();
    let exact = !pattern.text.starts_with('*');
    let this_machine = origin.host() == "localhost" || origin.host().ends_with(".localhost");
    let open = match origin.host().parse::<Ipv4Addr>().ok().map(kind) {
        None => !origin.is_plain() || exact && this_machine,
        Some(Kind::Public) => !origin.is_plain(),
        Some(Kind::Loopback) => exact,
        Some(Kind::Private) => exact && !origin.is_plain(),
        Some(Kind::Never) => false,
    };
    let wanted = open && pattern.covers(origin.host(), origin.port(), origin.is_default_port());
    match target.clone().allow(pattern.host.clone()) {
        Ok(checked) => {
            assert!(wanted, "{origin} by {}", pattern.text);
            assert_eq!(checked.origin(), origin);
        }
        Err(error) => {
            assert!(!wanted, "{origin} by {}: {error}", pattern.text);
            assert_eq!(error.kind(), "denied");
            shown(&error.to_string());
        }
    }
}

/// The patterns that the manifest requests and the operator granted.
#[derive(Default)]
struct World {
    asked: Vec<Pattern>,
    granted: Vec<Pattern>,
    stale: Vec<Pattern>,
}

struct Pattern {
    text: String,
    host: HostPattern,
}

impl Pattern {
    /// Returns a pattern that a capability can have; its text form parses to itself.
    fn read(text: &str) -> Option<Self> {
        let Ok(Capability::Http(host)) = format!("http:{text}").parse() else { return None };
        assert_eq!(host.to_string(), text);
        Some(Self { text: text.to_owned(), host })
    }

    /// Returns the name, after `*.` if present, and the port.
    fn parts(&self) -> (&str, Option<u16>) {
        match self.text.split_once(':') {
            Some((name, port)) => (name, port.parse().ok()),
            None => (&self.text, None),
        }
    }

    fn covers(&self, host: &str, port: u16, own: bool) -> bool {
        let (name, named) = self.parts();
        let there = match name.strip_prefix('*') {
            Some("") => true,
            Some(domain) => host.len() > domain.len() && host.ends_with(domain) && host.parse::<Ipv4Addr>().is_err(),
            None => name == host,
        };
        there && if named.is_some() { named == Some(port) } else { own }
    }

    fn breadth(&self) -> (bool, usize, bool) {
        let (name, port) = self.parts();
        (name.starts_with('*'), usize::MAX - name.len(), port.is_none())
    }
}

impl World {
    /// Of the requested and the granted patterns, takes the narrowest that covers the request, and returns the broader of the two.
    fn rule(&self, host: &str, port: u16, own: bool) -> Option<&Pattern> {
        let narrowest = |patterns: &'_ [Pattern]| {
            let covering = patterns.iter().enumerate().filter(|(_, pattern)| pattern.covers(host, port, own));
            covering.min_by_key(|(_, pattern)| pattern.breadth()).map(|(index, _)| index)
        };
        let (asked, granted) = (&self.asked[narrowest(&self.asked)?], &self.granted[narrowest(&self.granted)?]);
        Some(if granted.breadth() > asked.breadth() { granted } else { asked })
    }

    /// Returns the permits, with `more` requested and granted.
    fn permits(&self, more: &[Capability]) -> Permits {
        let capability = |pattern: &Pattern| Capability::Http(pattern.host.clone());
        let asked = self.asked.iter().map(capability).chain(more.iter().cloned()).collect();
        let stale = |capability| Grant { capability, standing: Standing::Changed(Vec::new()) };
        let grants = (self.stale.iter().map(|pattern| stale(capability(pattern))))
            .chain(self.granted.iter().map(|pattern| Grant::holding(capability(pattern))))
            .chain(more.iter().cloned().map(Grant::holding))
            .collect();
        Permits::new(Identity::new(Root::User, "", "test".parse().expect("a name")), asked, grants)
    }
}

enum Kind {
    Public,
    Loopback,
    Private,
    Never,
}

/// Returns the kind of an address, from ranges by prefix and length.
fn kind(address: Ipv4Addr) -> Kind {
    let within = |ranges: &[([u8; 4], u32)]| {
        ranges.iter().any(|(prefix, length)| (u32::from(address) ^ u32::from_be_bytes(*prefix)) >> (32 - length) == 0)
    };
    const NEVER: &[([u8; 4], u32)] = &[
        ([0, 0, 0, 0], 8),
        ([100, 100, 100, 200], 32),
        ([168, 63, 129, 16], 32),
        ([169, 254, 0, 0], 16),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        ([224, 0, 0, 0], 3),
    ];
    if within(NEVER) {
        Kind::Never
    } else if within(&[([127, 0, 0, 0], 8)]) {
        Kind::Loopback
    } else if within(&[([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16), ([100, 64, 0, 0], 10)]) {
        Kind::Private
    } else {
        Kind::Public
    }
}

/// The obvious meaning of a URL.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    plain: bool,
    host: String,
    port: Option<u16>,
}

/// Returns host and port of an unambiguous URL: plain letters, digits, dots and dashes, and nothing that the standard normalizes,
/// except upper-case letters and numbers that denote an IPv4 address.
fn host_and_port(url: &str) -> Option<Read> {
    if url.chars().any(char::is_control) {
        return None;
    }
    let lower = url.to_ascii_lowercase();
    let (plain, rest) = match lower.strip_prefix("https://") {
        Some(rest) => (false, rest),
        None => (true, lower.strip_prefix("http://")?),
    };
    let end = rest.find(['/', '\\', '?', '#'])?;
    let (host, port) = match rest[..end].split_once(':') {
        // Digits only, because the parser would also accept a sign.
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => {
            (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?))
        }
        Some(_) => return None,
        None => (&rest[..end], None),
    };
    let label = |label: &str| {
        let edges = label.starts_with('-') || label.ends_with('-') || label.starts_with("xn--");
        !label.is_empty() && label.len() < 64 && !edges && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if host.len() > 253 || !host.split('.').all(label) {
        return None;
    }
    let last = host.rsplit('.').next()?;
    let host = if number(last).is_some() || last.bytes().all(|b| b.is_ascii_digit()) {
        address(host)?.to_string()
    } else {
        host.to_owned()
    };
    Some(Read { plain, host, port })
}

/// Parses an IPv4 address of one to four numbers; the last one fills the remaining bytes.
fn address(host: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u64> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) || *last >= 1 << (8 * (4 - first.len())) {
        return None;
    }
    let bits = first.iter().zip([24, 16, 8]).fold(*last, |bits, (number, shift)| bits | number << shift);
    u32::try_from(bits).ok().map(Ipv4Addr::from)
}

/// Parses a number as in C: `0x` is hexadecimal, a leading `0` octal.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some("") => return Some(0),
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    // A number that does not fit is too large for an address.
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { 0 } else { u64::from_str_radix(digits, radix).unwrap_or(u64::MAX) })
}

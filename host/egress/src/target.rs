//! Decides where a request may go: parses a URL into an origin, and checks the origin against a grant.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use patchbay_core::text;
use patchbay_policy::HostPattern;
use url::Url;

use crate::{AddressScope, EgressError, EgressLimits, address::Class};

/// The scheme, host and port of a URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    https: bool,
    host: String,
    port: u16,
}

/// Why a text is not a URL that can be requested. No message contains a path or a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL is longer than allowed.
    #[error("it is longer than {} bytes", EgressLimits::URL_BYTES)]
    TooLong,
    /// It has a character that a line of HTTP must not contain.
    #[error("it contains a control character")]
    Control,
    /// It is not an absolute URL.
    #[error("{0}")]
    Syntax(#[from] url::ParseError),
    /// Its scheme is neither `https` nor `http`.
    #[error("its scheme is '{0}'; use https, or http for this machine")]
    Scheme(String),
    /// It carries a user name or a password.
    #[error("it contains a user name or a password; use a credential for secrets")]
    UserInfo,
    /// A capability cannot name its host.
    #[error("its host '{0}' cannot be granted: use a name without a dot at the end, or an IPv4 address")]
    Host(String),
    /// The port in the URL is zero.
    #[error("its port is 0")]
    Port,
    /// It has a path, a query or a fragment; only an origin is accepted.
    #[error("an origin has neither path nor query: write only scheme, host and port, such as https://api.example.com")]
    NotOrigin,
}

/// A parsed URL that was not checked against a permit. Nothing can be sent to it.
#[derive(Clone)]
pub struct Target {
    url: Url,
    origin: Origin,
}

/// A target that a permit covers.
#[derive(Clone)]
pub struct CheckedTarget {
    url: Url,
    origin: Origin,
    rule: HostPattern,
    reach: AddressScope,
}

impl Origin {
    /// Whether both may be the same server: the same host, or both this machine, with any scheme and port. Secrets that are bound
    /// to one are scrubbed from responses of the other.
    pub(crate) fn shares_host_with(&self, other: &Self) -> bool {
        self.host == other.host || (self.is_this_machine() && other.is_this_machine())
    }

    /// Whether it is this machine, by its name or its address.
    pub fn is_this_machine(&self) -> bool {
        match self.host.parse() {
            Ok(address) => matches!(Class::of(address), Class::Loopback),
            Err(_) => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }

    /// Returns the host: a name in lower case and ASCII, or an IPv4 address as four decimal numbers.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port; the default of the scheme if the URL names none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the scheme is `http`.
    pub fn is_plain(&self) -> bool {
        !self.https
    }

    /// Whether the port is the default of the scheme.
    pub fn is_default_port(&self) -> bool {
        self.port == if self.https { 443 } else { 80 }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.https { "https" } else { "http" }, self.host)?;
        if self.is_default_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl FromStr for Origin {
    type Err = UrlError;

    /// Parses a URL that has only scheme, host and port. A `/` at the end is accepted.
    fn from_str(written: &str) -> Result<Self, UrlError> {
        let target = Target::parse(written)?;
        if target.url.path() != "/" || target.url.query().is_some() || written.contains('#') {
            return Err(UrlError::NotOrigin);
        }
        Ok(target.origin)
    }
}

impl Target {
    /// Parses a URL according to the URL standard, and refuses URLs that are never requested. Drops the fragment.
    ///
    /// # Errors
    /// [`UrlError`], without the path or the query.
    pub fn parse(written: &str) -> Result<Self, UrlError> {
        if written.len() > EgressLimits::URL_BYTES {
            return Err(UrlError::TooLong);
        }
        // The standard silently drops some of these, and the URL requested would differ from the one written.
        if written.chars().any(char::is_control) {
            return Err(UrlError::Control);
        }
        let mut url = Url::parse(written)?;
        let https = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(UrlError::Scheme(text::excerpt(other, 20))),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::UserInfo);
        }
        url.set_fragment(None);
        let host = url.host_str().unwrap_or_default();
        if HostPattern::exactly(host, None).is_none() {
            return Err(UrlError::Host(text::excerpt(host, 80)));
        }
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(UrlError::Port)?;
        let origin = Origin { https, host: host.to_owned(), port };
        Ok(Self { url, origin })
    }

    /// Returns the origin for which a permit is needed.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the path as it is sent, without the query. The URL standard has removed `.` and `..`.
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// Returns the target if a permit for `granted` covers it. Does not look up names.
    ///
    /// If the pattern names the host exactly, `localhost`, names below it and loopback addresses may reach this
    /// machine, even over plain HTTP, and a private IPv4 address may be reached over HTTPS. In all other cases, only
    /// public addresses may be reached, over HTTPS.
    ///
    /// # Errors
    /// [`EgressError::NotCovered`], [`EgressError::PlainHttp`], or [`EgressError::Address`] for an address that
    /// `granted` does not allow.
    pub fn allow(self, granted: HostPattern) -> Result<CheckedTarget, EgressError> {
        let Self { url, origin } = self;
        if !granted.covers(&origin.host, origin.port, origin.is_default_port()) {
            return Err(EgressError::NotCovered { rule: granted, origin });
        }
        let exact = matches!(granted, HostPattern::One(..));
        let address: Option<Ipv4Addr> = origin.host.parse().ok();
        let reach = match address.map(|address| Class::of(address.into())) {
            Some(Class::Loopback) if exact => AddressScope::Loopback,
            Some(Class::Private) if exact => AddressScope::Private,
            None if exact && (origin.host == "localhost" || origin.host.ends_with(".localhost")) => {
                AddressScope::Loopback
            }
            _ => AddressScope::Public,
        };
        if let Some(address) = address {
            reach.check(&origin.host, address.into())?;
        }
        if origin.is_plain() && reach != AddressScope::Loopback {
            return Err(EgressError::PlainHttp { origin });
        }
        Ok(CheckedTarget { url, origin, rule: granted, reach })
    }

    /// Returns the target if it is public: HTTPS, to addresses that are neither of this machine nor of its network. For files that
    /// a user names by URL, and for redirects of their servers.
    ///
    /// # Errors
    /// [`EgressError::PlainHttp`], or [`EgressError::Address`] for an address that is not public.
    pub fn allow_public(self) -> Result<CheckedTarget, EgressError> {
        let Self { url, origin } = self;
        let reach = AddressScope::Public;
        if let Ok(address) = origin.host.parse::<Ipv4Addr>() {
            reach.check(&origin.host, address.into())?;
        }
        if origin.is_plain() {
            return Err(EgressError::PlainHttp { origin });
        }
        Ok(CheckedTarget { url, origin, rule: HostPattern::Any, reach })
    }

    /// Like [`Target::allow`], for an origin with `allow_private`, which `granted` must name exactly: the host may also
    /// be, or resolve to, a private or loopback address, even over plain HTTP. Public addresses need HTTPS.
    ///
    /// # Errors
    /// [`EgressError::NotCovered`], or [`EgressError::Address`] for an address that this does not allow.
    pub fn allow_private(self, granted: HostPattern) -> Result<CheckedTarget, EgressError> {
        let Self { url, origin } = self;
        let covered = granted.covers(&origin.host, origin.port, origin.is_default_port());
        if !covered || !matches!(granted, HostPattern::One(..)) {
            return Err(EgressError::NotCovered { rule: granted, origin });
        }
        // The addresses of a name are checked when it is looked up.
        let reach = if origin.is_plain() { AddressScope::Near } else { AddressScope::NearOrPublic };
        if let Ok(address) = origin.host.parse::<Ipv4Addr>() {
            reach.check(&origin.host, address.into())?;
        }
        Ok(CheckedTarget { url, origin, rule: granted, reach })
    }
}

impl CheckedTarget {
    /// Returns the origin that the request goes to.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Parses the `Location` header of a response from this target: a URL, or a reference relative to this target. Does not follow
    /// it.
    ///
    /// # Errors
    /// The same as [`Target::parse`].
    pub fn location(&self, written: &str) -> Result<Target, UrlError> {
        if written.len() > EgressLimits::URL_BYTES {
            return Err(UrlError::TooLong);
        }
        if written.chars().any(char::is_control) {
            return Err(UrlError::Control);
        }
        Target::parse(self.url.join(written)?.as_str())
    }

    /// Returns whether the request can only reach public addresses.
    pub fn is_public(&self) -> bool {
        self.reach == AddressScope::Public
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn rule(&self) -> &HostPattern {
        &self.rule
    }

    pub(crate) fn reach(&self) -> AddressScope {
        self.reach
    }
}

/// Prints only the origin, because a path can be as secret as a query.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.origin)
    }
}

impl fmt::Debug for CheckedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckedTarget({} by http:{})", self.origin, self.rule)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> HostPattern {
        match format!("http:{text}").parse() {
            Ok(patchbay_policy::Capability::Http(host)) => host,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn url_spellings_have_one_origin() {
        for (url, origin) in [
            ("https://example.com", "https://example.com"),
            ("https://EXAMPLE.com:443/a?b#c", "https://example.com"),
            ("http://example.com:443/", "http://example.com:443"),
            ("https://example.com:8443/", "https://example.com:8443"),
            ("https://bücher.example/", "https://xn--bcher-kva.example"),
            ("https://ｅｘａｍｐｌｅ.com/", "https://example.com"),
            ("https://2130706433/", "https://127.0.0.1"),
            ("https://0x7f.1/", "https://127.0.0.1"),
            ("https://0177.0.0.1/", "https://127.0.0.1"),
            ("https://0xa9fea9fe/", "https://169.254.169.254"),
            ("https://1.2.3.4./", "https://1.2.3.4"),
            ("https://good.com\\@evil.com/", "https://good.com"),
        ] {
            assert_eq!(Target::parse(url).unwrap().origin().to_string(), origin, "{url}");
        }
    }

    #[test]
    fn public_targets_are_https_to_public_addresses() {
        for (url, allowed) in [
            ("https://example.com:8443/x", true),
            ("https://8.8.8.8/", true),
            ("https://localhost/", true),
            ("http://example.com/", false),
            ("http://localhost/", false),
            ("https://127.0.0.1/", false),
            ("https://192.168.0.1/", false),
            ("https://169.254.169.254/", false),
        ] {
            // The addresses of names are checked when they are looked up.
            let checked = Target::parse(url).unwrap().allow_public();
            assert_eq!(checked.is_ok(), allowed, "{url}");
            assert!(checked.is_err() || checked.unwrap().reach() == AddressScope::Public);
        }
    }

    #[test]
    fn location_is_resolved_against_the_target() {
        let target = Target::parse("https://example.com/a/b?c").unwrap().allow_public().unwrap();
        for (location, url) in [
            ("d", "https://example.com/a/d"),
            ("/d?e#f", "https://example.com/d?e"),
            ("//other.example/d", "https://other.example/d"),
            ("http://other.example:81", "http://other.example:81/"),
        ] {
            assert_eq!(target.location(location).unwrap().url.as_str(), url, "{location}");
        }
        assert_eq!(target.location("https://me:secret@example.com/").err(), Some(UrlError::UserInfo));
        assert_eq!(target.location("/a\nb").err(), Some(UrlError::Control));
        assert_eq!(target.location(&"a".repeat(EgressLimits::URL_BYTES + 1)).err(), Some(UrlError::TooLong));
    }

    #[test]
    fn forbidden_urls_are_refused() {
        use UrlError::{Control, Host, NotOrigin, Port, Scheme, TooLong, UserInfo};
        let long = format!("https://example.com/{}", "a".repeat(EgressLimits::URL_BYTES));
        for (url, error) in [
            (long.as_str(), TooLong),
            ("https://example.com/\r\nX: y", Control),
            ("https://exa\tmple.com/", Control),
            ("ftp://example.com/", Scheme("ftp".to_owned())),
            ("file:///etc/passwd", Scheme("file".to_owned())),
            ("data:,x", Scheme("data".to_owned())),
            ("https://user@example.com/", UserInfo),
            ("https://:pass@example.com/", UserInfo),
            ("https://example.com@127.0.0.1/", UserInfo),
            ("https://[::1]/", Host("[::1]".to_owned())),
            ("https://[::ffff:127.0.0.1]/", Host("[::ffff:7f00:1]".to_owned())),
            ("https://example.com./", Host("example.com.".to_owned())),
            ("https://localhost./", Host("localhost.".to_owned())),
            ("https://a..b/", Host("a..b".to_owned())),
            ("https://*.example.com/", Host("*.example.com".to_owned())),
            ("https://example.com:0/", Port),
        ] {
            assert_eq!(Target::parse(url).unwrap_err(), error, "{url}");
        }
        for url in ["", "example.com", "//example.com/", "https://", "https:///?q", "https://a b/", "https://a:65536/"]
        {
            assert!(Target::parse(url).is_err(), "{url}");
        }
        for origin in ["https://a.org/x", "https://a.org/?", "https://a.org/#"] {
            assert_eq!(origin.parse::<Origin>(), Err(NotOrigin), "{origin}");
        }
        assert_eq!("https://a.org:444/".parse::<Origin>().unwrap().to_string(), "https://a.org:444");
    }

    #[test]
    fn permit_covers_only_its_named_hosts() {
        use AddressScope::{Loopback, Private, Public};
        for (url, granted, reach) in [
            ("https://example.com/", "example.com", Ok(Public)),
            ("https://example.com/", "*", Ok(Public)),
            ("https://8.8.8.8/", "8.8.8.8", Ok(Public)),
            ("https://8.8.8.8/", "*", Ok(Public)),
            ("http://localhost:8080/", "localhost:8080", Ok(Loopback)),
            ("http://localhost/", "localhost", Ok(Loopback)),
            ("https://localhost/", "localhost", Ok(Loopback)),
            ("http://app.localhost:1/", "app.localhost:1", Ok(Loopback)),
            ("http://127.0.0.1:8080/", "127.0.0.1:8080", Ok(Loopback)),
            ("http://2130706433:8080/", "127.0.0.1:8080", Ok(Loopback)),
            ("https://192.168.1.5/", "192.168.1.5", Ok(Private)),
            // A pattern with a star does not reach this machine.
            ("https://localhost/", "*", Ok(Public)),
            ("https://app.localhost/", "*.localhost", Ok(Public)),
            ("https://127.0.0.1/", "*", Err("denied")),
            ("https://2130706433/", "*", Err("denied")),
            ("https://192.168.1.5/", "*", Err("denied")),
            ("http://192.168.1.5/", "192.168.1.5", Err("denied")),
            ("http://example.com/", "example.com", Err("denied")),
            ("http://8.8.8.8/", "8.8.8.8", Err("denied")),
            ("http://localhost/", "*", Err("denied")),
            ("https://169.254.169.254/", "169.254.169.254", Err("denied")),
            ("https://0.0.0.0/", "0.0.0.0", Err("denied")),
            ("https://100.100.100.200/", "100.100.100.200", Err("denied")),
            // A permit for another host or port.
            ("https://example.com/", "example.org", Err("denied")),
            ("https://example.com:8443/", "example.com", Err("denied")),
            ("https://example.com/", "*.example.com", Err("denied")),
        ] {
            let checked = Target::parse(url).unwrap().allow(rule(granted));
            assert_eq!(checked.map(|checked| checked.reach).map_err(|error| error.kind()), reach, "{url} by {granted}");
        }
    }

    #[test]
    fn private_addresses_need_permission() {
        use AddressScope::{Near, NearOrPublic};
        for (url, granted, reach) in [
            ("http://192.168.1.5:8080/", "192.168.1.5:8080", Ok(Near)),
            ("http://127.0.0.1/", "127.0.0.1", Ok(Near)),
            ("http://models.lan/", "models.lan", Ok(Near)),
            ("https://models.lan/", "models.lan", Ok(NearOrPublic)),
            ("https://8.8.8.8/", "8.8.8.8", Ok(NearOrPublic)),
            ("http://8.8.8.8/", "8.8.8.8", Err("denied")),
            ("http://169.254.169.254/", "169.254.169.254", Err("denied")),
            ("https://169.254.169.254/", "169.254.169.254", Err("denied")),
            ("https://100.100.100.200/", "100.100.100.200", Err("denied")),
            ("http://models.lan/", "other.lan", Err("denied")),
            ("http://models.lan:81/", "models.lan", Err("denied")),
            ("https://models.lan/", "*.lan", Err("denied")),
            ("https://models.lan/", "*", Err("denied")),
        ] {
            let checked = Target::parse(url).unwrap().allow_private(rule(granted));
            assert_eq!(checked.map(|checked| checked.reach).map_err(|error| error.kind()), reach, "{url} by {granted}");
        }
    }

    #[test]
    fn refusal_names_the_remedy() {
        let refusal = |url, granted| Target::parse(url).unwrap().allow(rule(granted)).unwrap_err().to_string();
        assert_eq!(
            refusal("https://127.0.0.1/secret?secret", "*"),
            "'127.0.0.1' is 127.0.0.1, a loopback address, which this request may not reach: a loopback or private IPv4 address, or localhost, needs a grant that names it exactly"
        );
        assert_eq!(
            refusal("https://169.254.169.254/", "169.254.169.254"),
            "'169.254.169.254' is 169.254.169.254, a link-local address, where clouds serve their metadata, which \
             this request may not reach: no grant can allow it"
        );
        assert_eq!(
            Target::parse("http://8.8.8.8/").unwrap().allow_private(rule("8.8.8.8")).unwrap_err().to_string(),
            "'8.8.8.8' is 8.8.8.8, a public address, which this request may not reach: plain http is only allowed \
             for private and loopback addresses; use https"
        );
        assert_eq!(
            refusal("http://example.com/secret", "example.com"),
            "refusing to send an unencrypted request to http://example.com: plain http is only allowed for this \
             machine, with a grant that names its host exactly, such as 'http:localhost:8080'. Use https"
        );
    }

    proptest! {
        #[test]
        fn url_parsing_never_panics(text in "(https?:)?[/\\\\]{0,3}\\PC{0,40}") {
            if let Ok(target) = Target::parse(&text) {
                let origin = target.origin();
                // Each parsed origin can be named by a capability, and parses to itself.
                let port = (!origin.is_default_port()).then_some(origin.port());
                let exact = HostPattern::exactly(origin.host(), port).unwrap();
                prop_assert!(exact.covers(origin.host(), origin.port(), origin.is_default_port()));
                prop_assert_eq!(&origin.to_string().parse::<Origin>().unwrap(), origin);
                let _ = target.allow(exact);
            }
        }

        #[test]
        fn numeric_hosts_are_checked_as_addresses(number: u32) {
            let address = Ipv4Addr::from(number);
            let [a, b, c, d] = address.octets();
            for host in [
                format!("{number}"), format!("{number:#x}"), format!("0{number:o}"), format!("{a}.{b}.{}", number & 0xffff),
                format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"), format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"), address.to_string(),
            ] {
                let target = Target::parse(&format!("https://{host}/")).unwrap();
                prop_assert_eq!(target.origin().host(), address.to_string());
                prop_assert_eq!(target.allow(HostPattern::Any).is_ok(), AddressScope::Public.covers(address.into()));
            }
        }
    }
}

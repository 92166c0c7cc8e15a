//! The operator's rules for packages: `[plugins]` and `[publishers.NAME]` of `config.toml`. Pure.
//!
//! Without rules, a package may come from anywhere, signed or not. A rule can only forbid something: permissions are still granted
//! skill by skill.

use std::{collections::BTreeMap, fmt, str::FromStr};

use patchbay_core::{Code, Name, text};
use patchbay_egress::Target;
use patchbay_policy::Capability;
use patchbay_skill::Fingerprint;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which packages may be added. Packages that are already installed keep working.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginRules {
    /// Where packages may come from: `"*"`, the address of a package without its version, or the beginning of an address followed
    /// by `*`, such as `"oci://ghcr.io/acme/*"`, `"https://github.com/acme/*"` or `"/srv/plugins/*"`. Redirects of a server are not
    /// compared.
    pub sources: Vec<SourcePattern>,
    /// Whether each package needs a signature by a key that a `[publishers.NAME]` lists. A key that was merely pinned on first use
    /// is not enough.
    pub require_signature: bool,
}

impl Default for PluginRules {
    fn default() -> Self {
        Self { sources: anywhere(), require_signature: false }
    }
}

/// A publisher of packages that you know, and the most that its packages may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublisherConfig {
    /// The keys that sign its packages, each as a fingerprint (`SHA256:…`, as `ssh-keygen -l` prints it) or as the line of a
    /// `.pub` file.
    pub keys: Vec<Fingerprint>,
    /// Where its packages may come from, written as in `[plugins]`. The default is `["*"]`.
    #[serde(default = "anywhere")]
    pub sources: Vec<SourcePattern>,
    /// The capabilities that its packages may ask for, such as `["kv", "http:*.example.com"]`; a package that asks for more is
    /// refused. Without this key, they may ask for any.
    #[schemars(with = "Option<Vec<String>>")]
    pub capabilities: Option<Vec<Capability>>,
}

fn anywhere() -> Vec<SourcePattern> {
    vec![SourcePattern { start: String::new(), is_exact: false }]
}

/// A prefix of addresses, or one exact address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct SourcePattern {
    start: String,
    is_exact: bool,
}

/// The possible beginnings of an address: a scheme, or the root of local files.
const STARTS: [&str; 4] = ["https://", "oci://", "http://", "/"];

impl SourcePattern {
    /// Returns whether the pattern covers the source `from`: a URL, a registry's address or an absolute path, without `..`.
    fn covers(&self, from: &str) -> bool {
        let Some(rest) = from.strip_prefix(&self.start) else { return false };
        let lower = rest.to_ascii_lowercase();
        // Servers may treat these as separators, and a `..` after them would lead elsewhere.
        let leads_out =
            lower.split('/').any(|segment| segment == "..") || ["%2f", "%5c", "\\"].iter().any(|x| lower.contains(x));
        if self.is_exact { rest.is_empty() } else { self.start.is_empty() || !leads_out }
    }
}

impl FromStr for SourcePattern {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let (start, is_exact) = written.strip_suffix('*').map_or((written, true), |start| (start, false));
        let scheme = STARTS.iter().find_map(|scheme| start.strip_prefix(scheme).map(|rest| (*scheme, rest)));
        let is_whole_host = match scheme {
            None => start.is_empty() && !is_exact,
            Some(("/", _)) => true,
            // After a host without `/`, `*` would also match `example.com.evil.org`.
            Some((_, rest)) => (rest.is_empty() && !is_exact) || rest.find('/').is_some_and(|at| at > 0),
        };
        if is_whole_host && !start.contains('*') {
            return Ok(Self { start: start.to_owned(), is_exact });
        }
        let written = text::excerpt(written, 80);
        Err(format!(
            "'{written}' is not a source: write \"*\", an address, or its beginning and '*', as in \"oci://ghcr.io/acme/*\""
        ))
    }
}

impl TryFrom<String> for SourcePattern {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        written.parse()
    }
}

impl fmt::Display for SourcePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.start, if self.is_exact { "" } else { "*" })
    }
}

/// The properties of a package that the rules check.
#[derive(Clone, Copy, Debug)]
pub struct RuledPackage<'a> {
    /// Its source: a URL, a registry's address without version and digest, or an absolute path.
    pub from: &'a str,
    /// The key that signed it, if it has a valid signature.
    pub signer: Option<Fingerprint>,
    /// The capabilities that its skills ask for.
    pub asks: &'a [Capability],
}

/// Why the operator's rules refuse a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No pattern covers the source.
    #[error("[plugins] sources in config.toml does not allow {from}; it allows {}", listed(.sources))]
    Source {
        /// The source of the package.
        from: String,
        /// The allowed sources.
        sources: Vec<SourcePattern>,
    },
    /// A signature by a publisher is required.
    #[error(
        "{}, but [plugins] require_signature in config.toml requires a signature by a key in [publishers.NAME]",
        .0.map_or_else(|| "the package is not signed".to_owned(), |signer| format!("no publisher lists the signing key {signer}"))
    )]
    Signature(Option<Fingerprint>),
    /// The publisher's rule does not allow this source.
    #[error("[publishers.{publisher}] sources in config.toml does not allow {from}; it allows {}", listed(.sources))]
    PublisherSource {
        /// The publisher whose key signed the package.
        publisher: Name,
        /// The source of the package.
        from: String,
        /// The allowed sources.
        sources: Vec<SourcePattern>,
    },
    /// The package asks for a capability that its publisher's rule does not allow.
    #[error(
        "[publishers.{publisher}] capabilities in config.toml does not allow '{capability}', which the package asks for"
    )]
    Capability {
        /// The publisher whose key signed the package.
        publisher: Name,
        /// The first capability that is not allowed.
        capability: Capability,
    },
}

fn listed(sources: &[SourcePattern]) -> String {
    match sources {
        [] => "nothing".to_owned(),
        sources => sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl RuleError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Source { .. } | Self::PublisherSource { .. } => Code::SourceRefused,
            Self::Signature(_) => Code::SignatureRequired,
            Self::Capability { .. } => Code::PublisherExceeded,
        }
    }
}

/// All rules of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageRules {
    /// `[plugins]`.
    pub plugins: PluginRules,
    /// `[publishers.NAME]`.
    pub publishers: BTreeMap<Name, PublisherConfig>,
}

impl PackageRules {
    /// Checks that packages may come from `from`, before anything is fetched.
    ///
    /// # Errors
    /// [`RuleError::Source`].
    pub fn check_source(&self, from: &str) -> Result<(), RuleError> {
        let (from, sources) = (normal(from), &self.plugins.sources);
        match sources.iter().any(|pattern| pattern.covers(&from)) {
            true => Ok(()),
            false => Err(RuleError::Source { from, sources: sources.clone() }),
        }
    }

    /// Checks the rules, and returns the publisher that lists the signing key, if any.
    ///
    /// # Errors
    /// [`RuleError`], if a rule refuses the package.
    pub fn judge(&self, package: &RuledPackage<'_>) -> Result<Option<&Name>, RuleError> {
        self.check_source(package.from)?;
        let from = normal(package.from);
        let listed = package
            .signer
            .and_then(|signer| self.publishers.iter().find(|(_, publisher)| publisher.keys.contains(&signer)));
        let Some((name, publisher)) = listed else {
            return if self.plugins.require_signature { Err(RuleError::Signature(package.signer)) } else { Ok(None) };
        };
        if !publisher.sources.iter().any(|pattern| pattern.covers(&from)) {
            let (publisher, sources) = (name.clone(), publisher.sources.clone());
            return Err(RuleError::PublisherSource { publisher, from, sources });
        }
        let is_covered =
            |asked: &&Capability| publisher.capabilities.iter().flatten().any(|allowed| allowed.includes(asked));
        let more = publisher.capabilities.as_ref().and_then(|_| package.asks.iter().find(|asked| !is_covered(asked)));
        match more {
            Some(more) => Err(RuleError::Capability { publisher: name.clone(), capability: more.clone() }),
            None => Ok(Some(name)),
        }
    }

    /// Checks the tables together, and returns an error if two publishers list the same key.
    pub fn problem(&self) -> Option<String> {
        let mut owners = BTreeMap::new();
        for (name, publisher) in &self.publishers {
            for key in &publisher.keys {
                if let Some(other) = owners.insert(key, name).filter(|other| *other != name) {
                    return Some(format!("[publishers.{name}]: the key {key} is also listed by [publishers.{other}]"));
                }
            }
        }
        None
    }
}

/// Returns a URL as it is requested, without its query. Any other source is returned unchanged.
fn normal(from: &str) -> String {
    match Target::parse(from) {
        Ok(target) => format!("{}{}", target.origin(), target.path()),
        Err(_) => from.to_owned(),
    }
}

/// The package is not signed by the pinned signer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pinned signer is {pinned}, and {}", match .found {
    Some(found) => format!(
        "this version is signed by {found}. If its publisher confirms the new key, repeat with: --accept-signer {found}"
    ),
    None => "this version is not signed. To use it anyway, remove the package and add it again".to_owned(),
})]
pub struct SignerChanged {
    /// The key in `packages.lock`.
    pub pinned: Fingerprint,
    /// The key that signed the new version.
    pub found: Option<Fingerprint>,
}

/// Checks the signer of a new version against the pinned one. `accepted` is the key of `--accept-signer`. A package without a pinned
/// key may get one.
///
/// # Errors
/// [`SignerChanged`].
pub fn check_signer(
    pinned: Option<Fingerprint>,
    found: Option<Fingerprint>,
    accepted: Option<Fingerprint>,
) -> Result<(), SignerChanged> {
    match pinned {
        Some(pinned) if found != Some(pinned) && (found.is_none() || found != accepted) => {
            Err(SignerChanged { pinned, found })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const OTHER: &str = "SHA256:BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn key(text: &str) -> Option<Fingerprint> {
        Some(text.parse().unwrap())
    }

    fn pattern(text: &str) -> SourcePattern {
        text.parse().unwrap()
    }

    fn rules(sources: &[&str], require_signature: bool, publisher: &str) -> PackageRules {
        let plugins = PluginRules { sources: sources.iter().map(|text| pattern(text)).collect(), require_signature };
        let publisher = serde_json::from_str(publisher).unwrap();
        PackageRules { plugins, publishers: BTreeMap::from([("acme".parse().unwrap(), publisher)]) }
    }

    #[test]
    fn sources_are_compared_by_whole_hosts_and_folders() {
        for (pattern, from, covers) in [
            ("*", "anything", true),
            ("https://github.com/acme/*", "https://github.com/acme/x/greet.wasm", true),
            ("https://github.com/acme/*", "https://github.com/acmeevil/greet.wasm", false),
            ("https://github.com/acme/*", "https://github.com/acme/../evil/greet.wasm", false),
            ("https://github.com/acme/*", "https://github.com/acme/%2e%2e/evil/greet.wasm", false),
            ("https://github.com/acme/*", "https://github.com/acme/..%2Fevil/greet.wasm", false),
            ("https://github.com/acme/*", "https://GitHub.com:443/acme/greet.wasm?x", true),
            ("https://github.com/acme/x.wasm", "https://github.com/acme/x.wasm", true),
            ("https://github.com/acme/x.wasm", "https://github.com/acme/x.wasm2", false),
            ("oci://ghcr.io/acme/*", "oci://ghcr.io/acme/greet", true),
            ("oci://ghcr.io/acme/*", "oci://ghcr.io/other/greet", false),
            ("oci://*", "oci://ghcr.io/other/greet", true),
            ("oci://*", "https://ghcr.io/other/greet", false),
            ("/srv/*", "/srv/greet", true),
            ("/srv/*", "/srv/../tmp/greet", false),
            ("/srv/greet", "/srv/greet", true),
        ] {
            let rules = rules(&[pattern], false, "{\"keys\": []}");
            let candidate = RuledPackage { from, signer: None, asks: &[] };
            assert_eq!(rules.judge(&candidate).is_ok(), covers, "{pattern} {from}");
        }
        for wrong in [
            "",
            "https://github.com*",
            "github.com/acme/*",
            "https:///x*",
            "https://a/*/b",
            "a*",
            "https://github.com",
            "~/x/*",
        ] {
            let error = wrong.parse::<SourcePattern>().unwrap_err();
            assert!(error.starts_with(&format!("'{wrong}' is not a source: write ")), "{error}");
        }
        assert_eq!(pattern("oci://ghcr.io/acme/*").to_string(), "oci://ghcr.io/acme/*");
    }

    #[test]
    fn refusals_name_the_rule() {
        let acme = format!(
            "{{\"keys\": [\"{KEY}\"], \"sources\": [\"https://acme.example/*\"], \"capabilities\": [\"kv\", \"http:*.acme.example\"]}}"
        );
        let rules = rules(&["https://*"], true, &acme);
        let judge = |from: &str, signer, asks: &[&str]| {
            let asks: Vec<Capability> = asks.iter().map(|text| text.parse().unwrap()).collect();
            let judged = rules.judge(&RuledPackage { from, signer, asks: &asks });
            judged
                .map(|publisher| publisher.map(ToString::to_string))
                .map_err(|error| (error.code(), error.to_string()))
        };
        let here = "https://acme.example/greet.wasm";
        assert_eq!(judge(here, key(KEY), &["http:api.acme.example"]), Ok(Some("acme".to_owned())));
        for (from, signer, asks, code, words) in [
            (
                "/srv/greet",
                key(KEY),
                &[][..],
                Code::SourceRefused,
                "[plugins] sources in config.toml does not allow /srv/greet; it allows https://*",
            ),
            (
                "https://x.example/y",
                key(KEY),
                &[],
                Code::SourceRefused,
                "[publishers.acme] sources in config.toml does not allow https://x.example/y; it allows https://acme.example/*",
            ),
            (here, None, &[], Code::SignatureRequired, "the package is not signed, but [plugins] require_signature"),
            (here, key(OTHER), &[], Code::SignatureRequired, "no publisher lists the signing key SHA256:BAAA"),
            (
                here,
                key(KEY),
                &["kv", "http:*"],
                Code::PublisherExceeded,
                "[publishers.acme] capabilities in config.toml does not allow 'http:*', which the package asks for",
            ),
        ] {
            let (found, text) = judge(from, signer, asks).unwrap_err();
            assert!(found == code && text.starts_with(words), "{found}: {text}");
        }
        let lenient = PackageRules { plugins: PluginRules::default(), ..rules.clone() };
        for signer in [None, key(OTHER)] {
            assert_eq!(lenient.judge(&RuledPackage { from: "/x", signer, asks: &[Capability::Kv] }), Ok(None));
        }
        let mut twice = rules;
        let acme = twice.publishers.values().next().unwrap().clone();
        twice.publishers.insert("zoo".parse().unwrap(), acme);
        assert_eq!(
            twice.problem(),
            Some(format!("[publishers.zoo]: the key {KEY} is also listed by [publishers.acme]"))
        );
    }

    #[test]
    fn pinned_signer_changes_only_by_its_fingerprint() {
        let (ours, theirs) = (key(KEY), key(OTHER));
        for (pinned, found, accepted, is_ok) in [
            (None, None, None, true),
            (None, theirs, None, true),
            (ours, ours, None, true),
            (ours, theirs, None, false),
            (ours, theirs, ours, false),
            (ours, theirs, theirs, true),
            (ours, None, None, false),
            (ours, None, ours, false),
        ] {
            assert_eq!(check_signer(pinned, found, accepted).is_ok(), is_ok, "{pinned:?} {found:?} {accepted:?}");
        }
        let error = check_signer(ours, theirs, None).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "the pinned signer is {KEY}, and this version is signed by {OTHER}. If its publisher confirms the new key, repeat with: --accept-signer {OTHER}"
            )
        );
    }
}

//! The status of each provider: for `/providers`, `patchbay provider list` and its JSON.

use std::{collections::BTreeMap, fmt};

use patchbay_core::{Digest, text};
use patchbay_egress::SecretLookup;
use serde::{Serialize, Serializer};

use crate::{
    catalogue::{Catalogue, offered},
    readiness::Readiness,
    registry::{Entry, EntrySource, Registry},
};

/// Whether a provider can be asked. Shown and serialised as `ready`, `needs key`, `needs origin`, `pending` or `refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderState {
    /// The provider is ready for requests.
    Ready,
    /// Its key is missing or cannot be used.
    NeedsKey,
    /// The operator must name its origin.
    NeedsOrigin,
    /// The operator must allow it.
    Pending,
    /// It cannot be used, or the operator has blocked it.
    Refused,
}

impl fmt::Display for ProviderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::NeedsKey => "needs key",
            Self::NeedsOrigin => "needs origin",
            Self::Pending => "pending",
            Self::Refused => "refused",
        })
    }
}

impl Serialize for ProviderState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a provider comes from. Shown and serialised as `bundled`, `config.toml`, or the name of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderSource {
    /// The provider is part of the binary.
    Bundled,
    /// A table of `config.toml`.
    Config,
    /// A file of the providers folder, by its name.
    File(String),
}

impl fmt::Display for ProviderSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bundled => "bundled",
            Self::Config => "config.toml",
            Self::File(name) => name,
        })
    }
}

impl Serialize for ProviderSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The status of one provider, as `/providers` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// Its name; for a file that is not a provider, the file's name without `.wasm`.
    pub name: String,
    /// The name that is shown to users.
    pub display_name: String,
    /// The adapter, with its version.
    pub adapter: String,
    /// The digest of its component; `None` for a file that is not an adapter, and for a table without an adapter.
    pub digest: Option<Digest>,
    /// Where the provider comes from.
    pub source: ProviderSource,
    /// Whether the provider can be asked, or why not.
    pub state: ProviderState,
    /// Why it is not ready, and which of its prefixes belong to other providers.
    pub reason: Option<String>,
    /// The base URL of its requests; `None` if it sends none.
    pub origin: Option<String>,
    /// Prefixes of the names of its models.
    pub prefixes: Vec<String>,
    /// The ids of the models that it offers, starting with its table.
    pub models: Vec<String>,
    /// When its API listed its models last, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed_at: Option<i64>,
    /// Number of models in its API's last list that were left out, because their id or facts are invalid.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Why its API could not be asked for its models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listing_problem: Option<String>,
    /// The first environment variable of its key; `None` if it has none.
    pub variable: Option<String>,
    /// All environment variables in which its key is looked up, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// Whether a command prints its key. The command is not run for a list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub key_command: bool,
    /// Whether its key was found, or a command prints it. Looked for only if the provider may be asked.
    pub credential: bool,
    /// Why its key cannot be used.
    pub credential_problem: Option<String>,
    /// The model of the agent in view, as `/model` accepts it, if this provider serves it. The caller sets it, because
    /// providers do not know about sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Returns the name of a provider that users see.
pub(crate) fn display_name(entry: &Entry) -> String {
    // Several instances of an adapter have one display name, so they are shown by their own names.
    match entry.source {
        EntrySource::Config => entry.name.to_string(),
        EntrySource::Bundled | EntrySource::File => entry.adapter.manifest.display_name.clone(),
    }
}

/// Returns whether a provider may be asked.
type GetReadiness<'a> = &'a dyn Fn(&Entry) -> Readiness;
/// Returns whether a provider's key exists, or the problem with it; `None` if the provider needs none.
type FindKey<'a> = &'a dyn Fn(&Entry) -> Option<Result<bool, String>>;

/// Returns the status of every provider, every table without an adapter, and every file that is not an adapter.
pub(crate) fn list(
    registry: &Registry,
    catalogue: &Catalogue,
    readiness: GetReadiness<'_>,
    key: FindKey<'_>,
) -> Vec<ProviderStatus> {
    let mut invalid: BTreeMap<&str, &str> =
        registry.found.invalid.iter().map(|(file, why)| (file.as_str(), why.as_str())).collect();
    let mut list: Vec<_> = registry
        .shown()
        .into_iter()
        .map(|entry| {
            let file = format!("{}.wasm", entry.name);
            let newer = if entry.source == EntrySource::File { invalid.remove(&*file) } else { None };
            let source = match entry.source {
                EntrySource::Bundled => ProviderSource::Bundled,
                EntrySource::Config => ProviderSource::Config,
                EntrySource::File => ProviderSource::File(file),
            };
            status(entry, catalogue, source, &readiness(entry), newer, key)
        })
        .collect();
    let missing = registry.missing.iter();
    list.extend(missing.map(|(name, why)| unusable(name.as_str(), ProviderSource::Config, why)));
    list.extend(invalid.into_iter().map(|(file, why)| {
        let source = ProviderSource::File(file.to_owned());
        unusable(file.trim_end_matches(".wasm"), source, why)
    }));
    list
}

/// Returns the status of a provider. `newer` is why a newer version of its file cannot be used, if there is one.
fn status(
    entry: &Entry,
    catalogue: &Catalogue,
    source: ProviderSource,
    readiness: &Readiness,
    newer: Option<&str>,
    key: FindKey<'_>,
) -> ProviderStatus {
    let why = readiness.why(&entry.name);
    let reason = match readiness {
        Readiness::Pending(_) => why.map(|why| format!("{why} To allow it: patchbay provider allow {}", entry.name)),
        _ => why,
    };
    let note = newer.map(|why| format!("the new file cannot be used, so the previous version stays in use: {why}"));
    // The key of a provider that may not be asked is not read into memory.
    let key = if *readiness == Readiness::Ready { key(entry) } else { None };
    let state = match (readiness, &key) {
        (Readiness::Ready, Some(Ok(false) | Err(_))) => ProviderState::NeedsKey,
        (Readiness::Ready, _) => ProviderState::Ready,
        (Readiness::NeedsOrigin(_), _) => ProviderState::NeedsOrigin,
        (Readiness::Pending(_), _) => ProviderState::Pending,
        (Readiness::Refused(_) | Readiness::Blocked(_), _) => ProviderState::Refused,
    };
    let (credential, credential_problem) = match key {
        None | Some(Ok(false)) => (false, None),
        Some(Ok(true)) => (true, None),
        Some(Err(why)) => (false, Some(why)),
    };
    let manifest = &entry.adapter.manifest;
    let listed = catalogue.of(entry);
    ProviderStatus {
        name: entry.name.to_string(),
        display_name: display_name(entry),
        adapter: format!("{} {}", manifest.name, manifest.version),
        digest: Some(entry.adapter.digest),
        source,
        state,
        reason: [reason, note, yielded(entry)].into_iter().flatten().reduce(|reason, note| format!("{reason}; {note}")),
        origin: entry.base_url.clone(),
        prefixes: entry.prefixes.clone(),
        models: offered(entry, catalogue).iter().map(|model| model.id.clone()).collect(),
        listed_at: listed.and_then(|listed| listed.listed_at),
        left_out: listed.map_or(0, |listed| listed.left_out),
        listing_problem: listed.and_then(|listed| listed.problem.clone()),
        variable: entry.variables().first().cloned(),
        variables: Some(entry.variables()).filter(|all| all.len() > 1).unwrap_or_default().to_vec(),
        key_command: matches!(entry.key, Some(SecretLookup::Command(_))),
        credential,
        credential_problem,
        in_use: None,
    }
}

/// Returns which prefixes of a provider belong to others; `None` if it has all of them.
fn yielded(entry: &Entry) -> Option<String> {
    let each =
        entry.yielded.iter().map(|(prefix, owner)| format!("its prefix '{prefix}' belongs to provider '{owner}'"));
    each.reduce(|one, next| format!("{one}; {next}"))
}

/// Returns the status of a table or a file without an adapter.
fn unusable(name: &str, source: ProviderSource, why: &str) -> ProviderStatus {
    ProviderStatus {
        name: name.to_owned(),
        display_name: name.to_owned(),
        adapter: "none".to_owned(),
        digest: None,
        source,
        state: ProviderState::Refused,
        reason: Some(why.to_owned()),
        origin: None,
        prefixes: Vec::new(),
        models: Vec::new(),
        listed_at: None,
        left_out: 0,
        listing_problem: None,
        variable: None,
        variables: Vec::new(),
        key_command: false,
        credential: false,
        credential_problem: None,
        in_use: None,
    }
}

/// Returns the text of `/providers`: a paragraph for each provider.
pub fn render(providers: &[ProviderStatus]) -> String {
    let shown = providers.iter().map(|provider| {
        let mut lines =
            vec![format!("{} - {} ({}, {})", provider.name, provider.state, provider.adapter, provider.source)];
        let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
        if let Some(model) = &provider.in_use {
            line("in use", model.clone());
        }
        if let Some(reason) = &provider.reason {
            line("note", reason.clone());
        }
        if provider.digest.is_some() {
            line("origin", provider.origin.clone().unwrap_or_else(|| "(none)".to_owned()));
            line("prefixes", or_none(&provider.prefixes));
            line("models", models(provider));
            if let Some(problem) = &provider.listing_problem {
                line("listing", format!("failed: {problem}"));
            }
            line("key", key(provider));
        }
        lines.join("\n")
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

/// Maximum number of models of one provider that `/providers` shows.
const SHOWN_MODELS: usize = 12;

/// Returns the text about the models: their ids, and when their API listed them.
fn models(provider: &ProviderStatus) -> String {
    let mut words = or_none(&provider.models[..provider.models.len().min(SHOWN_MODELS)]);
    if let Some(more) = provider.models.len().checked_sub(SHOWN_MODELS).filter(|more| *more > 0) {
        words += &format!(", … and {} more", text::with_commas(more as u64));
    }
    if let Some(at) = provider.listed_at.and_then(|at| jiff::Timestamp::from_second(at).ok()) {
        words += &format!(" (listed {}", at.strftime("%Y-%m-%d %H:%M"));
        if provider.left_out > 0 {
            words += &format!("; {} left out as invalid", text::with_commas(provider.left_out));
        }
        words.push(')');
    }
    words
}

fn or_none(words: &[String]) -> String {
    if words.is_empty() { "(none)".to_owned() } else { words.join(", ") }
}

impl ProviderStatus {
    /// Returns the environment variables of its key for the user, as `A` or `A or B`; `None` if there are none.
    pub fn key_variables(&self) -> Option<String> {
        match self.variables.as_slice() {
            [] => self.variable.clone(),
            several => Some(several.join(" or ")),
        }
    }

    /// Returns how to set its key.
    pub fn how_to_set_key(&self) -> String {
        let (name, variables) = (&self.name, self.key_variables().unwrap_or_default());
        format!("set {variables}, or add \"{name}\": {{\"api_key\": \"…\"}} to credentials.json")
    }
}

fn key(provider: &ProviderStatus) -> String {
    if provider.key_command {
        return "by command".to_owned();
    }
    let looked_for = matches!(provider.state, ProviderState::Ready | ProviderState::NeedsKey);
    match (provider.key_variables(), provider.credential, &provider.credential_problem) {
        (None, ..) => "not needed".to_owned(),
        (Some(variables), ..) if !looked_for => format!("{variables}, not checked"),
        (Some(_), _, Some(problem)) => problem.clone(),
        (Some(variables), true, None) => format!("present ({variables}, or credentials.json)"),
        (Some(_), false, None) => format!("missing: {}", provider.how_to_set_key()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_sources_keep_their_words_in_json() {
        for (state, word) in [
            (ProviderState::Ready, "ready"),
            (ProviderState::NeedsKey, "needs key"),
            (ProviderState::NeedsOrigin, "needs origin"),
            (ProviderState::Pending, "pending"),
            (ProviderState::Refused, "refused"),
        ] {
            assert_eq!(serde_json::to_value(state).unwrap(), word);
        }
        for (source, word) in [
            (ProviderSource::Bundled, "bundled"),
            (ProviderSource::Config, "config.toml"),
            (ProviderSource::File("zed.wasm".to_owned()), "zed.wasm"),
        ] {
            assert_eq!(serde_json::to_value(source).unwrap(), word);
        }
    }
}

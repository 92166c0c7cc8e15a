//! Where each provider stands, for people.

use std::collections::BTreeMap;

use patchbay_core::Digest;
use serde::Serialize;

use crate::registry::{Entry, Registry, Source};

/// Whether a provider may be asked, apart from its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It may.
    Ready,
    /// Only its origin is missing, which the operator has to name; in words.
    NeedsOrigin(String),
    /// It waits for the operator's yes, and why.
    Pending(String),
    /// It cannot be used, and why.
    Refused(String),
}

/// What `/providers` says of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// What it is called.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// The adapter, with its version.
    pub adapter: String,
    /// The digest of its component; none for a file that is no adapter, and a table without one.
    pub digest: Option<Digest>,
    /// Where it comes from: `bundled`, `config.toml`, or a file's name.
    pub source: String,
    /// `ready`, `needs key`, `needs origin`, `pending` or `refused`.
    pub state: &'static str,
    /// Why it is not ready.
    pub reason: Option<String>,
    /// Where its requests go; none: nowhere.
    pub origin: Option<String>,
    /// Its prefixes.
    pub prefixes: Vec<String>,
    /// Its models.
    pub models: Vec<String>,
    /// The environment variable of its key; none: it needs none.
    pub variable: Option<String>,
    /// Whether there is a key. It is looked for where the provider is ready.
    pub credential: bool,
    /// What is wrong with the key that there is.
    pub credential_problem: Option<String>,
    /// The model of the agent in view, as `/model` takes it, if this provider answers it. The caller sets it: a provider
    /// knows of no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
}

pub(crate) fn display_name(entry: &Entry) -> String {
    // Two instances of an adapter are told apart by their own names.
    match entry.source {
        Source::Config => entry.name.to_string(),
        Source::Bundled | Source::File => entry.adapter.manifest.display_name.clone(),
    }
}

type Judge<'a> = &'a dyn Fn(&Entry) -> State;
/// Whether there is a key, where one is needed.
type Keys<'a> = &'a dyn Fn(&Entry) -> Option<Result<bool, String>>;

/// Every provider, every table without an adapter, and every file that is none.
pub(crate) fn list(registry: &Registry, state: Judge<'_>, keys: Keys<'_>) -> Vec<ProviderStatus> {
    let mut bad: BTreeMap<&str, &str> =
        registry.found.bad.iter().map(|(file, why)| (file.as_str(), why.as_str())).collect();
    let mut list: Vec<_> = registry
        .shown()
        .into_iter()
        .map(|entry| {
            let (word, reason) = match state(entry) {
                State::Ready => ("ready", None),
                State::NeedsOrigin(why) => ("needs origin", Some(why)),
                State::Pending(why) => {
                    ("pending", Some(format!("{why} To allow it: patchbay provider allow {}", entry.name)))
                }
                State::Refused(why) => ("refused", Some(why)),
            };
            // A good version stays in force where a bad file took its place.
            let bad = (entry.source == Source::File).then(|| bad.remove(&*format!("{}.wasm", entry.name))).flatten();
            let note = bad.map(|why| format!("the file there now cannot be used, the one before stays: {why}"));
            let reason = [reason, note].into_iter().flatten().reduce(|reason, note| format!("{reason}; {note}"));
            // Whoever may not be asked needs no key in memory.
            let key = if word == "ready" { keys(entry) } else { None };
            let word = if matches!(key, Some(Ok(false) | Err(_))) { "needs key" } else { word };
            let (credential, credential_problem) = match key {
                None | Some(Ok(false)) => (false, None),
                Some(Ok(true)) => (true, None),
                Some(Err(why)) => (false, Some(why)),
            };
            let manifest = &entry.adapter.manifest;
            ProviderStatus {
                name: entry.name.to_string(),
                display_name: display_name(entry),
                adapter: format!("{} {}", manifest.name, manifest.version),
                digest: Some(entry.adapter.digest),
                source: match entry.source {
                    Source::Bundled => "bundled".to_owned(),
                    Source::Config => "config.toml".to_owned(),
                    Source::File => format!("{}.wasm", entry.name),
                },
                state: word,
                reason,
                origin: entry.base_url.clone(),
                prefixes: entry.prefixes.clone(),
                models: entry.models.iter().map(|model| model.id.clone()).collect(),
                variable: entry.variable.clone(),
                credential,
                credential_problem,
                in_use: None,
            }
        })
        .collect();
    list.extend(registry.missing.iter().map(|(name, why)| unusable(name.as_str(), "config.toml", why)));
    list.extend(bad.into_iter().map(|(file, why)| unusable(file.trim_end_matches(".wasm"), file, why)));
    list
}

/// What has no adapter.
fn unusable(name: &str, source: &str, why: &str) -> ProviderStatus {
    ProviderStatus {
        name: name.to_owned(),
        display_name: name.to_owned(),
        adapter: "none".to_owned(),
        digest: None,
        source: source.to_owned(),
        state: "refused",
        reason: Some(why.to_owned()),
        origin: None,
        prefixes: Vec::new(),
        models: Vec::new(),
        variable: None,
        credential: false,
        credential_problem: None,
        in_use: None,
    }
}

/// The text of `/providers`: a paragraph each.
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
            line("models", or_none(&provider.models));
            line("key", key(provider));
        }
        lines.join("\n")
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

fn or_none(words: &[String]) -> String {
    if words.is_empty() { "(none)".to_owned() } else { words.join(", ") }
}

fn key(provider: &ProviderStatus) -> String {
    match (&provider.variable, provider.credential, &provider.credential_problem) {
        (None, ..) => "not needed".to_owned(),
        (Some(variable), ..) if !matches!(provider.state, "ready" | "needs key") => {
            format!("{variable}, not looked for")
        }
        (Some(_), _, Some(problem)) => problem.clone(),
        (Some(variable), true, None) => format!("present ({variable}, or credentials.json)"),
        (Some(variable), false, None) => {
            format!("missing: set {variable}, or add \"{}\": {{\"api_key\": \"…\"}} to credentials.json", provider.name)
        }
    }
}

/// What has changed from one registry to the next, a sentence each.
pub(crate) fn changes(before: &Registry, after: &Registry, state: Judge<'_>) -> Vec<String> {
    let mut notices = Vec::new();
    for entry in after.shown() {
        let name = &entry.name;
        let stands = match state(entry) {
            State::Ready => "it is ready.".to_owned(),
            State::Pending(why) => format!("{why} To allow it: patchbay provider allow {name}"),
            State::NeedsOrigin(why) | State::Refused(why) => format!("it cannot be used: {why}"),
        };
        match before.get(name.as_str()) {
            None => notices.push(format!("Provider '{name}' is new: {stands}")),
            Some(old) if !same(old, entry) => notices.push(format!("Provider '{name}' has changed: {stands}")),
            Some(_) => {}
        }
    }
    for entry in before.shown() {
        if after.get(entry.name.as_str()).is_none() {
            notices.push(format!("Provider '{}' is gone.", entry.name));
        }
    }
    for (file, why) in &after.found.bad {
        if before.found.bad.get(file) != Some(why) {
            let one_before =
                after.get(file.trim_end_matches(".wasm")).is_some_and(|entry| entry.source == Source::File);
            let what = if one_before { "cannot be used" } else { "is no provider" };
            notices.push(format!("The file '{file}' {what}, and changes nothing: {why}"));
        }
    }
    notices
}

fn same(a: &Entry, b: &Entry) -> bool {
    a.adapter.digest == b.adapter.digest
        && a.base_url == b.base_url
        && a.variable == b.variable
        && a.prefixes == b.prefixes
        && a.models == b.models
        && a.options == b.options
        && a.refused == b.refused
}

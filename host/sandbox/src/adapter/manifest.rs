use std::{collections::BTreeSet, fmt};

use patchbay_core::{Name, completion::ThinkingLevel, text};
use serde::{Deserialize, Serialize};

use crate::{Failure, Limits, bindings::adapter::patchbay::provider::types as wit};

/// What an adapter says of itself. Checked: names are valid, texts cleaned and on one line, lists and sizes bounded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterManifest {
    /// What the provider is called where the operator says nothing else.
    pub name: Name,
    /// For people.
    pub display_name: String,
    /// The adapter's version.
    pub version: String,
    /// Which models it serves besides the catalogue.
    pub model_prefixes: Vec<String>,
    /// The catalogue, in its order.
    pub models: Vec<ModelEntry>,
    /// Where it would like its requests to go: a suggestion.
    pub default_base_url: Option<String>,
    /// The secret that it needs: a suggestion.
    pub credential: Option<CredentialHint>,
    /// Pairs beside these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(String, String)>,
}

/// A model of a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEntry {
    /// Its id.
    pub id: String,
    /// How large it is among its like.
    pub size: ModelSize,
    /// Thinking levels that completion offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_levels: Vec<ThinkingLevel>,
    /// Media types that a message to it may carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_media: Vec<String>,
    /// Tokens that it can read, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Whether its provider gives it up.
    #[serde(default)]
    pub deprecated: bool,
}

/// How large a model is among its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelSize {
    /// Quick and cheap.
    Small,
    /// For most work.
    Normal,
    /// The best there is.
    Large,
    /// Nobody said.
    Unknown,
}

/// A secret that an adapter needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialHint {
    /// What its requests name it by.
    pub id: String,
    /// A word for people, such as `api-key`.
    pub scheme: String,
    /// The environment variable where it is usually kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The page that gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obtain_url: Option<String>,
}

/// What a thinking level comes to for a model, in words. Cleaned, each on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinkingPlan {
    /// Lines for the person.
    pub description: Vec<String>,
    /// What the person should know first.
    pub warning: Option<String>,
}

/// What a manifest may hold: more is of no use to a person who picks a model.
const LINE_CHARS: usize = 80;
const PREFIXES: usize = 32;
const PREFIX_CHARS: usize = 64;
const MODELS: usize = 1_000;
const ID_CHARS: usize = 128;
const MEDIA_TYPES: usize = 32;
const MEDIA_TYPE_CHARS: usize = 127;
const ENV_CHARS: usize = 64;
const OBTAIN_URL_CHARS: usize = 200;
const BASE_URL_CHARS: usize = 500;
const PLAN_LINES: usize = 8;
const PLAN_LINE_CHARS: usize = 200;

impl AdapterManifest {
    /// Checks what an adapter says of itself.
    pub(super) fn read(manifest: wit::Manifest) -> Result<Self, Failure> {
        let name = manifest.name.parse().or_else(|error| invalid(format!("the name: {error}")))?;
        let display_name = line("display-name", &manifest.display_name, LINE_CHARS)?;
        let version = line("version", &manifest.version, LINE_CHARS)?;
        at_most("model prefixes", manifest.model_prefixes.len(), PREFIXES)?;
        for prefix in &manifest.model_prefixes {
            if !is_word(prefix, PREFIX_CHARS) || prefix.contains(['/', ':']) {
                return wrong(
                    "model prefix",
                    prefix,
                    format_args!("1 to {PREFIX_CHARS} printable ASCII characters without white space, '/' and ':'"),
                );
            }
        }
        at_most("models", manifest.models.len(), MODELS)?;
        let models = manifest.models.into_iter().map(ModelEntry::read).collect::<Result<Vec<_>, _>>()?;
        let mut ids = BTreeSet::new();
        if let Some(twice) = models.iter().find(|model| !ids.insert(&model.id)) {
            return invalid(format!("model '{}' is declared twice", twice.id));
        }
        let default_base_url =
            manifest.default_base_url.map(|url| line("default-base-url", &url, BASE_URL_CHARS)).transpose()?;
        at_most("credentials", manifest.credentials.len(), 1)?;
        let credential = manifest.credentials.into_iter().next().map(CredentialHint::read).transpose()?;
        let size = manifest.extra.iter().map(|pair| pair.name.len() + pair.value.len()).sum();
        at_most("bytes of extra", size, Limits::DESCRIPTION_BYTES)?;
        let extra = |pair: wit::Pair| (text::clean_line(&pair.name), text::clean_line(&pair.value));
        Ok(Self {
            name,
            display_name,
            version,
            model_prefixes: manifest.model_prefixes,
            models,
            default_base_url,
            credential,
            extra: manifest.extra.into_iter().map(extra).collect(),
        })
    }
}

impl ModelEntry {
    fn read(model: wit::Model) -> Result<Self, Failure> {
        let id = model.id;
        if !is_word(&id, ID_CHARS) {
            let rule = format_args!("1 to {ID_CHARS} printable ASCII characters without white space");
            return wrong("model id", &id, rule);
        }
        let size = match model.size.as_str() {
            "small" => ModelSize::Small,
            "normal" => ModelSize::Normal,
            "large" => ModelSize::Large,
            "unknown" => ModelSize::Unknown,
            other => {
                let what = format!("size of model '{id}'");
                return wrong(&what, other, format_args!("'small', 'normal', 'large' or 'unknown'"));
            }
        };
        let level = |word: &String| {
            let what = || format!("level of model '{id}'");
            let levels = format_args!("'none', 'low', 'med' or 'high'");
            ThinkingLevel::from_word(word).map_or_else(|| wrong(&what(), word, levels), Ok)
        };
        let suggested_levels = model.suggested_levels.iter().map(level).collect::<Result<Vec<_>, _>>()?;
        at_most(&format!("suggested levels of model '{id}'"), suggested_levels.len(), ThinkingLevel::ALL.len())?;
        at_most(&format!("media types of model '{id}'"), model.input_media.len(), MEDIA_TYPES)?;
        if let Some(media) = model.input_media.iter().find(|media| !is_media_type(media)) {
            let what = format!("media type of model '{id}'");
            return wrong(&what, media, format_args!("TYPE/SUBTYPE of at most {MEDIA_TYPE_CHARS} characters"));
        }
        let (input_media, context_window, deprecated) = (model.input_media, model.context_window, model.deprecated);
        Ok(Self { id, size, suggested_levels, input_media, context_window, deprecated })
    }
}

impl CredentialHint {
    fn read(credential: wit::Credential) -> Result<Self, Failure> {
        let id: Name = credential.id.parse().or_else(|error| invalid(format!("the credential's id: {error}")))?;
        if let Some(env) = credential.env.as_ref().filter(|env| !is_variable(env)) {
            let rule = format_args!("1 to {ENV_CHARS} of A-Z, 0-9 and '_', a letter first");
            return wrong("credential's env", env, rule);
        }
        let is_url = |url: &str| is_word(url, OBTAIN_URL_CHARS) && url.starts_with("https://");
        if let Some(url) = credential.obtain_url.as_ref().filter(|url| !is_url(url)) {
            let rule = format_args!("an https URL of at most {OBTAIN_URL_CHARS} characters");
            return wrong("credential's obtain-url", url, rule);
        }
        let scheme = line("credential's scheme", &credential.scheme, LINE_CHARS)?;
        Ok(Self { id: id.into(), scheme, env: credential.env, obtain_url: credential.obtain_url })
    }
}

impl ThinkingPlan {
    /// Checks and cleans what an adapter says of a level.
    pub(super) fn read(plan: wit::ThinkingPlan) -> Result<Self, Failure> {
        at_most("lines of description", plan.description.len(), PLAN_LINES)?;
        let description = plan.description.iter().map(|text| line("line of description", text, PLAN_LINE_CHARS));
        let warning = plan.warning.map(|text| line("warning", &text, PLAN_LINE_CHARS));
        Ok(Self { description: description.collect::<Result<_, _>>()?, warning: warning.transpose()? })
    }
}

/// A cleaned text for people, on one line.
fn line(what: &str, value: &str, max: usize) -> Result<String, Failure> {
    let line = text::clean_line(value);
    if line.is_empty() || line.chars().count() > max {
        return wrong(what, value, format_args!("1 to {max} characters"));
    }
    Ok(line)
}

fn is_word(word: &str, max: usize) -> bool {
    !word.is_empty() && word.len() <= max && word.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.len() <= ENV_CHARS
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Without parameters.
fn is_media_type(media: &str) -> bool {
    let token = |token: &str| {
        let is_symbol = |byte: u8| b"!#$&-^_.+*".contains(&byte);
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_symbol(byte))
    };
    media.len() <= MEDIA_TYPE_CHARS
        && media.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

fn at_most(what: &str, count: usize, limit: usize) -> Result<(), Failure> {
    if count > limit { invalid(format!("{count} {what}, at most {limit} are allowed")) } else { Ok(()) }
}

fn wrong<T>(what: &str, value: &str, rule: fmt::Arguments<'_>) -> Result<T, Failure> {
    invalid(format!("the {what} '{}' is not {rule}", text::excerpt(value, 80)))
}

fn invalid<T>(message: String) -> Result<T, Failure> {
    Err(Failure::InvalidOutput(message))
}

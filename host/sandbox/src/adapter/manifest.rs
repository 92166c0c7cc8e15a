//! The manifest of an adapter: its name, models, and suggested address and credential. All values are checked.

use std::{collections::BTreeSet, fmt};

use patchbay_core::{Name, completion::ThinkingLevel, text};
use serde::{Deserialize, Serialize};

use super::listing::FACTS_BYTES;
use crate::{Failure, Limits, bindings::adapter::patchbay::provider::types as wit};

/// The checked manifest of an adapter: names are valid, texts are cleaned and on one line, and lists and sizes are limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterManifest {
    /// The provider's name, unless the operator sets another one.
    pub name: Name,
    /// The name that is shown to users.
    pub display_name: String,
    /// The version of the adapter.
    pub version: String,
    /// Prefixes of the models that the adapter serves in addition to its catalogue.
    pub model_prefixes: Vec<String>,
    /// The catalogue of models, in order.
    pub models: Vec<ModelEntry>,
    /// Suggested base URL of its requests.
    pub default_base_url: Option<String>,
    /// The secret that it needs.
    pub credential: Option<CredentialHint>,
    /// Additional name-value pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(String, String)>,
}

/// A model in an adapter's catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelEntry {
    /// The id of the model, as the API knows it.
    pub id: String,
    /// The relative size of the model.
    pub size: ModelSize,
    /// Thinking levels offered for completion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_levels: Vec<ThinkingLevel>,
    /// Media types that a message to the model may contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_media: Vec<String>,
    /// Size of the context window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Whether the provider is going to remove the model.
    #[serde(default)]
    pub deprecated: bool,
    /// Further facts that the adapter knows. They should be a JSON object of at most [`FACTS_BYTES`](super::FACTS_BYTES), but are
    /// not parsed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<String>,
}

/// The size of a model relative to others of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "snake_case")]
pub enum ModelSize {
    /// A fast and inexpensive model.
    Small,
    /// A model for most kinds of work.
    Normal,
    /// The most capable kind of model.
    Large,
    /// The adapter does not specify a size.
    Unknown,
}

/// A secret that an adapter needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialHint {
    /// The id by which requests refer to it.
    pub id: String,
    /// The kind of secret, shown to the user, such as `api-key`.
    pub scheme: String,
    /// The environment variable where it is usually stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// Other variables that are read if `env` is not set. The manifest declares them as `env-also` pairs of the credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_also: Vec<String>,
    /// The page where the user can obtain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obtain_url: Option<String>,
}

/// Describes the effect of a thinking level on a model. Each line is cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinkingPlan {
    /// The lines of the description.
    pub description: Vec<String>,
    /// A warning that is shown first.
    pub warning: Option<String>,
}

/// Length limit of a display name, a version or a credential's scheme, in characters. All limits of a manifest are small, because a
/// larger one would not help the user to choose a model.
const LINE_CHARS: usize = 80;
/// Maximum number of model prefixes in a manifest.
const PREFIXES: usize = 32;
/// Length limit of a model prefix, in characters.
const PREFIX_CHARS: usize = 64;
/// Maximum number of models in a manifest.
const MODELS: usize = 1_000;
/// Length limit of a model's or a credential's id, in characters.
const ID_CHARS: usize = 128;
/// Maximum number of suggested levels of one model.
const SUGGESTED_LEVELS: usize = 4;
/// Maximum number of input media types of one model.
const MEDIA_TYPES: usize = 32;
/// Length limit of a media type, in characters.
const MEDIA_TYPE_CHARS: usize = 127;
/// Length limit of a variable's name, in characters.
const ENV_CHARS: usize = 64;
/// Maximum number of further variables for a credential (`env-also`).
const ENV_ALSO: usize = 3;
/// Length limit of a credential's `obtain-url`, in characters.
const OBTAIN_URL_CHARS: usize = 200;
/// Length limit of the default base URL, in characters.
const BASE_URL_CHARS: usize = 500;
/// Maximum number of lines that describe a thinking level.
const PLAN_LINES: usize = 8;
/// Length limit of such a line, and of its warning, in characters.
const PLAN_LINE_CHARS: usize = 200;

impl ModelSize {
    /// Returns the name of the size, such as `small`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl AdapterManifest {
    /// Checks the manifest of an adapter.
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
        if !is_model_id(&id) {
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
            // Other levels are rejected, because older hosts refuse them, and an adapter that contains them would not work
            // everywhere.
            let level = ThinkingLevel::from_word(word).filter(|level| level.is_common());
            level.map_or_else(|| wrong(&what(), word, levels), Ok)
        };
        let suggested_levels = model.suggested_levels.iter().map(level).collect::<Result<Vec<_>, _>>()?;
        at_most(&format!("suggested levels of model '{id}'"), suggested_levels.len(), SUGGESTED_LEVELS)?;
        at_most(&format!("media types of model '{id}'"), model.input_media.len(), MEDIA_TYPES)?;
        if let Some(media) = model.input_media.iter().find(|media| !is_media_type(media)) {
            let what = format!("media type of model '{id}'");
            return wrong(&what, media, format_args!("TYPE/SUBTYPE of at most {MEDIA_TYPE_CHARS} characters"));
        }
        let facts = model.extra.into_iter().find(|pair| pair.name == "facts").map(|pair| pair.value);
        at_most(&format!("bytes of facts of model '{id}'"), facts.as_ref().map_or(0, String::len), FACTS_BYTES)?;
        let (input_media, context_window, deprecated) = (model.input_media, model.context_window, model.deprecated);
        Ok(Self { id, size, suggested_levels, input_media, context_window, deprecated, facts })
    }
}

impl CredentialHint {
    fn read(credential: wit::Credential) -> Result<Self, Failure> {
        let id: Name = credential.id.parse().or_else(|error| invalid(format!("the credential's id: {error}")))?;
        let also = credential.extra.into_iter().filter(|pair| pair.name == "env-also");
        let env_also: Vec<String> = also.map(|pair| pair.value).collect();
        at_most("variables in env-also", env_also.len(), ENV_ALSO)?;
        let mut variables = credential.env.iter().chain(&env_also);
        if let Some(env) = variables.find(|env| !is_variable(env)) {
            let rule = format_args!("1 to {ENV_CHARS} of A-Z, 0-9 and '_', a letter first");
            return wrong("credential env", env, rule);
        }
        if credential.env.is_none() && !env_also.is_empty() {
            return invalid("the credential has env-also, but no env".to_owned());
        }
        let is_url = |url: &str| is_word(url, OBTAIN_URL_CHARS) && url.starts_with("https://");
        if let Some(url) = credential.obtain_url.as_ref().filter(|url| !is_url(url)) {
            let rule = format_args!("an https URL of at most {OBTAIN_URL_CHARS} characters");
            return wrong("credential obtain-url", url, rule);
        }
        let scheme = line("credential scheme", &credential.scheme, LINE_CHARS)?;
        Ok(Self { id: id.into(), scheme, env: credential.env, env_also, obtain_url: credential.obtain_url })
    }
}

impl ThinkingPlan {
    /// Checks and cleans an adapter's explanation of a thinking level.
    pub(super) fn read(description: &[String], warning: Option<&str>) -> Result<Self, Failure> {
        at_most("lines of description", description.len(), PLAN_LINES)?;
        let description = description.iter().map(|text| line("line of description", text, PLAN_LINE_CHARS));
        let warning = warning.map(|text| line("warning", text, PLAN_LINE_CHARS));
        Ok(Self { description: description.collect::<Result<_, _>>()?, warning: warning.transpose()? })
    }
}

/// Returns a cleaned, non-empty text on one line.
fn line(what: &str, value: &str, max: usize) -> Result<String, Failure> {
    let line = text::clean_line(value);
    if line.is_empty() || line.chars().count() > max {
        return wrong(what, value, format_args!("1 to {max} characters"));
    }
    Ok(line)
}

/// Returns whether `id` may be the id of a model.
pub(super) fn is_model_id(id: &str) -> bool {
    is_word(id, ID_CHARS)
}

fn is_word(word: &str, max: usize) -> bool {
    !word.is_empty() && word.len() <= max && word.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.len() <= ENV_CHARS
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns whether `media` is a media type without parameters.
fn is_media_type(media: &str) -> bool {
    let token = |token: &str| {
        let is_symbol = |byte: u8| b"!#$&-^_.+*".contains(&byte);
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_symbol(byte))
    };
    media.len() <= MEDIA_TYPE_CHARS
        && media.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

fn at_most(what: &str, count: usize, limit: usize) -> Result<(), Failure> {
    if count > limit { invalid(format!("{count} {what}; the limit is {limit}")) } else { Ok(()) }
}

fn wrong<T>(what: &str, value: &str, rule: fmt::Arguments<'_>) -> Result<T, Failure> {
    invalid(format!("invalid {what} '{}': use {rule}", text::excerpt(value, 80)))
}

fn invalid<T>(message: String) -> Result<T, Failure> {
    Err(Failure::InvalidOutput(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> wit::Pair {
        wit::Pair { name: name.into(), value: value.into() }
    }

    fn model(id: &str) -> wit::Model {
        wit::Model {
            id: id.into(),
            size: "normal".into(),
            suggested_levels: vec!["low".into(), "high".into()],
            input_media: vec!["image/png".into(), "application/vnd.a+json".into()],
            context_window: Some(200_000),
            deprecated: false,
            extra: Vec::new(),
        }
    }

    fn credential() -> wit::Credential {
        wit::Credential {
            id: "acme".into(),
            scheme: "api-key".into(),
            env: Some("ACME_API_KEY".into()),
            obtain_url: Some("https://acme.example/keys".into()),
            extra: vec![pair("env-also", "ACME_KEY"), pair("unknown", "x")],
        }
    }

    fn manifest() -> wit::Manifest {
        wit::Manifest {
            name: "acme".into(),
            display_name: " Acme\n\u{202e}Models ".into(),
            version: "1.0".into(),
            model_prefixes: vec!["acme-".into()],
            models: vec![model("acme-1"), model("org/acme-2:free")],
            default_base_url: Some("https://api.acme.example/v1".into()),
            credentials: vec![credential()],
            extra: vec![pair("api-label", "Acme\u{200b} API")],
        }
    }

    #[test]
    fn valid_manifest_is_cleaned_and_accepted() {
        let read = AdapterManifest::read(manifest()).unwrap();
        assert_eq!((read.name.as_str(), &read.display_name[..]), ("acme", "Acme Models"));
        assert_eq!(read.extra, [("api-label".to_owned(), "Acme API".to_owned())]);
        assert_eq!(read.models[0].suggested_levels, [ThinkingLevel::Low, ThinkingLevel::High]);
        assert_eq!((read.models[1].id.as_str(), read.models[1].size), ("org/acme-2:free", ModelSize::Normal));
        assert_eq!(read.credential.as_ref().unwrap().env.as_deref(), Some("ACME_API_KEY"));
        assert_eq!(read.credential.as_ref().unwrap().env_also, ["ACME_KEY"]);
        // The store contains the manifest in this form.
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<AdapterManifest>(&text).unwrap(), read);
        // Values at the bounds are accepted.
        let mut largest = manifest();
        largest.models = (0..1_000).map(|i| model(&format!("{i:0128}"))).collect();
        largest.model_prefixes = (0..32).map(|i| format!("{i:064}")).collect();
        AdapterManifest::read(largest).unwrap();
    }

    #[test]
    fn manifest_errors_name_the_value() {
        let with = |change: &dyn Fn(&mut wit::Manifest)| {
            let mut changed = manifest();
            change(&mut changed);
            changed
        };
        let prefix = |text: &str| with(&|m| m.model_prefixes = vec![text.into()]);
        let id = |text: &str| with(&|m| m.models[0].id = text.into());
        let env = |text: &str| with(&|m| m.credentials[0].env = Some(text.into()));
        let url = |text: &str| with(&|m| m.credentials[0].obtain_url = Some(text.into()));
        let media = |text: &str| with(&|m| m.models[0].input_media = vec![text.into()]);
        let words = "1 to 64 printable ASCII characters without white space, '/' and ':'";
        let ids = "1 to 128 printable ASCII characters without white space";
        let cases: Vec<(wit::Manifest, String)> = vec![
            (with(&|m| m.name = "A".into()), "the name: 'A' is not a valid name: use 1 to 64 of a-z".into()),
            (with(&|m| m.display_name = "\u{200b}".into()), "invalid display-name '': use 1 to 80 characters".into()),
            (with(&|m| m.version = "9".repeat(81)), format!("invalid version '{}…': use 1 to 80", "9".repeat(80))),
            (prefix(""), format!("invalid model prefix '': use {words}")),
            (prefix("a b"), format!("invalid model prefix 'a b': use {words}")),
            (prefix("a/"), format!("invalid model prefix 'a/': use {words}")),
            (prefix("a:"), format!("invalid model prefix 'a:': use {words}")),
            (prefix("ä"), format!("invalid model prefix 'ä': use {words}")),
            (prefix(&"a".repeat(65)), format!("invalid model prefix '{}': use {words}", "a".repeat(65))),
            (with(&|m| m.model_prefixes = vec!["a".into(); 33]), "33 model prefixes; the limit is 32".into()),
            (id(""), format!("invalid model id '': use {ids}")),
            (id("a\tb"), format!("invalid model id 'a b': use {ids}")),
            (id(&"a".repeat(129)), format!("invalid model id '{}…': use {ids}", "a".repeat(80))),
            (id("org/acme-2:free"), "model 'org/acme-2:free' is declared twice".into()),
            (with(&|m| m.models = vec![model("a"); 1_001]), "1001 models; the limit is 1000".into()),
            (
                with(&|m| m.models[0].size = "big".into()),
                "invalid size of model 'acme-1' 'big': use 'small', 'normal', 'large' or 'unknown'".into(),
            ),
            (
                with(&|m| m.models[0].suggested_levels = vec!["medium".into()]),
                "invalid level of model 'acme-1' 'medium': use 'none', 'low', 'med' or 'high'".into(),
            ),
            (
                with(&|m| m.models[0].suggested_levels = vec!["low".into(); 5]),
                "5 suggested levels of model 'acme-1'; the limit is 4".into(),
            ),
            (media("png"), "invalid media type of model 'acme-1' 'png': use TYPE/SUBTYPE".into()),
            (media("a/b c"), "invalid media type of model 'acme-1' 'a/b c': use TYPE/SUBTYPE".into()),
            (
                with(&|m| m.models[0].input_media = vec!["a/b".into(); 33]),
                "33 media types of model 'acme-1'; the limit is 32".into(),
            ),
            (with(&|m| m.credentials = vec![credential(); 2]), "2 credentials; the limit is 1".into()),
            (with(&|m| m.credentials[0].id = "a b".into()), "the credential's id: 'a b' is not a valid name".into()),
            (
                with(&|m| m.credentials[0].scheme = "s".repeat(81)),
                format!("invalid credential scheme '{}…': use 1 to 80", "s".repeat(80)),
            ),
            (env("acme"), "invalid credential env 'acme': use 1 to 64 of A-Z, 0-9 and '_', a letter first".into()),
            (
                with(&|m| m.credentials[0].extra = vec![pair("env-also", "a key")]),
                "invalid credential env 'a key': use 1 to 64 of A-Z".into(),
            ),
            (
                with(&|m| m.credentials[0].extra = vec![pair("env-also", "A"); 4]),
                "4 variables in env-also; the limit is 3".into(),
            ),
            (with(&|m| m.credentials[0].env = None), "the credential has env-also, but no env".into()),
            (env("_A"), "invalid credential env '_A': use ".into()),
            (env("A=B"), "invalid credential env 'A=B': use ".into()),
            (env(&"A".repeat(65)), format!("invalid credential env '{}': use ", "A".repeat(65))),
            (url("http://a.example"), "invalid credential obtain-url 'http://a.example': use an https URL".into()),
            (url("https://a b"), "invalid credential obtain-url 'https://a b': use an https URL".into()),
            (
                with(&|m| m.default_base_url = Some("u".repeat(501))),
                format!("invalid default-base-url '{}…': use 1 to 500", "u".repeat(80)),
            ),
            (
                with(&|m| m.extra = vec![pair("a", &"x".repeat(8 << 10))]),
                "8193 bytes of extra; the limit is 8192".into(),
            ),
        ];
        for (broken, words) in cases {
            let failure = AdapterManifest::read(broken).unwrap_err();
            let Failure::InvalidOutput(message) = &failure else { panic!("{failure:?}") };
            assert!(message.starts_with(&words), "{message}\n{words}");
        }
    }
}

use patchbay_core::Name;
use serde::{Deserialize, Serialize};

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
    pub suggested_levels: Vec<patchbay_core::completion::ThinkingLevel>,
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

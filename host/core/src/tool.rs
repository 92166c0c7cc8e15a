//! The declaration of a tool. Skills' components return it; schema checks, `/help` and models use it.

use serde::{Deserialize, Serialize};

use crate::Name;

/// A tool as its component declares it, validated: the name is a [`Name`] and the schema a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The bare name, without the skill.
    pub name: Name,
    /// What the tool does, for models and users; cleaned.
    pub description: String,
    /// JSON Schema (2020-12) of the input.
    pub input_schema: serde_json::Value,
    /// Extension pairs that this host does not know, unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(String, String)>,
}

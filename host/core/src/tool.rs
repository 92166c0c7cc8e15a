use serde::{Deserialize, Serialize};

use crate::Name;

/// One tool, as its component declares it. Checked: the name is valid, the schema is a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its bare name.
    pub name: Name,
    /// For a model and a person; cleaned.
    pub description: String,
    /// JSON Schema (2020-12) of its input.
    pub input_schema: serde_json::Value,
    /// Pairs that this host does not know, kept as they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(String, String)>,
}

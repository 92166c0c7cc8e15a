//! The declaration of a tool. Skills' components return it; schema checks, `/help` and models use it.

use serde::{Deserialize, Serialize};

use crate::Name;

/// A tool as its component declares it, validated: the name is a [`Name`] and the schema a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The bare name, without the skill.
    pub name: Name,
    /// The tool's description, for models and users; cleaned.
    pub description: String,
    /// JSON Schema (2020-12) of the input.
    pub input_schema: serde_json::Value,
    /// Annotations, such as `read-only`; pairs that this host does not know are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(String, String)>,
}

impl ToolSpec {
    /// Returns the value of an annotation in `extra`, such as `title`; the first one counts.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.extra.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of an annotation that is `true` or `false`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.annotation(name).and_then(|value| value.parse().ok())
    }

    /// Returns whether the tool declares that it only reads. The host then denies it every capability with effects.
    pub fn is_read_only(&self) -> bool {
        self.flag("read-only") == Some(true)
    }

    /// Returns whether the tool's declaration is not sent to models. They find the tool with `find_tools`; a call by its name
    /// still works.
    pub fn is_deferred(&self) -> bool {
        self.flag("deferred") == Some(true)
    }
}

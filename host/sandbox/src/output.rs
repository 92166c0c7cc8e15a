//! Checks and cleans what components return: their tools and the content of answers.

use std::{collections::BTreeSet, fmt};

use patchbay_core::{Name, ToolSpec, text};
use serde_json::Value;

use crate::{
    Failure, Limits,
    bindings::patchbay::skill::types::{Content as WitContent, Tool},
    state::GuestState,
};

/// One part of an answer. Text is cleaned; JSON is parsed and cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text that the model should read.
    Text(String),
    /// A JSON value with cleaned texts.
    Json(Value),
    /// Binary content of a media type.
    Blob {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The bytes of the content.
        data: Vec<u8>,
    },
    /// A file of the workspace, by its path.
    Link {
        /// The path relative to the workspace.
        path: String,
        /// The media type, such as `image/png`.
        media_type: String,
    },
    /// A kind of content that this host does not know.
    Other {
        /// The name of the content's kind.
        name: String,
        /// The value as readable text.
        value: String,
    },
}

impl Content {
    /// Bytes that each part of a result costs in addition to its content. This also bounds a result of a million empty texts.
    pub const OVERHEAD: usize = 32;

    /// Returns this content with cleaned texts. Use it for content from a source outside the sandbox.
    #[must_use]
    pub fn cleaned(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text::clean(&text)),
            Self::Json(value) => Self::Json(clean_json(value)),
            Self::Blob { media_type, data } => Self::Blob { media_type: text::clean_line(&media_type), data },
            Self::Link { path, media_type } => {
                Self::Link { path: text::clean_line(&path), media_type: text::clean_line(&media_type) }
            }
            Self::Other { name, value } => Self::Other { name: text::clean_line(&name), value: text::clean(&value) },
        }
    }
}

/// Formats the content for a user or another tool. Bytes are described, not shown.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Json(value) => write!(f, "{value:#}"),
            Self::Blob { media_type, data } => write!(f, "[{media_type}, {} bytes]", data.len()),
            Self::Link { path, media_type } => write!(f, "{path} ({media_type})"),
            Self::Other { name, .. } => write!(f, "[{name}]"),
        }
    }
}

/// Converts a value to cleaned content. A string becomes text.
impl From<Value> for Content {
    fn from(value: Value) -> Self {
        match clean_json(value) {
            Value::String(text) => Self::Text(text),
            other => Self::Json(other),
        }
    }
}

/// Checks the tools that a component declares.
pub(crate) fn read_tools(tools: Vec<Tool>) -> Result<Vec<ToolSpec>, Failure> {
    if tools.len() > Limits::TOOLS {
        return invalid(format!("{} tools; the limit is {}", tools.len(), Limits::TOOLS));
    }
    let mut names = BTreeSet::new();
    let mut specs = Vec::with_capacity(tools.len());
    for tool in tools {
        let name: Name = match tool.name.parse() {
            Ok(name) => name,
            Err(error) => return invalid(format!("a tool's name: {error}")),
        };
        if !names.insert(name.clone()) {
            return invalid(format!("tool '{name}' is declared twice"));
        }
        for (what, size, limit) in [
            ("description", tool.description.len(), Limits::DESCRIPTION_BYTES),
            ("input schema", tool.input_schema.len(), Limits::SCHEMA_BYTES),
            (
                "extra",
                tool.extra.iter().map(|pair| pair.name.len() + pair.value.len()).sum(),
                Limits::DESCRIPTION_BYTES,
            ),
        ] {
            if size > limit {
                return invalid(format!("the {what} of tool '{name}' has {size} bytes; the limit is {limit}"));
            }
        }
        let input_schema = match serde_json::from_str(&tool.input_schema) {
            Ok(schema @ Value::Object(_)) => clean_schema(schema, name.as_str())?,
            Ok(_) => return invalid(format!("the input schema of tool '{name}' is not a JSON object")),
            Err(error) => return invalid(format!("the input schema of tool '{name}' is not valid JSON: {error}")),
        };
        let description = text::clean(&tool.description).trim().to_owned();
        let extra = tool.extra.iter().map(|pair| (text::clean_line(&pair.name), text::clean(&pair.value))).collect();
        specs.push(ToolSpec { name, description, input_schema, extra });
    }
    Ok(specs)
}

/// Cleans the texts of the input schema of `tool`. Property names are not changed, because the input must use
/// the names that the tool reads.
///
/// # Errors
/// [`Failure::InvalidOutput`] for a key that cleaning would change.
pub fn clean_schema(schema: Value, tool: &str) -> Result<Value, Failure> {
    match unclean_key(&schema) {
        Some(key) => invalid(format!(
            "the input schema of tool '{tool}' has a key with invisible characters: '{}'",
            text::excerpt(key, 80)
        )),
        None => Ok(clean_json(schema)),
    }
}

/// Returns the first key that cleaning would change. The JSON parser has limited the depth.
fn unclean_key(value: &Value) -> Option<&str> {
    match value {
        Value::Array(items) => items.iter().find_map(unclean_key),
        Value::Object(pairs) => pairs
            .iter()
            .find_map(|(name, value)| if text::clean(name) == *name { unclean_key(value) } else { Some(name) }),
        _ => None,
    }
}

/// Checks and cleans the answer of a tool.
pub(crate) fn read_content(content: Vec<WitContent>, state: &mut GuestState) -> Result<Vec<Content>, Failure> {
    let mut out = Vec::with_capacity(content.len());
    for piece in content {
        state.count_result(Content::OVERHEAD)?;
        out.push(match piece {
            WitContent::Text(text) => {
                state.count_result(text.len())?;
                Content::Text(text::clean(&text))
            }
            WitContent::Json(json) => {
                state.count_result(json.len())?;
                match serde_json::from_str(&json) {
                    Ok(value) => Content::Json(clean_json(value)),
                    Err(error) => return invalid(format!("content marked as json is not valid JSON: {error}")),
                }
            }
            WitContent::Blob(blob) => {
                state.count_result(blob.media_type.len() + blob.data.len())?;
                Content::Blob { media_type: text::clean_line(&blob.media_type), data: blob.data }
            }
            WitContent::Link(link) => {
                state.count_result(link.path.len() + link.media_type.len())?;
                Content::Link { path: text::clean_line(&link.path), media_type: text::clean_line(&link.media_type) }
            }
            WitContent::Other(pair) => {
                state.count_result(pair.name.len() + pair.value.len())?;
                Content::Other { name: text::clean_line(&pair.name), value: text::clean(&pair.value) }
            }
        });
    }
    Ok(out)
}

/// Cleans every string in a value, because parsing has turned JSON escapes into characters. The JSON parser has limited the depth.
fn clean_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text::clean(&text)),
        Value::Array(items) => items.into_iter().map(clean_json).collect(),
        Value::Object(pairs) => {
            pairs.into_iter().map(|(name, value)| (text::clean(&name), clean_json(value))).collect()
        }
        other => other,
    }
}

fn invalid<T>(message: String) -> Result<T, Failure> {
    Err(Failure::InvalidOutput(message))
}

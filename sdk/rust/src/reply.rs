//! The result of a tool, with conversions from common types.

use crate::Content;

/// The result of a tool: one or several pieces of content.
#[derive(Clone, Debug, Default)]
pub struct Reply(pub(crate) Vec<Content>);

impl Reply {
    /// Creates a reply without any content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if the reply is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pieces of content.
    pub fn content(&self) -> &[Content] {
        &self.0
    }

    /// Appends a piece of content.
    #[must_use]
    pub fn with(mut self, content: Content) -> Self {
        self.0.push(content);
        self
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self(vec![Content::Text(text)])
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<serde_json::Value> for Reply {
    fn from(value: serde_json::Value) -> Self {
        Self(vec![Content::Json(value.to_string())])
    }
}

impl From<Content> for Reply {
    fn from(content: Content) -> Self {
        Self(vec![content])
    }
}

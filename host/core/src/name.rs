//! Names of skills, tools, commands and personas.

use std::{borrow::Borrow, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a skill, a tool, a command or a persona: `[a-z0-9][a-z0-9_-]{0,63}` without `__`, which separates the skill
/// from the tool in `SKILL__TOOL`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A string that is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not a valid name: use 1 to {} of a-z, 0-9, '_' and '-', begin with a letter or digit, and do not use '__'",
    crate::text::excerpt(.0, 80),
    Name::MAX_LEN
)]
pub struct NameError(pub String);

impl Name {
    /// Length limit of a name and of `SKILL__TOOL` in bytes: every model API accepts tool names of this length.
    pub const MAX_LEN: usize = 64;

    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the full name of a tool of this skill, as a model sees it: `SKILL__TOOL`.
    pub fn tool(&self, tool: &Name) -> String {
        format!("{}__{}", self.0, tool.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let starts = text.as_bytes().first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let rest = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        if starts && rest && text.len() <= Self::MAX_LEN && !text.contains("__") {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "0", "plan_compiler", "a-b", "x_", &"a".repeat(64)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", "A", "_a", "-a", "a__b", "a b", "é", "a/b", "..", "a\n", &"a".repeat(65)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }
}

//! The name of a package.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The name of a package: 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`. It begins with a letter or digit, does not end with `.`, and
/// does not contain `..`. Every [`Name`](crate::Name) and every name of an Agent Plugin is one. It is used as a folder name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackageName(String);

/// A string that is not a [`PackageName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not a valid package name: use 1 to 64 of a-z, 0-9, '.', '_' and '-', begin with a letter or digit, do not end with '.', \
     and do not use '..'",
    crate::text::excerpt(.0, 80)
)]
pub struct PackageNameError(pub String);

impl PackageName {
    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PackageName {
    type Err = PackageNameError;

    fn from_str(text: &str) -> Result<Self, PackageNameError> {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let starts = text.bytes().next().is_some_and(is_plain);
        let rest = text.bytes().all(|b| is_plain(b) || matches!(b, b'.' | b'_' | b'-'));
        if starts && rest && text.len() <= 64 && !text.ends_with('.') && !text.contains("..") {
            Ok(Self(text.to_owned()))
        } else {
            Err(PackageNameError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for PackageName {
    type Error = PackageNameError;

    fn try_from(text: String) -> Result<Self, PackageNameError> {
        text.parse()
    }
}

impl From<PackageName> for String {
    fn from(name: PackageName) -> String {
        name.0
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_folders() {
        for good in ["a", "0", "aws-core", "com.example.x", "my_skill", &"a".repeat(64)] {
            assert!(good.parse::<PackageName>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".a", "-a", "a.", "a..b", "A", "a/b", "a b", "é", "a\n", &"a".repeat(65)] {
            assert!(bad.parse::<PackageName>().is_err(), "{bad}");
        }
    }
}

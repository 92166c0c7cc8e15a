//! The languages that plugins are written in, and how a folder's language is recognised.

use std::{path::Path, str::FromStr};

/// A language that has a template in [`create`](crate::create).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[allow(missing_docs)]
pub enum Language {
    Rust,
    JavaScript,
    TypeScript,
    Python,
    C,
    Zig,
    Go,
}

/// The kind of a plugin: skill or provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PluginKind {
    /// Tools and commands, described by a SKILL.md.
    #[default]
    Skill,
    /// The adapter of a language-model API.
    Provider,
}

/// A string that does not name a language.
#[derive(Debug, thiserror::Error)]
#[error("unknown language '{0}': use {names}", names = Language::names().join(", "))]
pub struct UnknownLanguage(String);

impl Language {
    /// All languages, in the order of the documentation.
    pub const ALL: [Self; 7] =
        [Self::Rust, Self::JavaScript, Self::TypeScript, Self::Python, Self::C, Self::Zig, Self::Go];

    /// Returns the word for `--lang`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::JavaScript => "js",
            Self::TypeScript => "ts",
            Self::Python => "python",
            Self::C => "c",
            Self::Zig => "zig",
            Self::Go => "go",
        }
    }

    /// Returns the `--lang` words of all languages.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.map(Self::word).to_vec()
    }

    /// Returns the file names that mark a folder as a plugin in this language, the usual one first.
    fn entries(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["Cargo.toml"],
            Self::JavaScript => &["skill.js", "provider.js"],
            Self::TypeScript => &["skill.ts", "provider.ts"],
            Self::Python => &["skill.py"],
            Self::C => &["skill.c"],
            Self::Zig => &["skill.zig"],
            Self::Go => &["skill.go"],
        }
    }

    /// Returns the languages whose entry file is in `folder`, each with that file.
    pub(crate) fn found_in(folder: &Path) -> Vec<(Self, &'static str)> {
        let entry = |language: Self| language.entries().iter().find(|name| folder.join(name).is_file());
        Self::ALL.into_iter().filter_map(|language| Some((language, *entry(language)?))).collect()
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(word: &str) -> Result<Self, UnknownLanguage> {
        match word.to_ascii_lowercase().as_str() {
            "javascript" => Ok(Self::JavaScript),
            "typescript" => Ok(Self::TypeScript),
            "py" => Ok(Self::Python),
            word => Self::ALL
                .into_iter()
                .find(|language| language.word() == word)
                .ok_or_else(|| UnknownLanguage(patchbay_core::text::excerpt(word, 40))),
        }
    }
}

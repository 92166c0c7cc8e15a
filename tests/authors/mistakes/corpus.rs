//! The form of `mistakes/LANGUAGE.toml`.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;

/// The mistakes of one language.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// A skill whose tools make those mistakes that show only when they run. It is built once.
    pub running: Running,
    /// The mistakes, in the order of the document.
    #[serde(rename = "mistake")]
    pub mistakes: Vec<Mistake>,
}

/// Changes that make a skill of the mistakes that show only when they run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    pub edits: Vec<Edit>,
}

/// A change of one file in a new plugin's folder.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub file: String,
    /// The text that `to` replaces; absent: all of it.
    pub from: Option<String>,
    /// The new text; absent: the file is removed.
    pub to: Option<String>,
}

/// A mistake of an author, and the expected output.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mistake {
    /// A short statement; a heading of the document.
    pub name: String,
    /// Whether the case runs with every check.
    #[serde(default)]
    pub ci: bool,
    /// The author's action; empty if the skill `running` already has the mistake.
    #[serde(default)]
    pub edits: Vec<Edit>,
    #[serde(default)]
    pub step: Step,
    /// The tool that the case calls.
    #[serde(default = "hello")]
    pub tool: String,
    /// The input with which it is called.
    #[serde(default = "ada")]
    pub input: String,
    /// A text that one line of the first changed file contains: FILE:LINE of it must be shown.
    pub at: Option<String>,
    /// Words that must be shown.
    pub shows: Vec<String>,
    /// Whether the mistake is only noted, and the step succeeds.
    #[serde(default)]
    pub is_note: bool,
    /// The exit code, if it is not 1.
    pub code: Option<i32>,
    /// Whether the text comes from a compiler whose version is the author's choice. The
    /// document may then have other words.
    #[serde(default)]
    pub varies: bool,
}

/// The command that shows a mistake.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// `plugin build`, which also judges the component.
    #[default]
    Build,
    /// `plugin call` after a build.
    Call,
    /// `plugin call` without a build.
    CallUnbuilt,
    /// The command of the installed skill.
    Exec,
}

fn hello() -> String {
    "hello".to_owned()
}

fn ada() -> String {
    r#"{"name":"Ada"}"#.to_owned()
}

impl Corpus {
    /// Reads the corpus of `language`.
    pub fn of(language: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("authors/mistakes/{language}.toml"));
        let text = fs::read_to_string(&path).unwrap();
        let corpus: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let names: BTreeSet<_> = corpus.mistakes.iter().map(|mistake| &mistake.name).collect();
        assert_eq!(names.len(), corpus.mistakes.len(), "{language}: two mistakes have the same name");
        corpus
    }
}

impl Mistake {
    /// Returns the command in the document.
    pub fn command(&self) -> String {
        match self.step {
            Step::Build => "patchbay plugin build".to_owned(),
            Step::Call | Step::CallUnbuilt => format!("patchbay plugin call . {} '{}'", self.tool, self.input),
            Step::Exec => "patchbay exec '/greet Ada'".to_owned(),
        }
    }
}

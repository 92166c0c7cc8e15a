//! The format of `mistakes/LANGUAGE.toml`.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;

/// The mistakes of one language.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// A skill for the mistakes that only show when the tool runs. It is built once.
    pub running: Running,
    /// The mistakes, in the order of the document.
    #[serde(rename = "mistake")]
    pub mistakes: Vec<Mistake>,
}

/// Edits that put the mistakes that only show at run time into a new skill.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    pub edits: Vec<Edit>,
}

/// An edit of one file in a new plugin's folder.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub file: String,
    /// The text that `to` replaces; absent if it replaces the whole file.
    pub from: Option<String>,
    /// The new text; absent if the file is removed.
    pub to: Option<String>,
}

/// A mistake that an author makes, and the expected output.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mistake {
    /// A short statement, which is the heading in the document.
    pub name: String,
    /// Whether the case runs by default.
    #[serde(default)]
    pub ci: bool,
    /// What the author does; empty if the skill `running` already contains the mistake.
    #[serde(default)]
    pub edits: Vec<Edit>,
    #[serde(default)]
    pub step: Step,
    /// The tool that the case calls.
    #[serde(default = "hello")]
    pub tool: String,
    /// The input of that call.
    #[serde(default = "ada")]
    pub input: String,
    /// Text on a line of the first edited file. The output must contain FILE:LINE of that line.
    pub at: Option<String>,
    /// Strings that the output must contain.
    pub shows: Vec<String>,
    /// Whether the mistake is only a note, and the step succeeds.
    #[serde(default)]
    pub is_note: bool,
    /// The expected exit code, if it is not 1.
    pub code: Option<i32>,
    /// Whether a compiler of the author's own choice wrote the text, which may then differ from the document.
    #[serde(default)]
    pub varies: bool,
}

/// The command that reveals a mistake.
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

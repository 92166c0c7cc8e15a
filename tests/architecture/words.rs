//! Checks that the sources read plainly: each file has a header, a type name occurs once in the host, and some words occur nowhere.

use std::{collections::BTreeMap, fs, path::Path};

use crate::repository;

/// The folders that are searched. Their files are read by people.
const FOLDERS: &[&str] = &["docs", "host", "plugins", "sdk", "tests", "wit"];
/// Files beside these folders.
const FILES: &[&str] = &["CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "README.md"];
/// Folders with built or foreign files, by name, and released copies, which never change.
const SKIPPED: &[&str] = &["target", "dist", "node_modules", ".tools", "recordings", "seeds", "frozen"];
/// Endings of the searched files.
const ENDINGS: &[&str] = &["rs", "md", "wit", "py", "js", "c", "toml", "Makefile"];

/// Words that treat software as a person, or that readers of English as a second language stumble over.
const BANNED: &[&str] = &["whoever", "whom", "lest", "anew", "comes to", "of who", "nobody", "somebody", "everybody"];

/// A file: its path in the repository, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Whether the file is Rust below `folder`.
    fn is_rust_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder) && self.path.ends_with(".rs")
    }

    /// Whether the file has only tests.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

/// Returns every file that people read, sorted by path.
fn sources() -> Vec<Source> {
    let root = repository("");
    let mut paths: Vec<_> = FILES.iter().map(|file| root.join(file)).collect();
    let mut folders: Vec<_> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            // A link to a folder is neither: its files are read in their own place.
            if entry.file_type().unwrap().is_dir() {
                if !SKIPPED.contains(&&*name) && !name.starts_with(".venv") {
                    folders.push(entry.path());
                }
            } else if !entry.path().is_dir() && ENDINGS.contains(&name.rsplit('.').next().unwrap()) {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    let relative = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    paths.iter().map(|path| Source { path: relative(path), text: read(path) }).collect()
}

/// Asserts that `problems` is empty.
fn assert_none(problems: &[String], advice: &str) {
    assert!(problems.is_empty(), "{advice}:\n{}", problems.join("\n"));
}

#[test]
fn each_source_file_begins_with_a_header() {
    let sources = sources();
    let rust: Vec<_> = sources.iter().filter(|source| source.path.ends_with(".rs")).collect();
    assert!(rust.len() > 400, "the sources are not found");
    let without = rust.iter().filter(|source| !source.text.starts_with("//! "));
    let paths: Vec<_> = without.map(|source| format!("{}:1", source.path)).collect();
    assert_none(&paths, "these files do not begin with a `//!` comment that says what they are for");
}

#[test]
fn type_names_occur_once_in_the_host() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for source in sources().iter().filter(|source| source.is_rust_in("host/") && !source.is_test()) {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(name) = declared_type(line) {
                places.entry(name).or_default().push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    assert!(places.len() > 300, "the types are not found");
    let twice = places.iter().filter(|(_, places)| places.len() > 1);
    let lines: Vec<_> = twice.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    assert_none(&lines, "give each of these types a name of its own");
}

/// Returns the name of the type that a line declares at the level of a module. Types in functions, macros
/// and `impl` blocks are indented.
fn declared_type(line: &str) -> Option<String> {
    let mut words = line.split(' ').skip_while(|word| word.starts_with("pub"));
    if !["struct", "enum", "trait", "type"].contains(&words.next()?) {
        return None;
    }
    let name: String = words.next()?.chars().take_while(|c| c.is_alphanumeric()).collect();
    (!name.is_empty()).then_some(name)
}

#[test]
fn banned_words_do_not_occur() {
    let mut lines = Vec::new();
    // This file names them.
    for source in sources().iter().filter(|source| source.path != "tests/architecture/words.rs") {
        for (number, line) in source.text.lines().enumerate() {
            let found = BANNED.iter().filter(|banned| has_words(line, banned));
            lines.extend(found.map(|banned| format!("{}:{}: {banned}", source.path, number + 1)));
        }
    }
    assert_none(&lines, "name the caller, client, task, operator or plugin instead, or use a simpler verb");
}

/// Whether `line` has `words` as whole words, in any case.
fn has_words(line: &str, words: &str) -> bool {
    let line = line.to_lowercase();
    let edge = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    line.match_indices(words)
        .any(|(at, _)| edge(line[..at].chars().next_back()) && edge(line[at + words.len()..].chars().next()))
}

#[test]
fn checks_recognize_declarations_and_words() {
    assert_eq!(declared_type("pub(crate) struct Line<'a> {").as_deref(), Some("Line"));
    assert_eq!(declared_type("type Steps = Vec<Step>;").as_deref(), Some("Steps"));
    assert_eq!(declared_type("    type Err = String;"), None);
    assert!(has_words("Whom? Nobody.", "nobody"));
    assert!(!has_words("the oldest one", "lest"));
}

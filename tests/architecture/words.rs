//! Checks that the sources read plainly: each file has a header, a type name occurs once in the host, and patterns that readers
//! stumble over are rare.

use std::{collections::BTreeMap, fs, path::Path};

use crate::repository;

/// The folders that are searched, because people read their files.
const FOLDERS: &[&str] = &["docs", "host", "plugins", "sdk", "tests", "wit"];
/// Files outside of these folders.
const FILES: &[&str] = &["CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "README.md", "SECURITY.md"];
/// Folders with built or third-party files, by name, and released copies, which never change.
const SKIPPED: &[&str] = &["target", "dist", "node_modules", ".tools", "recordings", "seeds", "frozen"];
/// Endings of the searched files.
const ENDINGS: &[&str] = &["rs", "md", "wit", "py", "js", "c", "toml", "Makefile"];

/// Patterns that make readers stumble in the middle of a sentence, and how often each may occur in 1,000 lines of comments or of
/// documents. `docs/style.md` suggests alternatives.
const BUDGET: &[(&[&str], usize)] =
    &[(&["so that"], 3), (&["what it", "what they", "what a", "what the"], 2), (&["that of", "those of"], 1)];

/// A doc comment with fewer characters rarely says more than the name below it. Of 100 doc comments, only this many may be so
/// short.
const SHORT: usize = 25;
const SHORT_PERCENT: usize = 2;

/// Documents whose sentences come from comments, program output or commits.
const GENERATED: &[&str] = &[
    "CHANGELOG.md",
    "docs/benchmarks.md",
    "docs/config.md",
    "docs/errors-for-authors.md",
    "docs/limits.md",
    "docs/terminal.md",
    "docs/wit.md",
];

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

    /// Returns each line with its location.
    fn numbered(&self) -> impl Iterator<Item = (String, &str)> {
        self.text.lines().enumerate().map(|(number, line)| (format!("{}:{}", self.path, number + 1), line.trim()))
    }

    /// Returns each comment line without its slashes.
    fn comments(&self) -> impl Iterator<Item = (String, &str)> {
        self.numbered().filter_map(|(place, line)| {
            let text = line.strip_prefix("//")?;
            Some((place, text.strip_prefix(['/', '!']).unwrap_or(text).trim()))
        })
    }

    /// Returns each item's doc comment, joined into one line, with the location of its first line.
    fn doc_comments(&self) -> Vec<(String, String)> {
        let (mut comments, mut is_open) = (Vec::<(String, String)>::new(), false);
        for (place, line) in self.numbered() {
            let text = line.strip_prefix("///").map(str::trim);
            match (text, comments.last_mut().filter(|_| is_open)) {
                (Some(text), Some((_, whole))) => whole.extend([" ", text]),
                (Some(text), None) => comments.push((place, text.to_owned())),
                (None, _) => {}
            }
            is_open = text.is_some();
        }
        comments
    }

    /// Whether the file contains only tests.
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
            // A link to a folder is skipped, because its files are read at their own path.
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
fn patterns_that_make_readers_stumble_are_rare() {
    let sources = sources();
    let mut problems = Vec::new();
    let rust = sources.iter().filter(|source| source.path.ends_with(".rs")).flat_map(Source::comments);
    let documents = sources.iter().filter(|source| is_document(&source.path)).flat_map(Source::numbered);
    for (of, lines) in [("comments", rust.collect::<Vec<_>>()), ("documents", documents.collect())] {
        assert!(lines.len() > 5_000, "the {of} are not found");
        for (patterns, budget) in BUDGET {
            let found = lines.iter().filter(|(_, line)| patterns.iter().any(|pattern| has_words(line, pattern)));
            let places: Vec<_> = found.map(|(place, _)| &**place).collect();
            if places.len() * 1_000 > budget * lines.len() {
                let allowed = budget * lines.len() / 1_000;
                problems.push(format!("{patterns:?} in {of}, {} of {allowed}: {}", places.len(), places.join(" ")));
            }
        }
    }
    assert_none(&problems, "docs/style.md suggests alternatives to these patterns");
}

#[test]
fn few_doc_comments_are_too_short_to_say_anything() {
    let sources = sources();
    let rust = sources.iter().filter(|source| source.path.ends_with(".rs"));
    let comments: Vec<_> = rust.flat_map(Source::doc_comments).collect();
    assert!(comments.len() > 10_000, "the doc comments are not found");
    let short: Vec<_> = comments.iter().filter(|(_, text)| text.chars().count() < SHORT).collect();
    let shown: Vec<_> = short.iter().map(|(place, text)| format!("{place}: {text}")).collect();
    let is_within = short.len() * 100 <= SHORT_PERCENT * comments.len();
    assert_none(if is_within { &[] } else { &shown }, "say the purpose, unit, range or lifetime, or nothing");
}

/// Whether a file is a document for users or developers, and mostly written by hand.
fn is_document(path: &str) -> bool {
    path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/')) && !GENERATED.contains(&path)
}

/// Whether `line` has `words` as whole words.
fn has_words(line: &str, words: &str) -> bool {
    let edge = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    line.match_indices(words)
        .any(|(at, _)| edge(line[..at].chars().next_back()) && edge(line[at + words.len()..].chars().next()))
}

#[test]
fn checks_recognize_declarations_and_words() {
    assert_eq!(declared_type("pub(crate) struct Line<'a> {").as_deref(), Some("Line"));
    assert_eq!(declared_type("type Steps = Vec<Step>;").as_deref(), Some("Steps"));
    assert_eq!(declared_type("    type Err = String;"), None);
    assert!(has_words("it runs, so that", "so that"));
    assert!(!has_words("also that one", "so that"));
    let text = "/// One\n/// two.\nfn a() {}\n/// Three.\n// four\n".to_owned();
    let source = Source { path: "a.rs".to_owned(), text };
    let found = [("a.rs:1", "One two."), ("a.rs:4", "Three.")].map(|(place, text)| (place.to_owned(), text.to_owned()));
    assert_eq!(source.doc_comments(), found);
    assert_eq!(source.comments().map(|(_, line)| line).collect::<Vec<_>>(), ["One", "two.", "Three.", "four"]);
}

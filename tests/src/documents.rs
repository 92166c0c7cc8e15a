//! The fenced blocks of documents, for tests that run examples exactly as written.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the folder of this repository.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the fenced blocks of a document as pairs of language and text.
pub fn blocks(document: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(checkout().join(document)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

/// Returns the first block of this language that begins with `beginning`.
pub fn block(document: &str, language: &str, beginning: &str) -> String {
    let fits = |(of, text): &(String, String)| of == language && text.starts_with(beginning);
    let found = blocks(document).into_iter().find(fits);
    found.unwrap_or_else(|| panic!("{document} has no {language} block {beginning}")).1
}

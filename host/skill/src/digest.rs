//! The digest of a skill: a list of all its files with their digests, hashed.
//!
//! Created by `discover.rs` and `bundled.rs`. A grant is bound to this digest; [`changed_files`] compares two lists to report which
//! files changed.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::{Digest, text};

/// The files of a skill by path, each with the digest of its bytes. The digest of this list is the skill's digest.
///
/// As text, it has one line per file, sorted by path: `PATH NUL SHA256 LF`. PATH is relative to the skill's folder, and SHA256 has
/// 64 hexadecimal digits. A single-file skill has one line with the name of that file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFiles {
    lines: Arc<str>,
    digest: Digest,
}

/// The most changed files that a message names.
const MAX_NAMED: usize = 5;
/// The longest path in a message, in characters.
const NAMED_CHARS: usize = 80;

impl SkillFiles {
    /// Creates the list from paths and digests.
    pub fn new(files: &BTreeMap<String, Digest>) -> Self {
        // The order of the paths is the order of the lines: no byte sorts before NUL.
        let lines: String = files.iter().map(|(path, digest)| format!("{path}\0{}\n", digest.to_hex())).collect();
        Self { digest: Digest::of(lines.as_bytes()), lines: lines.into() }
    }

    /// Returns the digest of the skill.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the paths, each with the hash of the file in hexadecimal.
    pub(crate) fn entries(&self) -> BTreeMap<&str, &str> {
        parse(&self.lines)
    }

    /// Like [`Self::as_text`], without a copy.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.lines)
    }

    /// Returns the list as text, as it is stored with a grant. [`changed_files`] compares two such texts.
    pub fn as_text(&self) -> &str {
        &self.lines
    }
}

/// Returns all files that differ between two results of [`SkillFiles::as_text`], such as `SKILL.md` or `notes.md (new)`. Paths are
/// cleaned for display. Malformed lines are ignored.
pub fn changed_files(old: &str, new: &str) -> Vec<String> {
    let changed = differences(old, new);
    changed.into_iter().map(|(path, mark)| format!("{}{mark}", text::clean_line(path))).collect()
}

/// Like [`changed_files`], for a message: at most five files, and then `N more`. Long paths are cut.
pub fn changed_files_in_short(old: &str, new: &str) -> Vec<String> {
    let changed = differences(old, new);
    let named = changed.iter().take(MAX_NAMED);
    let mut named: Vec<String> =
        named.map(|(path, mark)| format!("{}{mark}", text::excerpt(path, NAMED_CHARS))).collect();
    if changed.len() > MAX_NAMED {
        named.push(format!("{} more", changed.len() - MAX_NAMED));
    }
    named
}

/// Returns the paths that differ, sorted, each with a mark for a file that is only in one of the two lists.
fn differences<'l>(old: &'l str, new: &'l str) -> Vec<(&'l str, &'static str)> {
    let (old, new) = (parse(old), parse(new));
    let mut changed = Vec::new();
    let paths: std::collections::BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for path in paths {
        let mark = match (old.get(path), new.get(path)) {
            (Some(before), Some(after)) if before == after => continue,
            (Some(_), Some(_)) => "",
            (None, _) => " (new)",
            (_, None) => " (gone)",
        };
        changed.push((path, mark));
    }
    changed
}

/// Parses a list into paths and hashes. A path may contain newlines, so the end of a line is found
/// by the fixed length of the hash.
fn parse(lines: &str) -> BTreeMap<&str, &str> {
    let mut files = BTreeMap::new();
    let mut rest = lines;
    while let Some((path, after_path)) = rest.split_once('\0') {
        let (Some(hash), Some(next)) = (after_path.get(..64), after_path.get(65..)) else { break };
        files.insert(path, hash);
        rest = next;
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> SkillFiles {
        SkillFiles::new(&files.iter().map(|(path, text)| ((*path).to_owned(), Digest::of(text.as_bytes()))).collect())
    }

    #[test]
    fn digest_is_over_sorted_lines_of_path_and_hash() {
        let one = files(&[("b/c.md", "2"), ("SKILL.md", "1")]);
        let hash = |text: &str| Digest::of(text.as_bytes()).to_hex();
        let lines = format!("SKILL.md\0{}\nb/c.md\0{}\n", hash("1"), hash("2"));
        assert_eq!(one.as_text(), lines);
        assert_eq!(one.digest(), Digest::of(lines.as_bytes()));
    }

    #[test]
    fn changes_name_the_files() {
        let old = files(&[("SKILL.md", "1"), ("a\nb", "1"), ("gone.md", "1"), ("same", "1")]);
        let new = files(&[("SKILL.md", "2"), ("a\nb", "2"), ("new.md", "1"), ("same", "1")]);
        assert_eq!(changed_files(old.as_text(), new.as_text()), ["SKILL.md", "a b", "gone.md (gone)", "new.md (new)"]);
        assert_eq!(changed_files(old.as_text(), old.as_text()), [""; 0]);
        assert_eq!(changed_files("nothing", "\0\0\0"), [""; 0]);
    }

    #[test]
    fn message_names_five_changed_files() {
        let long = "x".repeat(100);
        let many = files(&["a", "b", "c", "d", "e", "f", long.as_str()].map(|name| (name, "")));
        let short = changed_files_in_short("", many.as_text());
        assert_eq!(short, ["a (new)", "b (new)", "c (new)", "d (new)", "e (new)", "2 more"]);
        let all = changed_files("", many.as_text());
        assert_eq!((all.len(), all.last().unwrap()), (7, &format!("{long} (new)")));
        let one = files(&[(&long, "")]);
        assert_eq!(changed_files_in_short(one.as_text(), ""), [format!("{}… (gone)", "x".repeat(80))]);
    }
}

//! `.gitignore` rules, as `walk.rs` applies them: within one file the last matching rule decides, a deeper file takes
//! precedence over one above it, and everything in a hidden directory is hidden.
//!
//! Only `.gitignore` files of the workspace are used, not `.git/info/exclude`, the user's global excludes or files
//! above the root. Whether git tracks a file does not matter.

use std::io::{self, Read as _};

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use crate::{
    error::{FileError, shown},
    handle, limits,
    wild::WildPattern,
    work::WorkBudget,
};

const NAME: &str = ".gitignore";

/// The `.gitignore` files that apply to the current directory of a walk: those in it and in the directories above it.
#[derive(Default)]
pub(crate) struct IgnoreStack {
    files: Vec<IgnoreFile>,
    /// Bytes of all `files` together.
    bytes: usize,
}

/// The rules of one `.gitignore` file.
struct IgnoreFile {
    /// Length of the path of the file's directory, including the last `/`. Rules are matched against the rest of a path.
    above: usize,
    /// Size of the file, in bytes.
    bytes: usize,
    rules: Vec<IgnoreRule>,
}

/// One line of a `.gitignore` file.
struct IgnoreRule {
    pattern: WildPattern,
    /// The line began with `!`: matching paths are not hidden.
    shows: bool,
    /// The pattern ended with `/` and matches only directories.
    directories_only: bool,
    /// The line has no other `/`: the pattern is matched against the name, at any depth.
    name_only: bool,
}

impl IgnoreStack {
    /// Adds the rules of the directory `dir` with the path `prefix`. A `.gitignore` that is
    /// not a regular file is ignored.
    pub(crate) fn enter(&mut self, dir: &Dir, prefix: &str) -> Result<(), FileError> {
        let path = format!("{prefix}{NAME}");
        let file = match dir.symlink_metadata(NAME) {
            Ok(metadata) if metadata.is_file() => handle::open(dir, NAME, handle::OpenFor::Reading),
            _ => return Ok(()),
        };
        let file = match file {
            Ok((file, metadata)) if metadata.is_file() => file,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FileError::io(&path)(error)),
        };
        let room = limits::RULE_BYTES.saturating_sub(self.bytes);
        let mut text = Vec::new();
        file.take(room as u64 + 1).read_to_end(&mut text).map_err(FileError::io(&path))?;
        if text.len() > room {
            return Err(FileError::TooManyRules { path: shown(&path) });
        }
        self.bytes += text.len();
        self.files.push(IgnoreFile { above: prefix.len(), bytes: text.len(), rules: parse_rules(&text) });
        Ok(())
    }

    /// Removes the rules of the directory with the path `prefix`.
    pub(crate) fn leave(&mut self, prefix: &str) {
        if let Some(last) = self.files.pop_if(|last| last.above == prefix.len()) {
            self.bytes -= last.bytes;
        }
    }

    /// Returns true if `path` is hidden. The caller has checked that no directory above it is hidden.
    pub(crate) fn hides(&self, path: &str, is_directory: bool, work: &mut WorkBudget) -> Result<bool, FileError> {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        for file in self.files.iter().rev() {
            let below = path.get(file.above..).unwrap_or_default();
            for rule in file.rules.iter().rev() {
                if rule.directories_only && !is_directory {
                    continue;
                }
                if rule.pattern.matches(if rule.name_only { name } else { below }, work)? {
                    return Ok(!rule.shows);
                }
            }
        }
        Ok(false)
    }
}

/// Returns true if the file at `path` below `root`, or a directory above it, is hidden. Below a directory that is a link, nothing
/// is hidden.
pub(crate) fn is_hidden(root: &Dir, path: &str, work: &mut WorkBudget) -> Result<bool, FileError> {
    let mut rules = IgnoreStack::default();
    rules.enter(root, "")?;
    let mut dir = None;
    for (end, _) in path.match_indices('/') {
        let above = &path[..end];
        if rules.hides(above, true, work)? {
            return Ok(true);
        }
        let name = above.rsplit_once('/').map_or(above, |(_, name)| name);
        let Ok(next) = dir.as_ref().unwrap_or(root).open_dir_nofollow(name) else { return Ok(false) };
        rules.enter(&next, &path[..=end])?;
        dir = Some(next);
    }
    rules.hides(path, false, work)
}

/// Parses a `.gitignore` file. Lines that are not UTF-8 or not a valid pattern are skipped:
/// they cannot match a listed name.
fn parse_rules(text: &[u8]) -> Vec<IgnoreRule> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    text.split(|byte| *byte == b'\n').filter_map(|line| parse_rule(str::from_utf8(line).ok()?)).collect()
}

/// Parses one line. `None` for comments, empty lines and invalid patterns.
fn parse_rule(line: &str) -> Option<IgnoreRule> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let line = trim_end(line);
    let (shows, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
    let (directories_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
    let name_only = !line.contains('/');
    let line = line.strip_prefix('/').unwrap_or(line);
    if line.is_empty() {
        return None;
    }
    Some(IgnoreRule { pattern: WildPattern::parse(line).ok()?, shows, directories_only, name_only })
}

/// Removes trailing spaces, except one that is escaped with a backslash.
fn trim_end(line: &str) -> &str {
    let mut end = 0;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' => {}
            '\\' => end = chars.next().map_or(at + 1, |(next, escaped)| next + escaped.len_utf8()),
            c => end = at + c.len_utf8(),
        }
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    use super::*;

    fn hides(text: &str, path: &str, is_directory: bool) -> bool {
        let file = IgnoreFile { above: 0, bytes: 0, rules: parse_rules(text.as_bytes()) };
        let ignored = IgnoreStack { files: vec![file], bytes: 0 };
        ignored.hides(path, is_directory, &mut WorkBudget::default()).unwrap()
    }

    #[test]
    fn lines_have_the_meaning_that_git_gives_them() {
        for (text, path, expected) in [
            ("a", "a", true),
            ("a", "b/a", true),
            ("/a", "b/a", false),
            ("b/a", "b/a", true),
            ("b/a", "c/b/a", false),
            ("*.o", "x/y.o", true),
            ("*.o\n!keep.o", "x/keep.o", false),
            ("!keep.o\n*.o", "keep.o", true),
            ("a/", "a", false),
            ("# a", "# a", false),
            ("\\#a", "#a", true),
            ("\\!a", "!a", true),
            ("a  ", "a", true),
            ("a\\ ", "a ", true),
            ("a\\ ", "a", false),
            ("a\\  ", "a ", true),
            ("a\r\nb\r\n", "b", true),
            ("\u{feff}a", "a", true),
            ("**/x/y", "a/x/y", true),
            ("a/**/b", "a/b", true),
            ("{a,b}", "a", false),
            ("{a,b}", "{a,b}", true),
            ("[a", "[a", false),
            ("", "", false),
            ("/", "a", false),
            ("!", "a", false),
            ("foo[!x]bar", "foo/bar", false),
            ("*.py[cod]", "a/b.pyc", true),
            (" a", "a", false),
        ] {
            assert_eq!(hides(text, path, false), expected, "{text:?} {path}");
        }
        assert!(hides("a/", "a", true));
        assert!(hides("a/b/", "a/b", true));
    }

    #[test]
    fn lines_that_are_not_utf8_hide_nothing() {
        let rules = parse_rules(b"\xff\xfe*\nb\n");
        assert_eq!(rules.len(), 1);
    }

    proptest! {
        /// The crate `ignore` gives the same result, for patterns on which it agrees with git.
        #[test]
        fn rules_agree_with_the_ignore_crate(
            lines in prop::collection::vec("!?/?([ab?]{1,3}|\\*|\\*\\*)(/([ab?]{1,2}|\\*[ab]?|\\*\\*)){0,2}/?", 1..5),
            path in "[ab]{1,2}(/[ab]{1,2}){0,3}",
            is_directory: bool,
        ) {
            let mut other = GitignoreBuilder::new("");
            for line in &lines {
                other.add_line(None, line).unwrap();
            }
            let expected = other.build().unwrap().matched(&path, is_directory).is_ignore();
            prop_assert_eq!(hides(&lines.join("\n"), &path, is_directory), expected, "{:?} {}", lines, path);
        }
    }
}

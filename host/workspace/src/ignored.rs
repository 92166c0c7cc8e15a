//! What `.gitignore` hides, by git's rules: of the rules of one file the last that matches decides, a deeper file
//! before one above it, and what lies in a hidden directory stays hidden. Only files of the workspace count: not
//! `.git/info/exclude`, nor a person's own excludes, nor what lies above the root; and it does not matter whether git
//! tracks a file.

use std::io::{self, Read as _};

use cap_std::fs::Dir;

use crate::{
    error::{FileError, shown},
    handle, limits,
    wild::Pattern,
    work::Work,
};

const NAME: &str = ".gitignore";

/// The rules in force for one directory: its own file's, and those of the directories above it.
#[derive(Default)]
pub(crate) struct Ignored {
    files: Vec<Rules>,
    bytes: usize,
}

/// The rules of one file.
struct Rules {
    /// How much of a path is the way to the file's directory, with the last `/`.
    above: usize,
    bytes: usize,
    rules: Vec<Rule>,
}

/// One line.
struct Rule {
    pattern: Pattern,
    /// It began with `!`: what it matches is shown again.
    shows: bool,
    /// It ended with `/`.
    directories_only: bool,
    /// It has no other `/`: it matches a name at any depth.
    name_only: bool,
}

impl Ignored {
    /// Puts the rules of `dir`, which is at `prefix`, in force. A `.gitignore` that is no regular file has none.
    pub(crate) fn enter(&mut self, dir: &Dir, prefix: &str) -> Result<(), FileError> {
        let path = format!("{prefix}{NAME}");
        let file = match dir.symlink_metadata(NAME) {
            Ok(metadata) if metadata.is_file() => handle::open(dir, NAME, handle::For::Reading),
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
        self.files.push(Rules { above: prefix.len(), bytes: text.len(), rules: rules(&text) });
        Ok(())
    }

    /// Takes the rules of the directory at `prefix` out of force.
    pub(crate) fn leave(&mut self, prefix: &str) {
        if let Some(last) = self.files.pop_if(|last| last.above == prefix.len()) {
            self.bytes -= last.bytes;
        }
    }

    /// Whether `path` is hidden, given that no directory above it is.
    pub(crate) fn hides(&self, path: &str, is_directory: bool, work: &mut Work) -> Result<bool, FileError> {
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

/// The lines of a file. One that is not UTF-8 matches no name that is listed; one that is no pattern matches nothing.
fn rules(text: &[u8]) -> Vec<Rule> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    text.split(|byte| *byte == b'\n').filter_map(|line| rule(str::from_utf8(line).ok()?)).collect()
}

fn rule(line: &str) -> Option<Rule> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let line = trimmed(line);
    let (shows, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
    let (directories_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
    let name_only = !line.contains('/');
    let line = line.strip_prefix('/').unwrap_or(line);
    if line.is_empty() {
        return None;
    }
    Some(Rule { pattern: Pattern::parse(line).ok()?, shows, directories_only, name_only })
}

/// Without the spaces at the end, but for one that a backslash keeps.
fn trimmed(line: &str) -> &str {
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
        let ignored = Ignored { files: vec![Rules { above: 0, bytes: 0, rules: rules(text.as_bytes()) }], bytes: 0 };
        ignored.hides(path, is_directory, &mut Work::default()).unwrap()
    }

    #[test]
    fn lines_as_git_reads_them() {
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
    fn lines_that_are_not_text_hide_nothing() {
        let rules = rules(b"\xff\xfe*\nb\n");
        assert_eq!(rules.len(), 1);
    }

    proptest! {
        /// The usual library agrees, where git and it do.
        #[test]
        fn agrees_with_ignore(
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

//! Parses a unified diff.
//!
//! The numbers of a hunk's header are only a hint, because models count badly: a hunk ends where the next one or the next file
//! begins. Git's own lines (`diff --git`, `index` and similar ones) are skipped.

use patchbay_sdk::{Failure, Result};

use crate::words::shown;

/// Maximum number of files in a patch.
pub(crate) const MAX_FILES: usize = 50;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilePatch<'a> {
    pub(crate) path: &'a str,
    pub(crate) change: Change,
    pub(crate) hunks: Vec<Hunk<'a>>,
}

/// The change to a file. The variants are in the order in which a patch is applied: changes that can always be undone come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// Needs only `workspace-write` to be undone.
    Edit,
    /// Undone by deleting the file, which may not be granted.
    Create,
    /// Can be undone, except that the file's permissions are lost.
    Delete,
}

/// Lines of a file, and their replacement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk<'a> {
    /// The line in the old file, from 1, that the header names. `None` if it names none.
    pub(crate) line: Option<usize>,
    pub(crate) old: Vec<&'a str>,
    pub(crate) new: Vec<&'a str>,
    /// Whether the last old line has no newline; `new_unterminated` is the same for the last new line.
    pub(crate) old_unterminated: bool,
    pub(crate) new_unterminated: bool,
}

/// Parses the text of a patch.
///
/// # Errors
/// An invalid patch, with the first wrong line.
pub(crate) fn parse(patch: &str) -> Result<Vec<FilePatch<'_>>> {
    let lines: Vec<&str> = patch.lines().collect();
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some((path, change)) = header(&lines, at)? else {
            if lines[at].starts_with("@@") {
                return Err(wrong(at, "a hunk comes before the '--- PATH' and '+++ PATH' lines of its file"));
            }
            if lines[at].starts_with("rename ") || lines[at].starts_with("copy ") {
                return Err(wrong(at, "a patch cannot rename or copy files; use rename"));
            }
            at += 1;
            continue;
        };
        if files.iter().any(|file| file.path == path) {
            return Err(wrong(at, &format!("'{}' is in the patch twice", shown(path))));
        }
        if files.len() == MAX_FILES {
            return Err(Failure::new("too-large", format!("the patch is about more than {MAX_FILES} files")));
        }
        at += 2;
        let mut hunks = Vec::new();
        while at < lines.len() && lines[at].starts_with("@@") {
            let (hunk, next) = hunk(&lines, at)?;
            hunks.push(hunk);
            at = next;
        }
        if hunks.is_empty() {
            return Err(wrong(at, &format!("'{}' has no hunk, which begins with '@@'", shown(path))));
        }
        files.push(FilePatch { path, change, hunks });
    }
    if files.is_empty() {
        return Err(Failure::invalid("'patch' is not a unified diff: it has no '--- PATH' and '+++ PATH' lines"));
    }
    Ok(files)
}

/// Returns the path and the change if `at` is the first of a file's two header lines.
fn header<'a>(lines: &[&'a str], at: usize) -> Result<Option<(&'a str, Change)>> {
    let named = |index: usize, mark: &str| lines.get(index).and_then(|line| line.strip_prefix(mark)).map(without_time);
    let (Some(old), Some(new)) = (named(at, "--- "), named(at + 1, "+++ ")) else { return Ok(None) };
    let is_none = |path: &str| path == "/dev/null";
    Ok(Some(match (is_none(old), is_none(new)) {
        (true, true) => return Err(wrong(at, "both files are /dev/null")),
        (true, false) => (new.strip_prefix("b/").unwrap_or(new), Change::Create),
        (false, true) => (old.strip_prefix("a/").unwrap_or(old), Change::Delete),
        (false, false) => {
            let (old, new) = match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
                (Some(old), Some(new)) => (old, new),
                _ => (old, new),
            };
            if old != new {
                let (old, new) = (shown(old), shown(new));
                return Err(wrong(
                    at,
                    &format!("'{old}' would become '{new}'; a patch cannot rename files; use rename"),
                ));
            }
            (new, Change::Edit)
        }
    }))
}

/// Removes the timestamp that `diff` writes after a tab.
fn without_time(path: &str) -> &str {
    path.split('\t').next().unwrap_or(path).trim_end()
}

/// Parses the hunk whose header is at `at`, and returns the index of the line after it.
fn hunk<'a>(lines: &[&'a str], at: usize) -> Result<(Hunk<'a>, usize)> {
    let mut hunk = Hunk { line: first_line(lines[at]), ..Hunk::default() };
    // Empty lines count only if the hunk continues after them, because they may separate two files.
    let mut blank = 0;
    let mut end = at + 1;
    let mut last = None;
    while end < lines.len() {
        let line = lines[end];
        if line.starts_with("@@") || line.starts_with("diff --git ") || header(lines, end)?.is_some() {
            break;
        }
        let (mark, text) = match line.chars().next() {
            None => (' ', ""),
            Some(mark @ (' ' | '-' | '+' | '\\')) => (mark, &line[1..]),
            Some(_) => return Err(wrong(end, "a line of a hunk begins with ' ', '-' or '+'")),
        };
        if line.is_empty() {
            blank += 1;
            end += 1;
            continue;
        }
        for _ in 0..blank {
            hunk.old.push("");
            hunk.new.push("");
        }
        blank = 0;
        match mark {
            '-' => hunk.old.push(text),
            '+' => hunk.new.push(text),
            '\\' => {
                hunk.old_unterminated |= last != Some('+');
                hunk.new_unterminated |= last != Some('-');
            }
            _ => {
                hunk.old.push(text);
                hunk.new.push(text);
            }
        }
        last = Some(mark);
        end += 1;
    }
    if hunk.old == hunk.new && hunk.old_unterminated == hunk.new_unterminated {
        return Err(wrong(at, "the hunk changes nothing"));
    }
    Ok((hunk, end))
}

/// Returns the old file's line number in a header: 12 for `@@ -12,3 +12,4 @@`.
fn first_line(header: &str) -> Option<usize> {
    let (_, after) = header.split_once('-')?;
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    after[..digits].parse().ok()
}

fn wrong(index: usize, what: &str) -> Failure {
    Failure::invalid(format!("line {} of 'patch': {what}; nothing was written", index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(patch: &str) -> String {
        parse(patch).unwrap_err().to_string()
    }

    #[test]
    fn diff_of_git_is_parsed() {
        let patch = "diff --git a/x.rs b/x.rs\nindex 1..2 100644\n--- a/x.rs\n+++ b/x.rs\n@@ -3,2 +3,3 @@ fn x()\n one\n-two\n+2\n\n three\n\ndiff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+text\n\\ No newline at end of file\n--- a/old\t2026-01-01\n+++ /dev/null\n@@ -1 +0,0 @@\n--- gone\n";
        let files = parse(patch).unwrap();
        let shapes: Vec<_> = files.iter().map(|file| (file.path, file.change)).collect();
        assert_eq!(shapes, [("x.rs", Change::Edit), ("new", Change::Create), ("old", Change::Delete)]);
        let hunk = &files[0].hunks[0];
        assert_eq!((hunk.line, &*hunk.old), (Some(3), &["one", "two", "", "three"][..]));
        assert_eq!(hunk.new, ["one", "2", "", "three"]);
        assert!(files[1].hunks[0].new_unterminated && !files[0].hunks[0].new_unterminated);
        assert_eq!(files[2].hunks[0].old, ["-- gone"]);
    }

    #[test]
    fn headers_without_numbers_are_accepted() {
        let files = parse("--- x\n+++ x\n@@\n-a\n+b\n@@ ... @@\n-c\n").unwrap();
        assert_eq!(files[0].hunks.iter().map(|hunk| hunk.line).collect::<Vec<_>>(), [None, None]);
    }

    #[test]
    fn invalid_patches_are_reported_with_the_line() {
        assert!(message("hello").contains("is not a unified diff"));
        assert!(message("@@ -1 +1 @@\n-a\n").starts_with("line 1 of 'patch': a hunk comes before"));
        assert!(message("--- x\n+++ x\n").contains("'x' has no hunk"));
        assert!(message("--- x\n+++ x\n@@\n-a\nb\n").starts_with("line 5 of 'patch': a line of a hunk begins with"));
        assert!(message("--- x\n+++ x\n@@\n a\n").contains("the hunk changes nothing"));
        assert!(message("--- a/x\n+++ b/y\n@@\n-a\n").contains("'x' would become 'y'"));
        assert!(message("rename from x\nrename to y\n").contains("use rename"));
        assert!(message("--- x\n+++ x\n@@\n-a\n--- x\n+++ x\n@@\n-b\n").contains("twice"));
        let many: String = (0..=MAX_FILES).map(|n| format!("--- {n}\n+++ {n}\n@@\n-a\n")).collect();
        assert_eq!(message(&many), "the patch is about more than 50 files");
    }
}

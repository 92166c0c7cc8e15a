//! The files that calls of the bundled skill `files` name, and the calls' changes as diffs. Other skills are left out,
//! because their tools may mean something else by a path. Pure. Called by `tool_calls`.

use std::{collections::BTreeMap, path::Path};

use patchbay_core::completion::ToolCall;
use serde_json::{Value, json};

/// Length limit of each text of a diff, in bytes. For a longer change, only the call's input is shown.
pub(super) const DIFF_BYTES: usize = 256 << 10;
/// How many files of one call are shown.
const FILES: usize = 50;
/// Limit of the diffs of one call. For a call with more, only its input is shown.
const DIFFS: usize = 50;

/// A file before a call replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileBefore {
    Missing,
    /// Its text, of at most [`DIFF_BYTES`].
    Text(String),
    /// The file is longer, is not text, or could not be read.
    Unknown,
}

/// Files before calls replace them, by the paths that the calls name.
pub(super) type FilesBefore = BTreeMap<String, FileBefore>;

/// Returns the path of the file that a call replaces as a whole; `None` for other calls.
pub(super) fn replaced_file(call: &ToolCall) -> Option<String> {
    let [path] = call.text_arguments(["path"]);
    path.filter(|_| call.name == "files__write")
}

/// Returns the files that a call names, as absolute paths.
pub(super) fn locations(call: &ToolCall, workspace: &str) -> Vec<Value> {
    let Some(tool) = call.name.strip_prefix("files__") else { return Vec::new() };
    let input: Value = serde_json::from_str(&call.input).unwrap_or_default();
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let paths: Vec<&str> = match tool {
        "patch" => text("patch").map(patched_files).unwrap_or_default().into_iter().map(|file| file.path).collect(),
        "read_many" => {
            let paths = input.get("paths").and_then(Value::as_array);
            paths.into_iter().flatten().filter_map(Value::as_str).collect()
        }
        "rename" => [text("from"), text("to")].into_iter().flatten().collect(),
        _ => text("path").into_iter().collect(),
    };
    let line = input.get("first").and_then(Value::as_u64).filter(|line| *line > 0);
    let location = |path: &str| {
        let mut location = json!({ "path": absolute(path, workspace) });
        if let Some(line) = line {
            location["line"] = line.into();
        }
        location
    };
    paths.into_iter().take(FILES).map(location).collect()
}

/// Returns the changes that a call makes to files; none for other calls and for large changes. `before` contains the files that the
/// call replaces. If it has no entry for a file, as for stored calls, no change is shown, because a wrong diff is worse than none.
pub(super) fn diffs(call: &ToolCall, workspace: &str, before: &FilesBefore) -> Vec<Value> {
    let is_short = |text: &str| text.len() <= DIFF_BYTES;
    let diff = |path: &str, old: Option<&str>, new: &str| {
        let path = absolute(path, workspace);
        json!({"type": "diff", "path": path, "oldText": old, "newText": new})
    };
    match &*call.name {
        "files__edit" => match call.text_arguments(["path", "old", "new"]) {
            [Some(path), Some(old), Some(new)] if is_short(&old) && is_short(&new) => {
                vec![diff(&path, Some(&*old), &new)]
            }
            _ => Vec::new(),
        },
        "files__write" => match call.text_arguments(["path", "text"]) {
            [Some(path), Some(new)] if is_short(&new) => match before.get(&path) {
                Some(FileBefore::Missing) => vec![diff(&path, None, &new)],
                // If both are the same, the call may have run before the file was read.
                Some(FileBefore::Text(old)) if *old != new => vec![diff(&path, Some(&**old), &new)],
                Some(FileBefore::Text(_) | FileBefore::Unknown) | None => Vec::new(),
            },
            _ => Vec::new(),
        },
        "files__patch" => match call.text_arguments(["patch"]) {
            [Some(patch)] if is_short(&patch) => {
                let mut diffs = Vec::new();
                for PatchedFile { path, is_new, hunks } in patched_files(&patch) {
                    for PatchHunk { old, new } in hunks.iter().take(DIFFS + 1) {
                        diffs.push(diff(path, (!is_new).then_some(&**old), new));
                    }
                    if diffs.len() > DIFFS {
                        return Vec::new();
                    }
                }
                diffs
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn absolute(path: &str, workspace: &str) -> String {
    Path::new(workspace).join(path.trim_start_matches("./")).to_string_lossy().into_owned()
}

/// A file of a unified diff.
#[derive(Debug, PartialEq, Eq)]
struct PatchedFile<'a> {
    path: &'a str,
    /// Whether the patch creates it.
    is_new: bool,
    hunks: Vec<PatchHunk>,
}

/// The text of one section of a file, before and after the patch.
#[derive(Debug, Default, PartialEq, Eq)]
struct PatchHunk {
    old: String,
    new: String,
}

impl PatchHunk {
    /// Adds a line of the hunk; `mark` is its first character.
    fn add(&mut self, mark: char, text: &str) {
        for (is_in, side) in [(" -".contains(mark), &mut self.old), (" +".contains(mark), &mut self.new)] {
            if is_in {
                side.push_str(text);
                side.push('\n');
            }
        }
    }
}

/// Returns the files of a unified diff, found as the tool `patch` finds them. Hunks that change no text are left out. A patch that
/// the tool would refuse may still have files here.
fn patched_files(patch: &str) -> Vec<PatchedFile<'_>> {
    let lines: Vec<&str> = patch.lines().collect();
    let (mut files, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let Some((path, is_new)) = header(&lines, at) else {
            at += 1;
            continue;
        };
        at += 2;
        let mut hunks = Vec::new();
        while lines.get(at).is_some_and(|line| line.starts_with("@@")) {
            let (hunk, next) = read_hunk(&lines, at);
            hunks.extend(Some(hunk).filter(|hunk| hunk.old != hunk.new));
            at = next;
        }
        files.push(PatchedFile { path, is_new, hunks });
    }
    files
}

/// Returns the path of the file whose two header lines are at `at`, and whether the patch creates it.
fn header<'a>(lines: &[&'a str], at: usize) -> Option<(&'a str, bool)> {
    let named = |index: usize, mark: &str| lines.get(index).and_then(|line| line.strip_prefix(mark)).map(without_time);
    match (named(at, "--- ")?, named(at + 1, "+++ ")?) {
        ("/dev/null", "/dev/null") => None,
        ("/dev/null", new) => Some((new.strip_prefix("b/").unwrap_or(new), true)),
        (old, "/dev/null") => Some((old.strip_prefix("a/").unwrap_or(old), false)),
        (old, new) => {
            // git writes either both prefixes or neither. Without `a/`, `b/` is a folder.
            let without_prefix = new.strip_prefix("b/").filter(|_| old.starts_with("a/"));
            Some((without_prefix.unwrap_or(new), false))
        }
    }
}

/// Removes the time that `diff` writes after a tab.
fn without_time(path: &str) -> &str {
    path.split('\t').next().unwrap_or(path).trim_end()
}

/// Reads the hunk whose header is at `at`. Also returns the index of the line after the hunk.
fn read_hunk(lines: &[&str], at: usize) -> (PatchHunk, usize) {
    let mut hunk = PatchHunk::default();
    // Empty lines after the hunk may only separate two files, so they are added once another line of the hunk follows.
    let (mut blank, mut end) = (0, at + 1);
    while let Some(line) = lines.get(end) {
        if line.starts_with("@@") || line.starts_with("diff --git ") || header(lines, end).is_some() {
            break;
        }
        match line.chars().next() {
            None => blank += 1,
            Some(mark @ (' ' | '-' | '+' | '\\')) => {
                (0..std::mem::take(&mut blank)).for_each(|_| hunk.add(' ', ""));
                hunk.add(mark, &line[1..]);
            }
            Some(_) => break,
        }
        end += 1;
    }
    (hunk, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes two files, creates one and deletes one.
    const PATCH: &str = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -3,2 +3,3 @@ fn x()\n one\n-two\n+2\n\n three\n\n\
                         --- src/y.rs\t2026-01-01\n+++ src/y.rs\n@@\n-a\n+b\n@@\n-c\n\\ No newline at end of file\n\
                         --- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+text\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";

    fn call(name: &str, input: &Value) -> ToolCall {
        ToolCall { id: "1".to_owned(), name: name.to_owned(), input: input.to_string() }
    }

    fn diff(path: &str, old: Option<&str>, new: &str) -> Value {
        json!({"type": "diff", "path": path, "oldText": old, "newText": new})
    }

    fn diffs_of(name: &str, input: &Value) -> Vec<Value> {
        diffs(&call(name, input), "/w", &FilesBefore::new())
    }

    #[test]
    fn files_are_named_by_absolute_paths() {
        let paths = |name: &str, input: &Value| -> Vec<String> {
            let located = locations(&call(name, input), "/w");
            located.iter().map(|location| location["path"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(paths("files__delete", &json!({"path": "./src/a.rs"})), ["/w/src/a.rs"]);
        assert_eq!(paths("files__read_many", &json!({"paths": ["a", 5, "b/c"]})), ["/w/a", "/w/b/c"]);
        assert_eq!(paths("files__rename", &json!({"from": "a", "to": "b"})), ["/w/a", "/w/b"]);
        assert_eq!(paths("files__patch", &json!({"patch": PATCH})), ["/w/x.rs", "/w/src/y.rs", "/w/new", "/w/old"]);
        assert_eq!(paths("files__read_many", &json!({"paths": vec!["a"; 100]})).len(), FILES);
        for (name, input) in [
            ("notes__read", json!({"path": "a"})),
            ("files__list", json!({"glob": "**"})),
            ("files__patch", json!({"patch": "no patch"})),
            ("files__read", json!("a")),
        ] {
            assert_eq!(paths(name, &input), Vec::<String>::new(), "{name}");
        }
        let read = call("files__read", &json!({"path": "a", "first": 7}));
        assert_eq!(locations(&read, "/w"), [json!({"path": "/w/a", "line": 7})]);
    }

    #[test]
    fn edits_are_diffs() {
        let edit = diffs_of("files__edit", &json!({"path": "a", "old": "one", "new": "two"}));
        assert_eq!(edit, [diff("/w/a", Some("one"), "two")]);
        assert_eq!(diffs_of("files__edit", &json!({"path": "a"})), Vec::<Value>::new());
        let long = "x".repeat(DIFF_BYTES + 1);
        assert_eq!(diffs_of("files__edit", &json!({"path": "a", "old": long, "new": ""})), Vec::<Value>::new());
    }

    #[test]
    fn replaced_files_are_diffs_with_their_old_text() {
        let write = call("files__write", &json!({"path": "a", "text": "all"}));
        assert_eq!(replaced_file(&write).as_deref(), Some("a"));
        assert_eq!(replaced_file(&call("files__read", &json!({"path": "a"}))), None);
        let written = |before| diffs(&write, "/w", &FilesBefore::from([("a".to_owned(), before)]));
        assert_eq!(written(FileBefore::Text("old".to_owned())), [diff("/w/a", Some("old"), "all")]);
        assert_eq!(written(FileBefore::Missing), [diff("/w/a", None, "all")]);
        assert_eq!(diffs(&write, "/w", &FilesBefore::new()), Vec::<Value>::new());
        for unknown in [FileBefore::Unknown, FileBefore::Text("all".to_owned())] {
            assert_eq!(written(unknown), Vec::<Value>::new());
        }
        let long = call("files__write", &json!({"path": "a", "text": "x".repeat(DIFF_BYTES + 1)}));
        let before = FilesBefore::from([("a".to_owned(), FileBefore::Missing)]);
        assert_eq!(diffs(&long, "/w", &before), Vec::<Value>::new());
    }

    #[test]
    fn hunks_of_patches_are_diffs() {
        assert_eq!(
            diffs_of("files__patch", &json!({"patch": PATCH})),
            [
                diff("/w/x.rs", Some("one\ntwo\n\nthree\n"), "one\n2\n\nthree\n"),
                diff("/w/src/y.rs", Some("a\n"), "b\n"),
                diff("/w/src/y.rs", Some("c\n"), ""),
                diff("/w/new", None, "text\n"),
                diff("/w/old", Some("gone\n"), ""),
            ]
        );
        for patch in ["", "--- a", "--- a\n+++ b", "--- a\n+++ a\n@@\nno mark\n@@", "--- a/x\n+++ b/x\n@@\n\u{e9}\n"] {
            assert_eq!(diffs_of("files__patch", &json!({ "patch": patch })), Vec::<Value>::new(), "{patch}");
        }
        let many = format!("--- a\n+++ a\n{}", "@@\n-a\n".repeat(DIFFS + 1));
        assert_eq!(diffs_of("files__patch", &json!({ "patch": many })), Vec::<Value>::new());
    }
}

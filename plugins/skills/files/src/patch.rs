//! The tool `patch`: applies a unified diff to several files. All changes are declared before the first one is made, which lets the
//! user answer a single question. If a file cannot be changed, the earlier changes are undone. If the host stops the call in
//! between, the earlier changes stay.
//!
//! * `parse`: the parts of the diff,
//! * `fit`: where they apply in a file.

mod fit;
mod parse;

use patchbay_sdk::{Failure, Result, workspace};

use crate::{
    contents::{MAX_FILE, exists, whole},
    words::{count, shown},
};
#[cfg(test)]
pub(crate) use parse::MAX_FILES;
use parse::{Change, FilePatch};

/// Maximum total size of a patch's files, in bytes, before and after it. All are in memory before the first is written.
const MAX_ALL: usize = 16 << 20;

/// A file before and after the patch.
struct Prepared<'a> {
    path: &'a str,
    change: Change,
    old: String,
    new: String,
    hunks: usize,
}

pub(crate) fn patch(patch: &str) -> Result<String> {
    let files = parse::parse(patch)?;
    let mut prepared = Vec::with_capacity(files.len());
    let mut bytes = 0;
    for file in &files {
        let file = prepare(file)?;
        bytes += file.old.len() + file.new.len();
        if bytes > MAX_ALL {
            let message = format!(
                "the files of the patch have more than {MAX_ALL} bytes together, before and after it; nothing was written"
            );
            return Err(Failure::new("too-large", message));
        }
        prepared.push(file);
    }
    workspace::declare(&prepared.iter().map(Prepared::declared).collect::<Vec<_>>())?;
    let mut order: Vec<&Prepared<'_>> = prepared.iter().collect();
    order.sort_by_key(|file| file.change);
    for (index, file) in order.iter().enumerate() {
        if let Err(error) = file.apply() {
            return undone(file, &error, &order[..index]);
        }
    }
    let lines: Vec<String> = prepared.iter().map(Prepared::line).collect();
    Ok(lines.join("\n"))
}

impl Prepared<'_> {
    fn declared(&self) -> workspace::Change {
        let contents = (self.change != Change::Delete).then(|| self.new.clone().into_bytes());
        workspace::Change { path: self.path.to_owned(), contents, extra: Vec::new() }
    }

    fn apply(&self) -> Result<(), workspace::Error> {
        match self.change {
            Change::Delete => workspace::delete(self.path),
            Change::Create | Change::Edit => workspace::write(self.path, self.new.as_bytes()),
        }
    }

    fn undo(&self) -> Result<(), workspace::Error> {
        match self.change {
            Change::Create => workspace::delete(self.path),
            Change::Delete | Change::Edit => workspace::write(self.path, self.old.as_bytes()),
        }
    }

    fn line(&self) -> String {
        let path = shown(self.path);
        match self.change {
            Change::Create => format!("Created '{path}': {}.", count(self.new.lines().count(), "line")),
            Change::Edit => format!("Changed '{path}': {}.", count(self.hunks, "hunk")),
            Change::Delete => format!("Deleted '{path}'."),
        }
    }
}

/// Undoes the changes `done`, because `file` could not be changed. Returns a normal answer if some changes remain and one of the
/// errors is a denial: the host could replace a failure with its denial message.
///
/// # Errors
/// The failure of the change, with the changes that remain.
fn undone(file: &Prepared<'_>, error: &workspace::Error, done: &[&Prepared<'_>]) -> Result<String> {
    let mut left = Vec::new();
    let mut is_denied = error.kind == "denied";
    for done in done.iter().rev() {
        if let Err(error) = done.undo() {
            is_denied |= error.kind == "denied";
            left.push(format!("{} It cannot be undone: {}", done.line(), error.message));
        }
    }
    let path = shown(file.path);
    if !left.is_empty() {
        let left = left.join("\n");
        let message =
            format!("Applied in part: '{path}' cannot be changed: {}\nThese changes remain:\n{left}", error.message);
        return if is_denied { Ok(message) } else { Err(Failure::new(&*error.kind, message)) };
    }
    let message = match done {
        [] => error.message.clone(),
        _ => format!("'{path}' cannot be changed: {}; the changes of the patch before it were undone", error.message),
    };
    Err(Failure::new(&*error.kind, message))
}

/// Returns the file as the patch leaves it. Writes nothing.
fn prepare<'a>(file: &FilePatch<'a>) -> Result<Prepared<'a>> {
    let path = shown(file.path);
    let old = match file.change {
        Change::Create if exists(file.path)? => {
            let message = format!("'{path}' already exists, but the patch creates it; nothing was written");
            return Err(Failure::new("exists", message));
        }
        Change::Create => String::new(),
        Change::Edit | Change::Delete => whole(file.path)?,
    };
    let new = fit::apply(file.path, &old, &file.hunks)?;
    if file.change == Change::Delete && !new.is_empty() {
        let lines = count(new.lines().count(), "line");
        let message =
            format!("the patch deletes '{path}', but leaves {lines} of it; nothing was written. Read the file again");
        return Err(Failure::new("stale", message));
    }
    if new.len() > MAX_FILE {
        let size = new.len();
        let message = format!("'{path}' would have {size} bytes, over the limit of {MAX_FILE}; nothing was written");
        return Err(Failure::new("too-large", message));
    }
    Ok(Prepared { path: file.path, change: file.change, old, new, hunks: file.hunks.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::{Host, Reaction};

    const THREE: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n--- /dev/null\n+++ b/d/y\n@@ -0,0 +1,2 @@\n+1\n+2\n--- a/z\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n";

    fn run(host: &Host, text: &str) -> Result<String, String> {
        host.run(|| patch(text)).map_err(|failure| format!("{}: {failure}", failure.kind()))
    }

    fn text(host: &Host, path: &str) -> Option<String> {
        host.file(path).map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
    }

    fn two() -> Host {
        Host::new().with_file("x", "a\nb\n").with_file("z", "z\n")
    }

    #[test]
    fn several_files_are_changed() {
        let host = two();
        let told = "Changed 'x': 1 hunk.\nCreated 'd/y': 2 lines.\nDeleted 'z'.";
        assert_eq!(run(&host, THREE).as_deref(), Ok(told));
        assert_eq!(text(&host, "x").as_deref(), Some("A\nb\n"));
        assert_eq!((text(&host, "d/y").as_deref(), text(&host, "z")), (Some("1\n2\n"), None));
    }

    #[test]
    fn nothing_is_written_unless_everything_applies() {
        for (path, contents, expected) in [
            ("z", "z\nmore\n", "stale: the patch deletes 'z', but leaves 1 line of it"),
            ("d/y", "", "exists: 'd/y' already exists"),
            ("z", "\0", "not-text: 'z' is a binary file"),
        ] {
            let host = two().with_file(path, contents);
            let message = run(&host, THREE).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(text(&host, "x").as_deref(), Some("a\nb\n"));
        }
        assert!(run(&Host::new(), THREE).unwrap_err().starts_with("not-found"));
    }

    #[test]
    fn denial_is_noticed_before_the_first_write() {
        let host = two().on_call(|call| match (call.function, &*call.target) {
            ("workspace.declare", "x\nd/y\nz") => Reaction::Fail("denied"),
            _ => Reaction::Proceed,
        });
        assert!(run(&host, THREE).unwrap_err().starts_with("denied"));
        assert_eq!(text(&host, "x").as_deref(), Some("a\nb\n"));
    }

    /// Returns a workspace of `two` that refuses one function for one path.
    fn refusing(function: &'static str, path: &'static str) -> Host {
        two().on_call(move |call| match (call.function, &*call.target) == (function, path) {
            true => Reaction::Fail("denied"),
            false => Reaction::Proceed,
        })
    }

    #[test]
    fn refused_change_undoes_all_others() {
        for (function, path) in [("workspace.write", "x"), ("workspace.write", "d/y"), ("workspace.delete", "z")] {
            let host = refusing(function, path);
            let message = run(&host, THREE).unwrap_err();
            let expected = match path {
                "x" => "denied: simulated denied".to_owned(),
                path => format!(
                    "denied: '{path}' cannot be changed: simulated denied; the changes of the patch before it were undone"
                ),
            };
            assert_eq!(message, expected);
            assert_eq!((text(&host, "x").as_deref(), text(&host, "z").as_deref()), (Some("a\nb\n"), Some("z\n")));
            assert_eq!(text(&host, "d/y"), None, "{path}");
        }
    }

    #[test]
    fn deleted_files_are_written_again() {
        let patch = "--- x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n--- z\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n";
        let host = refusing("workspace.delete", "z");
        assert!(run(&host, patch).unwrap_err().starts_with("denied: 'z' cannot be changed"));
        assert_eq!(text(&host, "x").as_deref(), Some("a\nb\n"));
    }

    #[test]
    fn change_that_cannot_be_undone_is_reported() {
        let patch = "--- /dev/null\n+++ b/d/y\n@@ -0,0 +1 @@\n+1\n--- /dev/null\n+++ b/e\n@@ -0,0 +1 @@\n+1\n--- x\n+++ x\n@@\n-a\n+A\n";
        // Only without a denial can a failure show the remaining changes.
        for (write, delete, is_failure) in [
            ("denied", "denied", false),
            ("failed", "denied", false),
            ("denied", "failed", false),
            ("quota", "failed", true),
        ] {
            let host = two().on_call(move |call| match (call.function, &*call.target) {
                ("workspace.write", "e") => Reaction::Fail(write),
                ("workspace.delete", _) => Reaction::Fail(delete),
                _ => Reaction::Proceed,
            });
            let told = format!(
                "Applied in part: 'e' cannot be changed: simulated {write}\nThese changes remain:\nCreated 'd/y': 1 \
                 line. It \
                 cannot be undone: simulated {delete}"
            );
            let expected = if is_failure { Err(format!("{write}: {told}")) } else { Ok(told) };
            assert_eq!(run(&host, patch), expected);
            assert_eq!((text(&host, "d/y").as_deref(), text(&host, "x").as_deref()), (Some("1\n"), Some("a\nb\n")));
        }
    }

    #[test]
    fn patched_files_are_limited_in_size() {
        let host = Host::new().with_file("x", "a\n".repeat(MAX_FILE / 2 - 1));
        let long = format!("--- x\n+++ x\n@@ -0,0 +1 @@\n+{}\n", "b".repeat(10));
        assert!(run(&host, &long).unwrap_err().starts_with("too-large: 'x' would have 2097161 bytes"));
    }
}

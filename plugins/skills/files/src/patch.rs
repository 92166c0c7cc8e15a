//! The tool `patch`: applies a unified diff to several files, all of it or nothing.
//!
//! * `parse`: the parts of the diff,
//! * `fit`: where they stand in a file.

mod fit;
mod parse;

use patchbay_sdk::{Failure, Result, workspace};

use crate::{
    contents::{MAX_FILE, exists, whole},
    moving::require_delete,
    words::{count, shown},
};
#[cfg(test)]
pub(crate) use parse::MAX_FILES;
use parse::{Change, FilePatch};

/// The most bytes that the files of a patch have together afterwards: all are in memory before the first is written.
const MAX_ALL: usize = 16 << 20;

/// A file as the patch leaves it.
struct Prepared<'a> {
    path: &'a str,
    change: Change,
    text: String,
    hunks: usize,
}

pub(crate) fn patch(patch: &str) -> Result<String> {
    let files = parse::parse(patch)?;
    let mut prepared = Vec::with_capacity(files.len());
    let mut bytes = 0;
    for file in &files {
        let file = prepare(file)?;
        bytes += file.text.len();
        if bytes > MAX_ALL {
            let message =
                format!("the files of the patch have more than {MAX_ALL} bytes together; nothing was written");
            return Err(Failure::new("too-large", message));
        }
        prepared.push(file);
    }
    if prepared.iter().any(|file| file.change == Change::Delete) {
        require_delete()?;
    }
    let mut lines = Vec::with_capacity(prepared.len());
    for file in &prepared {
        let path = shown(file.path);
        let changed = match file.change {
            Change::Delete => workspace::delete(file.path),
            Change::Create | Change::Edit => workspace::write(file.path, file.text.as_bytes()),
        };
        if let Err(error) = changed {
            return Err(partly(&path, &error, &lines));
        }
        lines.push(match file.change {
            Change::Create => format!("Created '{path}': {}.", count(file.text.lines().count(), "line")),
            Change::Edit => format!("Changed '{path}': {}.", count(file.hunks, "hunk")),
            Change::Delete => format!("Deleted '{path}'."),
        });
    }
    Ok(lines.join("\n"))
}

/// Returns the file as the patch leaves it. Writes nothing.
fn prepare<'a>(file: &FilePatch<'a>) -> Result<Prepared<'a>> {
    let path = shown(file.path);
    let old = match file.change {
        Change::Create if exists(file.path)? => {
            let message = format!("'{path}' is there already, but the patch creates it; nothing was written");
            return Err(Failure::new("exists", message));
        }
        Change::Create => String::new(),
        Change::Edit | Change::Delete => whole(file.path)?,
    };
    let text = fit::apply(file.path, &old, &file.hunks)?;
    if file.change == Change::Delete && !text.is_empty() {
        let lines = count(text.lines().count(), "line");
        let message =
            format!("the patch deletes '{path}', but leaves {lines} of it; nothing was written. Read the file again");
        return Err(Failure::new("stale", message));
    }
    if text.len() > MAX_FILE {
        let size = text.len();
        let message = format!("'{path}' would have {size} bytes, over the limit of {MAX_FILE}; nothing was written");
        return Err(Failure::new("too-large", message));
    }
    Ok(Prepared { path: file.path, change: file.change, text, hunks: file.hunks.len() })
}

/// The failure of a write, with what was done before it.
fn partly(path: &str, error: &workspace::Error, done: &[String]) -> Failure {
    let message = match done {
        [] => return Failure::new(&*error.kind, error.message.clone()),
        done => format!("'{path}' could not be changed: {}. Before that: {}", error.message, done.join(" ")),
    };
    Failure::new(&*error.kind, message)
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
    fn nothing_is_written_unless_all_fits() {
        for (path, contents, expected) in [
            ("z", "z\nmore\n", "stale: the patch deletes 'z', but leaves 1 line of it"),
            ("d/y", "", "exists: 'd/y' is there already"),
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
    fn denied_deletion_is_noticed_before_the_first_write() {
        let host = two().on_call(|call| match call.function {
            "workspace.delete" => Reaction::Fail("denied"),
            _ => Reaction::Proceed,
        });
        assert!(run(&host, THREE).unwrap_err().starts_with("denied"));
        assert_eq!(text(&host, "x").as_deref(), Some("a\nb\n"));
    }

    #[test]
    fn failing_write_says_what_was_done_before() {
        let host = two().on_call(|call| match (call.function, &*call.target) {
            ("workspace.write", "d/y") => Reaction::Fail("failed"),
            _ => Reaction::Proceed,
        });
        let message = run(&host, THREE).unwrap_err();
        assert_eq!(message, "failed: 'd/y' could not be changed: simulated failed. Before that: Changed 'x': 1 hunk.");
    }

    #[test]
    fn patched_files_are_limited_in_size() {
        let host = Host::new().with_file("x", "a\n".repeat(MAX_FILE / 2 - 1));
        let long = format!("--- x\n+++ x\n@@ -0,0 +1 @@\n+{}\n", "b".repeat(10));
        assert!(run(&host, &long).unwrap_err().starts_with("too-large: 'x' would have 2097161 bytes"));
    }
}

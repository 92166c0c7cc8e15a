//! Paths of the workspace that match the text after `@`. Called by `complete`.
//!
//! The workspace is listed by a walk that obeys `.gitignore` and skips `.git` and Patchbay's own folders. It
//! runs on a blocking thread and within limits. Because a list stays in use for a few seconds, one walk
//! usually serves several key presses.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use patchbay_core::text;
use patchbay_workspace::{ProtectedPaths, Workspace};

use crate::filter;

/// Maximum number of paths in a list. Further paths are not offered.
const PATHS: usize = 50_000;
/// Time limit for listing the workspace.
const TIME: Duration = Duration::from_secs(1);
/// How long a list is used before the workspace is listed again.
const FRESH: Duration = Duration::from_secs(3);
/// Maximum number of paths that are offered.
const OFFERED: usize = 100;
/// Length limit of the text after `@`, in bytes.
const TYPED: usize = 256;
/// A folder that is never offered.
const OWN: &str = ".patchbay";

/// A word that begins with `@`, with the cursor in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathToken<'a> {
    /// Byte offset of the `@` in the text.
    pub(crate) start: usize,
    /// Byte offset of the cursor. Text after it is kept.
    pub(crate) end: usize,
    /// The text between the `@` and the cursor; not empty.
    pub(crate) typed: &'a str,
}

impl<'a> PathToken<'a> {
    /// Returns the word at the byte `cursor` of `text`. The `@` is at the start of the text or after white space.
    pub(crate) fn at(text: &'a str, cursor: usize) -> Option<Self> {
        let before = text.get(..cursor)?;
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let typed = before[start..].strip_prefix('@').filter(|typed| !typed.is_empty() && typed.len() <= TYPED)?;
        Some(Self { start, end: cursor, typed })
    }
}

/// The files of one workspace, listed on demand.
#[derive(Debug)]
pub(crate) struct PathIndex {
    root: PathBuf,
    protected: ProtectedPaths,
    /// The last list and the time when it was made. The lock is held while a list is made, so only one walk runs at a time.
    listed: Mutex<Option<(Instant, Arc<[String]>)>>,
}

impl PathIndex {
    pub(crate) fn new(root: PathBuf, protected: ProtectedPaths) -> Arc<Self> {
        Arc::new(Self { root, protected, listed: Mutex::default() })
    }

    /// Returns the paths that match `typed`, best matches first; directories end with `/`.
    pub(crate) async fn find(self: &Arc<Self>, typed: &str) -> Vec<String> {
        let (files, typed) = (Arc::clone(self), typed.to_owned());
        let found = tokio::task::spawn_blocking(move || fitting(&files.paths(), &typed));
        found.await.unwrap_or_default()
    }

    /// Returns the paths of the workspace. Blocks.
    fn paths(&self) -> Arc<[String]> {
        let mut listed = self.listed.lock();
        if let Some((_, paths)) = listed.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Arc::clone(paths);
        }
        let found = match Workspace::open_for_host(&self.root, &self.protected) {
            Ok(workspace) => workspace.list(PATHS, Instant::now() + TIME),
            Err(error) => {
                tracing::warn!("cannot list the workspace: {error}");
                Vec::new()
            }
        };
        let shown = found.into_iter().filter(|entry| is_shown(&entry.path));
        let paths: Arc<[String]> =
            shown.map(|entry| if entry.is_directory { entry.path + "/" } else { entry.path }).collect();
        *listed = Some((Instant::now(), Arc::clone(&paths)));
        paths
    }
}

/// Returns whether a path may be offered: not one of Patchbay's files, and without characters that deceive a terminal.
fn is_shown(path: &str) -> bool {
    text::clean(path) == path
        && !path.contains(['\n', '\t'])
        && !path.split('/').any(|part| part.eq_ignore_ascii_case(OWN))
}

/// Returns the paths that match `typed`: first names that begin with it, then paths below such a name, then paths that contain
/// its letters in the same order. Within each group, paths with fewer segments come first.
fn fitting(paths: &[String], typed: &str) -> Vec<String> {
    let mut found: Vec<_> = paths.iter().filter_map(|path| Some((rank(path, typed)?, path))).collect();
    found.sort_unstable();
    found.into_iter().take(OFFERED).map(|(_, path)| path.clone()).collect()
}

/// Returns the rank of `path` among the paths that match `typed`, lowest first; `None` if it does not match.
fn rank(path: &str, typed: &str) -> Option<(u8, usize)> {
    let whole = path.trim_end_matches('/');
    let parts = whole.match_indices('/').map(|(at, _)| at + 1);
    let rests = std::iter::once(0).chain(parts).filter_map(|start| filter::rest(&path[start..], typed));
    let best = rests.map(|rest| if rest.trim_end_matches('/').contains('/') { 1 } else { 0 }).min();
    let class = best.or_else(|| filter::has_letters(path, typed).then_some(2))?;
    Some((class, whole.matches('/').count()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn token(text: &str) -> Option<(usize, usize, &str)> {
        let cursor = text.find('|').unwrap();
        let (before, after) = (&text[..cursor], &text[cursor + 1..]);
        let joined = Box::leak(format!("{before}{after}").into_boxed_str());
        PathToken::at(joined, cursor).map(|token| (token.start, token.end, token.typed))
    }

    #[test]
    fn path_is_completed_after_an_at_sign_beginning_a_word() {
        for (text, expected) in [
            ("@sr|", Some((0, 3, "sr"))),
            ("see @sr|", Some((4, 7, "sr"))),
            ("see\n@sr| and", Some((4, 7, "sr"))),
            ("a\u{3000}@sr|c/x y", Some((4, 7, "sr"))),
            ("@node/@t|", Some((0, 8, "node/@t"))),
            ("/grep x @a|", Some((8, 10, "a"))),
            ("@|", None),
            ("|@sr", None),
            ("me@sr|", None),
            ("@sr |", None),
            ("sr|", None),
        ] {
            assert_eq!(token(text), expected, "{text}");
        }
        assert_eq!(PathToken::at("@ä", 2), None);
        assert_eq!(PathToken::at("@a", 9), None);
        assert_eq!(PathToken::at(&format!("@{}", "x".repeat(TYPED + 1)), TYPED + 2), None);
    }

    #[test]
    fn names_go_before_folders_and_folders_before_letters() {
        let paths = ["a/lib/deep/x.rs", "a/lib/x.rs", "fl/i/b.rs", "src/", "src/lib.rs", "lib/", "Library.md"];
        let paths = paths.map(str::to_owned);
        let expected = ["Library.md", "lib/", "src/lib.rs", "a/lib/x.rs", "a/lib/deep/x.rs", "fl/i/b.rs"];
        assert_eq!(fitting(&paths, "lib"), expected);
        assert_eq!(fitting(&paths, "src/l"), ["src/lib.rs"]);
        assert_eq!(fitting(&paths, "lib/x"), ["a/lib/x.rs", "a/lib/deep/x.rs"]);
        assert_eq!(fitting(&paths, "slrs"), ["src/lib.rs"]);
        assert_eq!(fitting(&paths, "zz"), [""; 0]);
    }

    #[tokio::test]
    async fn ignored_hidden_and_own_files_are_not_offered() {
        let folder = tempfile::tempdir().unwrap();
        for path in
            [".git/notes", ".patchbay/notes", "sub/.patchbay/notes", "out/notes", "sub/notes.md", "no\u{202e}tes"]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "out/\n").unwrap();
        let files = PathIndex::new(folder.path().to_owned(), ProtectedPaths::default());
        assert_eq!(files.find("notes").await, ["sub/notes.md"]);
        // The list is reused for some time.
        fs::write(folder.path().join("notes.new"), "").unwrap();
        assert_eq!(files.find("notes").await, ["sub/notes.md"]);
        *files.listed.lock() = None;
        assert_eq!(files.find("notes").await, ["notes.new", "sub/notes.md"]);
        let gone = PathIndex::new(folder.path().join("gone"), ProtectedPaths::default());
        assert_eq!(gone.find("notes").await, [""; 0]);
    }
}

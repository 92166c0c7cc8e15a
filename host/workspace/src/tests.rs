//! Tests of the crate with real directories. Each test has a file outside the workspace that must never be read or changed.

mod any;
mod hostile;
mod linked;
mod own_folders;
mod places;
mod races;
mod reading;
mod rules;
mod searching;
mod walking;
mod writing;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{FileError, Workspace};

const SENTINEL: &str = "the sentinel outside";

/// A workspace at `root`, next to a directory `outside` with a file `secret`.
struct Fixture {
    root: PathBuf,
    outside: PathBuf,
    workspace: Workspace,
    _all: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        let (root, outside) = (all.path().join("root"), all.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), SENTINEL).unwrap();
        let workspace = Workspace::open(&root).unwrap();
        Self { root, outside, workspace, _all: all }
    }

    /// Writes a file and creates its directories.
    fn file(&self, path: &str, contents: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn read(&self, path: &str) -> Result<String, FileError> {
        self.workspace.read(path, 0, 1_000).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// Lists all entries that match, page by page. Directories end with `/`.
    fn list(&self, glob: &str, page: u32) -> Result<Vec<String>, FileError> {
        let mut all = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let entries = self.workspace.walk(glob, after.as_deref(), page)?;
            assert!(entries.len() <= page as usize);
            let Some(last) = entries.last() else { return Ok(all) };
            after = Some(last.path.clone());
            all.extend(entries.into_iter().map(|entry| entry.path + if entry.is_directory { "/" } else { "" }));
        }
    }

    fn assert_outside_is_untouched(&self) {
        let names: Vec<_> = fs::read_dir(&self.outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(fs::read_to_string(self.outside.join("secret")).unwrap(), SENTINEL);
    }
}

/// Returns the kind of an expected error.
fn kind<T>(result: Result<T, FileError>) -> &'static str {
    result.err().expect("an error").kind()
}

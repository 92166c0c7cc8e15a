//! The cached files of a root. Used by `roots`.
//!
//! The files are grouped by the child of the root that contains them, because a scan looks up all files of one child after
//! another. The few entries of a child fit in the processor's caches; a table of all files would not.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use patchbay_skill::{CachedFile, Stat};

/// The path of a file below the root, split after its first segment, the child of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FilePath<'a> {
    child: &'a str,
    /// The path below the child; empty if the child is the file.
    rest: &'a str,
}

impl<'a> FilePath<'a> {
    /// Splits a path, whose segments are separated by `/`.
    pub(crate) fn of(path: &'a str) -> Self {
        let (child, rest) = path.split_once('/').unwrap_or((path, ""));
        Self { child, rest }
    }
}

impl fmt::Display for FilePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { child, rest } = self;
        if rest.is_empty() { f.write_str(child) } else { write!(f, "{child}/{rest}") }
    }
}

/// The files of one child by the rest of their paths.
type Child = BTreeMap<Box<str>, (Stat, CachedFile)>;

/// Cached files of a root by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownFiles {
    children: HashMap<String, Child>,
    count: usize,
}

impl KnownFiles {
    /// Returns the number of files.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns all paths, in no particular order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = FilePath<'_>> {
        self.children.iter().flat_map(|(child, files)| files.keys().map(move |rest| FilePath { child, rest }))
    }

    /// Returns a file if it is known in the state `stat`.
    pub(crate) fn get(&self, path: FilePath<'_>, stat: &Stat) -> Option<(FilePath<'_>, &CachedFile)> {
        let (child, files) = self.children.get_key_value(path.child)?;
        let (rest, (seen, cached)) = files.get_key_value(path.rest)?;
        (seen == stat).then_some((FilePath { child, rest }, cached))
    }

    /// Adds a file, or replaces its cached entry.
    pub(crate) fn insert(&mut self, path: FilePath<'_>, stat: Stat, cached: CachedFile) {
        let files = match self.children.get_mut(path.child) {
            Some(files) => files,
            None => self.children.entry(path.child.to_owned()).or_default(),
        };
        if files.insert(path.rest.into(), (stat, cached)).is_none() {
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, path: FilePath<'_>) {
        let Some(files) = self.children.get_mut(path.child) else { return };
        if files.remove(path.rest).is_some() {
            self.count -= 1;
        }
        if files.is_empty() {
            self.children.remove(path.child);
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::Digest;

    use super::*;

    #[test]
    fn files_are_found_by_path_and_state_and_counted_once() {
        let stat = |size: u64| format!("1:2:{size}:4:5").parse::<Stat>().unwrap();
        let cached = |bytes: &[u8]| CachedFile { digest: Digest::of(bytes), skill_md: None };
        let mut known = KnownFiles::default();
        for path in ["a/SKILL.md", "a/b/c.txt", "a.wasm", "a/b/c.txt"] {
            known.insert(FilePath::of(path), stat(1), cached(path.as_bytes()));
        }
        let mut paths: Vec<_> = known.paths().map(|path| path.to_string()).collect();
        paths.sort();
        assert_eq!((known.len(), &paths[..]), (3, &["a.wasm", "a/SKILL.md", "a/b/c.txt"].map(String::from)[..]));
        let found = known.get(FilePath::of("a/b/c.txt"), &stat(1)).unwrap();
        assert_eq!((found.0.to_string().as_str(), found.1), ("a/b/c.txt", &cached(b"a/b/c.txt")));
        assert!(known.get(FilePath::of("a/b/c.txt"), &stat(2)).is_none());
        known.remove(FilePath::of("a.wasm"));
        known.remove(FilePath::of("a/missing"));
        assert_eq!((known.len(), known.get(FilePath::of("a.wasm"), &stat(1))), (2, None));
    }
}

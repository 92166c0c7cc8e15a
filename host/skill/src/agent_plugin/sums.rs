//! The list of a package's files that its digest covers, in the format of `sha256sum`.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    io,
    path::Path,
};

use patchbay_core::{Code, Digest, caseless, text};

use super::{
    PackageFile, list_files,
    tree::{BYTES, list_copied_files, unreadable},
};
use crate::{
    Problem,
    files::{self, Folder},
};

/// The files of a package by path, each with its SHA-256. `sha256sum -c` accepts the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    files: BTreeMap<String, Digest>,
}

impl Sums {
    /// Creates the list.
    ///
    /// # Errors
    /// `package_file_refused`: a path has a control character or a backslash, or two paths are equal on systems that ignore case or
    /// Unicode normal form.
    pub fn new(files: BTreeMap<String, Digest>) -> Result<Self, Problem> {
        let mut places = HashMap::<String, &str>::new();
        for path in files.keys() {
            check_path(path)?;
            // Folders count as well: `Notes/a.md` and `notes/b.md` could end up in one folder.
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            for place in ends.filter_map(|end| path.get(..end)) {
                let first = places.entry(caseless(place).into_owned()).or_insert(place);
                if *first != place {
                    let (one, other) = (text::excerpt(first, 80), text::excerpt(place, 80));
                    let message = format!(
                        "'{one}' and '{other}' differ only in case or Unicode normal form, and are one file on some systems. Rename one."
                    );
                    return Err(Problem::new(Code::PackageFileRefused, message));
                }
            }
        }
        Ok(Self { files })
    }

    /// Reads all files of the package in `folder`.
    ///
    /// # Errors
    /// The same as for [`list_files`] and [`Sums::new`].
    pub fn of_folder(folder: &Path) -> Result<Self, Problem> {
        Self::of_listed(folder, &list_files(folder)?)
    }

    /// Reads all files of the installed copy in `folder`. Unlike [`Sums::of_folder`], it includes version control folders, because
    /// a copy should not have any and their files could be run.
    ///
    /// # Errors
    /// The same as for [`Sums::of_folder`].
    pub fn of_copy(folder: &Path) -> Result<Self, Problem> {
        Self::of_listed(folder, &list_copied_files(folder)?)
    }

    fn of_listed(folder: &Path, files: &[PackageFile]) -> Result<Self, Problem> {
        let opened = files::open_folder(folder).map_err(|error| unreadable("The folder", &error))?;
        let opened = opened.ok_or_else(|| unreadable("The folder", &io::ErrorKind::NotFound.into()))?;
        Self::of_files(&opened, files.iter().map(|file| &*file.path))
    }

    /// Reads the files at `paths` in a folder.
    ///
    /// # Errors
    /// The same as for [`Sums::new`], and `folder_unusable` if a file cannot be read.
    pub fn of_files<'a>(folder: &Folder, paths: impl Iterator<Item = &'a str>) -> Result<Self, Problem> {
        let sum = |path: &str| {
            let read =
                files::hash(folder, path, BYTES).and_then(|read| read.ok_or_else(|| io::ErrorKind::NotFound.into()));
            let read = read.map_err(|error| {
                let message = format!("'{}' cannot be read: {}.", text::excerpt(path, 120), error.kind());
                Problem::new(Code::FolderUnusable, message)
            })?;
            Ok((path.to_owned(), read.digest))
        };
        Self::new(paths.map(sum).collect::<Result<_, Problem>>()?)
    }

    /// Parses the output of [`Sums::to_text`]; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let (hex, path) = line.split_once("  ")?;
            Some((path.to_owned(), format!("sha256:{hex}").parse().ok()?))
        };
        let sums = Self::new(text.lines().map(line).collect::<Option<_>>()?).ok()?;
        (sums.to_text() == text).then_some(sums)
    }

    /// Returns the list: for each file, sorted by path, its hash in hexadecimal, two spaces, the path and a newline.
    pub fn to_text(&self) -> String {
        self.files.iter().fold(String::new(), |mut text, (path, digest)| {
            let _ = writeln!(text, "{}  {path}", digest.to_hex());
            text
        })
    }

    /// Returns the digest of the list.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_text().as_bytes())
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the paths that differ in `newer`, sorted and cleaned, each marked as `changed`, `new` or `gone`.
    pub fn differences(&self, newer: &Self) -> Vec<String> {
        let mut differences = BTreeMap::new();
        for (path, digest) in &self.files {
            match newer.files.get(path) {
                Some(other) if other == digest => {}
                Some(_) => drop(differences.insert(path, "changed")),
                None => drop(differences.insert(path, "gone")),
            }
        }
        differences.extend(newer.files.keys().filter(|path| !self.files.contains_key(*path)).map(|path| (path, "new")));
        differences.into_iter().map(|(path, how)| format!("{} ({how})", text::clean_line(path))).collect()
    }
}

/// Checks that a path can be part of a list that any `sha256sum` can read, and can be printed to a terminal.
fn check_path(path: &str) -> Result<(), Problem> {
    if path.chars().any(|c| c.is_control() || c == '\\') {
        let message = format!(
            "the file name {path:?} has a control character or a backslash, which lists of sums cannot have. Rename it."
        );
        return Err(Problem::new(Code::PackageFileRefused, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(paths: &[&str]) -> Result<Sums, Problem> {
        Sums::new(paths.iter().map(|path| ((*path).to_owned(), Digest::of(path.as_bytes()))).collect())
    }

    #[test]
    fn list_reads_back_and_any_other_text_does_not() {
        let list = sums(&["b c.md", "a/\u{e4}.md", "a.md"]).unwrap();
        let text = list.to_text();
        assert!(text.starts_with(&format!("{}  a.md\n", Digest::of(b"a.md").to_hex())), "{text}");
        assert_eq!(Sums::parse(&text), Some(list.clone()));
        let lines: Vec<&str> = text.lines().collect();
        for other in
            [text.trim_end(), &text.replace("  ", " "), &lines.iter().rev().copied().collect::<Vec<_>>().join("\n")]
        {
            assert_eq!(Sums::parse(other), None, "{other}");
        }
        let newer = sums(&["a.md", "b c.md", "new"]).unwrap();
        assert_eq!(list.differences(&newer), ["a/\u{e4}.md (gone)", "new (new)"]);
        assert!(!list.is_empty() && list.len() == 3);
    }

    #[test]
    fn names_that_are_one_elsewhere_are_refused() {
        for paths in [
            &["A.md", "a.md"][..],
            &["Notes/a.md", "notes/b.md"],
            &["\u{e4}.md", "a\u{308}.md"],
            &["x/y", "X"],
            &["a\nb"],
            &["a\u{1b}[31m"],
            &["a\\b"],
            &["a\u{85}b"],
        ] {
            let error = sums(paths).unwrap_err();
            assert!(error.code == Code::PackageFileRefused && !error.message.contains('\u{1b}'), "{error}");
        }
        assert!(sums(&["a/b", "a/c", "ab"]).is_ok());
    }
}

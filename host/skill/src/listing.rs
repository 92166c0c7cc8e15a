//! The files of one skill's folder: which of them are the skill's, within the limits of a skill.
//!
//! Every regular file below the folder is, except hidden files, what editors and build tools leave behind, and the
//! component (`*.wasm` at the top). Links are followed inside the folder only.

use std::{collections::BTreeMap, io};

use cap_std::fs::{Dir, FileType, Metadata};
use patchbay_core::{Code, text};

use crate::Problem;

/// The most files of a skill, and the most folders.
const FILES: usize = 1_000;
/// The most bytes of a skill's files together.
const BYTES: u64 = 32 << 20;
/// The most bytes of one file.
pub(crate) const FILE_BYTES: u64 = 8 << 20;
/// How many folders below the skill's own a file may be.
const DEPTH: usize = 8;
/// The longest path of a file, in bytes.
const PATH_BYTES: usize = 255;
/// Files that are left out and named, one diagnostic each.
const SKIPPED: usize = 10;
/// FolderEntries of one folder that are looked at, ignored ones included.
const ENTRIES: usize = 10_000;

/// What a skill's folder holds.
#[derive(Default)]
pub(crate) struct Listing {
    /// The files of the skill, by their path below its folder. The component is not among them.
    pub(crate) files: BTreeMap<String, Metadata>,
    /// Names of the `*.wasm` files at the top, sorted.
    pub(crate) components: Vec<String>,
    /// Files that are left out.
    pub(crate) skipped: Vec<Problem>,
    /// Which limit of a skill the folder goes over; `files` is not complete then.
    pub(crate) over: Option<Problem>,
    folders: usize,
    bytes: u64,
}

/// Lists the files of the skill in `folder`. At its limits it stops, and says so in [`Listing::over`].
///
/// # Errors
/// Where the folder itself cannot be read.
pub(crate) fn list(folder: &Dir) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let entries = entries(folder)?;
    listing.over = listing.add(folder, "", 0, entries).err();
    listing.components.sort();
    listing.skipped.sort_by(|a, b| a.message.cmp(&b.message));
    if listing.skipped.len() > SKIPPED {
        let more = listing.skipped.len() - SKIPPED;
        listing.skipped.truncate(SKIPPED);
        listing.skip(format!("{more} more files are left out."));
    }
    Ok(listing)
}

type FolderEntries = (BTreeMap<std::ffi::OsString, (FileType, cap_std::fs::DirEntry)>, bool);

/// The entries of a folder by their names, and whether there are more than are looked at.
fn entries(folder: &Dir) -> io::Result<FolderEntries> {
    let mut found = BTreeMap::new();
    for (number, entry) in folder.entries()?.enumerate() {
        if number == ENTRIES {
            return Ok((found, true));
        }
        let entry = entry?;
        let name = entry.file_name();
        if !is_ignored(name.as_encoded_bytes()) {
            found.insert(name, (entry.file_type()?, entry));
        }
    }
    Ok((found, false))
}

/// Whether a name is never one of a skill's files: hidden ones, and what editors and build tools leave behind.
fn is_ignored(name: &[u8]) -> bool {
    name.starts_with(b".")
        || name.ends_with(b"~")
        || name.ends_with(b".pyc")
        || matches!(name, b"__pycache__" | b"node_modules")
}

impl Listing {
    /// Adds the entries of the folder at `path` below `root`, the skill's folder.
    fn add(&mut self, root: &Dir, path: &str, depth: usize, entries: FolderEntries) -> Result<(), Problem> {
        let (entries, more) = entries;
        if more || self.files.len() + entries.len() > 2 * FILES {
            return Err(limited(format!("More than {} files", crate::limit::grouped(FILES as u64))));
        }
        for (name, (kind, entry)) in entries {
            let Some(name) = name.to_str() else {
                let shown = text::excerpt(&format!("{path}{}", name.to_string_lossy()), 80);
                self.skip(format!("The name of '{shown}' is not UTF-8."));
                continue;
            };
            let file = format!("{path}{name}");
            if depth == 0 && name.ends_with(".wasm") && !kind.is_dir() {
                self.components.push(file);
            } else if kind.is_dir() {
                let below = entry.open_dir();
                self.folder(root, below, &file, depth)?;
            } else if kind.is_symlink() {
                self.link(root, &file, depth)?;
            } else if kind.is_file() {
                // It may be gone by now.
                if let Ok(metadata) = entry.metadata() {
                    self.file(file, metadata)?;
                }
            } else {
                self.skip(format!("'{}' is not a regular file.", text::excerpt(&file, 80)));
            }
        }
        Ok(())
    }

    fn folder(&mut self, root: &Dir, opened: io::Result<Dir>, path: &str, depth: usize) -> Result<(), Problem> {
        if depth == DEPTH {
            return Err(limited(format!("Folders more than {DEPTH} deep")));
        }
        self.folders += 1;
        if self.folders > FILES {
            return Err(limited(format!("More than {} folders", crate::limit::grouped(FILES as u64))));
        }
        match opened.and_then(|folder| entries(&folder)) {
            Ok(entries) => self.add(root, &format!("{path}/"), depth + 1, entries),
            Err(error) => {
                self.unreadable(path, &error);
                Ok(())
            }
        }
    }

    /// A link is what it leads to, if that is in the skill's folder.
    fn link(&mut self, root: &Dir, path: &str, depth: usize) -> Result<(), Problem> {
        match root.metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.folder(root, root.open_dir(path), path, depth),
            Ok(metadata) if metadata.is_file() => self.file(path.to_owned(), metadata),
            Ok(_) => {
                self.skip(format!("'{}' is not a regular file.", text::excerpt(path, 80)));
                Ok(())
            }
            Err(_) => {
                self.skip(format!("'{}' is a link to nothing in the skill's folder.", text::excerpt(path, 80)));
                Ok(())
            }
        }
    }

    fn file(&mut self, path: String, metadata: Metadata) -> Result<(), Problem> {
        if path.len() > PATH_BYTES {
            return Err(limited(format!("A path of more than {PATH_BYTES} bytes")));
        }
        // SKILL.md has a limit of its own, with a diagnostic of its own.
        if metadata.len() > FILE_BYTES && path != crate::discover::SKILL_MD {
            return Err(limited(format!("'{}' is larger than {} MiB", text::excerpt(&path, 80), FILE_BYTES >> 20)));
        }
        self.bytes = self.bytes.saturating_add(metadata.len());
        if self.bytes > BYTES {
            return Err(limited(format!("More than {} MiB of files", BYTES >> 20)));
        }
        self.files.insert(path, metadata);
        if self.files.len() > FILES {
            return Err(limited(format!("More than {} files", crate::limit::grouped(FILES as u64))));
        }
        Ok(())
    }

    fn skip(&mut self, message: String) {
        self.skipped.push(Problem::new(Code::SkillFileSkipped, message));
    }

    /// Notes a file or folder that cannot be read.
    pub(crate) fn unreadable(&mut self, path: &str, error: &io::Error) {
        self.skip(format!("'{}' cannot be read: {}.", text::excerpt(path, 80), error.kind()));
    }
}

fn limited(what: String) -> Problem {
    Problem::new(Code::SkillFilesLimited, format!("{what}; none of them can be read."))
}

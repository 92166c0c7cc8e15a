//! The files of one skill with their contents, and the format in which they are stored.
//!
//! If a skill is a folder, its files are stored as one *pack*: a line of JSON that lists them, then their contents. The files of a
//! single-file skill are in its component. `discover.rs` records which of these applies, the crate `session` stores packs, and the
//! crate `tools` reads files for models and components.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use patchbay_core::{Digest, text};
use serde::{Deserialize, Serialize};

use crate::{Problem, archive, discover::SKILL_MD, embedded};

/// The number of a skill's files without SKILL.md and the component, and where their contents are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTotals {
    /// Number of files, except SKILL.md and the component.
    pub count: u32,
    /// Total size of these files, in bytes.
    pub bytes: u64,
    /// Where the contents are stored.
    pub place: FileStorage,
}

impl FileTotals {
    /// Returns the totals of a skill that only has a SKILL.md and perhaps a component.
    pub(crate) fn none(place: FileStorage) -> Self {
        Self { count: 0, bytes: 0, place }
    }

    pub(crate) fn add(&mut self, path: &str, bytes: u64) {
        if path != SKILL_MD {
            self.count += 1;
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }
}

/// Where the contents of a skill's files are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStorage {
    /// In a pack, which is found by the skill's digest.
    Pack,
    /// The contents are embedded in the component.
    Component,
    /// Nowhere: the skill exceeds a limit on files.
    Nowhere,
}

/// The files of a skill in memory, SKILL.md included, by path.
#[derive(Clone, Debug, Default)]
pub struct FileSet {
    files: BTreeMap<String, SkillFile>,
}

/// A file that belongs to a [`FileSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFile {
    /// The digest of the file's contents.
    pub digest: Digest,
    /// The contents of the file.
    pub contents: Bytes,
}

/// A stored pack does not contain the files that it lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored files of a skill are damaged")]
pub struct PackDamaged;

/// An entry of a pack's first line.
#[derive(Serialize, Deserialize)]
struct PackEntry {
    path: Arc<str>,
    size: u64,
    digest: Digest,
}

impl FileSet {
    pub(crate) fn insert(&mut self, path: String, contents: impl Into<Bytes>) {
        let contents = contents.into();
        self.files.insert(path, SkillFile { digest: Digest::of(&contents), contents });
    }

    /// Returns the pack of these files.
    pub fn to_pack(&self) -> Vec<u8> {
        let entry = |(path, file): (&String, &SkillFile)| PackEntry {
            path: path.as_str().into(),
            size: file.contents.len() as u64,
            digest: file.digest,
        };
        let entries: Vec<_> = self.files.iter().map(entry).collect();
        // Serializing strings and numbers cannot fail.
        let mut pack = serde_json::to_vec(&entries).unwrap_or_default();
        pack.reserve(1 + self.bytes());
        pack.push(b'\n');
        for file in self.files.values() {
            pack.extend_from_slice(&file.contents);
        }
        pack
    }

    /// Reads a pack and checks the digests.
    ///
    /// # Errors
    /// Every failure is reported as [`PackDamaged`].
    pub fn from_pack(pack: impl Into<Bytes>) -> Result<Self, PackDamaged> {
        let pack: Bytes = pack.into();
        // JSON escapes newlines in strings, so the first newline ends the list.
        let end = pack.iter().position(|byte| *byte == b'\n').ok_or(PackDamaged)?;
        let entries: Vec<PackEntry> = serde_json::from_slice(&pack[..end]).map_err(|_| PackDamaged)?;
        let (mut set, mut at) = (Self::default(), end + 1);
        for PackEntry { path, size, digest } in entries {
            let end = usize::try_from(size).ok().and_then(|size| at.checked_add(size));
            let end = end.filter(|end| *end <= pack.len()).ok_or(PackDamaged)?;
            let contents = pack.slice(at..end);
            if Digest::of(&contents) != digest {
                return Err(PackDamaged);
            }
            set.files.insert(path.to_string(), SkillFile { digest, contents });
            at = end;
        }
        if at == pack.len() { Ok(set) } else { Err(PackDamaged) }
    }

    /// Returns the files in a skill's component: its SKILL.md and its archive.
    ///
    /// # Errors
    /// The same problem that keeps the component from being loaded.
    pub fn from_component(component: &[u8]) -> Result<Self, Problem> {
        let embedded = embedded::embedded(component)?;
        let mut set = Self::default();
        if let Some(skill_md) = embedded.skill_md {
            set.insert(SKILL_MD.to_owned(), skill_md.as_bytes().to_vec());
        }
        if let Some(files) = embedded.files {
            let archive = Bytes::copy_from_slice(files);
            for (path, range) in archive::read_archive(files)? {
                set.insert(path, archive.slice(range));
            }
        }
        Ok(set)
    }

    /// Returns the file at `path`.
    pub fn get(&self, path: &str) -> Option<&SkillFile> {
        self.files.get(path)
    }

    /// Iterates over the files, sorted by the bytes of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SkillFile)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Iterates over the files except SKILL.md, sorted by the bytes of their paths.
    pub fn others(&self) -> impl Iterator<Item = (&str, &SkillFile)> {
        self.iter().filter(|(path, _)| *path != SKILL_MD)
    }

    /// Returns a line `PATH (SIZE)` for each file except SKILL.md, at most `most`, and the number of files without a line.
    /// Paths are cleaned for display.
    pub fn lines(&self, most: usize) -> (Vec<String>, usize) {
        let line = |(path, file): (&str, &SkillFile)| {
            format!("{} ({})", text::clean_line(path), text::size(file.contents.len() as u64))
        };
        let lines: Vec<String> = self.others().take(most).map(line).collect();
        let more = self.others().count() - lines.len();
        (lines, more)
    }

    /// Returns the size of all contents, in bytes.
    pub fn bytes(&self) -> usize {
        self.files.values().map(|file| file.contents.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_has_its_files_and_is_checked() {
        let mut set = FileSet::default();
        for (path, contents) in [("SKILL.md", "---\n---\n"), ("a\nb", ""), ("c.bin", "\0\n\u{ff}")] {
            set.insert(path.to_owned(), contents.as_bytes().to_vec());
        }
        let pack = set.to_pack();
        let read = FileSet::from_pack(pack.clone()).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), set.iter().collect::<Vec<_>>());
        assert_eq!(read.others().map(|(path, _)| path).collect::<Vec<_>>(), ["a\nb", "c.bin"]);
        for damaged in [&pack[..pack.len() - 1], &[&pack[..], b"x"].concat(), b"[]", b"{}\n", b""] {
            assert_eq!(FileSet::from_pack(damaged.to_vec()).unwrap_err(), PackDamaged);
        }
        let mut changed = pack.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(FileSet::from_pack(changed).unwrap_err(), PackDamaged);
        assert_eq!(FileSet::from_pack(&b"[]\n"[..]).unwrap().iter().count(), 0);
    }
}

//! Reads the contents of a candidate's files, for the store.
//!
//! Called by the crate `session` for skills of a new snapshot if their files are not stored yet. Files may change at any time. The
//! snapshot must match the bytes read here, so the list of files, and thereby the skill's digest, is computed again from them.

use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use bytes::Bytes;
use cap_std::fs::Dir;
use patchbay_core::{Code, Digest, text};
use patchbay_policy::Root;

use crate::{
    Candidate, Changed, FileSet, FileStorage, FileTotals, Problem, SkillFiles,
    component::{self, ComponentFile},
    discover::SKILL_MD,
    embedded::SKILL_MD_BYTES,
    files,
    listing::{self, Totals},
};

/// Where to read the contents of a candidate's files.
#[derive(Clone, Debug)]
pub(crate) enum FileSource {
    Folder(SkillFolder),
    /// The only file of a command, which is its SKILL.md.
    Command(ComponentFile),
    /// The SKILL.md of a bundled skill without a component.
    Memory(Bytes),
    /// Nothing to read: the files are in the component, or left out because of a limit.
    NoPack,
}

/// A skill's folder on disk. It is opened again to read the files, because a process cannot keep thousands of folders open.
#[derive(Clone, Debug)]
pub(crate) struct SkillFolder {
    pub(crate) root: Root,
    /// The path that was passed to [`discover`](crate::discover).
    pub(crate) path: Arc<Path>,
    pub(crate) folder: String,
}

/// The result of [`Candidate::read_files`].
#[derive(Clone, Debug)]
pub struct ReadFiles {
    /// The files that were read.
    pub files: FileSet,
    /// The candidate with the list of these files. Its digest differs if a file has changed since discovery.
    pub candidate: Candidate,
}

impl Candidate {
    /// Reads the files of a skill that are stored in a pack ([`FileStorage::Pack`]). A file that can no longer be read is left out,
    /// with a note.
    ///
    /// # Errors
    /// [`Changed`] if the SKILL.md has changed since discovery, or the folder is gone.
    pub fn read_files(&self) -> Result<ReadFiles, Changed> {
        match &self.source {
            FileSource::Folder(folder) => self.read_folder(folder),
            FileSource::Command(file) => {
                let contents = file.read().ok().flatten().ok_or(Changed)?;
                let list = SkillFiles::new(&BTreeMap::from([(SKILL_MD.to_owned(), Digest::of(&contents))]));
                if list == self.files { Ok(self.only(contents.into())) } else { Err(Changed) }
            }
            FileSource::Memory(skill_md) => Ok(self.only(skill_md.clone())),
            FileSource::NoPack => Ok(ReadFiles { files: FileSet::default(), candidate: self.clone() }),
        }
    }

    /// Returns the files of a skill that only has a SKILL.md.
    fn only(&self, skill_md: Bytes) -> ReadFiles {
        let mut files = FileSet::default();
        files.insert(SKILL_MD.to_owned(), skill_md);
        ReadFiles { files, candidate: self.clone() }
    }

    fn read_folder(&self, source: &SkillFolder) -> Result<ReadFiles, Changed> {
        let SkillFolder { root, path, folder } = source;
        let opened = component::open_root(*root, path).ok().flatten().ok_or(Changed)?;
        let opened = component::open_folder(*root, path, &opened, folder).map_err(|_| Changed)?;
        let listed = self.files.entries();
        let (mut files, mut list, mut notes) = (FileSet::default(), BTreeMap::new(), self.notes.clone());
        let mut totals = FileTotals::none(FileStorage::Pack);
        let mut within = Totals::default();
        for (path, hash) in &listed {
            if let Some(component) = self.component_line(path) {
                list.insert((*path).to_owned(), component);
                continue;
            }
            match read(&opened, path, &mut within) {
                Ok(Some(contents)) => {
                    let digest = Digest::of(&contents);
                    if *path == SKILL_MD && digest.to_hex() != *hash {
                        return Err(Changed);
                    }
                    list.insert((*path).to_owned(), digest);
                    totals.add(path, contents.len() as u64);
                    files.insert((*path).to_owned(), contents);
                }
                // A skill cannot continue without its SKILL.md.
                _ if *path == SKILL_MD => return Err(Changed),
                Ok(None) => {}
                Err(problem) => notes.push(problem),
            }
        }
        let files_list = SkillFiles::new(&list);
        let candidate = Self { files: files_list, totals, notes, ..self.clone() };
        Ok(ReadFiles { files, candidate })
    }

    /// Returns the digest of the component if `path` is its file.
    fn component_line(&self, path: &str) -> Option<Digest> {
        let component = self.component.as_ref()?;
        (component.file_name() == Some(path)).then(|| component.digest())
    }
}

/// The contents of a skill's files by path, or why a file cannot be included.
pub type FolderFiles = Result<BTreeMap<String, Vec<u8>>, Problem>;

/// Reads the files to embed in the component of the skill in `folder`: all files of the skill besides SKILL.md, without the sources
/// of the component ([`is_source`](crate::is_source)).
///
/// # Errors
/// The folder cannot be read.
pub fn files_to_embed(folder: &Path) -> io::Result<FolderFiles> {
    let Some(folder) = files::open_folder(folder)? else { return Ok(Ok(BTreeMap::new())) };
    let listing = listing::list_to_embed(&folder)?;
    Ok(contents(&folder, listing))
}

/// Reads the files of the skill in `folder` like loading does, with its SKILL.md but without its component.
///
/// # Errors
/// The folder cannot be read.
pub fn files_to_copy(folder: &Path) -> io::Result<FolderFiles> {
    let Some(folder) = files::open_folder(folder)? else { return Ok(Ok(BTreeMap::new())) };
    let listing = listing::list(&folder)?;
    Ok(contents(&folder, listing))
}

fn contents(folder: &Dir, listing: listing::Listing) -> FolderFiles {
    if let Some(problem) = listing.over.into_iter().chain(listing.skipped).next() {
        return Err(problem);
    }
    let mut totals = Totals::default();
    let read = |path: String| {
        let contents = read(folder, &path, &mut totals)?.unwrap_or_default();
        Ok((path, contents))
    };
    listing.files.into_keys().map(read).collect()
}

/// Reads one file. The skill's limits are checked again, because files may have grown.
fn read(folder: &Dir, path: &str, totals: &mut Totals) -> Result<Option<Vec<u8>>, Problem> {
    let skipped = |why: &str| {
        let message = format!("'{}' {why}.", text::excerpt(path, 80));
        Problem::new(Code::SkillFileSkipped, message)
    };
    let most = if path == SKILL_MD { SKILL_MD_BYTES } else { listing::FILE_BYTES };
    let contents = match files::read(folder, path, most) {
        Ok(Some(contents)) => contents,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Err(skipped("grew while it was read")),
        Err(error) => return Err(skipped(&format!("cannot be read: {}", error.kind()))),
    };
    match totals.add(path, contents.len() as u64) {
        Ok(()) => Ok(Some(contents)),
        Err(_) => Err(skipped("grew while it was read")),
    }
}

#[cfg(test)]
mod tests;

//! Skills, personas and agent settings that are stored elsewhere: the places that Patchbay and other agents read contain links to
//! the real folders. `guard` recognises these places by name. Their targets are recognised here, by device and inode, at each
//! write, so links that are made later count as well.
//!
//! A plugin cannot make links, but it could write the target of one: for example `skills/x/SKILL.md` if `.claude/skills` is a link
//! to `../skills`. Links in the workspace are only followed within it, as the loaders of skills and personas do; links in the
//! operator's own folders may lead anywhere.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::Path,
    sync::Arc,
};

use cap_std::fs::{Dir, Metadata};

use crate::{
    guard,
    protected::{FileId, ProtectedIds, ProtectedPaths},
};

/// Folders in a workspace from which skills, personas and settings of agents are read.
const FOLDERS: [&str; 7] =
    [".patchbay", ".patchbay/skills", ".patchbay/agents", ".agents", ".agents/skills", ".claude", ".claude/skills"];

/// The targets of links from outside of the workspace, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkedPaths {
    /// Targets of links in the operator's own folders: skills, personas, adapters.
    own: ProtectedIds,
    /// Targets of such links that do not exist: the folder that would contain each target, and its name.
    missing: Vec<(FileId, OsString)>,
    /// Whether the root of the workspace is one of the targets, or is inside one.
    covers_root: bool,
    /// Targets of links in the folders above the root. They do not protect the root itself, because the operator chose it.
    above: ProtectedIds,
}

impl LinkedPaths {
    /// Resolves the current targets of the links in `protected` and in the folders above `root`, a canonical path.
    pub(crate) fn now(protected: &ProtectedPaths, root: &Path) -> Self {
        let (mut own, mut missing) = (Vec::new(), Vec::new());
        for folder in protected.folders_with_links() {
            own.extend(FileId::at(folder));
            // A folder that is missing or cannot be read has no skills either.
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for link in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
                match FileId::at(&link.path()) {
                    Some(target) => own.push(target),
                    None => missing.extend(missing_target(folder, &link.path())),
                }
            }
        }
        let above = root.ancestors().skip(1).flat_map(|folder| FOLDERS.iter().map(|name| folder.join(name)));
        let above = above.filter_map(|path| FileId::at(&path)).collect();
        let own = ProtectedIds::new(own);
        Self { covers_root: own.cover(root), own, missing, above: ProtectedIds::new(above) }
    }

    /// Returns whether nothing in the workspace may be written.
    pub(crate) fn cover_root(&self) -> bool {
        self.covers_root
    }

    /// Returns whether a link leads to the file with this metadata.
    pub(crate) fn include(&self, file: &Metadata) -> bool {
        self.own.include(file)
    }

    /// Returns whether a link leads to the file `name` in `dir`, which does not exist.
    pub(crate) fn expect(&self, dir: &Dir, name: &str) -> io::Result<bool> {
        if self.missing.is_empty() {
            return Ok(false);
        }
        let folder = FileId::new(&dir.dir_metadata()?);
        let is_expected = |(parent, file): &(FileId, OsString)| {
            Some(*parent) == folder && file.to_str().is_some_and(|file| guard::is_same_name(file, name))
        };
        Ok(self.missing.iter().any(is_expected))
    }
}

/// Returns the folder and the name of the target of `link` in `folder`; `None` if that folder does not exist either.
fn missing_target(folder: &Path, link: &Path) -> Option<(FileId, OsString)> {
    let target = folder.join(fs::read_link(link).ok()?);
    Some((FileId::at(target.parent()?)?, target.file_name().map(OsStr::to_owned)?))
}

/// Returns why a file may not be written or deleted because a link leads to it or to a folder above it;
/// `None` if it may. `names` are the segments of its path, and `chain` are the opened folders; the first is
/// the root and contains the first name.
pub(crate) fn refusal(linked: &LinkedPaths, chain: &[Arc<Dir>], names: &[&str]) -> io::Result<Option<&'static str>> {
    let ids = chain.iter().map(|dir| Ok(FileId::new(&dir.dir_metadata()?))).collect::<io::Result<Vec<_>>>()?;
    let below = |level: usize, target: FileId| ids.iter().skip(level + 1).any(|id| *id == Some(target));
    if ids.iter().skip(1).flatten().any(|id| linked.own.has(*id) || linked.above.has(*id)) {
        return Ok(Some(guard::LINKED));
    }
    for (level, dir) in chain.iter().enumerate() {
        for (folder, target) in FOLDERS.iter().filter_map(|folder| Some((folder, folder_at(dir, folder)?))) {
            if below(level, target) {
                return Ok(Some(guard::LINKED));
            }
            // A link to this folder itself protects only skills. Otherwise, a link to the workspace would protect everything.
            let is_here = ids[level] == Some(target) && folder.ends_with("/skills");
            if is_here && is_of_skill(chain.get(level + 1), &names[level..]) {
                return Ok(Some(guard::OF_SKILL));
            }
        }
    }
    Ok(None)
}

/// Returns the identity of the folder `path` in `dir`, following links that do not leave `dir`.
fn folder_at(dir: &Dir, path: &str) -> Option<FileId> {
    dir.metadata(path).ok().filter(Metadata::is_dir).and_then(|metadata| FileId::new(&metadata))
}

/// Returns whether the file at `names` in a folder of skills is or would become part of a skill: `NAME.wasm`, `NAME/SKILL.md`, or
/// anything in a folder with a SKILL.md. `child` is the folder of the first name, if it is not the file itself.
fn is_of_skill(child: Option<&Arc<Dir>>, names: &[&str]) -> bool {
    match names {
        [file] => guard::is_component(file),
        [_, file] if guard::is_same_name("SKILL.md", file) => true,
        _ => child.is_some_and(|child| child.symlink_metadata("SKILL.md").is_ok()),
    }
}

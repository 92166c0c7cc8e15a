//! Implements the reading methods of [`Workspace`](crate::Workspace).

use std::io::{Read as _, Seek as _, SeekFrom};

use cap_std::fs::{File, Metadata};

use crate::{
    Workspace,
    error::{FileError, shown},
    guard, handle, ignored, limits,
    path::RelPath,
    resolve::{self, ResolvedFile},
    work::WorkBudget,
};

/// Implements [`Workspace::read`](crate::Workspace::read).
pub(crate) fn read(workspace: &Workspace, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, FileError> {
    if max > limits::READ_BYTES {
        return Err(FileError::ReadTooLarge { max });
    }
    let path = RelPath::parse(path)?;
    let found = resolve::follow(workspace, path, &mut WorkBudget::default())?;
    let (mut file, metadata) = open_resolved(workspace, &found, path)?;
    let wanted = metadata.len().saturating_sub(offset).min(max.into());
    if wanted == 0 {
        return Ok(Vec::new());
    }
    file.seek(SeekFrom::Start(offset)).map_err(FileError::io(path.as_str()))?;
    let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
    file.take(wanted).read_to_end(&mut bytes).map_err(FileError::io(path.as_str()))?;
    Ok(bytes)
}

/// Implements [`Workspace::open_file`](crate::Workspace::open_file).
pub(crate) fn open_file(workspace: &Workspace, path: &str) -> Result<(File, Metadata), FileError> {
    let path = RelPath::parse(path)?;
    let found = resolve::follow(workspace, path, &mut WorkBudget::default())?;
    if let Some(target) = &found.link_target
        && found.name.starts_with('.')
    {
        return Err(FileError::LinkTarget { path: path.shown(), target: shown(target) });
    }
    open_resolved(workspace, &found, path)
}

/// Implements [`Workspace::open_listed_file`](crate::Workspace::open_listed_file).
pub(crate) fn open_listed_file(workspace: &Workspace, path: &str) -> Result<(File, Metadata), FileError> {
    let path = RelPath::parse(path)?;
    let mut work = WorkBudget::default();
    let found = resolve::follow(workspace, path, &mut work)?;
    for real in [Some(path.as_str()), found.link_target.as_deref()].into_iter().flatten() {
        if ignored::is_hidden(&workspace.root, real, &mut work)? {
            return Err(FileError::Ignored { path: path.shown() });
        }
    }
    if let Some(target) = &found.link_target
        && found.name.starts_with('.')
    {
        return Err(FileError::LinkTarget { path: path.shown(), target: shown(target) });
    }
    open_resolved(workspace, &found, path)
}

/// Implements [`Workspace::read_rules`](crate::Workspace::read_rules).
pub(crate) fn read_rules(workspace: &Workspace, path: &str, max: u64) -> Result<Vec<u8>, FileError> {
    let path = RelPath::parse(path)?;
    let found = resolve::follow(workspace, path, &mut WorkBudget::default())?;
    if let Some(target) = &found.link_target {
        let is_writable = RelPath::parse(target).is_ok_and(|target| guard::check_writing(target, false).is_ok());
        if is_writable || found.name.starts_with('.') {
            return Err(FileError::LinkTarget { path: path.shown(), target: shown(target) });
        }
    }
    let (file, metadata) = open_resolved(workspace, &found, path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(max)).unwrap_or_default());
    // Read one byte more than `max` to detect a longer file: it may grow while it is read.
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(FileError::io(path.as_str()))?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLong { path: path.shown(), max });
    }
    Ok(bytes)
}

/// Opens a resolved file and checks it again, because another file may have replaced it.
pub(crate) fn open_resolved(
    workspace: &Workspace,
    found: &ResolvedFile,
    path: RelPath<'_>,
) -> Result<(File, Metadata), FileError> {
    let (file, metadata) =
        handle::open(&found.dir, &found.name, handle::OpenFor::Reading).map_err(FileError::io(path.as_str()))?;
    if !metadata.is_file() {
        return Err(FileError::Special { path: path.shown() });
    }
    if workspace.rules.identities.include(&metadata) {
        return Err(FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER });
    }
    Ok((file, metadata))
}

//! Implements [`Workspace::place_to_read`](crate::Workspace::place_to_read) and
//! [`place_to_write`](crate::Workspace::place_to_write): where a file is, after every check of its path, for an editor that
//! reads or writes it in place of this crate.

use std::io::Read as _;

use crate::{
    CheckedFile, Workspace, error::FileError, guard, limits, path::RelPath, read, resolve, work::WorkBudget, write,
};

pub(crate) fn to_read(workspace: &Workspace, path: &str) -> Result<CheckedFile, FileError> {
    let path = RelPath::parse(path)?;
    let found = resolve::follow(workspace, path, &mut WorkBudget::default())?;
    let (file, metadata) = read::open_resolved(workspace, &found, path)?;
    let mut start = Vec::new();
    file.take(limits::BINARY_PROBE as u64).read_to_end(&mut start).map_err(FileError::io(path.as_str()))?;
    let real = found.link_target.unwrap_or_else(|| path.as_str().to_owned());
    Ok(CheckedFile { path: real, size: metadata.len(), is_text: !start.contains(&0) })
}

pub(crate) fn to_write(workspace: &Workspace, path: &str, size: usize) -> Result<Option<CheckedFile>, FileError> {
    let path = RelPath::parse(path)?;
    guard::check_writing(path, workspace.rules.instructions)?;
    if size > limits::WRITE_BYTES {
        return Err(FileError::WriteTooLarge { path: path.shown(), size });
    }
    // Between this check and the editor's write, another write could create the other half of a bare repository.
    if path.parts().any(guard::is_git_part) {
        return Ok(None);
    }
    let (parents, name) = path.split();
    let dir = resolve::descend(workspace, parents, path, true)?;
    write::check_existing(workspace, &dir, name, path)?;
    Ok(Some(CheckedFile { path: path.as_str().to_owned(), size: size as u64, is_text: true }))
}

//! The workspace of a case: a small tree of files, written before the call and read after it.

use std::{fs, path::Path};

use patchbay_core::{Code, text};
use patchbay_fixture::FileTree;

use crate::CliError;

/// Limits of the files that a case may leave: their number, and their total size in bytes.
const FILES: usize = 10_000;
const BYTES: u64 = 64 << 20;

/// Writes files below `root`. Their paths have already been checked and cannot lead out of it.
pub(super) fn write(root: &Path, files: &FileTree) -> Result<(), CliError> {
    for (path, contents) in files {
        let to = root.join(path);
        fs::create_dir_all(to.parent().unwrap_or(root)).map_err(CliError::io(&to))?;
        fs::write(&to, contents).map_err(CliError::io(&to))?;
    }
    Ok(())
}

/// Reads all files below `root`.
pub(super) fn read(root: &Path) -> Result<FileTree, CliError> {
    let (mut files, mut bytes) = (FileTree::new(), 0);
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(CliError::io(&folder))? {
            let entry = entry.map_err(CliError::io(&folder))?;
            let (path, metadata) = (entry.path(), entry.metadata().map_err(CliError::io(&folder))?);
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file() {
                bytes += metadata.len();
                if files.len() == FILES || bytes > BYTES {
                    return Err(too_much());
                }
                let below = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                files.insert(below, fs::read(&path).map_err(CliError::io(&path))?);
            }
        }
    }
    Ok(files)
}

fn too_much() -> CliError {
    let message = format!("the call left more than {FILES} files or {} in its workspace.", text::size(BYTES));
    CliError::new(Code::FixtureInvalid, message)
}

//! Implements writing and deleting for [`Workspace`](crate::Workspace).

use std::io::{self, Read, Write as _};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, File, Metadata, OpenOptions, Permissions};
use parking_lot::Mutex;
use patchbay_core::Digest;

use crate::{ExistingFile, FoundFile, Workspace, error::FileError, guard, handle, limits, path::RelPath, resolve};

/// Held while a part of a git repository is written. Otherwise two concurrent writes could each create one half of a
/// bare repository, and the check of neither would see the other half.
static GIT_PARTS: Mutex<()> = Mutex::new(());

/// Implements [`Workspace::write`](crate::Workspace::write).
pub(crate) fn write(workspace: &Workspace, path: &str, contents: &[u8]) -> Result<(), FileError> {
    if contents.len() > limits::WRITE_BYTES {
        return Err(FileError::WriteTooLarge { path: RelPath::parse(path)?.shown(), size: contents.len() });
    }
    replace(workspace, path, contents, None)
}

/// Implements [`Workspace::restore`](crate::Workspace::restore).
pub(crate) fn restore(workspace: &Workspace, path: &str, contents: &[u8], mode: Option<u32>) -> Result<(), FileError> {
    if contents.len() as u64 > limits::KEPT_BYTES {
        return Err(FileError::WriteTooLarge { path: RelPath::parse(path)?.shown(), size: contents.len() });
    }
    replace(workspace, path, contents, mode)
}

/// Replaces a file, or creates it with the permission bits `mode`.
fn replace(workspace: &Workspace, path: &str, contents: &[u8], mode: Option<u32>) -> Result<(), FileError> {
    let path = RelPath::parse(path)?;
    guard::check_writing(path, workspace.rules.instructions)?;
    let has_git_part = path.parts().any(guard::is_git_part);
    let _one_at_a_time = has_git_part.then(|| GIT_PARTS.lock());
    let (parents, name) = path.split();
    let dir = resolve::descend(workspace, parents, path, true)?;
    guard::check_git_part(&dir, name, path)?;
    let permissions = check_existing(workspace, &dir, name, path)?.or_else(|| permissions_of(mode?));
    replace_file(&dir, name, contents, permissions).map_err(FileError::io(path.as_str()))
}

/// Implements [`Workspace::delete`](crate::Workspace::delete).
pub(crate) fn delete(workspace: &Workspace, path: &str) -> Result<(), FileError> {
    let path = RelPath::parse(path)?;
    guard::check_writing(path, workspace.rules.instructions)?;
    let (parents, name) = path.split();
    let dir = resolve::descend(workspace, parents, path, false)?;
    guard::check_git_part(&dir, name, path)?;
    if check_existing(workspace, &dir, name, path)?.is_none() {
        return Err(FileError::NotFound { path: path.shown() });
    }
    // If a link has replaced the file since the check, this removes the link, not its target.
    dir.remove_file(name).map_err(FileError::io(path.as_str()))?;
    sync(&dir);
    Ok(())
}

/// Implements [`Workspace::before_change`](crate::Workspace::before_change). Contents over `most` bytes are left out.
pub(crate) fn before_change(workspace: &Workspace, path: &str, most: u64) -> Result<Option<FoundFile>, FileError> {
    let path = RelPath::parse(path)?;
    guard::check_writing(path, workspace.rules.instructions)?;
    let (parents, name) = path.split();
    let dir = match resolve::descend(workspace, parents, path, false) {
        // A write would create the missing directory.
        Err(FileError::NotFound { .. }) => return Ok(None),
        dir => dir?,
    };
    guard::check_git_part(&dir, name, path)?;
    if check_existing(workspace, &dir, name, path)?.is_none() {
        return Ok(None);
    }
    let (file, metadata) = handle::open(&dir, name, handle::OpenFor::Reading).map_err(FileError::io(path.as_str()))?;
    file_before(file, &metadata, most).map(Some).map_err(FileError::io(path.as_str()))
}

/// Reads a file. Contents over `most` bytes are hashed, but left out.
fn file_before(mut file: File, metadata: &Metadata, most: u64) -> io::Result<FoundFile> {
    let (size, mode) = (metadata.len(), mode_of(metadata));
    let mut contents = Vec::new();
    let head = Read::by_ref(&mut file).take(most + 1).read_to_end(&mut contents)? as u64;
    if head <= most {
        let file = ExistingFile { size: head, digest: Digest::of(&contents) };
        return Ok(FoundFile { file, contents: Some(contents), mode });
    }
    let rest = limits::COMPARED_BYTES.saturating_sub(head);
    let digest = Digest::of_reader(&mut contents.as_slice().chain(file.take(rest)))?;
    Ok(FoundFile { file: ExistingFile { size, digest }, contents: None, mode })
}

/// Checks that an existing file is regular and writable. Returns its permissions, or `None` if the file does not exist.
pub(crate) fn check_existing(
    workspace: &Workspace,
    dir: &Dir,
    name: &str,
    path: RelPath<'_>,
) -> Result<Option<Permissions>, FileError> {
    let io = FileError::io(path.as_str());
    match dir.symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match workspace.rules.linked().expect(dir, name).map_err(io)? {
                true => Err(FileError::Protected { path: path.shown(), why: guard::LINKED }),
                false => Ok(None),
            };
        }
        Err(error) => return Err(io(error)),
        Ok(there) if there.is_symlink() => return Err(FileError::Link { path: path.shown() }),
        Ok(there) if there.is_dir() => return Err(FileError::Directory { path: path.shown() }),
        Ok(there) if !there.is_file() => return Err(FileError::Special { path: path.shown() }),
        Ok(there) if there.permissions().readonly() => return Err(FileError::ReadOnly { path: path.shown() }),
        Ok(_) => {}
    }
    // The system requires write permission only for the directory. A plugin must also have it for the file.
    let (_, opened) = handle::open(dir, name, handle::OpenFor::Writing).map_err(io)?;
    if !opened.is_file() {
        return Err(FileError::Special { path: path.shown() });
    }
    if workspace.rules.identities.include(&opened) {
        return Err(FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER });
    }
    if workspace.rules.linked().include(&opened) {
        return Err(FileError::Protected { path: path.shown(), why: guard::LINKED });
    }
    Ok(Some(opened.permissions()))
}

/// Writes a temporary file and renames it to `name`.
fn replace_file(dir: &Dir, name: &str, contents: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let mut new = TemporaryFile::create(dir)?;
    // Set before the contents are written: no other user may read them meanwhile.
    if let Some(permissions) = permissions {
        new.file.set_permissions(permission_bits(permissions))?;
    }
    new.file.write_all(contents)?;
    new.file.sync_all()?;
    new.rename(name)?;
    sync(dir);
    Ok(())
}

/// A file that is removed on drop, unless it was renamed to its final name.
struct TemporaryFile<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    is_renamed: bool,
}

impl<'a> TemporaryFile<'a> {
    fn create(dir: &'a Dir) -> io::Result<Self> {
        let name = guard::temporary_name();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let file = dir.open_with(&name, &options)?;
        Ok(Self { dir, name, file, is_renamed: false })
    }

    fn rename(mut self, name: &str) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

/// Keeps only the bits for read, write and execute. A plugin's file must never run with
/// the rights of its owner or group.
#[cfg(unix)]
fn permission_bits(permissions: Permissions) -> Permissions {
    use cap_std::fs::PermissionsExt as _;
    Permissions::from_mode(permissions.mode() & 0o777)
}

#[cfg(not(unix))]
fn permission_bits(permissions: Permissions) -> Permissions {
    permissions
}

#[cfg(unix)]
fn mode_of(metadata: &Metadata) -> Option<u32> {
    use cap_std::fs::PermissionsExt as _;
    Some(metadata.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode_of(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn permissions_of(mode: u32) -> Option<Permissions> {
    use cap_std::fs::PermissionsExt as _;
    Some(Permissions::from_mode(mode & 0o777))
}

#[cfg(not(unix))]
fn permissions_of(_: u32) -> Option<Permissions> {
    None
}

/// Flushes the directory to disk if the system supports it. Errors are ignored because the change itself has succeeded.
fn sync(dir: &Dir) {
    let _ = dir.open(".").and_then(|dir| dir.sync_all());
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn failed_write_leaves_no_file() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        // The name became a directory after the check, and cannot be replaced.
        dir.create_dir("a").unwrap();
        assert!(replace_file(&dir, "a", b"x", None).is_err());
        let names: Vec<_> = dir.entries().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
    }
}

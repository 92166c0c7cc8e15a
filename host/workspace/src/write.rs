use std::{
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, File, OpenOptions, Permissions};

use crate::{Workspace, error::FileError, guard, handle, limits, path::RelPath, resolve};

/// Two writes at once must not make the halves of a bare git repository, each unseen by the check of the other.
static GIT_PARTS: Mutex<()> = Mutex::new(());

/// See [`Workspace::write`](crate::Workspace::write).
pub(crate) fn write(workspace: &Workspace, path: &str, contents: &[u8]) -> Result<(), FileError> {
    let path = RelPath::parse(path)?;
    guard::check_writing(path, workspace.rules.instructions)?;
    if contents.len() > limits::WRITE_BYTES {
        return Err(FileError::WriteTooLarge { path: path.shown(), size: contents.len() });
    }
    let has_git_part = path.parts().any(guard::is_git_part);
    let _one_at_a_time = has_git_part.then(|| GIT_PARTS.lock().unwrap_or_else(PoisonError::into_inner));
    let (parents, name) = path.split();
    let dir = resolve::descend(workspace, parents, path, true)?;
    guard::check_git_part(&dir, name, path)?;
    let permissions = existing(workspace, &dir, name, path)?;
    put(&dir, name, contents, permissions).map_err(FileError::io(path.as_str()))
}

/// See [`Workspace::delete`](crate::Workspace::delete).
pub(crate) fn delete(workspace: &Workspace, path: &str) -> Result<(), FileError> {
    let path = RelPath::parse(path)?;
    guard::check_writing(path, workspace.rules.instructions)?;
    let (parents, name) = path.split();
    let dir = resolve::descend(workspace, parents, path, false)?;
    guard::check_git_part(&dir, name, path)?;
    if existing(workspace, &dir, name, path)?.is_none() {
        return Err(FileError::NotFound { path: path.shown() });
    }
    // Whatever was put there since, a link too, this removes the name alone.
    dir.remove_file(name).map_err(FileError::io(path.as_str()))?;
    sync(&dir);
    Ok(())
}

/// The permissions of the file that is there, if one is: a regular file that this process may write.
fn existing(workspace: &Workspace, dir: &Dir, name: &str, path: RelPath<'_>) -> Result<Option<Permissions>, FileError> {
    let io = FileError::io(path.as_str());
    match dir.symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
        Ok(there) if there.is_symlink() => return Err(FileError::Link { path: path.shown() }),
        Ok(there) if there.is_dir() => return Err(FileError::Directory { path: path.shown() }),
        Ok(there) if !there.is_file() => return Err(FileError::Special { path: path.shown() }),
        Ok(there) if there.permissions().readonly() => return Err(FileError::ReadOnly { path: path.shown() }),
        Ok(_) => {}
    }
    // To replace or remove a file it takes leave to write its directory alone. A guest needs the file's as well.
    let (_, opened) = handle::open(dir, name, handle::For::Writing).map_err(io)?;
    if !opened.is_file() {
        return Err(FileError::Special { path: path.shown() });
    }
    if workspace.rules.identities.have(&opened) {
        return Err(FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER });
    }
    Ok(Some(opened.permissions()))
}

/// Puts a whole new file in the place of `name`, in one step.
fn put(dir: &Dir, name: &str, contents: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let mut new = Temporary::create(dir)?;
    // Before there are contents that others could read.
    if let Some(permissions) = permissions {
        new.file.set_permissions(plain(permissions))?;
    }
    new.file.write_all(contents)?;
    new.file.sync_all()?;
    new.rename(name)?;
    sync(dir);
    Ok(())
}

/// A file that goes again, unless it gets its name.
struct Temporary<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    stays: bool,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a Dir) -> io::Result<Self> {
        let name = guard::temporary();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let file = dir.open_with(&name, &options)?;
        Ok(Self { dir, name, file, stays: false })
    }

    fn rename(mut self, name: &str) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, name)?;
        self.stays = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.stays {
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

/// Read, write and execute. No file that a guest wrote runs with its owner's or group's rights.
#[cfg(unix)]
fn plain(permissions: Permissions) -> Permissions {
    use cap_std::fs::PermissionsExt as _;
    Permissions::from_mode(permissions.mode() & 0o777)
}

#[cfg(not(unix))]
fn plain(permissions: Permissions) -> Permissions {
    permissions
}

/// Brings the names of `dir` to disk, where the system can: the change is made, and its caller is not told otherwise.
fn sync(dir: &Dir) {
    let _ = dir.open(".").and_then(|dir| dir.sync_all());
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        // It turned into a directory after it was looked at, and cannot be replaced.
        dir.create_dir("a").unwrap();
        assert!(put(&dir, "a", b"x", None).is_err());
        let names: Vec<_> = dir.entries().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
    }
}

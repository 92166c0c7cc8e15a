//! Programs that the operator configures, such as key commands and MCP servers: where they are found, and how they are killed
//! with everything that they started.

use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use tokio::process::{Child, Command};

/// Returns the file of a program: an absolute path as it is, a name as it is found in the absolute folders of `path`. A relative
/// path is refused, so that no folder in which Patchbay is started can put its program in the place of another.
pub fn find_program(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_absolute());
    }
    let folders = env::split_paths(path?).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// Returns whether `path` is a file that can be run.
#[cfg(unix)]
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns whether `path` is a file that can be run.
#[cfg(not(unix))]
pub fn is_executable(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

/// A process and its process group, which is killed when this is dropped before the process was waited for. Read the output of
/// the process to its end before waiting: until then the id of the group stays valid.
#[derive(Debug)]
pub struct ProcessGroup(Child);

impl ProcessGroup {
    /// Starts `command` in a process group of its own.
    ///
    /// # Errors
    /// The system cannot start it.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        Ok(Self(command.spawn()?))
    }

    /// Returns the process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.0
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The id is gone once the process has been waited for.
        let id = self.0.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(id) = id {
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}

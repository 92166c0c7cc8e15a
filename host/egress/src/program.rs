//! Programs that the operator configures, such as key commands and MCP servers: where they are found, and how they are killed
//! with everything that they started.

use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::process::{Child, Command};

/// The ids of the process groups that live; `None` once [`kill_process_groups`] has killed them.
static GROUPS: Mutex<Option<Vec<u32>>> = Mutex::new(Some(Vec::new()));
/// How long [`kill_process_groups`] waits for a program that is being started.
const START_TIME: Duration = Duration::from_secs(1);

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
pub struct ProcessGroup {
    process: Child,
    /// The id of the group, which is that of the process.
    id: Option<u32>,
}

impl ProcessGroup {
    /// Starts `command` in a process group of its own.
    ///
    /// # Errors
    /// The system cannot start it, or [`kill_process_groups`] was called.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        // Locked until the program has started, so that `kill_process_groups` misses none.
        let mut groups = GROUPS.lock();
        let groups = groups.as_mut().ok_or_else(|| io::Error::other("Patchbay is ending"))?;
        let process = command.spawn()?;
        let id = process.id();
        groups.extend(id);
        Ok(Self { process, id })
    }

    /// Returns the process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.process
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The id is gone once the process has been waited for.
        if let Some(id) = self.process.id() {
            kill_group(id);
        }
        if let Some(groups) = GROUPS.lock().as_mut() {
            groups.retain(|id| Some(*id) != self.id);
        }
    }
}

/// Kills every process group that lives; no program can be started after that. For the end of the process, which does not drop
/// the tasks that own process groups.
pub fn kill_process_groups() {
    // The start of a program can hang, such as on a network file system.
    let groups = GROUPS.try_lock_for(START_TIME).and_then(|mut groups| groups.take());
    groups.into_iter().flatten().for_each(kill_group);
}

#[cfg(unix)]
fn kill_group(id: u32) {
    if let Some(id) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_: u32) {}

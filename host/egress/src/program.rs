//! Programs that the operator configures, such as key commands and MCP servers: how they are found, and how they are killed
//! together with the processes that they started.

use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::process::{Child, Command};

static GROUPS: Mutex<Groups> = Mutex::new(Groups { ids: Vec::new(), starting: 0, is_ended: false });
/// Notified when a start that was in progress at [`kill_process_groups`] has succeeded or failed.
static STARTED: Condvar = Condvar::new();
/// How long [`kill_process_groups`] waits for programs that are being started. A start can hang, for example on a network file
/// system.
const START_TIME: Duration = Duration::from_secs(1);

/// The process groups of this process.
struct Groups {
    /// The ids of the groups that are running.
    ids: Vec<u32>,
    /// How many programs are being started. The lock is not held during a start, because a start can hang.
    starting: usize,
    /// Whether [`kill_process_groups`] was called.
    is_ended: bool,
}

/// Finds the file of a program: an absolute path is used unchanged, and a name is looked up in the absolute folders of
/// `path`. A relative path is refused, because the folder in which Patchbay is started could substitute its own
/// program.
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

/// A process and its process group. Dropping it kills the group, unless the process has been waited for. Read the output of the
/// process to its end before waiting, because the group's id is only valid until then.
#[derive(Debug)]
pub struct ProcessGroup {
    process: Child,
    /// The id of the process group, which equals the process id.
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
        let ending = || io::Error::other("Patchbay is exiting");
        {
            let mut groups = GROUPS.lock();
            if groups.is_ended {
                return Err(ending());
            }
            groups.starting += 1;
        }
        let spawned = command.spawn();
        let mut groups = GROUPS.lock();
        groups.starting -= 1;
        let group = spawned.map(|process| Self { id: process.id(), process });
        if groups.is_ended {
            group.iter().filter_map(|group| group.id).for_each(kill_group);
            STARTED.notify_all();
            // Dropping the group takes the lock.
            drop(groups);
            return Err(ending());
        }
        groups.ids.extend(group.as_ref().ok().and_then(|group| group.id));
        drop(groups);
        group
    }

    /// Returns the process that leads the group.
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
        GROUPS.lock().ids.retain(|id| Some(*id) != self.id);
    }
}

/// Kills every running process group and prevents further starts. Called when Patchbay exits, because the tasks that own process
/// groups are not dropped then.
pub fn kill_process_groups() {
    let mut groups = GROUPS.lock();
    groups.is_ended = true;
    groups.ids.drain(..).for_each(kill_group);
    // Programs that are still being started are killed by the tasks that start them.
    STARTED.wait_while_for(&mut groups, |groups| groups.starting > 0, START_TIME);
}

#[cfg(unix)]
fn kill_group(id: u32) {
    if let Some(id) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_: u32) {}

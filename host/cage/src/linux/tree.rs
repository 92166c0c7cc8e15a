//! The processes that this one has started, and those that they have started. Orphans among them are its children, too.

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

/// How long processes are killed before this is given up: one that cannot be killed waits for a device.
const KILLING: Duration = Duration::from_secs(8);

/// Returns the processes below this one.
pub(super) fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        found.extend(own.iter().filter_map(|pid| Pid::from_raw(*pid)));
        open.extend(own);
    }
    found
}

/// Returns the parent of a process from `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where the name can hold anything.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[behind_name + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Kills everything below this process, and waits until it is gone.
pub(super) fn kill_all() {
    if getpid().is_init() {
        // The kernel does it, at once and for good, when this process ends.
        return;
    }
    let end = Instant::now() + KILLING;
    loop {
        while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
        let left = descendants();
        if left.is_empty() || Instant::now() > end {
            return;
        }
        left.into_iter().for_each(super::kill);
        thread::sleep(Duration::from_millis(1));
    }
}

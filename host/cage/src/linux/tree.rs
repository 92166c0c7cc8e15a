//! Finds and kills the descendants of this process. It is a subreaper, which means that orphans among them become its children.

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpgid, getpgrp, getpid, kill_process_group, wait},
};

/// How long killing is retried. A process that survives this is stuck in the kernel, for example waiting for a device.
const KILLING: Duration = Duration::from_secs(8);
/// How many times the children are killed before all processes are searched, which takes longer.
const ROUNDS: usize = 100;

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

/// Returns the parent of a process from `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where the name can contain anything.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[behind_name + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Kills all descendants of this process, and waits until they are gone. Returns false if some are left.
pub(super) fn kill_all() -> bool {
    if getpid().is_init() {
        // This process is the first one of its namespace: when it ends, the kernel kills all others.
        return true;
    }
    let end = Instant::now() + KILLING;
    loop {
        // A program can keep forking and exiting. Only a loop that is faster than the program catches it.
        for _ in 0..ROUNDS {
            if reap_all() {
                return true;
            }
            let children = children();
            if children.is_empty() {
                thread::sleep(Duration::from_millis(1));
                break;
            }
            children.into_iter().for_each(kill_with_group);
        }
        if Instant::now() > end {
            return false;
        }
        descendants().into_iter().for_each(super::kill);
    }
}

/// Reaps ended children. Returns whether no child is left. In this case no descendant is left either, because orphans become
/// children.
fn reap_all() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Returns the children of this process; empty if the kernel does not list them.
fn children() -> Vec<Pid> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Kills a child and its process group, which includes any forks. The group id cannot be reused before the child is reaped.
fn kill_with_group(child: Pid) {
    if let Ok(group) = getpgid(Some(child))
        && group != getpgrp()
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    super::kill(child);
}

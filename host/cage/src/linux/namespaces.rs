//! Namespaces: separate mounts, to protect files inside a folder that a program may change, and separate process ids.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    process::{getgid, getuid},
};

use crate::{order::FenceOrder, support::Isolation};

/// The id of root inside the namespace: an unprivileged user. Because it is not 0, programs have no capabilities even in the
/// namespace.
const NOT_ROOT: u32 = 65_534;

/// Moves this process into namespaces of its own. It must have no other threads.
pub(super) fn enter(isolation: Isolation) -> io::Result<()> {
    let mut flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC;
    match isolation {
        Isolation::None => return Ok(()),
        Isolation::Mounts => {}
        Isolation::Processes => flags |= CloneFlags::CLONE_NEWPID,
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    unshare(flags)?;
    let inside = |id: u32| if id == 0 { NOT_ROOT } else { id };
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {user} 1", inside(user)))?;
    fs::write("/proc/self/gid_map", format!("{} {group} 1", inside(group)))
}

/// Mounts protected paths read-only for this process and its children.
pub(super) fn protect(fence: &FenceOrder) -> io::Result<()> {
    if fence.support.isolation == Isolation::None {
        return Ok(());
    }
    // The following mounts are not visible outside the namespace.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    if fence.support.isolation == Isolation::Processes {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)?;
    }
    // Writable paths become mounts of their own, which stay writable when the other mounts become read-only.
    let writable: Vec<&Path> = fence.write.iter().map(PathBuf::as_path).filter(|path| is_own(path)).collect();
    for path in &writable {
        bind(path)?;
    }
    // Mounts below `/proc` belong to the old `/proc`, which can no longer be reached.
    let is_hidden = |mounted: &Path| {
        let is_below_proc = mounted.starts_with("/proc") && mounted != Path::new("/proc");
        is_below_proc && fence.support.isolation == Isolation::Processes
    };
    for mounted in mount_points()? {
        if !is_hidden(&mounted) && !writable.iter().any(|path| mounted.starts_with(path)) {
            make_read_only(&mounted)?;
        }
    }
    // A mount point cannot be renamed.
    for path in fence.fixed.iter().filter(|path| is_own(path)) {
        bind(path)?;
        // For example, the `.git` of a worktree is a file that names the git folder.
        if path.is_file() {
            make_read_only(path)?;
        }
    }
    for path in fence.read_only.iter().filter(|path| is_own(path)) {
        bind(path)?;
        make_read_only(path)?;
    }
    Ok(())
}

/// Returns the paths of all mounts.
fn mount_points() -> io::Result<BTreeSet<PathBuf>> {
    let list = fs::read_to_string("/proc/self/mountinfo")?;
    // ID PARENT DEVICE ROOT POINT OPTIONS …, with spaces and similar characters as octal numbers.
    Ok(list.lines().filter_map(|line| line.split(' ').nth(4)).map(|point| PathBuf::from(unescaped(point))).collect())
}

/// Decodes a path from a mount list, in which a space is written as `\040`.
fn unescaped(escaped: &str) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = escaped.as_bytes();
    while let [first, behind @ ..] = rest {
        let number = behind.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Makes the mount at `path` read-only. A mount that this user cannot inspect is left unchanged.
fn make_read_only(path: &Path) -> io::Result<()> {
    let Ok(mounted) = statvfs(path) else { return Ok(()) };
    // An unprivileged user may not clear these flags.
    let kept = [
        (StatVfsMountFlags::NOSUID, MsFlags::MS_NOSUID),
        (StatVfsMountFlags::NODEV, MsFlags::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
        (StatVfsMountFlags::NOATIME, MsFlags::MS_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MsFlags::MS_NODIRATIME),
        (StatVfsMountFlags::RELATIME, MsFlags::MS_RELATIME),
    ];
    let kept: MsFlags =
        kept.into_iter().filter(|(flag, _)| mounted.f_flag.contains(*flag)).map(|(_, flag)| flag).collect();
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | kept;
    Ok(mount(None::<&str>, path, None::<&str>, flags, None::<&str>)?)
}

/// Whether `path` itself is a file or a folder. A symbolic link cannot be a mount point, so it cannot be protected.
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() || metadata.is_file())
}

fn bind(path: &Path) -> io::Result<()> {
    Ok(mount(Some(path), path, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_are_read() {
        assert_eq!(unescaped(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescaped(r"/ä\"), r"/ä\");
        assert!(mount_points().unwrap().contains(Path::new("/proc")));
    }
}

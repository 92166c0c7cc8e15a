//! The child process: fences a program, watches it, kills everything that it started, and reports how it ended.

#[cfg(not(target_os = "linux"))]
mod elsewhere;

use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    process::ExitCode,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[cfg(not(target_os = "linux"))]
use self::elsewhere as system;
#[cfg(target_os = "linux")]
use crate::linux as system;
use crate::{
    order::{Order, ProgramEnd},
    protected::{COMMONDIR, refuse},
};

/// Size limit of the description of a program to run, in bytes: its arguments, variables and rights.
const ORDER: u64 = 64 << 20;
/// Size limit of each file that a program in the cage writes, in bytes.
const FILE: u64 = 1 << 30;
/// The number of processes that one program may have, on Linux.
#[cfg(target_os = "linux")]
pub(crate) const PROCESSES: usize = 512;

/// Runs the child: reads an [`Order`] from standard input, and returns when the program and everything that it started are gone.
/// The process must have no other threads.
pub fn supervise() -> ExitCode {
    // Before it reads the order, the process only does what every program needs. `setsid` separates it from the user's terminal,
    // its signals and its job control.
    let _ = rustix::process::setsid();
    let end =
        read_order().map_or_else(|error| Some(ProgramEnd::failed(format!("cannot read the order: {error}"))), run);
    // With `None`, a child of this process has already reported.
    if let Some(end) = end {
        report(&end);
    }
    ExitCode::SUCCESS
}

/// Writes the report to standard error. Only the host reads it, and the program cannot write to it.
pub(crate) fn report(end: &ProgramEnd) {
    let report = serde_json::to_vec(end).unwrap_or_default();
    // If the host is gone, the report is not needed.
    let _ = io::stderr().write_all(&report);
}

fn read_order() -> io::Result<Order> {
    let mut line = Vec::new();
    io::stdin().lock().take(ORDER).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is incomplete"));
    }
    Ok(serde_json::from_slice(&line)?)
}

fn run(order: Order) -> Option<ProgramEnd> {
    // The working folder shows which program this process belongs to. If it cannot be entered, starting the program fails as well.
    let _ = std::env::set_current_dir(&order.folder);
    if order.fence.is_some() {
        limit(Resource::Fsize, FILE);
        limit(Resource::Core, 0);
    }
    let read_only = order.fence.iter().flat_map(|fence| &fence.read_only);
    let new = read_only.filter(|path| path.ends_with(COMMONDIR) && path.symlink_metadata().is_err());
    let new: Vec<_> = new.collect();
    let end = system::run(&order);
    for commondir in new {
        if commondir.symlink_metadata().is_ok() {
            refuse(commondir);
        }
    }
    end
}

/// Lowers a limit. A limit that is already lower stays as it is.
fn limit(resource: Resource, most: u64) {
    let now = getrlimit(resource);
    let lower = |value: Option<u64>| Some(value.map_or(most, |value| value.min(most)));
    // Lowering a limit is always permitted.
    let _ = setrlimit(resource, Rlimit { current: lower(now.current), maximum: lower(now.maximum) });
}

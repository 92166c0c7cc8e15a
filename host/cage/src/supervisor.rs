//! The child process: fences a program, watches it, kills all that it started, reports how it ended.

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

/// Limit of an order, in bytes.
const ORDER: u64 = 64 << 20;
/// Limit of a file that a fenced program writes, in bytes.
const FILE: u64 = 1 << 30;
/// Limit of the processes of one program.
#[cfg(target_os = "linux")]
pub(crate) const PROCESSES: usize = 512;

/// Runs the child: reads an [`Order`] from standard input, and ends when the program and all that it started are gone. The process
/// must have no other threads.
pub fn supervise() -> ExitCode {
    // While it waits for an order, the process only does what is the same for each order.
    // Away from the terminal of the user, its signals and its job control.
    let _ = rustix::process::setsid();
    let end =
        read_order().map_or_else(|error| Some(ProgramEnd::failed(format!("cannot read the order: {error}"))), run);
    // `None`: a process of its own has reported.
    if let Some(end) = end {
        report(&end);
    }
    ExitCode::SUCCESS
}

/// Writes the report. The host reads standard error, which the program does not have.
pub(crate) fn report(end: &ProgramEnd) {
    let report = serde_json::to_vec(end).unwrap_or_default();
    // If the host is gone, it is not needed.
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
    // Where its processes are shows what they belong to. If it cannot be entered, the program is not started either.
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

/// Lowers a limit. A program that ran into a lower one before keeps it.
fn limit(resource: Resource, most: u64) {
    let now = getrlimit(resource);
    let lower = |value: Option<u64>| Some(value.map_or(most, |value| value.min(most)));
    // Lowering a limit is always permitted.
    let _ = setrlimit(resource, Rlimit { current: lower(now.current), maximum: lower(now.maximum) });
}

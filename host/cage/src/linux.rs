//! The child process on Linux: fences the program, starts it, waits for its end, and kills the processes that it leaves.

mod files;
mod namespaces;
mod syscalls;
mod tree;

use std::{
    fs, io,
    os::{
        fd::{AsFd as _, RawFd},
        unix::process::CommandExt as _,
    },
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fork::Fork;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, pidfd_open, set_child_subreaper,
        set_parent_process_death_signal, wait, waitpid,
    },
};

pub(crate) use self::files::available;
use crate::{
    order::{FenceOrder, Order, ProgramEnd},
    supervisor::{PROCESSES, report},
    support::Isolation,
};

/// How often the processes of the program are counted.
const TICK: Duration = Duration::from_millis(200);

/// Runs a program and returns how it ended; `None` if a child of this process has already reported it.
pub(crate) fn run(order: &Order) -> Option<ProgramEnd> {
    if let Err(error) = keep_files_back() {
        return Some(ProgramEnd::failed(format!("cannot close the files that the cage inherited: {error}")));
    }
    let isolation = order.fence.as_ref().map_or(Isolation::None, |fence| fence.support.isolation);
    if let Err(error) = namespaces::enter(isolation) {
        return Some(ProgramEnd::failed(format!("cannot create the cage's namespaces: {error}")));
    }
    if isolation < Isolation::Processes {
        return Some(run_here(order));
    }
    // The next process is the first one of its namespace: when it ends, the kernel kills the others.
    match fork::fork() {
        Err(error) => Some(ProgramEnd::failed(format!("cannot start the cage's first process: {error}"))),
        Ok(Fork::Parent(child)) => wait_for(child),
        Ok(Fork::Child) => {
            // The signal is not sent if the parent has already ended. `watch` still notices the end of the host on standard input.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            report(&run_here(order));
            None
        }
    }
}

/// Marks inherited files as close-on-exec to keep them from the program. Whatever started Patchbay may have left them open.
fn keep_files_back() -> io::Result<()> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        match fcntl(number, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
            // The descriptor of the listing itself is closed by now.
            Ok(_) | Err(nix::errno::Errno::EBADF) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits for the first process of the namespace, which writes the report. Returns `None` unless it failed to do so.
fn wait_for(child: i32) -> Option<ProgramEnd> {
    let Some(child) = Pid::from_raw(child) else { return Some(ProgramEnd::failed("the cage has no process id")) };
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) if status.signaled() => {
                return Some(ProgramEnd::killed("the first process of the cage was killed"));
            }
            Ok(_) => return None,
            Err(Errno::INTR) => {}
            Err(error) => return Some(ProgramEnd::failed(format!("lost contact with the cage: {error}"))),
        }
    }
}

fn run_here(order: &Order) -> ProgramEnd {
    let _ = set_child_subreaper(Some(getpid()));
    if let Some(fence) = &order.fence
        && let Err(error) = namespaces::protect(fence)
    {
        return ProgramEnd::failed(format!("cannot protect files from the cage: {error}"));
    }
    let child = match start(order) {
        Ok(Some(child)) => child,
        Ok(None) => return ProgramEnd::default(),
        Err(error) => return ProgramEnd::failed(error),
    };
    let end = watch(child);
    if tree::kill_all() { end } else { ProgramEnd::killed("some of its processes could not be killed") }
}

/// Starts the program from a fenced thread. A fence cannot be removed, and the process itself must stay able to kill the program.
/// Returns `None` if the order has no program.
fn start(order: &Order) -> Result<Option<Pid>, String> {
    let started = thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, || start_here(order)).map(thread::ScopedJoinHandle::join)
    });
    let started = started.map_err(|error| format!("cannot start a thread for the cage: {error}"))?;
    started.unwrap_or_else(|_| Err("the cage could not start the program".to_owned()))
}

fn start_here(order: &Order) -> Result<Option<Pid>, String> {
    if let Some(fence) = &order.fence {
        restrict(fence).map_err(|error| format!("cannot build the cage: {error}"))?;
    }
    if order.program.is_empty() {
        return Ok(None);
    }
    let cannot = |error: io::Error| format!("cannot run '{}': {error}", order.program);
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(cannot)?;
    let child = Command::new(&order.program)
        .args(&order.arguments)
        .current_dir(&order.folder)
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stderr(output)
        // Signals that the program sends to its group do not reach this process.
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    // `reap` waits for the process by its id, and also for orphans that it leaves.
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.map(Some).ok_or_else(|| "the program has no process id".to_owned())
}

/// Fences this thread and everything that it starts, permanently.
fn restrict(fence: &FenceOrder) -> Result<(), String> {
    files::restrict(fence)?;
    if fence.support.seccomp {
        syscalls::restrict(fence)?;
    }
    Ok(())
}

/// Waits until the program has ended, or is to be killed.
fn watch(child: Pid) -> ProgramEnd {
    let exits = pidfd_open(child, PidfdFlags::empty());
    let stdin = io::stdin();
    let mut counts = Instant::now() + TICK;
    loop {
        let mut polled = vec![PollFd::new(&stdin, PollFlags::HUP)];
        polled.extend(exits.as_ref().ok().map(|exits| PollFd::new(exits, PollFlags::IN)));
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        let ready = poll(&mut polled, Some(&tick));
        if ready.is_ok_and(|ready| ready > 0) && !polled[0].revents().is_empty() {
            return ProgramEnd::killed("it was stopped");
        }
        if let Some(end) = reap(child) {
            return end;
        }
        if Instant::now() >= counts {
            counts = Instant::now() + TICK;
            if tree::descendants().len() > PROCESSES {
                return ProgramEnd::killed(format!("it had more than {PROCESSES} processes"));
            }
        }
    }
}

/// Reaps ended children, and returns how `child` ended if it is one of them.
fn reap(child: Pid) -> Option<ProgramEnd> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == child => return Some(end_of(status)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return None,
            Err(error) => return Some(ProgramEnd::failed(format!("lost contact with the program: {error}"))),
        }
    }
}

fn end_of(status: WaitStatus) -> ProgramEnd {
    ProgramEnd { exit_code: status.exit_status(), signal: status.terminating_signal(), ..ProgramEnd::default() }
}

/// Kills a process, which may already be gone.
fn kill(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
}

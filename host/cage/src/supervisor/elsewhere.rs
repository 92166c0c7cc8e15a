//! Programs on systems without a fence: a process group of their own, which is killed at the end. A process that leaves the group
//! is not found.

use std::{
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process_group},
};

use crate::order::{Order, ProgramEnd};

/// How often the supervisor checks whether the program has ended.
const TICK: Duration = Duration::from_millis(20);

pub(super) fn run(order: &Order) -> Option<ProgramEnd> {
    if order.fence.as_ref().is_some_and(|fence| fence.support != crate::Support::default()) {
        return Some(ProgramEnd::failed("fences are not supported on this system"));
    }
    if order.program.is_empty() {
        return Some(ProgramEnd::default());
    }
    let stdout = std::io::stdout();
    let errors = match std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned() {
        Ok(errors) => errors,
        Err(error) => return Some(ProgramEnd::failed(error.to_string())),
    };
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).current_dir(&order.folder).env_clear().envs(order.environment.iter().cloned());
    command.stdin(Stdio::null()).stderr(errors).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Some(ProgramEnd::failed(format!("cannot run '{}': {error}", order.program))),
    };
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    let end = loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                let signal = std::os::unix::process::ExitStatusExt::signal(&status);
                break ProgramEnd { exit_code: status.code(), signal, ..ProgramEnd::default() };
            }
            Err(error) => break ProgramEnd::failed(error.to_string()),
        }
        let stdin = std::io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN | PollFlags::HUP)];
        // Nothing follows the order, so any event on standard input means that it was closed.
        if poll(&mut polled, Some(&tick)).is_ok_and(|ready| ready > 0) {
            break ProgramEnd::killed("it was stopped");
        }
    };
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    Some(end)
}

//! Refuses, with seccomp, system calls that a fenced program does not need or could use to escape.

use std::{collections::BTreeMap, env::consts::ARCH};

use libc::*;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use crate::{
    order::FenceOrder,
    support::{Isolation, Support},
};

/// Refused regardless of their arguments: calls that affect other processes, kernel settings or mounts, and interfaces that
/// bypass the other rules, such as io_uring.
const REFUSED: &[c_long] = &[
    SYS_acct,
    SYS_add_key,
    SYS_adjtimex,
    SYS_bpf,
    SYS_chroot,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kcmp,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_reboot,
    SYS_request_key,
    SYS_setdomainname,
    SYS_setns,
    SYS_sethostname,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_userfaultfd,
    SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    SYS_kexec_file_load,
];
/// Refused if the program has no namespaces of its own: memory, queues and semaphores that all of the user's processes share.
const SHARED: &[c_long] = &[SYS_mq_open, SYS_msgget, SYS_semget, SYS_shmat, SYS_shmget];
/// Flags of `clone` and `unshare` that create namespaces. 0x80 is `CLONE_NEWTIME`.
const NAMESPACES: &[c_int] =
    &[CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, 0x80];
/// `ioctl` requests that inject input into a terminal.
const TYPING: &[c_ulong] = &[TIOCSTI as c_ulong, TIOCLINUX as c_ulong];
/// Socket families for programs with network access: internet sockets, and netlink to list the machine's addresses.
const NETWORK: &[c_int] = &[AF_INET, AF_INET6, AF_NETLINK];

/// Restricts the system calls of this thread and its children.
pub(super) fn restrict(fence: &FenceOrder) -> Result<(), String> {
    let build = || -> Result<(), Error> {
        // The flags of `clone3` are in memory, which a filter cannot read. Programs fall back to `clone`.
        let newer = BTreeMap::from([(SYS_clone3, Vec::new())]);
        apply_filter(&filter(newer, ENOSYS)?)?;
        apply_filter(&filter(refused(fence)?, EPERM)?)
    };
    build().map_err(|error| error.to_string())
}

fn refused(fence: &FenceOrder) -> Result<BTreeMap<i64, Vec<SeccompRule>>, Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    if fence.support.isolation == Isolation::None {
        rules.extend(SHARED.iter().map(|number| (*number, Vec::new())));
        if fence.support.landlock < Support::TRUNCATE {
            rules.insert(SYS_truncate, Vec::new());
        }
    }
    let namespace = |flag: &c_int| {
        let flag = u64::from(flag.unsigned_abs());
        rule(&[condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    };
    for number in [SYS_clone, SYS_unshare] {
        rules.insert(number, NAMESPACES.iter().map(namespace).collect::<Result<_, _>>()?);
    }
    let typing = TYPING.iter().map(|request| rule(&[condition(1, SeccompCmpOp::Eq, *request)?]));
    rules.insert(SYS_ioctl, typing.collect::<Result<_, _>>()?);
    let mut sockets = Vec::new();
    if fence.network {
        let other: Result<Vec<_>, _> =
            NETWORK.iter().map(|family| condition(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()))).collect();
        sockets.push(rule(&other?)?);
    }
    rules.insert(SYS_socket, sockets);
    // A socket of a datagram pair can be connected to any socket that has a path. Of the types of Unix sockets, only
    // `SOCK_DGRAM` and `SOCK_RAW` contain the bit with the value 2.
    let datagram = rule(&[condition(1, SeccompCmpOp::MaskedEq(2), 2)?])?;
    let other = rule(&[condition(0, SeccompCmpOp::Ne, u64::from(AF_UNIX.unsigned_abs()))?])?;
    rules.insert(SYS_socketpair, vec![datagram, other]);
    // Process 0 is the caller. A program may not read or change the limits of other processes.
    rules.insert(SYS_prlimit64, vec![rule(&[condition(0, SeccompCmpOp::Ne, 0)?])?]);
    Ok(rules)
}

/// Returns a rule that matches if all conditions hold.
fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, Error> {
    Ok(SeccompRule::new(conditions.to_vec())?)
}

/// Compares only the lower 32 bits of an argument, because the kernel ignores the other bits of these arguments.
fn condition(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)?)
}

/// Returns the BPF program that refuses these system calls with `error`. It kills a process that uses another architecture's calls.
fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, error: c_int) -> Result<BpfProgram, Error> {
    let architecture = TargetArch::try_from(ARCH)?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let mut program = BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?)?;
    if cfg!(target_arch = "x86_64") {
        // x32 has other numbers for the same system calls. These instructions load the number, and kill the process if it is an x32
        // number.
        let instruction = |code, jf, k| sock_filter { code, jt: 0, jf, k };
        let end = instruction(0x06, 0, SECCOMP_RET_KILL_PROCESS);
        program.splice(..0, [instruction(0x20, 0, 0), instruction(0x35, 1, 0x4000_0000), end]);
    }
    Ok(program)
}

//! Landlock: limits the files that a program may read and change, and keeps it from sending signals to processes outside the cage.

use std::{path::Path, thread};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, LandlockStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};

use crate::{order::FenceOrder, support::Support};

/// The Landlock version that this build requests.
const KNOWN: ABI = ABI::V6;

/// Returns the version of Landlock, at most `KNOWN`, and whether system calls can be refused.
pub(crate) fn available() -> (u32, bool) {
    let seccomp = Path::new("/proc/sys/kernel/seccomp/actions_avail").exists();
    // The crate reports the version only after it has restricted a thread, so this restricts a temporary one.
    let restricted = thread::spawn(|| {
        let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock)?;
        ruleset.create()?.restrict_self()
    });
    let version = match restricted.join() {
        Ok(Ok(status)) => match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => (effective_abi as u32).min(KNOWN as u32),
            _ => 0,
        },
        _ => 0,
    };
    (version, seccomp)
}

/// Restricts the files of this thread and its children.
pub(super) fn restrict(fence: &FenceOrder) -> Result<(), String> {
    let abi = match fence.support.landlock {
        0 => return Ok(()),
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => KNOWN,
    };
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    let change: BitFlags<AccessFs> = AccessFs::from_all(abi) & !devices;
    let build = || {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?;
        if fence.support.landlock >= Support::LANDLOCK {
            ruleset = ruleset.scope(Scope::from_all(abi))?;
        }
        ruleset
            .create()?
            .add_rules(path_beneath_rules(&fence.read, AccessFs::from_read(abi)))?
            .add_rules(path_beneath_rules(&fence.write, change))?
            .restrict_self()
    };
    match build() {
        Ok(status) if status.ruleset == RulesetStatus::FullyEnforced => Ok(()),
        Ok(_) => Err("Landlock is not enforced".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

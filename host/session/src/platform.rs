//! The running system, for the eligibility of skills. Snapshots and the crate `plugin` use it.

use std::env;

use patchbay_egress::is_executable;
use patchbay_skill::Platform;

/// The running system: its name, environment variables and programs.
#[derive(Clone, Copy, Debug)]
pub struct HostPlatform;

impl Platform for HostPlatform {
    fn os(&self) -> &str {
        match env::consts::OS {
            "macos" => "darwin",
            os => os,
        }
    }

    fn has_env(&self, name: &str) -> bool {
        // `var_os` may panic on names that no variable can have.
        let possible = !name.is_empty() && !name.contains(['=', '\0']);
        possible && env::var_os(name).is_some_and(|value| !value.is_empty())
    }

    fn has_binary(&self, name: &str) -> bool {
        if name.is_empty() || name.contains(['/', '\\']) {
            return false;
        }
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| is_executable(&folder.join(name)))
    }
}

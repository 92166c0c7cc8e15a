//! Eligibility: a skill's requirements for the operating system, environment and programs.
//!
//! Parsed in `manifest.rs`, checked in `build.rs` against a [`Platform`], which the crate `session` implements.

use patchbay_core::text;
use serde::{Deserialize, Serialize};

/// The requirements of a skill. If they are not met, the skill is left out of the snapshot as `ineligible`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eligibility {
    /// Accepted operating systems: `linux`, `darwin`, `windows`. Empty: any.
    pub os: Vec<String>,
    /// Environment variables that must be set and not empty.
    pub env: Vec<String>,
    /// Programs that must be found in `PATH`.
    pub binaries: Vec<String>,
}

/// The properties of the running system that eligibility depends on. Tests implement it with fixed values.
pub trait Platform {
    /// Returns the operating system: `linux`, `darwin`, `windows` or another name.
    fn os(&self) -> &str;
    /// Returns true if the environment variable is set and not empty.
    fn has_env(&self, name: &str) -> bool;
    /// Returns true if the program is found in `PATH`.
    fn has_binary(&self, name: &str) -> bool;
}

impl Eligibility {
    /// Removes control characters and cuts long values, because the values appear in diagnostics.
    pub(crate) fn cleaned(self) -> Self {
        let clean = |list: Vec<String>| list.iter().map(|text| text::excerpt(text, 100)).collect();
        Self { os: clean(self.os), env: clean(self.env), binaries: clean(self.binaries) }
    }

    /// Returns the first requirement that is not met, as the message of a diagnostic; `None` if all are met.
    pub(crate) fn unmet(&self, platform: &dyn Platform) -> Option<String> {
        let os = platform.os();
        if !self.os.is_empty() && !self.os.iter().any(|wanted| wanted == os) {
            return Some(format!("OS '{os}' not in [{}].", self.os.join(", ")));
        }
        let missing = |list: &[String], has: &dyn Fn(&str) -> bool| {
            let missing: Vec<_> = list.iter().map(String::as_str).filter(|name| !has(name)).collect();
            (!missing.is_empty()).then(|| missing.join(", "))
        };
        if let Some(names) = missing(&self.env, &|name| platform.has_env(name)) {
            return Some(format!("Missing environment: {names}."));
        }
        missing(&self.binaries, &|name| platform.has_binary(name)).map(|names| format!("Missing binaries: {names}."))
    }
}

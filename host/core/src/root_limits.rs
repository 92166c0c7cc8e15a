//! Limits on all skills of one root together: the table `[limits.root]` of `config.toml`, applied by `patchbay-skill` and by
//! compilation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits on all skills of one root together. `[limits.root]` in `config.toml` sets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RootLimits {
    /// Number of skills, valid or not: folders and `*.wasm` files of the root.
    pub skills: Bound,
    /// Bytes of all SKILL.md together, including embedded ones. Each one may become part of a conversation.
    pub skill_md_bytes: Bound,
    /// Tools of all skills together.
    pub tools: Bound,
    /// Bytes of the descriptions and schemas of all tools together.
    pub tool_bytes: Bound,
    /// Files of all skills together. Up to ten times as many folder entries are read, including files that belong to no skill.
    pub files: Bound,
    /// Bytes of all files together, including components. All of them are read and hashed when a root is new.
    pub file_bytes: Bound,
    /// Time limit in seconds of compiling the root's new components in one start or reload. Compiled components are kept, so
    /// `/reload_skills` continues with the remaining ones.
    pub compile_s: Bound,
}

/// A limit for a root that you trust (your own skills, trusted workspaces), and for a workspace that you do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// For your own skills and for trusted workspaces.
    pub own: u64,
    /// For a workspace that is not trusted.
    pub untrusted: u64,
}

/// The limits of one root: [`RootLimits`] with the trust of the root applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootAllowance {
    /// Number of skills, valid or not.
    pub skills: u64,
    /// Bytes of all SKILL.md files.
    pub skill_md_bytes: u64,
    /// Number of tools of all skills.
    pub tools: u64,
    /// Bytes of all descriptions and schemas.
    pub tool_bytes: u64,
    /// Number of files of all skills.
    pub files: u64,
    /// Size of all files together, in bytes.
    pub file_bytes: u64,
    /// Time for compiling components, in seconds.
    pub compile_s: u64,
}

impl Default for RootLimits {
    fn default() -> Self {
        let bound = |own, untrusted| Bound { own, untrusted };
        Self {
            skills: bound(5_000, 200),
            skill_md_bytes: bound(64 << 20, 2 << 20),
            tools: bound(20_000, 200),
            tool_bytes: bound(128 << 20, 1 << 20),
            files: bound(100_000, 2_000),
            file_bytes: bound(2 << 30, 32 << 20),
            compile_s: bound(600, 60),
        }
    }
}

impl RootLimits {
    /// Returns the limits of a trusted or an untrusted root.
    pub fn allowance(&self, trusted: bool) -> RootAllowance {
        let of = |bound: Bound| if trusted { bound.own } else { bound.untrusted };
        RootAllowance {
            skills: of(self.skills),
            skill_md_bytes: of(self.skill_md_bytes),
            tools: of(self.tools),
            tool_bytes: of(self.tool_bytes),
            files: of(self.files),
            file_bytes: of(self.file_bytes),
            compile_s: of(self.compile_s),
        }
    }
}

impl Default for RootAllowance {
    fn default() -> Self {
        RootLimits::default().allowance(true)
    }
}

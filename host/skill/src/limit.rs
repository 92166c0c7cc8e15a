//! The limits that all skills of one root share (`[limits.root]`). Counts against them, and creates the diagnostic `root_limit`.
//!
//! `discover.rs` counts files and bytes, `build.rs` counts tools; the crate `tools` enforces the limit on compile time.

use patchbay_core::{Code, RootAllowance};
use patchbay_policy::Root;

use crate::Problem;

/// The unused part of a root's limits. Skills are counted in the order of their names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootBudget {
    root: Root,
    allowed: RootAllowance,
    /// `allowed` minus everything counted so far.
    left: RootAllowance,
    /// The directory entries that may still be read, including entries that do not belong to a skill.
    entries: u64,
}

/// The number of directory entries that may be read for each allowed file.
const ENTRIES_PER_FILE: u64 = 10;

impl RootBudget {
    pub(crate) fn new(root: Root, allowed: RootAllowance) -> Self {
        Self { root, allowed, left: allowed, entries: allowed.files.saturating_mul(ENTRIES_PER_FILE) }
    }

    /// Counts the bytes of a SKILL.md.
    pub(crate) fn count_skill_md(&mut self, bytes: u64) -> Result<(), Problem> {
        let over = self.over("skill_md_bytes", self.allowed.skill_md_bytes);
        subtract(&mut self.left.skill_md_bytes, bytes, over)
    }

    /// Counts one file and its bytes.
    pub(crate) fn count_file(&mut self, bytes: u64) -> Result<(), Problem> {
        let over = self.over("files", self.allowed.files);
        subtract(&mut self.left.files, 1, over)?;
        let over = self.over("file_bytes", self.allowed.file_bytes);
        subtract(&mut self.left.file_bytes, bytes, over)
    }

    /// Counts the directory entries that were read for a skill.
    pub(crate) fn count_entries(&mut self, entries: usize) -> Result<(), Problem> {
        let over = self.over("files", self.allowed.files);
        subtract(&mut self.entries, entries as u64, over)
    }

    /// Counts the tools of a skill; `bytes` is the size of their descriptions and schemas.
    pub(crate) fn count_tools(&mut self, tools: u64, bytes: u64) -> Result<(), Problem> {
        let over = self.over("tools", self.allowed.tools);
        subtract(&mut self.left.tools, tools, over)?;
        let over = self.over("tool_bytes", self.allowed.tool_bytes);
        subtract(&mut self.left.tool_bytes, bytes, over)
    }

    /// Creates the problem of a root with more skills than allowed.
    pub(crate) fn too_many_skills(&self) -> Problem {
        root_limit(self.root, "skills", self.allowed.skills)
    }

    fn over(&self, key: &'static str, limit: u64) -> impl FnOnce() -> Problem + use<> {
        let root = self.root;
        move || root_limit(root, key, limit)
    }
}

fn subtract(left: &mut u64, wanted: u64, over: impl FnOnce() -> Problem) -> Result<(), Problem> {
    *left = left.checked_sub(wanted).ok_or_else(over)?;
    Ok(())
}

/// Creates the diagnostic for the first skill over the limit `key` of `[limits.root]`. The suffix of `key` is the unit:
/// `_bytes`, `_s` for seconds, otherwise a count.
pub fn root_limit(root: Root, key: &str, limit: u64) -> Problem {
    let limit = match key {
        key if key.ends_with("_bytes") => bytes(limit),
        key if key.ends_with("_s") => format!("{} s", grouped(limit)),
        _ => grouped(limit),
    };
    let message = format!("The {root} skills exceed the limit of {limit} (limits.root.{key}).");
    Problem::new(Code::RootLimit, message)
}

fn bytes(limit: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| limit >= *unit && limit.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", limit / unit),
        None => format!("{} bytes", grouped(limit)),
    }
}

/// Formats a number with commas: `1,000,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_limit_message_names_the_key() {
        let words = |key, limit| root_limit(Root::Workspace, key, limit).message;
        assert_eq!(words("skills", 200), "The workspace skills exceed the limit of 200 (limits.root.skills).");
        assert_eq!(
            words("skill_md_bytes", 2 << 20),
            "The workspace skills exceed the limit of 2 MiB (limits.root.skill_md_bytes)."
        );
        assert_eq!(words("compile_s", 60), "The workspace skills exceed the limit of 60 s (limits.root.compile_s).");
        assert_eq!(words("files", 100_000), "The workspace skills exceed the limit of 100,000 (limits.root.files).");
    }

    #[test]
    fn budget_allows_exactly_its_limit() {
        let allowed = RootAllowance { files: 2, file_bytes: 10, ..RootAllowance::default() };
        let mut budget = RootBudget::new(Root::User, allowed);
        budget.count_file(10).unwrap();
        budget.count_file(0).unwrap();
        assert!(budget.count_file(0).unwrap_err().message.contains("limits.root.files"));
        let mut budget = RootBudget::new(Root::User, allowed);
        assert!(budget.count_file(11).unwrap_err().message.contains("limits.root.file_bytes"));
        budget.count_entries(20).unwrap();
        assert!(budget.count_entries(1).unwrap_err().message.contains("limits.root.files"));
    }
}

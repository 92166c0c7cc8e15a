//! Files of a workspace that decide about what runs later, or about what agents are told. Namespaces protect those that exist; what
//! has changed nevertheless is found by comparing.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Files and folders of a workspace that a program in the cage may not change.
pub(crate) const READ_ONLY: &[&str] = &[
    ".agents",
    ".cargo",
    ".claude",
    ".git/config",
    ".git/config.worktree",
    ".git/hooks",
    ".git/info",
    ".git/modules",
    ".mcp.json",
    ".patchbay",
    ".vscode",
    "AGENTS.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
];
/// Folders that hold some of them. Renamed, they would take what they hold along.
pub(crate) const FIXED: &[&str] = &[".git"];
/// Those that agents read: skills, personas, rules.
const FOR_AGENTS: &[&str] =
    &[".agents", ".claude", ".mcp.json", ".patchbay", "AGENTS.md", "CLAUDE.local.md", "CLAUDE.md"];
/// Limit of the files that are compared, so that a program cannot make the host look at millions.
const FILES: usize = 20_000;

/// The state of the protected files of a workspace at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedFiles {
    files: BTreeMap<PathBuf, FileState>,
}

/// What changes when a file is changed. The time of the last change of an inode cannot be set by programs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    inode: u64,
    mode: u32,
    size: u64,
    changed: (i64, i64),
}

impl ProtectedFiles {
    /// Looks at the files of `workspace`. Blocks.
    pub fn look(workspace: &Path) -> Self {
        let mut found = Self::default();
        for name in READ_ONLY.iter().chain(FIXED) {
            let only_itself = FIXED.contains(name);
            found.add(workspace, PathBuf::from(name), only_itself);
        }
        found
    }

    /// Adds a file, or a folder with all that it holds.
    fn add(&mut self, workspace: &Path, name: PathBuf, only_itself: bool) {
        let Ok(metadata) = fs::symlink_metadata(workspace.join(&name)) else { return };
        if self.files.len() >= FILES {
            return;
        }
        let is_folder = metadata.is_dir();
        // Entries of `.git` itself change all the time.
        let changed = if only_itself { (0, 0) } else { (metadata.ctime(), metadata.ctime_nsec()) };
        let size = if is_folder { 0 } else { metadata.size() };
        let state = FileState { inode: metadata.ino(), mode: metadata.mode(), size, changed };
        if is_folder && !only_itself {
            let entries = fs::read_dir(workspace.join(&name)).into_iter().flatten().flatten();
            for entry in entries.take(FILES) {
                self.add(workspace, name.join(entry.file_name()), false);
            }
        }
        self.files.insert(name, state);
    }

    /// Returns the protected names that differ in `later`, sorted.
    pub fn changed(&self, later: &Self) -> Vec<&'static str> {
        let differs = |name: &&&'static str| {
            let of = |state: &Self| -> Vec<(PathBuf, FileState)> {
                let below = state
                    .files
                    .iter()
                    .filter(|(path, _)| path.starts_with(name) && (!FIXED.contains(name) || *path == Path::new(name)));
                below.map(|(path, state)| (path.clone(), state.clone())).collect()
            };
            of(self) != of(later)
        };
        let mut names: Vec<_> = READ_ONLY.iter().chain(FIXED).filter(differs).copied().collect();
        names.sort_unstable();
        names
    }

    /// Whether agents read what has one of these names: a skill, a persona or a rule.
    pub fn is_for_agents(name: &str) -> bool {
        FOR_AGENTS.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_names_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
        fs::create_dir_all(workspace.join(".claude/skills/x")).unwrap();
        fs::write(workspace.join(".claude/skills/x/SKILL.md"), "one").unwrap();
        let before = ProtectedFiles::look(workspace);
        fs::write(workspace.join(".git/index"), "").unwrap();
        assert!(before.changed(&ProtectedFiles::look(workspace)).is_empty());
        fs::write(workspace.join(".claude/skills/x/SKILL.md"), "two").unwrap();
        fs::write(workspace.join(".git/hooks/pre-commit"), "").unwrap();
        fs::write(workspace.join("AGENTS.md"), "").unwrap();
        assert_eq!(before.changed(&ProtectedFiles::look(workspace)), [".claude", ".git/hooks", "AGENTS.md"]);
        assert!(ProtectedFiles::is_for_agents(".claude") && !ProtectedFiles::is_for_agents(".git/hooks"));
        let before = ProtectedFiles::look(workspace);
        fs::rename(workspace.join(".git"), workspace.join("old")).unwrap();
        fs::create_dir_all(workspace.join(".git")).unwrap();
        assert_eq!(before.changed(&ProtectedFiles::look(workspace)), [".git", ".git/hooks"]);
    }
}

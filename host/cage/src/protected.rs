//! Workspace files that start programs later or instruct agents. Namespaces make existing files read-only. Other changes are found
//! by comparing the files before and after a program runs.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// A file that makes git read `config` and `hooks` from another folder instead of `.git`.
pub(crate) const COMMONDIR: &str = ".git/commondir";
/// The new name of a [`COMMONDIR`] that a program has made.
const COMMONDIR_REFUSED: &str = ".git/commondir.refused";
/// Skills, personas and rules, which agents read. A program in the cage may not change them.
const FOR_AGENTS: &[&str] = &[
    ".agents",
    ".aider.conf.yml",
    ".aiassistant",
    ".amazonq",
    ".amp",
    ".augment",
    ".augment-guidelines",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".crush",
    ".crush.json",
    ".cursor",
    ".cursorrules",
    ".factory",
    ".gemini",
    ".github/agents",
    ".github/chatmodes",
    ".github/copilot-instructions.md",
    ".github/hooks",
    ".github/instructions",
    ".github/prompts",
    ".github/skills",
    ".goose",
    ".goosehints",
    ".junie",
    ".kilocode",
    ".kilocodemodes",
    ".kiro",
    ".mcp.json",
    ".opencode",
    ".openhands",
    ".patchbay",
    ".qwen",
    ".roo",
    ".roomodes",
    ".roorules",
    ".rules",
    ".trae",
    ".windsurf",
    ".windsurfrules",
    ".zed",
    "AGENT.md",
    "AGENTS.local.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "CRUSH.md",
    "GEMINI.md",
    "QWEN.md",
    "WARP.md",
    "crush.json",
    "opencode.json",
    "opencode.jsonc",
];
/// Files and folders of build tools, git and editors, which a program may not change either.
const FOR_OTHERS: &[&str] = &[
    ".cargo",
    ".devcontainer",
    ".devcontainer.json",
    ".envrc",
    ".fleet",
    COMMONDIR,
    ".git/config",
    ".git/config.worktree",
    ".git/hooks",
    ".git/info",
    ".git/modules",
    ".git/worktrees",
    ".gitmodules",
    ".helix",
    ".husky",
    ".idea",
    ".idx",
    ".vscode",
];
/// Folders that contain some of these files. They cannot be renamed, because their contents would move along.
pub(crate) const FIXED: &[&str] = &[".git", ".github"];
/// How many files are compared for each protected name, such as `.git`. Limited, because a program can create millions.
const FILES: usize = 20_000;

/// The state of the protected files of a workspace at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedFiles {
    files: BTreeMap<PathBuf, FileState>,
}

/// Metadata that changes with a file. It includes the inode's change time because, unlike the other times, programs cannot set it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    inode: u64,
    mode: u32,
    size: u64,
    changed: (i64, i64),
    /// Whether this is a file or a folder, because only these can be mounted read-only.
    can_be_mounted: bool,
}

impl ProtectedFiles {
    /// Looks at the files of `workspace`. Blocks.
    pub fn look(workspace: &Path) -> Self {
        Self::look_at(workspace, FILES)
    }

    /// Looks at up to `most` files of each name.
    fn look_at(workspace: &Path, most: usize) -> Self {
        let mut found = Self::default();
        for name in names() {
            let only_itself = FIXED.contains(name);
            let path = workspace.join(name);
            let most = found.files.len() + most;
            found.add(&path, PathBuf::from(name), only_itself, most);
            // The target of a link is protected like the link.
            if path.is_symlink()
                && let Ok(target) = path.canonicalize()
                && let Ok(below) = target.strip_prefix(workspace)
                && target != workspace
            {
                found.add(&target, Path::new(name).join(below), only_itself, most);
            }
        }
        found
    }

    /// Adds the file at `path`, or the folder with its contents, as `name`. Stops when there are `most` files.
    fn add(&mut self, path: &Path, name: PathBuf, only_itself: bool, most: usize) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if self.files.len() >= most {
            return;
        }
        let is_folder = metadata.is_dir();
        // The `.git` of a worktree or a submodule is a file, which names the folder.
        let only_itself = only_itself && is_folder;
        // Entries of `.git` itself change all the time.
        let changed = if only_itself { (0, 0) } else { (metadata.ctime(), metadata.ctime_nsec()) };
        let size = if is_folder { 0 } else { metadata.size() };
        let can_be_mounted = is_folder || metadata.is_file();
        let state = FileState { inode: metadata.ino(), mode: metadata.mode(), size, changed, can_be_mounted };
        if is_folder && !only_itself {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            for entry in entries.take(most) {
                self.add(&entry.path(), name.join(entry.file_name()), false, most);
            }
        }
        self.files.insert(name, state);
    }

    /// Returns the protected names, sorted, that differ in `later` and that a program could have changed. If the files were
    /// `mounted` read-only, it could only change names that did not exist or were links.
    pub fn changed(&self, later: &Self, mounted: bool) -> Vec<&'static str> {
        let is_open = |name: &&&'static str| {
            let is_mounted = |state: &FileState| state.can_be_mounted && **name != COMMONDIR_REFUSED;
            !mounted || !self.files.get(Path::new(name)).is_some_and(is_mounted)
        };
        let differs = |name: &&&'static str| self.below(name) != later.below(name);
        let mut names: Vec<_> = names().filter(is_open).filter(differs).copied().collect();
        names.sort_unstable();
        names
    }

    /// Returns the state of a name. A folder's contents are included unless the folder is in [`FIXED`].
    fn below(&self, name: &str) -> Vec<(&PathBuf, &FileState)> {
        let is_below = |path: &Path| path == Path::new(name) || path.starts_with(name) && !FIXED.contains(&name);
        self.files.iter().filter(|(path, _)| is_below(path)).collect()
    }

    /// Returns whether agents read files with this name: skills, personas and rules.
    pub fn is_for_agents(name: &str) -> bool {
        FOR_AGENTS.contains(&name)
    }
}

/// Returns the files and folders of a workspace that a program in the cage may not change.
pub(crate) fn read_only() -> impl Iterator<Item = &'static &'static str> {
    FOR_AGENTS.iter().chain(FOR_OTHERS)
}

/// Returns all names that are compared.
fn names() -> impl Iterator<Item = &'static &'static str> {
    read_only().chain(FIXED).chain(&[COMMONDIR_REFUSED])
}

/// Renames a [`COMMONDIR`] that did not exist before the program ran. A missing file could not be mounted read-only beforehand, and
/// the next `git status` would follow the new one.
pub(crate) fn refuse(commondir: &Path) {
    // The rename fails if a folder has the new name.
    if fs::rename(commondir, commondir.with_extension("refused")).is_err() {
        let _ = fs::remove_file(commondir);
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
        assert!(before.changed(&ProtectedFiles::look(workspace), false).is_empty());
        fs::write(workspace.join(".claude/skills/x/SKILL.md"), "two").unwrap();
        fs::write(workspace.join(".git/hooks/pre-commit"), "").unwrap();
        fs::write(workspace.join("AGENTS.md"), "").unwrap();
        let later = ProtectedFiles::look(workspace);
        assert_eq!(before.changed(&later, false), [".claude", ".git/hooks", "AGENTS.md"]);
        assert_eq!(before.changed(&later, true), ["AGENTS.md"], "the others were read-only for it");
        assert!(ProtectedFiles::is_for_agents(".claude") && !ProtectedFiles::is_for_agents(".git/hooks"));
        let before = ProtectedFiles::look(workspace);
        fs::rename(workspace.join(".git"), workspace.join("old")).unwrap();
        fs::create_dir_all(workspace.join(".git")).unwrap();
        assert_eq!(before.changed(&ProtectedFiles::look(workspace), false), [".git", ".git/hooks"]);
    }

    #[test]
    fn target_of_a_link_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = &folder.path().canonicalize().unwrap();
        fs::create_dir(workspace.join("docs")).unwrap();
        fs::write(workspace.join("docs/A.md"), "one").unwrap();
        std::os::unix::fs::symlink("docs/A.md", workspace.join("AGENTS.md")).unwrap();
        std::os::unix::fs::symlink(".", workspace.join(".cursor")).unwrap();
        let before = ProtectedFiles::look(workspace);
        fs::write(workspace.join("docs/A.md"), "obey").unwrap();
        assert_eq!(before.changed(&ProtectedFiles::look(workspace), true), ["AGENTS.md"]);
        assert!(ProtectedFiles::is_for_agents(".codex") && !ProtectedFiles::is_for_agents(".github"));
    }

    #[test]
    fn git_file_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".git"), "gitdir: one").unwrap();
        let before = ProtectedFiles::look(folder.path());
        fs::write(folder.path().join(".git"), "gitdir: two").unwrap();
        assert_eq!(before.changed(&ProtectedFiles::look(folder.path()), false), [".git"]);
    }

    #[test]
    fn many_files_of_one_name_do_not_hide_the_others() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".agents")).unwrap();
        for number in 0..9 {
            fs::write(folder.path().join(".agents").join(number.to_string()), "").unwrap();
        }
        let before = ProtectedFiles::look_at(folder.path(), 5);
        fs::write(folder.path().join("CLAUDE.md"), "").unwrap();
        assert_eq!(before.changed(&ProtectedFiles::look_at(folder.path(), 5), false), ["CLAUDE.md"]);
    }

    #[test]
    fn new_commondir_is_refused_and_found() {
        let folder = tempfile::tempdir().unwrap();
        let commondir = folder.path().join(COMMONDIR);
        fs::create_dir(folder.path().join(".git")).unwrap();
        for in_the_way in [false, true] {
            let before = ProtectedFiles::look(folder.path());
            fs::write(&commondir, "../evil").unwrap();
            if in_the_way {
                fs::remove_file(folder.path().join(COMMONDIR_REFUSED)).unwrap();
                fs::create_dir(folder.path().join(COMMONDIR_REFUSED)).unwrap();
            }
            refuse(&commondir);
            assert!(!commondir.exists());
            assert_eq!(before.changed(&ProtectedFiles::look(folder.path()), true), [COMMONDIR_REFUSED]);
        }
    }
}

//! The names that no plugin may touch. What a plugin writes there would become code or rules of the host, of git or of
//! other agents: hooks, configuration that runs commands, skills, personas, instructions. Reading is refused for `.git`
//! alone, whose configuration holds the credentials of remotes.
//!
//! Names are judged one by one, as the file system gives or takes them, so they hold below links too. A git directory
//! of another name (a bare repository) may be read; what makes git run commands may not be written there.

use cap_std::fs::Dir;
use patchbay_core::text::clean;
use uuid::Uuid;

use crate::{error::FileError, path::RelPath};

const TEMPORARY_START: &str = ".patchbay-";
const TEMPORARY_END: &str = ".tmp";

const GIT: &str = "it is in git's own directory, which holds hooks and the credentials of remotes";
const SKILLS: &str = "it is in .patchbay, .agents or .claude, which hold skills and settings of agents; a plugin may read it, not change it";
const TEMPORARY: &str = "names of this form are Patchbay's temporary files";
const BARE: &str =
    "with it the folder would be, or is, a bare git repository, whose configuration and hooks make git run commands";
/// Why nothing in Patchbay's own folders can be used.
pub(crate) const OWN_FOLDER: &str = "it is one of Patchbay's own folders or files, or lies in one";

/// Folders of a workspace that hold skills and settings of agents, and their short names on NTFS.
const SKILL_FOLDERS: &[(&str, &str)] = &[(".patchbay", "patchb~1"), (".agents", "agents~1"), (".claude", "claude~1")];

/// Files that agents follow as instructions, wherever they are in the tree, and their short names on NTFS.
const INSTRUCTIONS: &[(&str, &str)] = &[
    ("AGENTS.md", "agents.md"),
    ("CLAUDE.md", "claude.md"),
    ("GEMINI.md", "gemini.md"),
    ("copilot-instructions.md", "copilo~1.md"),
];

/// Names by which git recognises a repository, or that make it run commands there.
const GIT_PARTS: &[&str] = &["HEAD", "objects", "refs", "commondir", "config", "config.worktree", "hooks"];

/// Why the part `name` of a path keeps a reader out.
pub(crate) fn against_reading(name: &str) -> Option<&'static str> {
    if is_git(name) {
        Some(GIT)
    } else if is_temporary(name) {
        Some(TEMPORARY)
    } else {
        None
    }
}

/// Checks that `path` may be written and deleted. `instructions`: whether files with instructions for agents may be.
pub(crate) fn check_writing(path: RelPath<'_>, instructions: bool) -> Result<(), FileError> {
    let in_skills = |name| SKILL_FOLDERS.iter().any(|(folder, short)| names(name, folder, short));
    let against = |name| against_reading(name).or_else(|| in_skills(name).then_some(SKILLS));
    if let Some(why) = path.parts().find_map(against) {
        return Err(FileError::Protected { path: path.shown(), why });
    }
    let (_, name) = path.split();
    if !instructions && INSTRUCTIONS.iter().any(|(file, short)| names(name, file, short)) {
        return Err(FileError::Instructions { path: path.shown() });
    }
    Ok(())
}

/// Whether git gives `name` a meaning in the root of a repository.
pub(crate) fn is_git_part(name: &str) -> bool {
    GIT_PARTS.iter().any(|part| names(name, part, part))
}

/// Checks that writing `name` in `dir` makes no bare git repository of it and changes none. Git takes any folder for one
/// that has `HEAD` with `objects` and `refs`, or `HEAD` with `commondir`, and then obeys the `config` and `hooks` there.
pub(crate) fn check_git_part(dir: &Dir, name: &str, path: RelPath<'_>) -> Result<(), FileError> {
    if !is_git_part(name) {
        return Ok(());
    }
    let has = |part: &str| names(name, part, part) || dir.symlink_metadata(part).is_ok();
    if has("HEAD") && (has("commondir") || (has("objects") && has("refs"))) {
        return Err(FileError::Protected { path: path.shown(), why: BARE });
    }
    Ok(())
}

/// Whether the file system of some platform would take `name` for `.git`.
pub(crate) fn is_git(name: &str) -> bool {
    names(name, ".git", "git~1")
}

/// Whether `name` may come to be `dotted`: without regard to case; without trailing dots and spaces, and before a
/// colon (NTFS); by its short name (NTFS); without characters that are ignored (HFS+).
fn names(name: &str, dotted: &str, short: &str) -> bool {
    let clean = clean(name);
    let before_colon = clean.split(':').next().unwrap_or_default();
    let bare = before_colon.trim_end_matches(['.', ' ']);
    bare.eq_ignore_ascii_case(dotted) || bare.eq_ignore_ascii_case(short)
}

/// A name that no file has, for one that is being written.
pub(crate) fn temporary() -> String {
    format!("{TEMPORARY_START}{}{TEMPORARY_END}", Uuid::new_v4().simple())
}

/// Whether [`temporary`] gives names of this form.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_START)
        .and_then(|rest| rest.strip_suffix(TEMPORARY_END))
        .is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writing(path: &str) -> Result<(), FileError> {
        check_writing(RelPath::parse(path).unwrap(), false)
    }

    #[test]
    fn keeps_writers_out() {
        for path in [
            ".git/config",
            "a/.git/hooks/post-checkout",
            ".GIT/config",
            ".Git",
            "git~1/config",
            "GIT~1",
            ".git./config",
            ".git /config",
            ".git. . /config",
            ".g\u{200c}it/config",
            ".\u{feff}git",
            ".git\u{200d}/x",
            ".git::$INDEX_ALLOCATION/config",
            ".git:x",
            ".patchbay/skills/x/SKILL.md",
            "sub/.PatchBay/x",
            ".patchbay ",
            ".patch\u{200b}bay/x",
            "PATCHB~1/x",
            ".agents/skills/x/SKILL.md",
            ".AGENTS/x",
            "AGENTS~1/x",
            ".claude/settings.json",
            "sub/.Claude./x",
            ".cla\u{200d}ude/x",
            "claude~1",
            &temporary(),
        ] {
            let error = writing(path).unwrap_err();
            assert_eq!(error.kind(), "denied", "{path}");
        }
        for path in [
            ".gitignore",
            ".github/workflows/x.yml",
            "git",
            "x.git/config",
            ".patchbay-notes",
            "patchbay",
            ".gitx/a",
            "git~10",
        ] {
            assert!(writing(path).is_ok(), "{path}");
        }
    }

    #[test]
    fn instructions_are_written_only_where_that_is_allowed() {
        for path in [
            "AGENTS.md",
            "agents.MD",
            "docs/AGENTS.md",
            "AGENTS.md. ",
            "AGENTS.md:stream",
            "AG\u{200b}ENTS.md",
            "CLAUDE.md",
            "a/b/GEMINI.md",
            ".github/copilot-instructions.md",
            ".github/COPILO~1.MD",
        ] {
            assert!(matches!(writing(path), Err(FileError::Instructions { .. })), "{path}");
            assert!(check_writing(RelPath::parse(path).unwrap(), true).is_ok(), "{path}");
        }
        for path in ["AGENTS.md/x", "AGENTS.md.bak", "MY-AGENTS.md", "agents", "CLAUDE.txt"] {
            assert!(writing(path).is_ok(), "{path}");
        }
        let skill = RelPath::parse(".claude/CLAUDE.md").unwrap();
        assert!(matches!(check_writing(skill, true), Err(FileError::Protected { .. })));
    }

    #[test]
    fn keeps_readers_out_of_git_alone() {
        assert!(against_reading(".git").is_some());
        assert!(against_reading(".G\u{200c}IT ").is_some());
        assert!(against_reading(".patchbay").is_none());
        assert!(against_reading(".claude").is_none());
        assert!(against_reading("AGENTS.md").is_none());
        assert!(against_reading(".gitignore").is_none());
    }

    #[test]
    fn knows_its_temporaries() {
        assert!(is_temporary(&temporary()));
        assert!(!is_temporary(".patchbay-notes.tmp"));
        assert!(!is_temporary(".patchbay-"));
        assert!(!is_temporary("x"));
        assert_ne!(temporary(), temporary());
    }
}

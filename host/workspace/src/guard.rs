//! Names that plugins may not use, checked by every operation of the crate.
//!
//! Files with these names become code or rules of the host, of git or of other agents: hooks, configuration that runs
//! commands, skills, personas, instructions. Writing them is refused. Reading is refused only for `.git`, because its
//! configuration contains credentials of remotes.
//!
//! Each name is checked as the file system returns or receives it, so the checks also work behind links. A git
//! directory with another name (a bare repository) may be read, but files there that make git run commands may not be
//! written.

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
/// Why no file in Patchbay's own folders can be used.
pub(crate) const OWN_FOLDER: &str = "it is one of Patchbay's own folders or files, or lies in one";

/// Why no file in a folder of `skill_roots` can be written.
pub(crate) const SKILL_ROOT: &str =
    "it is in a folder of skill_roots of config.toml, which holds skills; a plugin may read it, not change it";

/// Folders with skills and settings of agents, and their short names on NTFS.
const SKILL_FOLDERS: &[(&str, &str)] = &[(".patchbay", "patchb~1"), (".agents", "agents~1"), (".claude", "claude~1")];

/// Files with instructions for agents, in any folder, and their short names on NTFS.
const INSTRUCTIONS: &[(&str, &str)] = &[
    ("AGENTS.md", "agents.md"),
    ("CLAUDE.md", "claude.md"),
    ("GEMINI.md", "gemini.md"),
    ("copilot-instructions.md", "copilo~1.md"),
];

/// Names by which git recognises a repository, or that make git run commands in it.
const GIT_PARTS: &[&str] = &["HEAD", "objects", "refs", "commondir", "config", "config.worktree", "hooks"];

/// Returns why a path with the part `name` may not be read; `None` if it may.
pub(crate) fn read_refusal(name: &str) -> Option<&'static str> {
    if is_git(name) {
        Some(GIT)
    } else if is_temporary_name(name) {
        Some(TEMPORARY)
    } else {
        None
    }
}

/// Checks that `path` may be written and deleted. `instructions` is true if files with instructions for agents are
/// allowed.
pub(crate) fn check_writing(path: RelPath<'_>, instructions: bool) -> Result<(), FileError> {
    let in_skills = |name| SKILL_FOLDERS.iter().any(|(folder, short)| is_variant_of(name, folder, short));
    let refusal = |name| read_refusal(name).or_else(|| in_skills(name).then_some(SKILLS));
    if let Some(why) = path.parts().find_map(refusal) {
        return Err(FileError::Protected { path: path.shown(), why });
    }
    let (_, name) = path.split();
    if !instructions && INSTRUCTIONS.iter().any(|(file, short)| is_variant_of(name, file, short)) {
        return Err(FileError::Instructions { path: path.shown() });
    }
    Ok(())
}

/// Returns true if `name` has a meaning for git in the root of a repository.
pub(crate) fn is_git_part(name: &str) -> bool {
    GIT_PARTS.iter().any(|part| is_variant_of(name, part, part))
}

/// Checks that writing `name` neither turns `dir` into a bare git repository nor changes one. For git, any folder with
/// `HEAD`, `objects` and `refs`, or with `HEAD` and `commondir`, is a repository whose `config` and `hooks` it uses.
pub(crate) fn check_git_part(dir: &Dir, name: &str, path: RelPath<'_>) -> Result<(), FileError> {
    if !is_git_part(name) {
        return Ok(());
    }
    let has = |part: &str| is_variant_of(name, part, part) || dir.symlink_metadata(part).is_ok();
    if has("HEAD") && (has("commondir") || (has("objects") && has("refs"))) {
        return Err(FileError::Protected { path: path.shown(), why: BARE });
    }
    Ok(())
}

/// Returns true if `name` refers to `.git` on the file system of any platform.
pub(crate) fn is_git(name: &str) -> bool {
    is_variant_of(name, ".git", "git~1")
}

/// Returns true if `name` may refer to the file `full` on some file system: with another case; with trailing dots or
/// spaces or a suffix after a colon (NTFS); by the short name `short` (NTFS); with ignored characters (HFS+).
fn is_variant_of(name: &str, full: &str, short: &str) -> bool {
    let clean = clean(name);
    let before_colon = clean.split(':').next().unwrap_or_default();
    let bare = before_colon.trim_end_matches(['.', ' ']);
    bare.eq_ignore_ascii_case(full) || bare.eq_ignore_ascii_case(short)
}

/// Returns a new unique name for a temporary file.
pub(crate) fn temporary_name() -> String {
    format!("{TEMPORARY_START}{}{TEMPORARY_END}", Uuid::new_v4().simple())
}

/// Returns true if `name` has the form of [`temporary_name`].
pub(crate) fn is_temporary_name(name: &str) -> bool {
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
    fn protected_names_cannot_be_written() {
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
            &temporary_name(),
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
    fn instructions_need_permission_to_be_written() {
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
    fn only_git_cannot_be_read() {
        assert!(read_refusal(".git").is_some());
        assert!(read_refusal(".G\u{200c}IT ").is_some());
        assert!(read_refusal(".patchbay").is_none());
        assert!(read_refusal(".claude").is_none());
        assert!(read_refusal("AGENTS.md").is_none());
        assert!(read_refusal(".gitignore").is_none());
    }

    #[test]
    fn temporary_names_are_recognised() {
        assert!(is_temporary_name(&temporary_name()));
        assert!(!is_temporary_name(".patchbay-notes.tmp"));
        assert!(!is_temporary_name(".patchbay-"));
        assert!(!is_temporary_name("x"));
        assert_ne!(temporary_name(), temporary_name());
    }
}

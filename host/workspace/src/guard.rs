//! The names that no plugin may touch. What a skill could write there would become code or rules of the host and of
//! git: hooks, configuration that runs commands, skills, personas. Reading is refused for `.git` alone, whose
//! configuration holds the credentials of remotes.
//!
//! Names are judged one by one, as the file system gives or takes them, so they hold below links too. A git directory
//! of another name (a bare repository, `--separate-git-dir`) is not known as one.

use patchbay_core::text::clean;
use uuid::Uuid;

use crate::{error::FileError, path::RelPath};

const TEMPORARY_START: &str = ".patchbay-";
const TEMPORARY_END: &str = ".tmp";

const GIT: &str = "it is in git's own directory, which holds hooks and the credentials of remotes";
const PATCHBAY: &str =
    "it is in .patchbay, which holds skills and personas; a person may change it, a plugin may read it";
const TEMPORARY: &str = "names of this form are Patchbay's temporary files";

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

/// A path that may be written and deleted.
pub(crate) fn check_writing(path: RelPath<'_>) -> Result<(), FileError> {
    let against = |name| against_reading(name).or_else(|| names(name, ".patchbay", "patchb~1").then_some(PATCHBAY));
    match path.parts().find_map(against) {
        Some(why) => Err(FileError::Protected { path: path.shown(), why }),
        None => Ok(()),
    }
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
        check_writing(RelPath::parse(path).unwrap())
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
    fn keeps_readers_out_of_git_alone() {
        assert!(against_reading(".git").is_some());
        assert!(against_reading(".G\u{200c}IT ").is_some());
        assert!(against_reading(".patchbay").is_none());
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

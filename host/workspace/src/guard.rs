//! Names that plugins may not use, checked by every operation of the crate.
//!
//! Files with these names become code or rules for the host, git, editors or other agents: hooks, configuration that runs
//! commands, skills, personas, instructions. Writing them is refused. Reading is refused only for `.git`, because its
//! configuration contains credentials of remotes.
//!
//! Each name is checked as the file system returns or receives it, so the checks also work for paths with links; `linked` finds
//! the targets of links in these places. A git directory with another name (a bare repository) may be read, but files there that
//! make git run commands may not be written.

use std::borrow::Cow;

use cap_std::fs::Dir;
use patchbay_core::{caseless, text::clean};
use uuid::Uuid;

use crate::{error::FileError, path::RelPath};

const TEMPORARY_START: &str = ".patchbay-";
const TEMPORARY_END: &str = ".tmp";

const GIT: &str = "it is in git's own directory, which contains hooks and the credentials of remotes";
const SETTINGS: &str = "it contains skills, or settings by which agents, editors or git start programs; plugins may read it but not \
     change it";
const TEMPORARY: &str = "names of this form are Patchbay's temporary files";
const BARE: &str =
    "it would create or change a bare git repository, whose configuration and hooks make git run commands";
/// Why no file in Patchbay's own folders can be used.
pub(crate) const OWN_FOLDER: &str = "it is one of Patchbay's own folders or files, or is in one";

/// Why no file in a folder of `skill_roots` can be written.
pub(crate) const SKILL_ROOT: &str =
    "it is in a folder of skill_roots of config.toml, which contains skills; plugins may read it but not change it";

/// Why the targets of certain links cannot be written.
pub(crate) const LINKED: &str =
    "a link makes it part of the skills, personas or settings that agents load; plugins may read it but not change it";

/// Why no part of a skill can be written in a folder that a link makes a folder of skills.
pub(crate) const OF_SKILL: &str = "a link makes the folder above it a folder of skills, and it is or would be part of a skill; plugins may read it but not change it";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    /// The file or folder and everything in it: skills, and settings that start programs. They are never written.
    Settings,
    /// The file or folder and everything in it: instructions for agents. Writing them needs write trust.
    Instructions,
    /// A file of this name, with instructions for agents. A folder of this name is not protected.
    InstructionsFile,
}

/// Names that other programs recognise, in any folder. A name with `/` stands for several segments of a path, and `*` at the
/// beginning or end for any further characters. Files that users run themselves, such as Makefile or package.json, are not listed.
const NAMES: &[(&str, Protection)] = &[
    // Patchbay, and the folder that several agents share.
    (".patchbay", Protection::Settings),
    (".agents", Protection::Settings),
    ("AGENTS.md", Protection::InstructionsFile),
    ("AGENTS.override.md", Protection::InstructionsFile),
    ("AGENTS.local.md", Protection::InstructionsFile),
    ("AGENT.md", Protection::InstructionsFile),
    // Agents: servers, hooks, plugins and commands in their settings start programs.
    (".claude", Protection::Settings),
    (".mcp.json", Protection::Settings),
    ("CLAUDE.md", Protection::InstructionsFile),
    ("CLAUDE.local.md", Protection::InstructionsFile),
    (".aider.conf.yml", Protection::Settings),
    (".amazonq", Protection::Settings),
    (".amp", Protection::Settings),
    (".augment", Protection::Settings),
    (".augment-guidelines", Protection::InstructionsFile),
    (".clinerules/hooks", Protection::Settings),
    (".clinerules", Protection::Instructions),
    (".codex", Protection::Settings),
    (".continue", Protection::Settings),
    (".crush", Protection::Settings),
    (".crush.json", Protection::Settings),
    ("crush.json", Protection::Settings),
    ("CRUSH.md", Protection::InstructionsFile),
    (".factory", Protection::Settings),
    (".gemini", Protection::Settings),
    ("GEMINI.md", Protection::InstructionsFile),
    (".github/hooks", Protection::Settings),
    (".github/skills", Protection::Settings),
    (".github/agents", Protection::Instructions),
    (".github/chatmodes", Protection::Instructions),
    (".github/instructions", Protection::Instructions),
    (".github/prompts", Protection::Instructions),
    ("copilot-instructions.md", Protection::InstructionsFile),
    (".goose", Protection::Settings),
    (".goosehints*", Protection::InstructionsFile),
    (".kilocode", Protection::Settings),
    (".kilocodemodes", Protection::InstructionsFile),
    (".kiro", Protection::Settings),
    (".opencode", Protection::Settings),
    ("opencode.json", Protection::Settings),
    ("opencode.jsonc", Protection::Settings),
    (".openhands", Protection::Settings),
    (".qwen", Protection::Settings),
    ("QWEN.md", Protection::InstructionsFile),
    (".roo", Protection::Settings),
    (".roomodes", Protection::InstructionsFile),
    (".roorules*", Protection::InstructionsFile),
    ("WARP.md", Protection::InstructionsFile),
    // Editors with agents: tasks, language servers and debuggers in their settings start programs.
    (".cursor", Protection::Settings),
    (".cursorrules", Protection::InstructionsFile),
    (".devcontainer", Protection::Settings),
    (".devcontainer.json", Protection::Settings),
    (".fleet", Protection::Settings),
    (".helix", Protection::Settings),
    (".idea", Protection::Settings),
    (".idx", Protection::Settings),
    (".aiassistant", Protection::Instructions),
    (".junie/mcp", Protection::Settings),
    (".junie", Protection::Instructions),
    (".trae", Protection::Settings),
    (".vscode", Protection::Settings),
    ("*.code-workspace", Protection::Settings),
    (".windsurf", Protection::Settings),
    (".windsurfrules", Protection::InstructionsFile),
    (".zed", Protection::Settings),
    (".rules", Protection::InstructionsFile),
    // The shell and git run these by themselves, or fetch the URLs in them.
    (".envrc", Protection::Settings),
    (".gitmodules", Protection::Settings),
    (".husky", Protection::Settings),
];

/// Names by which git recognises a repository, or that make git run commands in it.
const GIT_PARTS: &[&str] = &["HEAD", "objects", "refs", "commondir", "config", "config.worktree", "hooks"];

/// Returns the names that skills may not change, as patterns: `*` stands for any further characters.
pub fn protected_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(pattern, _)| *pattern)
}

/// Returns why a path with the segment `name` may not be read; `None` if it may.
pub(crate) fn read_refusal(name: &str) -> Option<&'static str> {
    if is_git(name) {
        Some(GIT)
    } else if is_temporary_name(name) {
        Some(TEMPORARY)
    } else {
        None
    }
}

/// Checks that `path` may be written and deleted. `instructions` is true if files with
/// instructions for agents are allowed.
pub(crate) fn check_writing(path: RelPath<'_>, instructions: bool) -> Result<(), FileError> {
    if let Some(why) = path.parts().find_map(read_refusal) {
        return Err(FileError::Protected { path: path.shown(), why });
    }
    let parts: Vec<Cow<'_, str>> = path.parts().map(comparable).collect();
    let mut has_instructions = false;
    for (pattern, protection) in NAMES {
        let is_there = match protection {
            Protection::Settings | Protection::Instructions => contains(&parts, pattern),
            Protection::InstructionsFile => parts.last().is_some_and(|name| is_name(name, pattern)),
        };
        match protection {
            Protection::Settings if is_there => {
                return Err(FileError::Protected { path: path.shown(), why: SETTINGS });
            }
            _ => has_instructions |= is_there,
        }
    }
    if has_instructions && !instructions {
        return Err(FileError::Instructions { path: path.shown() });
    }
    Ok(())
}

/// Returns true if the names of `pattern` follow each other in `parts`.
fn contains(parts: &[Cow<'_, str>], pattern: &str) -> bool {
    let names: Vec<&str> = pattern.split('/').collect();
    parts.windows(names.len()).any(|parts| parts.iter().zip(&names).all(|(part, name)| is_name(part, name)))
}

/// Returns true if `name`, in the form that [`comparable`] returns, may match `pattern` on some file system.
fn is_name(name: &str, pattern: &str) -> bool {
    let bytes = name.as_bytes();
    if let Some(end) = pattern.strip_prefix('*') {
        return bytes.len() > end.len() && bytes[bytes.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes());
    }
    let start = pattern.strip_suffix('*');
    if let Some(start) = start.filter(|start| bytes.len() >= start.len()) {
        return bytes[..start.len()].eq_ignore_ascii_case(start.as_bytes());
    }
    name.eq_ignore_ascii_case(pattern) || name.contains('~') && name.eq_ignore_ascii_case(&short_name(pattern))
}

/// Returns the first short name (8.3) that NTFS creates for a longer name.
fn short_name(name: &str) -> String {
    let (base, extension) = name.trim_start_matches('.').rsplit_once('.').unwrap_or((name.trim_start_matches('.'), ""));
    let start: String = base.chars().filter(|c| !matches!(c, '.' | ' ')).take(6).collect();
    let extension: String = extension.chars().take(3).collect();
    if extension.is_empty() { format!("{start}~1") } else { format!("{start}~1.{extension}") }
}

/// Returns true if `name` is the name of a component.
pub(crate) fn is_component(name: &str) -> bool {
    is_name(&comparable(name), "*.wasm")
}

/// Returns true if both names may be the same file on some file system.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    comparable(one).eq_ignore_ascii_case(&comparable(other))
}

/// Returns true if `name` has a meaning for git in the root of a repository.
pub(crate) fn is_git_part(name: &str) -> bool {
    let name = comparable(name);
    GIT_PARTS.iter().any(|part| name.eq_ignore_ascii_case(part))
}

/// Checks that writing `name` neither turns `dir` into a bare git repository nor changes one. git treats any folder with
/// `HEAD`, `objects` and `refs`, or with `HEAD` and `commondir`, as a repository, and uses its `config` and `hooks`.
pub(crate) fn check_git_part(dir: &Dir, name: &str, path: RelPath<'_>) -> Result<(), FileError> {
    if !is_git_part(name) {
        return Ok(());
    }
    let has = |part: &str| is_same_name(name, part) || dir.symlink_metadata(part).is_ok();
    if has("HEAD") && (has("commondir") || (has("objects") && has("refs"))) {
        return Err(FileError::Protected { path: path.shown(), why: BARE });
    }
    Ok(())
}

/// Returns true if `name` refers to `.git` on the file system of any platform.
pub(crate) fn is_git(name: &str) -> bool {
    is_name(&comparable(name), ".git")
}

/// Returns a form of `name` that can be compared, ignoring the case of ASCII letters. Removes characters that HFS+
/// ignores, and trailing dots and spaces and a suffix after a colon as NTFS does. Folds other letters as file systems
/// do that ignore case or normal forms (APFS, ext4, NTFS). Some file systems do less, so this may protect a name
/// needlessly.
fn comparable(name: &str) -> Cow<'_, str> {
    let is_clean = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let clean: Cow<'_, str> = if is_clean { name.into() } else { clean(name).into() };
    let end = clean.find(':').unwrap_or(clean.len());
    let length = clean[..end].trim_end_matches(['.', ' ']).len();
    match clean {
        clean if !clean[..length].is_ascii() => caseless(&clean[..length]).into_owned().into(),
        Cow::Borrowed(clean) => clean[..length].into(),
        Cow::Owned(mut clean) => {
            clean.truncate(length);
            clean.into()
        }
    }
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
            ".claude:stream",
            "CLAUDE~1/settings.json",
            ".vscode/tasks.json",
            ".V\u{17f}code/tasks.json",
            ".zed\u{200d}/settings.json",
            "a/.mcp.json.",
            "MCP~1.JSO",
            ".hu\u{17f}\u{212a}y/pre-commit",
            "x.code-workspace",
            "sub/X.Code-Workspace ",
            ".junie/mcp/mcp.json",
            ".GitHub/Hooks/x.json",
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
            "vscode/tasks.json",
            ".vscode-test/x",
            "mcp.json",
            "hooks/x.json",
            ".github/dependabot.yml",
            "github/hooks/x",
            "x/.github/y/hooks",
            ".code-workspace",
            ".env",
            "Makefile",
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
            "CLAUDE.LOCAL.md",
            "CLAUDE~1.MD",
            "agent\u{17f}.override.md",
            ".clinerules",
            "sub/.ClineRules/x.md",
            ".roorules-code",
            ".goosehints.local",
            ".GITHUB/prompts/a/x.prompt.md",
            ".junie/guidelines.md",
            ".rules",
        ] {
            assert!(matches!(writing(path), Err(FileError::Instructions { .. })), "{path}");
            assert!(check_writing(RelPath::parse(path).unwrap(), true).is_ok(), "{path}");
        }
        for path in
            ["AGENTS.md/x", "AGENTS.md.bak", "MY-AGENTS.md", "agents", "CLAUDE.txt", "prompts/x", ".github/x/prompts"]
        {
            assert!(writing(path).is_ok(), "{path}");
        }
        let skill = RelPath::parse(".claude/CLAUDE.md").unwrap();
        assert!(matches!(check_writing(skill, true), Err(FileError::Protected { .. })));
    }

    /// Each name at the top, in a folder and in upper case, and a path below it.
    #[test]
    fn names_of_other_programs_are_protected() {
        for (pattern, protection) in NAMES {
            let name = pattern.replace('*', "x");
            let denied = |path: &str, instructions| check_writing(RelPath::parse(path).unwrap(), instructions);
            for path in [name.clone(), format!("sub/{name}"), name.to_uppercase(), format!("{name}/x")] {
                match protection {
                    Protection::Settings => {
                        assert!(matches!(denied(&path, true), Err(FileError::Protected { .. })), "{path}");
                    }
                    Protection::InstructionsFile if path.ends_with("/x") => assert!(writing(&path).is_ok(), "{path}"),
                    _ => {
                        assert!(matches!(denied(&path, false), Err(FileError::Instructions { .. })), "{path}");
                        assert!(denied(&path, true).is_ok(), "{path}");
                    }
                }
            }
            assert!(read_refusal(&name).is_none(), "{name}");
        }
    }

    #[test]
    fn each_name_is_documented() {
        let page = include_str!("../../../docs/operating.md");
        for (name, _) in NAMES {
            assert!(page.contains(name), "{name} is not in docs/operating.md");
        }
    }

    #[test]
    fn short_names_are_those_of_ntfs() {
        for (name, short) in [
            (".git", "git~1"),
            (".patchbay", "patchb~1"),
            (".mcp.json", "mcp~1.jso"),
            ("copilot-instructions.md", "copilo~1.md"),
            ("AGENTS.override.md", "AGENTS~1.md"),
            ("opencode.jsonc", "openco~1.jso"),
        ] {
            assert_eq!(short_name(name), short);
        }
    }

    /// Lists every character that some file system may treat as ASCII characters.
    #[test]
    fn letters_are_compared_without_case_and_normal_form() {
        let folded = ('\u{80}'..=char::MAX).filter(|c| comparable(c.encode_utf8(&mut [0; 4])).is_ascii());
        let folded: String = folded.filter(|c| !clean(&c.to_string()).is_empty()).collect();
        assert_eq!(folded, "ßı\u{17f}\u{37e}ẞ\u{1fef}\u{212a}\u{fb00}\u{fb01}\u{fb02}\u{fb03}\u{fb04}\u{fb05}\u{fb06}");
        assert!(is_same_name("SKILL.md", "s\u{212a}ill.MD. "));
        assert!(is_git(".g\u{131}t"));
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

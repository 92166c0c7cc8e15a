//! The paths that a call of `terminal__run` names. They are resolved once, for the question, and the program gets exactly the paths
//! that the question shows.

use std::path::{Component, Path, PathBuf};

use patchbay_cage::{FolderRefusal, Support};
use patchbay_core::text;
use patchbay_session::{CallTerms, TerminalCommand};

use super::Programs;

impl Programs {
    /// Resolves the additional paths that `command` names, and adds them to `terms`.
    ///
    /// # Errors
    /// The reason why a path is refused.
    pub(super) fn give(&self, command: &TerminalCommand, terms: &mut CallTerms) -> Result<(), String> {
        if !command.read.is_empty() || !command.write.is_empty() {
            let temp = self.temp().map_err(|error| format!("cannot create a folder for temporary files: {error}"))?;
            let (folders, base) = (&self.options.folders, Some(self.workspace.as_path()));
            let changeable = folders.fence(Support::default(), &self.workspace, &temp).write;
            let given = |written: &String, path: Result<PathBuf, FolderRefusal>| {
                let path = path.map_err(|refusal| refusal.to_string())?;
                let reason = why_not_given(&self.as_written(written), &path, &changeable);
                let folder = || text::excerpt(written, 200);
                match reason {
                    Some(reason) => Err(FolderRefusal { folder: folder(), reason: reason.to_owned() }.to_string()),
                    None => Ok(path),
                }
            };
            let read = command.read.iter().map(|written| given(written, folders.readable(written, base)));
            terms.read = read.collect::<Result<_, _>>()?;
            let write = command.write.iter().map(|written| given(written, folders.writable(written, base)));
            terms.write = write.collect::<Result<_, _>>()?;
        }
        folder(&self.workspace, command.cwd.as_deref()).map(drop)
    }

    fn as_written(&self, written: &str) -> PathBuf {
        match (written.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.workspace.join(written),
        }
    }
}

/// Returns why a call may not name the path `written`, which leads to `resolved`. Programs can change everything in `changeable`,
/// so a link there could lead to another place by the time the program runs.
fn why_not_given(written: &Path, resolved: &Path, changeable: &[PathBuf]) -> Option<&'static str> {
    if written.components().any(|part| part == Component::ParentDir) {
        return Some("write it without '..'");
    }
    if !resolved.canonicalize().is_ok_and(|again| again == resolved) {
        return Some("it does not exist");
    }
    let lies_in = |path: &Path| changeable.iter().any(|folder| path.starts_with(folder));
    let passes = |path: &Path| path.canonicalize().is_ok_and(|path| lies_in(&path));
    let is_changeable = lies_in(written) || lies_in(resolved) || written.ancestors().any(passes);
    is_changeable.then_some("programs can already change it; leave it out")
}

/// Returns the folder that a program runs in: `written`, below `workspace`.
///
/// # Errors
/// If `written` is not a folder, or is outside of `workspace`.
pub(super) fn folder(workspace: &Path, written: Option<&str>) -> Result<PathBuf, String> {
    let folder = workspace.join(written.unwrap_or_default()).canonicalize().ok();
    let folder = folder.filter(|folder| folder.is_dir() && folder.starts_with(workspace));
    folder
        .ok_or_else(|| format!("'{}' is not a folder below the workspace", text::excerpt(written.unwrap_or("."), 200)))
}

/// Returns the targets below `workspace` of all links in `paths`. The workspace itself is never protected.
pub(super) fn linked(workspace: &Path, paths: &[PathBuf]) -> Vec<PathBuf> {
    let links = paths.iter().filter(|path| path.is_symlink());
    links
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.starts_with(workspace) && path != workspace)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn path_that_programs_can_change_is_not_given() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (workspace, outside) = (root.join("workspace"), root.join("outside"));
        fs::create_dir_all(workspace.join("sub")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        symlink(&outside, workspace.join("link")).unwrap();
        symlink(workspace.join("sub"), outside.join("back")).unwrap();
        let why = |written: PathBuf| {
            let resolved = written.canonicalize().unwrap_or_else(|_| written.clone());
            why_not_given(&written, &resolved, std::slice::from_ref(&workspace))
        };
        assert_eq!(why(outside.clone()), None);
        assert_eq!(why(outside.join("../outside")), Some("write it without '..'"));
        assert_eq!(why(outside.join("later")), Some("it does not exist"));
        let changeable = Some("programs can already change it; leave it out");
        for path in [workspace.join("sub"), workspace.join("link"), outside.join("back")] {
            assert_eq!(why(path.clone()), changeable, "{}", path.display());
        }
        assert_eq!(super::folder(&workspace, Some("sub")), Ok(workspace.join("sub")));
        assert_eq!(super::folder(&workspace, None), Ok(workspace.clone()));
        for elsewhere in ["..", "link", "/", "missing"] {
            assert!(super::folder(&workspace, Some(elsewhere)).is_err(), "{elsewhere}");
        }
        fs::write(workspace.join("sub/A.md"), "").unwrap();
        symlink("sub/A.md", workspace.join("AGENTS.md")).unwrap();
        let linked = linked(&workspace, &[workspace.join("AGENTS.md"), workspace.join("link"), workspace.join("sub")]);
        assert_eq!(linked, [workspace.join("sub/A.md")]);
    }
}

//! The folders in which clients may work: `[serve] workspaces`, by name or by path.

use std::path::{Path, PathBuf};

/// Returns whether `workspace`, the canonical path of a session's folder, is one of `folders` or below one.
pub(crate) fn is_in(folders: &[PathBuf], workspace: &str) -> bool {
    folders.iter().any(|folder| Path::new(workspace).starts_with(folder))
}

/// Returns the names of the folders, with their paths. A name that two folders share is left out.
pub(crate) fn names(folders: &[PathBuf]) -> impl Iterator<Item = (&str, &Path)> {
    folders.iter().filter_map(move |folder| {
        let name = folder.file_name()?.to_str()?;
        let is_only = folders.iter().filter(|other| other.file_name() == folder.file_name()).count() == 1;
        is_only.then_some((name, folder.as_path()))
    })
}

/// Returns the canonical path that a client names, by the name of a folder or by a path. `None` if it is not a
/// folder, or is outside of `folders` after links are resolved.
pub(crate) fn find(folders: &[PathBuf], named: &str) -> Option<String> {
    let path = match names(folders).find(|(name, _)| *name == named) {
        Some((_, folder)) => folder.to_owned(),
        None if named.starts_with('/') => Path::new(named).canonicalize().ok()?,
        None => return None,
    };
    let path = path.into_os_string().into_string().ok()?;
    (is_in(folders, &path) && Path::new(&path).is_dir()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_by_name_and_by_path_but_not_outside() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        for folder in ["app/src", "a/twice", "b/twice", "other"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("app/file"), "").unwrap();
        std::os::unix::fs::symlink(root.join("other"), root.join("app/link")).unwrap();
        let folders = ["app", "a/twice", "b/twice"].map(|folder| root.join(folder));
        let at = |path: &str| root.join(path).to_str().unwrap().to_owned();
        assert_eq!(find(&folders, "app"), Some(at("app")));
        assert_eq!(find(&folders, &at("app/src")), Some(at("app/src")));
        assert_eq!(find(&folders, &at("a/twice")), Some(at("a/twice")));
        for outside in
            ["twice", "src", "other", "", "/", &at("other"), &at("app/link"), &at("app/../other"), &at("app/file")]
        {
            assert_eq!(find(&folders, outside), None, "{outside}");
        }
        assert!(!is_in(&folders, &at("apple")));
    }
}

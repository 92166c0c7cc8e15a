//! Links a skill under development into the user's skills folder, and removes skills from there, for `patchbay plugin add --link`
//! and `remove`. Copied plugins are packages instead.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::Name;
use patchbay_skill::LinkedFolder;

use crate::{LocatedPlugin, PluginForm};

/// Why a skill was not linked or removed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder that the operation failed on.
        path: PathBuf,
        /// The error reported by the operating system.
        source: io::Error,
    },
    /// The plugin is in the skills folder, so a link to it would lead to itself.
    #[error("{} is already in the skills folder", .0.display())]
    InSkills(PathBuf),
    /// Only a folder can be linked.
    #[error("it is not a skill's folder")]
    NoFolder,
    /// The skills folder already has a skill of this name.
    #[error("skill '{name}' already exists: {}", path.display())]
    Exists {
        /// The name of the skill that is already installed.
        name: Name,
        /// The skill's folder, or its single file.
        path: PathBuf,
    },
}

impl InstallError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// A skill that was linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPlugin {
    /// The link in the skills folder.
    pub path: PathBuf,
    /// Whether the link replaced another skill.
    pub replaced: bool,
}

/// Links the skill's folder, including any files that are added to it later. An existing skill of this name is deleted if `replace`
/// is set.
///
/// # Errors
/// Every failure is reported as [`InstallError`].
pub fn link(plugin: &LocatedPlugin, skills: &Path, replace: bool) -> Result<InstalledPlugin, InstallError> {
    let PluginForm::Folder(folder, _) = &plugin.form else { return Err(InstallError::NoFolder) };
    let name = &plugin.name;
    fs::create_dir_all(skills).map_err(InstallError::io(skills))?;
    if skills.canonicalize().is_ok_and(|skills| folder.starts_with(skills)) {
        return Err(InstallError::InSkills(folder.clone()));
    }
    let there = existing(skills, name);
    if let Some(path) = there.first().filter(|_| !replace) {
        return Err(InstallError::Exists { name: name.clone(), path: path.clone() });
    }
    let staging = tempfile::Builder::new().prefix(".adding-").tempdir_in(skills).map_err(InstallError::io(skills))?;
    let (new, path) = (staging.path().join(name.as_str()), skills.join(name.as_str()));
    LinkedFolder::prepare(folder, name, &new).map_err(InstallError::io(folder))?;
    // Moved files are deleted along with the staging folder.
    let old = staging.path().join("old");
    fs::create_dir(&old).map_err(InstallError::io(&old))?;
    let mut moved = Vec::new();
    let put_back = |moved: &[(PathBuf, PathBuf)]| moved.iter().for_each(|(from, to)| drop(fs::rename(to, from)));
    for from in &there {
        let to = old.join(from.file_name().unwrap_or_default());
        if let Err(error) = fs::rename(from, &to) {
            put_back(&moved);
            return Err(InstallError::io(from)(error));
        }
        moved.push((from.clone(), to));
    }
    let placed = fs::rename(&new, &path)
        .and_then(|()| LinkedFolder::place(&new, skills, name).inspect_err(|_| drop(fs::rename(&path, &new))));
    if let Err(error) = placed {
        put_back(&moved);
        return Err(InstallError::io(&path)(error));
    }
    Ok(InstalledPlugin { path, replaced: !there.is_empty() })
}

/// Removes the skill `name` from the skills folder `skills`: its folder, its file, or its link. Returns the removed paths; empty if
/// the skill does not exist.
///
/// # Errors
/// Fails with [`InstallError::Io`] only.
pub fn uninstall(skills: &Path, name: &Name) -> Result<Vec<PathBuf>, InstallError> {
    let there = existing(skills, name);
    if there.is_empty() {
        return Ok(there);
    }
    let staging = tempfile::Builder::new().prefix(".removing-").tempdir_in(skills).map_err(InstallError::io(skills))?;
    for path in &there {
        let to = staging.path().join(path.file_name().unwrap_or_default());
        fs::rename(path, to).map_err(InstallError::io(path))?;
    }
    LinkedFolder::forget(skills, name);
    staging.close().map_err(InstallError::io(skills))?;
    Ok(there)
}

/// Returns the paths that claim the name in a skills folder: `NAME`, `NAME.wasm`, or both.
fn existing(skills: &Path, name: &Name) -> Vec<PathBuf> {
    let paths = [skills.join(name.as_str()), skills.join(format!("{name}.wasm"))];
    paths.into_iter().filter(|path| path.symlink_metadata().is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    struct Home(TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            home.write("greet/SKILL.md", "---\nname: greet\n---\n");
            home.write("greet/src/lib.rs", "source");
            home
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, contents: &str) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), contents).unwrap();
        }

        fn plugin(&self, folder: &str) -> LocatedPlugin {
            let form = PluginForm::Folder(self.path(folder).canonicalize().unwrap(), None);
            LocatedPlugin { name: "greet".parse().unwrap(), form, newer: None }
        }

        fn linked(&self) -> Option<PathBuf> {
            let folder = LinkedFolder::of(&self.path("skills"), &"greet".parse().unwrap());
            folder.map(|folder| PathBuf::from(folder.path()))
        }

        fn entries(&self, path: &str) -> Vec<String> {
            let entries = fs::read_dir(self.path(path)).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn linked_folder_is_known_until_it_is_removed_or_replaced() {
        let home = Home::new();
        home.write("other/greet/SKILL.md", "---\nname: greet\n---\n");
        let (skills, plugin) = (home.path("skills"), home.plugin("greet"));
        let installed = link(&plugin, &skills, false).unwrap();
        assert_eq!(installed, InstalledPlugin { path: home.path("skills/greet"), replaced: false });
        assert_eq!(home.entries("skills/greet/src"), ["lib.rs"]);
        assert_eq!(home.linked(), Some(home.path("greet").canonicalize().unwrap()));
        assert!(matches!(link(&plugin, &skills, false), Err(InstallError::Exists { .. })));
        assert!(link(&home.plugin("other/greet"), &skills, true).unwrap().replaced);
        assert_eq!(home.linked(), Some(home.path("other/greet").canonicalize().unwrap()));
        uninstall(&skills, &plugin.name).unwrap();
        assert_eq!(
            (home.linked(), home.entries("skills"), home.entries("skills/.linked")),
            (None, vec![".linked".to_owned()], vec![])
        );
        assert_eq!(home.entries("greet"), ["SKILL.md", "src"]);

        // Links that a user creates by other means cannot be granted anything.
        symlink(home.path("greet"), home.path("skills/greet")).unwrap();
        assert_eq!(home.linked(), None);
    }

    #[test]
    fn skill_in_one_file_is_replaced_by_a_link() {
        let home = Home::new();
        home.write("skills/greet.wasm", "component");
        let skills = home.path("skills");
        assert!(matches!(link(&home.plugin("greet"), &skills, false), Err(InstallError::Exists { .. })));
        assert!(link(&home.plugin("greet"), &skills, true).unwrap().replaced);
        assert_eq!(home.entries("skills"), [".linked", "greet"]);
    }

    #[test]
    fn skill_of_before_comes_back_if_the_link_cannot_be_placed() {
        let home = Home::new();
        home.write("skills/greet/SKILL.md", "mine");
        home.write("skills/.linked/greet/in-the-way", "");
        link(&home.plugin("greet"), &home.path("skills"), true).unwrap_err();
        assert_eq!(
            (home.entries("skills"), home.entries("skills/greet")),
            (vec![".linked".into(), "greet".into()], vec!["SKILL.md".into()])
        );
    }

    #[test]
    fn skill_in_the_folder_of_skills_is_not_linked_to_itself() {
        let home = Home::new();
        home.write("skills/greet/SKILL.md", "---\nname: greet\n---\n");
        let refused = link(&home.plugin("skills/greet"), &home.path("skills"), true);
        assert!(matches!(refused, Err(InstallError::InSkills(_))));
        assert_eq!(home.entries("skills/greet"), ["SKILL.md"]);
    }

    #[test]
    fn link_is_removed_and_not_its_target() {
        let home = Home::new();
        fs::create_dir(home.path("skills")).unwrap();
        symlink(home.path("greet"), home.path("skills/greet")).unwrap();
        let name = "greet".parse().unwrap();
        assert_eq!(uninstall(&home.path("skills"), &name).unwrap(), [home.path("skills/greet")]);
        assert_eq!(home.entries("skills"), [""; 0]);
        assert_eq!(home.entries("greet/src"), ["lib.rs"]);
        assert_eq!(uninstall(&home.path("skills"), &name).unwrap(), [""; 0].map(PathBuf::from));
    }
}

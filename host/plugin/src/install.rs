//! Copies a skill into a folder of skills, and removes it. `patchbay plugin add` and `remove` use it.
//!
//! The copy is made beside the skills, under a hidden name that loading ignores. It is inspected there and then renamed, so a session
//! sees either the old skill or the complete new one, and installs exactly the inspected bytes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::Name;
use patchbay_skill::{LinkedFolder, Problem, files_to_copy};
use tempfile::TempDir;

use crate::{LocatedPlugin, PluginForm};

/// Why a skill was not copied or installed. Nothing has changed then.
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
    /// A file of the skill's folder cannot be part of a skill.
    #[error("{}: [{}] {}", path.display(), problem.code, problem.message)]
    Files {
        /// The folder of the skill to install.
        path: PathBuf,
        /// The problem, with its code and message.
        problem: Problem,
    },
    /// Copying or linking it would remove it, or lead to itself.
    #[error("{} is in the folder of skills already", .0.display())]
    InSkills(PathBuf),
    /// Only a folder can be linked.
    #[error("it is not a skill's folder")]
    NoFolder,
    /// The plugin is not a skill with a SKILL.md.
    #[error("it is not a skill with a SKILL.md")]
    NoSkill,
    /// The folder of skills has a skill of this name.
    #[error("there is a skill '{name}' already: {}", path.display())]
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

/// A copy of a skill in a hidden folder beside the skills. Dropping it deletes the copy.
#[derive(Debug)]
pub struct StagedSkill {
    staging: TempDir,
    skills: PathBuf,
    name: Name,
    /// The name of its folder or file: `NAME` or `NAME.wasm`.
    entry: String,
}

/// A skill that was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPlugin {
    /// The skill's folder, or its single file.
    pub path: PathBuf,
    /// Whether it took the place of another skill.
    pub replaced: bool,
}

/// Copies a skill to a hidden folder in `skills`, which is created if it does not exist.
///
/// # Errors
/// Every failure is reported as [`InstallError`].
pub fn stage(plugin: &LocatedPlugin, skills: &Path) -> Result<StagedSkill, InstallError> {
    fs::create_dir_all(skills).map_err(InstallError::io(skills))?;
    let staging = tempfile::Builder::new().prefix(".adding-").tempdir_in(skills).map_err(InstallError::io(skills))?;
    let copy = |from: &Path, to: &Path| fs::copy(from, to).map(drop).map_err(InstallError::io(from));
    let name = plugin.name.clone();
    let entry = match &plugin.form {
        PluginForm::File(component) => {
            let entry = format!("{name}.wasm");
            copy(component, &staging.path().join(&entry))?;
            entry
        }
        PluginForm::Folder(folder, component) => {
            let to = staging.path().join(name.as_str());
            let files = files_to_copy(folder).map_err(InstallError::io(folder))?;
            let files = files.map_err(|problem| InstallError::Files { path: folder.clone(), problem })?;
            for (path, contents) in files {
                let file = to.join(path);
                let parent = file.parent().unwrap_or(&to);
                fs::create_dir_all(parent).map_err(InstallError::io(parent))?;
                fs::write(&file, contents).map_err(InstallError::io(&file))?;
            }
            if let Some(component) = component {
                copy(component, &to.join(format!("{name}.wasm")))?;
            }
            name.to_string()
        }
        PluginForm::Bare(_) | PluginForm::Adapter(_) => return Err(InstallError::NoSkill),
    };
    Ok(StagedSkill { staging, skills: skills.to_owned(), name, entry })
}

/// Prepares a link to the skill's folder, which stands for any files that the folder will have.
///
/// # Errors
/// Every failure is reported as [`InstallError`].
pub fn stage_link(plugin: &LocatedPlugin, skills: &Path, replace: bool) -> Result<StagedSkill, InstallError> {
    let PluginForm::Folder(folder, _) = &plugin.form else { return Err(InstallError::NoFolder) };
    let name = plugin.name.clone();
    fs::create_dir_all(skills).map_err(InstallError::io(skills))?;
    if skills.canonicalize().is_ok_and(|skills| folder.starts_with(skills)) {
        return Err(InstallError::InSkills(folder.clone()));
    }
    if let Some(path) = existing(skills, &name).into_iter().next().filter(|_| !replace) {
        return Err(InstallError::Exists { name, path });
    }
    let staging = tempfile::Builder::new().prefix(".adding-").tempdir_in(skills).map_err(InstallError::io(skills))?;
    let entry = name.to_string();
    let at = staging.path().join(&entry);
    LinkedFolder::prepare(folder, &name, &at).map_err(InstallError::io(folder))?;
    Ok(StagedSkill { staging, skills: skills.to_owned(), name, entry })
}

impl StagedSkill {
    /// Returns the path of the copy, which has the name of the skill.
    pub fn path(&self) -> PathBuf {
        self.staging.path().join(&self.entry)
    }

    /// Moves the copy to its place. A skill of this name is deleted if `replace` is set.
    ///
    /// # Errors
    /// [`InstallError::Exists`], [`InstallError::Io`]. The skill of before is there then.
    pub fn install(self, replace: bool) -> Result<InstalledPlugin, InstallError> {
        let path = self.skills.join(&self.entry);
        let there = existing(&self.skills, &self.name);
        if let Some(path) = there.first().filter(|_| !replace) {
            return Err(InstallError::Exists { name: self.name, path: path.clone() });
        }
        // Moved files are deleted along with the staging folder.
        let old = self.staging.path().join("old");
        fs::create_dir(&old).map_err(InstallError::io(&old))?;
        let mut moved = Vec::new();
        let put_back = |moved: &[(PathBuf, PathBuf)]| moved.iter().for_each(|(from, to)| drop(fs::rename(to, from)));
        for from in &there {
            // A file is replaced by the rename below, without a moment at which there is none.
            if *from == path && path.is_file() && self.path().is_file() {
                continue;
            }
            let to = old.join(from.file_name().unwrap_or_default());
            if let Err(error) = fs::rename(from, &to) {
                put_back(&moved);
                return Err(InstallError::io(from)(error));
            }
            moved.push((from.clone(), to));
        }
        let is_link = self.path().is_symlink();
        let placed = fs::rename(self.path(), &path).and_then(|()| match is_link {
            true => LinkedFolder::place(&self.path(), &self.skills, &self.name)
                .inspect_err(|_| drop(fs::rename(&path, self.path()))),
            false => Ok(()),
        });
        if let Err(error) = placed {
            put_back(&moved);
            return Err(InstallError::io(&path)(error));
        }
        if !is_link {
            LinkedFolder::forget(&self.skills, &self.name);
        }
        Ok(InstalledPlugin { path, replaced: !there.is_empty() })
    }
}

/// Removes the skill `name` from the folder of skills `skills`: its folder, its file, or the link in its place. Returns
/// the removed paths; empty if the skill does not exist.
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

/// Returns the paths that claim the name in a folder of skills: `NAME`, `NAME.wasm`, or both.
fn existing(skills: &Path, name: &Name) -> Vec<PathBuf> {
    let paths = [skills.join(name.as_str()), skills.join(format!("{name}.wasm"))];
    paths.into_iter().filter(|path| path.symlink_metadata().is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Home(TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            for (path, contents) in [
                ("greet/SKILL.md", "---\nname: greet\n---\n"),
                ("greet/out.wasm", "component"),
                ("greet/src/lib.rs", "source"),
                ("greet/references/a.md", "a"),
                ("greet/.git/config", "hidden"),
            ] {
                home.write(path, contents);
            }
            home
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, contents: &str) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), contents).unwrap();
        }

        fn stage(&self, form: PluginForm) -> StagedSkill {
            let name = "greet".parse().unwrap();
            stage(&LocatedPlugin { name, form, newer: None }, &self.path("skills")).unwrap()
        }

        fn folder(&self) -> PluginForm {
            PluginForm::Folder(self.path("greet"), Some(self.path("greet/out.wasm")))
        }

        fn entries(&self, path: &str) -> Vec<String> {
            let entries = fs::read_dir(self.path(path)).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn folder_is_copied_without_sources() {
        let home = Home::new();
        let installed = home.stage(home.folder()).install(false).unwrap();
        assert_eq!(installed, InstalledPlugin { path: home.path("skills/greet"), replaced: false });
        assert_eq!(home.entries("skills"), ["greet"]);
        assert_eq!(home.entries("skills/greet"), ["SKILL.md", "greet.wasm", "references"]);
    }

    #[test]
    fn skill_is_replaced_only_on_request_and_in_either_form() {
        let home = Home::new();
        home.stage(home.folder()).install(false).unwrap();
        let file = PluginForm::File(home.path("greet/out.wasm"));
        let refused = home.stage(file.clone()).install(false).unwrap_err();
        assert!(
            matches!(&refused, InstallError::Exists { path, .. } if *path == home.path("skills/greet")),
            "{refused}"
        );
        assert_eq!(home.entries("skills"), ["greet"]);
        assert!(home.stage(file.clone()).install(true).unwrap().replaced);
        assert_eq!(home.entries("skills"), ["greet.wasm"]);
        assert!(home.stage(file).install(true).unwrap().replaced);
        assert!(home.stage(home.folder()).install(true).unwrap().replaced);
        assert_eq!(home.entries("skills"), ["greet"]);
    }

    #[test]
    fn linked_folder_is_known_until_it_is_removed_or_replaced() {
        let home = Home::new();
        let (skills, name) = (home.path("skills"), "greet".parse().unwrap());
        let plugin = LocatedPlugin { name, form: home.folder(), newer: None };
        let linked = || LinkedFolder::of(&home.path("skills"), &plugin.name).map(|folder| folder.path().to_owned());
        let installed = stage_link(&plugin, &skills, false).unwrap().install(false).unwrap();
        assert_eq!(installed, InstalledPlugin { path: home.path("skills/greet"), replaced: false });
        assert_eq!(home.entries("skills/greet/src"), ["lib.rs"]);
        assert_eq!(linked(), home.path("greet").to_str().map(str::to_owned));
        assert!(matches!(stage_link(&plugin, &skills, false), Err(InstallError::Exists { .. })));
        assert!(stage_link(&plugin, &skills, true).unwrap().install(true).unwrap().replaced);
        assert!(linked().is_some());
        uninstall(&skills, &plugin.name).unwrap();
        assert_eq!(
            (linked(), home.entries("skills"), home.entries("skills/.linked")),
            (None, vec![".linked".to_owned()], vec![])
        );

        stage_link(&plugin, &skills, false).unwrap().install(false).unwrap();
        home.stage(home.folder()).install(true).unwrap();
        assert_eq!((linked(), home.entries("skills/.linked")), (None, vec![]));
        assert_eq!(home.entries("greet"), [".git", "SKILL.md", "out.wasm", "references", "src"]);

        // Links that a user creates otherwise cannot be granted anything.
        fs::remove_dir_all(home.path("skills/greet")).unwrap();
        symlink(home.path("greet"), home.path("skills/greet")).unwrap();
        assert_eq!(linked(), None);
    }

    #[test]
    fn link_of_before_stays_until_the_new_one_is_installed() {
        let home = Home::new();
        home.write("other/greet/SKILL.md", "---\nname: greet\n---\n");
        let skills = home.path("skills");
        let plugin = |folder| LocatedPlugin {
            name: "greet".parse().unwrap(),
            form: PluginForm::Folder(home.path(folder), None),
            newer: None,
        };
        let linked = || LinkedFolder::of(&skills, &"greet".parse().unwrap()).map(|folder| folder.path().to_owned());
        let path = |folder| home.path(folder).to_str().map(str::to_owned);
        stage_link(&plugin("greet"), &skills, false).unwrap().install(false).unwrap();
        drop(stage_link(&plugin("other/greet"), &skills, true).unwrap());
        assert_eq!(linked(), path("greet"));
        stage_link(&plugin("other/greet"), &skills, true).unwrap().install(true).unwrap();
        assert_eq!((linked(), home.entries("skills")), (path("other/greet"), vec![".linked".into(), "greet".into()]));

        // A folder in the place of its link cannot be replaced; the skill of before comes back.
        uninstall(&skills, &plugin("greet").name).unwrap();
        home.stage(home.folder()).install(false).unwrap();
        fs::create_dir_all(home.path("skills/.linked/greet")).unwrap();
        stage_link(&plugin("other/greet"), &skills, true).unwrap().install(true).unwrap_err();
        assert_eq!(home.entries("skills/greet"), ["SKILL.md", "greet.wasm", "references"]);
        assert_eq!(home.entries("skills"), [".linked", "greet"]);
    }

    #[test]
    fn skill_in_the_folder_of_skills_is_not_linked_to_itself() {
        let home = Home::new();
        home.stage(home.folder()).install(false).unwrap();
        let folder = home.path("skills/greet").canonicalize().unwrap();
        let form = PluginForm::Folder(folder, None);
        let plugin = LocatedPlugin { name: "greet".parse().unwrap(), form, newer: None };
        assert!(matches!(stage_link(&plugin, &home.path("skills"), true), Err(InstallError::InSkills(_))));
        assert_eq!(home.entries("skills/greet"), ["SKILL.md", "greet.wasm", "references"]);
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

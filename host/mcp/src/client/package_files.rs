//! The files of a package that contains a server program. They are checked right before each start, and only then does the program
//! become executable. [`Launch`](super::Launch) refers to them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Digest, PackageName};
use patchbay_skill::agent_plugin::Sums;

/// The installed copy of a package.
#[derive(Clone, PartialEq, Eq)]
pub struct PackageFiles {
    /// The name of the package.
    pub package: PackageName,
    /// The folder of the copy.
    pub root: PathBuf,
    /// The digest of the list of all files in `root`, as recorded in `packages.lock`.
    pub digest: Digest,
    /// The folder in which the servers of the package store data. It is created before a start, and accessible only to this user.
    pub data: PathBuf,
}

impl PackageFiles {
    /// Checks all files, then prepares the start of `program` in `folder`. Reads the whole package, so it must run on a blocking
    /// thread.
    ///
    /// # Errors
    /// A message if a file has changed, or if the start cannot be prepared.
    pub(super) fn prepare(&self, program: &Path, folder: &Path) -> Result<(), String> {
        let package = &self.package;
        let found = Sums::of_copy(&self.root).map(|sums| sums.digest());
        if !found.is_ok_and(|digest| digest == self.digest) {
            return Err(format!(
                "the files of package '{package}' do not match packages.lock ('patchbay plugin verify {package}' lists them)"
            ));
        }
        let failed = |error: io::Error| format!("package '{package}' cannot be prepared: {error}");
        create_private(&self.data).map_err(failed)?;
        if folder.starts_with(&self.data) {
            create_private(folder).map_err(failed)?;
        }
        if program.starts_with(&self.root) { make_executable(program).map_err(failed) } else { Ok(()) }
    }
}

#[cfg(unix)]
fn create_private(folder: &Path) -> io::Result<()> {
    std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).recursive(true).create(folder)
}

#[cfg(not(unix))]
fn create_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(unix)]
fn make_executable(program: &Path) -> io::Result<()> {
    fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o555))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn program_becomes_executable_only_if_no_file_has_changed() {
        let home = tempfile::tempdir().unwrap();
        let (root, data) = (home.path().join("packages/tools/1"), home.path().join("package-data/tools"));
        fs::create_dir_all(root.join("bin")).unwrap();
        let (program, other) = (root.join("bin/run"), root.join("other"));
        for file in [&program, &other] {
            fs::write(file, "x").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let digest = Sums::of_folder(&root).unwrap().digest();
        let files = PackageFiles { package: "tools".parse().unwrap(), root: root.clone(), digest, data: data.clone() };
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let prepare = |folder: &Path| files.prepare(&program, folder);
        fs::write(&other, "y").unwrap();
        let refused = prepare(&root).unwrap_err();
        assert!(refused.starts_with("the files of package 'tools' do not match packages.lock"), "{refused}");
        assert_eq!((mode(&program), data.exists()), (0o644, false));
        fs::write(&other, "x").unwrap();
        fs::write(root.join("more"), "x").unwrap();
        assert!(prepare(&root).is_err(), "a new file could be loaded in place of another one");
        fs::remove_file(root.join("more")).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join(".git/x"), "x").unwrap();
        assert!(prepare(&root).is_err(), "a copy has no version control");
        fs::remove_dir_all(root.join(".git")).unwrap();
        prepare(&data.join("work")).unwrap();
        assert_eq!([mode(&program), mode(&other), mode(&data), mode(&data.join("work"))], [0o555, 0o644, 0o700, 0o700]);
        // A program that is found through PATH is left unchanged.
        fs::set_permissions(&program, fs::Permissions::from_mode(0o444)).unwrap();
        files.prepare(Path::new("python3"), &root).unwrap();
        assert_eq!(mode(&program), 0o444);
    }
}

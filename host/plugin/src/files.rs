//! The files that `plugin build` puts into a component beside the SKILL.md, and the names of those that it leaves out.

use std::{collections::BTreeSet, fs, io, path::Path};

use patchbay_skill::{files_to_embed, write_archive};

use crate::BuildError;

/// Names in a skill's folder that belong to the sources of its component: those that cargo reads and writes.
const SOURCES: &[&str] = &["Cargo.lock", "Cargo.toml", "benches", "build.rs", "src", "target", "tests"];

/// The files of a skill that are put into its component beside the SKILL.md.
#[derive(Debug, Default)]
pub(crate) struct EmbeddedFiles {
    /// The archive of the files; `None` if there are none.
    pub(crate) archive: Option<Vec<u8>>,
    /// Number of files.
    pub(crate) count: usize,
    /// Bytes of all files.
    pub(crate) bytes: usize,
    /// Names of other files and folders directly in the skill's folder, sorted. The author may expect them in the component.
    pub(crate) left_out: Vec<String>,
}

/// Returns the files of the skill in `folder` that are put into its component.
pub(crate) fn embedded(folder: &Path) -> Result<EmbeddedFiles, BuildError> {
    let problem = |problem| BuildError::Skill { path: folder.to_owned(), problem };
    let files = files_to_embed(folder).map_err(BuildError::io(folder))?.map_err(problem)?;
    let archive = if files.is_empty() { None } else { Some(write_archive(&files).map_err(problem)?) };
    let names = files.keys().filter_map(|path| path.split('/').next()).collect();
    Ok(EmbeddedFiles {
        archive,
        count: files.len(),
        bytes: files.values().map(Vec::len).sum(),
        left_out: left_out(folder, &names).map_err(BuildError::io(folder))?,
    })
}

/// Returns the sorted names of the files and folders in `folder` that are neither `embedded` nor [expected](is_expected).
fn left_out(folder: &Path, embedded: &BTreeSet<&str>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_empty_folder = || fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
        if !embedded.contains(name.as_str()) && !is_expected(&name) && !is_empty_folder() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns whether an author does not expect this name among the embedded files: the SKILL.md, which has a section of its own,
/// components, sources, and names that never belong to a skill.
fn is_expected(name: &str) -> bool {
    name == "SKILL.md"
        || name.ends_with(".wasm")
        || SOURCES.contains(&name)
        || name.starts_with('.')
        || name.ends_with('~')
        || name.ends_with(".pyc")
        || matches!(name, "__pycache__" | "node_modules")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outside_of_the_embedded_folders_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, contents: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        };
        for path in
            ["SKILL.md", "x.wasm", "Cargo.toml", "src/lib.rs", "target/a", ".git/config", "node_modules/a", "b~"]
        {
            write(path, "");
        }
        fs::create_dir(folder.path().join("assets")).unwrap();
        let found = embedded(folder.path()).unwrap();
        assert_eq!((found.archive, found.count, found.bytes, found.left_out), (None, 0, 0, Vec::new()));
        for (path, contents) in [("references/deep/a.md", "12"), ("b.md", "345"), ("data/c.csv", "6"), ("d.txt", "7")] {
            write(path, contents);
        }
        let found = embedded(folder.path()).unwrap();
        assert!(found.archive.is_some());
        assert_eq!((found.count, found.bytes), (2, 5));
        assert_eq!(found.left_out, ["d.txt", "data"]);
    }
}

//! The files that `plugin build` puts into a component beside the SKILL.md, and the names of the
//! sources that it leaves out.

use std::{collections::BTreeSet, fs, io, path::Path};

use patchbay_skill::{Problem, files_to_embed, is_source, write_archive};

use crate::BuildError;

/// The files of a skill that are put into its component beside the SKILL.md.
#[derive(Debug, Default)]
pub(crate) struct EmbeddedFiles {
    /// The archive of the files; `None` if there are none.
    pub(crate) archive: Option<Vec<u8>>,
    pub(crate) count: usize,
    /// Total size of all files, in bytes.
    pub(crate) bytes: usize,
    /// Their top-level names in the skill's folder, sorted; folder names end with `/`.
    pub(crate) names: Vec<String>,
    /// Names of the top-level sources in the skill's folder, which are left out, sorted.
    pub(crate) left_out: Vec<String>,
}

/// Returns the files of the skill in `folder` that are put into its component.
pub(crate) fn embedded(folder: &Path) -> Result<EmbeddedFiles, BuildError> {
    let problem = |problem| BuildError::Skill { path: folder.to_owned(), problem };
    let advised = |Problem { code, message }| {
        problem(Problem::new(code, format!("{message} Move what is not part of the skill out of its folder.")))
    };
    let files = files_to_embed(folder).map_err(BuildError::io(folder))?.map_err(advised)?;
    let archive = if files.is_empty() { None } else { Some(write_archive(&files).map_err(problem)?) };
    let name = |path: &String| path.split_inclusive('/').next().unwrap_or_default().to_owned();
    Ok(EmbeddedFiles {
        archive,
        count: files.len(),
        bytes: files.values().map(Vec::len).sum(),
        names: BTreeSet::from_iter(files.keys().map(name)).into_iter().collect(),
        left_out: sources(folder).map_err(BuildError::io(folder))?,
    })
}

/// Returns the sorted names of the sources directly in `folder`.
fn sources(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // Hidden files never belong to a skill.
        if is_source(&name) && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_but_sources_are_embedded() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, contents: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        };
        let sources = ["Cargo.toml", "guest.py", "json.h", "package.json", "src/lib.rs", "target/a"];
        for path in sources.iter().chain(&["SKILL.md", "x.wasm", ".git/config", "node_modules/a", "b~"]) {
            write(path, "");
        }
        let left_out = ["Cargo.toml", "guest.py", "json.h", "package.json", "src", "target"];
        let found = embedded(folder.path()).unwrap();
        assert_eq!((found.archive, found.count, found.bytes, found.names), (None, 0, 0, Vec::new()));
        assert_eq!(found.left_out, left_out);
        for (path, contents) in [
            ("references/deep/a.md", "12"),
            ("b.md", "345"),
            ("data/c.csv", "6"),
            ("data/package.json", "7"),
            ("scripts/run.py", "8"),
            ("LICENSE.txt", "9"),
        ] {
            write(path, contents);
        }
        let found = embedded(folder.path()).unwrap();
        assert!(found.archive.is_some());
        assert_eq!((found.count, found.bytes), (6, 9));
        assert_eq!(found.names, ["LICENSE.txt", "b.md", "data/", "references/", "scripts/"]);
        assert_eq!(found.left_out, left_out);
    }

    #[test]
    fn folder_over_a_limit_is_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        for n in 0..=1_000 {
            fs::write(folder.path().join(format!("data/{n}")), "").unwrap();
        }
        let message = embedded(folder.path()).unwrap_err().to_string();
        let words = "[skill_files_limited] More than 1,000 files; the skill's files cannot be read. Move what is not part of the skill \
                     out of its folder.";
        assert!(message.ends_with(words), "{message}");
    }
}

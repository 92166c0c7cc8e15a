//! Lists the files of a package. A package is refused if another machine could not store a file unchanged, or if copying could
//! change it.

use std::{collections::HashMap, io, path::Path};

use cap_std::fs::{Dir, Metadata};
use patchbay_core::{Code, caseless, text};

use crate::{Problem, files};

/// The most files and folders of a package.
const ENTRIES: usize = 10_000;
/// Size limit of all files together, in bytes.
pub(super) const BYTES: u64 = 64 << 20;
/// How deep folders can be nested, counted from the package's folder.
const DEPTH: usize = 16;
/// Version control folders, which do not belong to a package.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// The path in the package, with `/`. For a file in a linked folder, the path through the link.
    pub path: String,
    /// The size in bytes when the file was listed.
    pub size: u64,
}

/// Lists the files of the package in `folder`, sorted by the bytes of their paths. Links are followed inside the folder; version
/// control folders are left out.
///
/// # Errors
/// `package_limit` over a limit, otherwise `package_file_refused`: a file is not regular, has several hard links, or has a name
/// that cannot be stored everywhere; a link leads out of the package or to nothing; or something cannot be read.
pub fn list_files(folder: &Path) -> Result<Vec<PackageFile>, Problem> {
    list(folder, &VERSION_CONTROL)
}

/// Lists the files of the installed copy in `folder`. A copy should not have version control folders, so all of its files count.
///
/// # Errors
/// The same as for [`list_files`].
pub(super) fn list_copied_files(folder: &Path) -> Result<Vec<PackageFile>, Problem> {
    list(folder, &[])
}

/// Returns whether a folder of this name is a version control folder, at least on systems that ignore case.
pub(super) fn is_version_control(name: &str) -> bool {
    VERSION_CONTROL.iter().any(|folder| folder.eq_ignore_ascii_case(name))
}

fn list(folder: &Path, left_out: &[&str]) -> Result<Vec<PackageFile>, Problem> {
    let root = files::open_folder(folder).map_err(|error| unreadable("The folder", &error))?;
    let root = root.ok_or_else(|| unreadable("The folder", &io::ErrorKind::NotFound.into()))?;
    let mut walk = PackageWalk { root: &root, left_out, files: Vec::new(), entries: 0, bytes: 0 };
    walk.folder("", 0)?;
    walk.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(walk.files)
}

struct PackageWalk<'a> {
    root: &'a Dir,
    left_out: &'a [&'a str],
    files: Vec<PackageFile>,
    entries: usize,
    bytes: u64,
}

impl PackageWalk<'_> {
    /// Adds the files of the folder at `path`, which is empty or ends with `/`.
    fn folder(&mut self, path: &str, depth: usize) -> Result<(), Problem> {
        if depth > DEPTH {
            return Err(limit(format!("Folders more than {DEPTH} deep, such as '{}'", text::excerpt(path, 120))));
        }
        let failed = |error| unreadable(&format!("'{}'", text::excerpt(path, 120)), &error);
        let entries = self.root.read_dir(if path.is_empty() { "." } else { path }).map_err(failed)?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            if name.to_str().is_some_and(|name| self.left_out.contains(&name)) {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES {
                return Err(limit(format!("More than {ENTRIES} files and folders")));
            }
            names.push(name);
        }
        // Sorting makes the reported problem, the first one, independent of the file system.
        names.sort();
        let mut seen = HashMap::<String, String>::new();
        for name in names {
            let lossy = name.to_string_lossy();
            let shown = text::excerpt(&format!("{path}{lossy}"), 120);
            let name = name.to_str().ok_or_else(|| refused(&shown, "has a name that is not UTF-8; rename it"))?;
            if name.contains(|c: char| c.is_control() || c == '\\') {
                return Err(refused(&shown, "has a control character or a backslash in its name; rename it"));
            }
            if let Some(first) = seen.insert(caseless(name).into_owned(), name.to_owned()) {
                let why =
                    format!("and '{}' are one name on some systems; rename one of them", text::excerpt(&first, 120));
                return Err(refused(&shown, &why));
            }
            self.entry(&format!("{path}{name}"), &shown, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &str, shown: &str, depth: usize) -> Result<(), Problem> {
        let own = self.root.symlink_metadata(path).map_err(|error| unreadable(&format!("'{shown}'"), &error))?;
        let metadata = match own.is_symlink() {
            true => self.root.metadata(path).map_err(|_| {
                refused(shown, "is a link that leads out of the package or to nothing; put the file itself there")
            })?,
            false => own,
        };
        if metadata.is_dir() {
            return self.folder(&format!("{path}/"), depth + 1);
        }
        if !metadata.is_file() {
            return Err(refused(shown, "is a device, a pipe or a socket; remove it"));
        }
        let links = hard_links(&metadata);
        if links > 1 {
            let why = format!(
                "has {links} hard links, so others may change it; copy the folder, for example with 'cp -R', and \
                 add the copy"
            );
            return Err(refused(shown, &why));
        }
        self.bytes = self.bytes.saturating_add(metadata.len());
        if self.bytes > BYTES {
            return Err(limit(format!("More than {} MiB of files", BYTES >> 20)));
        }
        self.files.push(PackageFile { path: path.to_owned(), size: metadata.len() });
        Ok(())
    }
}

#[cfg(unix)]
fn hard_links(metadata: &Metadata) -> u64 {
    cap_std::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn hard_links(_: &Metadata) -> u64 {
    1
}

fn refused(shown: &str, why: &str) -> Problem {
    Problem::new(Code::PackageFileRefused, format!("'{shown}' {why}."))
}

/// Creates the problem of a package that exceeds a limit.
pub(super) fn limit(what: String) -> Problem {
    Problem::new(Code::PackageLimit, format!("{what}. Make the package smaller or split it."))
}

/// Creates the problem of something that cannot be read. The error's message is left out, because it may contain a path of this
/// machine.
pub(super) fn unreadable(what: &str, error: &io::Error) -> Problem {
    Problem::new(Code::PackageFileRefused, format!("{what} cannot be read: {}.", error.kind()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{fs::symlink, net::UnixListener},
    };

    use tempfile::TempDir;

    use super::*;

    fn folder(files: &[&str]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for path in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        folder
    }

    fn paths(folder: &TempDir) -> Vec<String> {
        list_files(folder.path()).unwrap().into_iter().map(|file| file.path).collect()
    }

    fn refusal(folder: &TempDir) -> (Code, String) {
        let problem = list_files(folder.path()).unwrap_err();
        (problem.code, problem.message)
    }

    #[test]
    fn files_are_listed_in_the_order_of_paths() {
        let folder = folder(&["b", "a/x", "a-b", ".hidden", ".git/config", "a/.git/HEAD", "node_modules/c"]);
        assert_eq!(paths(&folder), [".hidden", "a-b", "a/x", "b", "node_modules/c"]);
        let copied = list_copied_files(folder.path()).unwrap();
        let more: Vec<&str> = copied.iter().map(|file| &*file.path).filter(|path| path.contains(".git/")).collect();
        assert_eq!(more, [".git/config", "a/.git/HEAD"]);
    }

    #[test]
    fn links_stay_inside() {
        let folder = folder(&["shared/a/SKILL.md", "skills/b/SKILL.md"]);
        symlink("../shared/a", folder.path().join("skills/a")).unwrap();
        symlink("../skills/b/SKILL.md", folder.path().join("shared/b.md")).unwrap();
        assert_eq!(paths(&folder), ["shared/a/SKILL.md", "shared/b.md", "skills/a/SKILL.md", "skills/b/SKILL.md"]);
        for target in ["../../etc", "/etc/passwd", "nothing"] {
            symlink(target, folder.path().join("out")).unwrap();
            let (code, message) = refusal(&folder);
            assert_eq!(code, Code::PackageFileRefused);
            assert!(message.starts_with("'out' is a link that leads out of the package or to nothing;"), "{message}");
            fs::remove_file(folder.path().join("out")).unwrap();
        }
        symlink("..", folder.path().join("skills/loop")).unwrap();
        assert_eq!(refusal(&folder).0, Code::PackageLimit);
    }

    #[test]
    fn other_kinds_of_files_are_refused() {
        let one = folder(&["a"]);
        fs::hard_link(one.path().join("a"), one.path().join("b")).unwrap();
        assert!(refusal(&one).1.starts_with("'a' has 2 hard links"));
        let two = folder(&["a"]);
        let _socket = UnixListener::bind(two.path().join("s")).unwrap();
        assert_eq!(refusal(&two).1, "'s' is a device, a pipe or a socket; remove it.");
    }

    #[test]
    fn names_must_fit_every_system() {
        for name in ["a\\b", "a\nb", "a\u{7f}"] {
            assert!(refusal(&folder(&[name])).1.contains("a control character or a backslash"), "{name:?}");
        }
        // Some file systems cannot even store both files.
        let both = folder(&["A.md", "a.md"]);
        if fs::read_dir(both.path()).unwrap().count() == 2 {
            assert_eq!(refusal(&both).1, "'a.md' and 'A.md' are one name on some systems; rename one of them.");
        }
    }

    #[test]
    fn depth_and_bytes_are_limited() {
        let deep = "d/".repeat(DEPTH);
        assert_eq!(paths(&folder(&[&format!("{deep}a")])).len(), 1);
        assert_eq!(refusal(&folder(&[&format!("{deep}d/a")])).0, Code::PackageLimit);
        let large = folder(&["a"]);
        let file = fs::File::create(large.path().join("b")).unwrap();
        file.set_len(BYTES).unwrap();
        assert_eq!(
            refusal(&large),
            (Code::PackageLimit, "More than 64 MiB of files. Make the package smaller or split it.".to_owned())
        );
        file.set_len(BYTES - 1).unwrap();
        assert_eq!(paths(&large).len(), 2);
    }
}

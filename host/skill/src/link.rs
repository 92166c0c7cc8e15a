//! Folders of skills under development, linked with `patchbay plugin add --link DIR`.
//!
//! In the user's skills folder, `NAME` is then a link to `.linked/NAME`, which in turn is a link to the folder. A link that leads
//! straight to a folder does not count: only the command can mark a folder as under development. Both links are in Patchbay's
//! config folder, which plugins cannot change.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use patchbay_core::{Digest, Name};

use crate::discover_one;

/// The hidden folder of links, in the user's skills folder.
const LINKS: &str = ".linked";
/// The prefix of the string that a grant for a linked folder stores in place of a digest.
const GRANT: &str = "link:";

/// A folder that is linked as a user skill. A grant for it stays valid when its files change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedFolder {
    path: String,
}

impl LinkedFolder {
    /// Returns the folder that is linked as the skill `name` in the skills folder `skills`, if there is one.
    pub fn of(skills: &Path, name: &Name) -> Option<Self> {
        let link = fs::read_link(skills.join(name.as_str())).ok()?;
        if link != relative(name) {
            return None;
        }
        let path = fs::read_link(skills.join(link)).ok()?;
        Some(Self { path: path.into_os_string().into_string().ok()? })
    }

    /// Returns the folder that a grant covers, from the string that it stores in place of a digest. `None` if it stores a digest.
    pub fn of_grant(granted: &str) -> Option<Self> {
        Some(Self { path: granted.strip_prefix(GRANT)?.to_owned() })
    }

    /// Returns the string that a grant for this folder stores in place of a digest.
    pub fn as_granted(&self) -> String {
        format!("{GRANT}{}", self.path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether the skill in the folder currently has `digest`. Reads all its files.
    pub fn has(&self, digest: Digest) -> bool {
        let found = discover_one(Path::new(&self.path)).ok().and_then(|found| found.candidate.ok());
        found.is_some_and(|skill| skill.digest() == digest)
    }

    /// Creates a link at `at` to the folder. The link takes effect once it is renamed to `name` in the skills folder and
    /// [`LinkedFolder::place`] has been called. `folder` must be canonical.
    ///
    /// # Errors
    /// A link cannot be made, or the path is not UTF-8.
    pub fn prepare(folder: &Path, name: &Name, at: &Path) -> io::Result<()> {
        if folder.to_str().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, "its path is not UTF-8"));
        }
        symlink(folder, target(at))?;
        symlink(relative(name), at)
    }

    /// Makes the folder that was prepared at `at` the linked folder of `name` in the skills folder `skills`.
    ///
    /// # Errors
    /// An I/O error in `skills`. The earlier folder stays linked.
    pub fn place(at: &Path, skills: &Path, name: &Name) -> io::Result<()> {
        fs::create_dir_all(skills.join(LINKS))?;
        fs::rename(target(at), skills.join(relative(name)))
    }

    /// Forgets the linked folder of `name`, if there is one.
    pub fn forget(skills: &Path, name: &Name) {
        // A leftover has no effect, because no link in the skills folder leads to it.
        let _ = fs::remove_file(skills.join(relative(name)));
    }
}

/// Returns the path of the second link, which [`LinkedFolder::prepare`] creates beside `at`.
fn target(at: &Path) -> PathBuf {
    at.with_extension("target")
}

fn relative(name: &Name) -> PathBuf {
    Path::new(LINKS).join(name.as_str())
}

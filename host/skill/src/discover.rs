//! Looking at a root: what it holds, before anything is decided.

use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use cap_std::fs::{Dir, Metadata};
use patchbay_core::{COMPONENT_BYTES, Code, Digest, Name, text};
use patchbay_policy::Root;

use crate::{
    Candidate, Component, Found, Known, Problem, Seen, Sighting, Stat, Unseen,
    component::{self, Place},
    files,
    package::SKILL_MD_BYTES,
    reading::{candidate, checked_name, packaged, skill_md},
};

/// Children of a root that are looked at.
const CHILDREN: usize = 10_000;

/// What a look at a root gave.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    /// Its children, good and bad, sorted by their names.
    pub found: Vec<Found>,
    /// The files that had to be read for it, because nothing was remembered of them, and what they held. What could not be
    /// read, or is no skill, is not among them.
    pub read: Vec<Sighting>,
}

/// Looks at the immediate children of a root: `NAME/` with a SKILL.md and at most one component, or `NAME.wasm`
/// with the SKILL.md embedded. Hidden children and other files are passed over. A folder that does not exist holds nothing.
/// A file that `seen` knows in its present state is not read.
///
/// `path` is the person's folder of skills, or the workspace. In a workspace nothing outside of it is read; a person's own
/// folder may hold links to folders elsewhere.
///
/// # Errors
/// Where the folder itself exists and cannot be read.
pub fn discover(root: Root, path: &Path, seen: &dyn Seen) -> io::Result<Discovered> {
    let Some(folder) = component::open_root(root, path)? else { return Ok(Discovered::default()) };
    let mut names = Vec::new();
    for entry in folder.entries()?.take(CHILDREN) {
        names.push(entry?.file_name());
    }
    names.sort();
    let mut look = Look { root, path: path.into(), folder, seen, read: Vec::new() };
    let mut found: Vec<Found> = Vec::new();
    for file_name in names {
        let Some(file_name) = file_name.to_str() else {
            let message = "A folder's or file's name is not UTF-8.";
            let label = text::excerpt(&file_name.to_string_lossy(), 80);
            found.push(Found { label, root, candidate: Err(Problem::new(Code::InvalidName, message)) });
            continue;
        };
        if let Some((label, candidate)) = look.child(file_name) {
            found.push(Found { label: text::excerpt(label, 80), root, candidate });
        }
    }
    mark_doubles(&mut found);
    Ok(Discovered { found, read: look.read })
}

/// Looks at one skill, wherever it is, as [`discover`] looks at a child of the person's root: a folder `NAME/`, or a file
/// `NAME.wasm`, which may also end otherwise. `path` has a name and a parent; it is no link.
///
/// # Errors
/// Where its parent cannot be read.
pub fn discover_one(path: &Path) -> io::Result<Found> {
    let (Some(parent), Some(file_name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no name"));
    };
    let root = Root::User;
    let folder = component::open_root(root, parent)?.ok_or(io::ErrorKind::NotFound)?;
    let named = file_name.to_str().ok_or_else(|| Problem::new(Code::InvalidName, "Its name is not UTF-8."));
    let is_folder = folder.metadata(file_name).is_ok_and(|metadata| metadata.is_dir());
    let label = if is_folder { Some(file_name) } else { path.file_stem() }.unwrap_or(file_name).to_string_lossy();
    let mut look = Look { root, path: parent.into(), folder, seen: &Unseen, read: Vec::new() };
    let candidate = named.and_then(|name| match is_folder {
        true => look.skill_folder(name),
        false => look.skill_file(name, &label, None),
    });
    Ok(Found { label: text::excerpt(&label, 80), root, candidate })
}

/// One look at one root.
struct Look<'a> {
    root: Root,
    path: Arc<Path>,
    folder: Dir,
    seen: &'a dyn Seen,
    read: Vec<Sighting>,
}

impl Look<'_> {
    /// What a child of the root is called as a skill, and what it is; none where it is no skill's.
    fn child<'n>(&mut self, file_name: &'n str) -> Option<(&'n str, Result<Candidate, Problem>)> {
        if file_name.starts_with('.') {
            return None;
        }
        // None: a link that cannot be followed within the root, or something that vanished.
        let metadata = followed(&self.folder, file_name);
        let is_folder = metadata.as_ref().map_or_else(|| leads_away(&self.folder, file_name), Metadata::is_dir);
        if is_folder {
            return Some((file_name, self.skill_folder(file_name)));
        }
        let name = file_name.strip_suffix(".wasm")?;
        Some((name, self.skill_file(file_name, name, metadata)))
    }

    /// `NAME.wasm`.
    fn skill_file(&mut self, file: &str, name: &str, metadata: Option<Metadata>) -> Result<Candidate, Problem> {
        let name = checked_name(name)?;
        let place = Place { root: self.root, path: Arc::clone(&self.path), folder: None, file: file.to_owned() };
        if let Some((known, size)) = self.known(file, metadata.as_ref()) {
            return candidate(name, known.clone(), Some(Component::in_file(known.digest, size, place)));
        }
        let (bytes, stat) = read_component(&self.folder, file)?;
        let known = packaged(&name, &bytes)?;
        let component = Component::in_file(known.digest, bytes.len() as u64, place);
        self.sighted(file.to_owned(), stat, known.clone());
        candidate(name, known, Some(component))
    }

    /// `NAME/`.
    fn skill_folder(&mut self, folder_name: &str) -> Result<Candidate, Problem> {
        let name = checked_name(folder_name)?;
        let unreadable = |error| Problem::unreadable("The folder", &error);
        let folder = component::open_folder(self.root, &self.path, &self.folder, folder_name).map_err(unreadable)?;
        let known = self.skill_md(&name, &folder)?;
        let components = components(&folder).map_err(unreadable)?;
        let component = match &components[..] {
            [] => None,
            [file] => Some(self.component(&name, &folder, file)?),
            several => {
                let message = format!("Several components: {}; a skill has at most one.", several.join(", "));
                return Err(Problem::new(Code::SeveralComponents, message));
            }
        };
        candidate(name, known, component)
    }

    fn skill_md(&mut self, name: &Name, folder: &Dir) -> Result<Known, Problem> {
        let file = format!("{name}/{SKILL_MD}");
        if let Some((known, _)) = self.known(&file, followed(folder, SKILL_MD).as_ref())
            && known.manifest.is_some()
        {
            return Ok(known);
        }
        let (bytes, stat) = files::read_stat(folder, SKILL_MD, SKILL_MD_BYTES)
            .map_err(|error| Problem::unreadable("SKILL.md", &error))?
            .ok_or_else(|| Problem::new(Code::MissingSkillMd, "The folder has no SKILL.md."))?;
        let known = skill_md(name, &bytes)?;
        self.sighted(file, stat, known.clone());
        Ok(known)
    }

    /// The component of a folder.
    fn component(&mut self, name: &Name, folder: &Dir, file_name: &str) -> Result<Component, Problem> {
        let file = format!("{name}/{file_name}");
        let place = Place {
            root: self.root,
            path: Arc::clone(&self.path),
            folder: Some(name.to_string()),
            file: file_name.to_owned(),
        };
        if let Some((known, size)) = self.known(&file, followed(folder, file_name).as_ref()) {
            return Ok(Component::in_file(known.digest, size, place));
        }
        let (bytes, stat) = read_component(folder, file_name)?;
        let digest = Digest::of(&bytes);
        self.sighted(file, stat, Known { digest, manifest: None });
        Ok(Component::in_file(digest, bytes.len() as u64, place))
    }

    /// What is remembered of a file in this state, and its size.
    fn known(&self, file: &str, metadata: Option<&Metadata>) -> Option<(Known, u64)> {
        let metadata = metadata.filter(|metadata| metadata.is_file())?;
        Some((self.seen.known(file, &Stat::new(metadata)?)?, metadata.len()))
    }

    fn sighted(&mut self, file: String, stat: Option<Stat>, known: Known) {
        self.read.extend(stat.map(|stat| Sighting { file, stat, known }));
    }
}

const SKILL_MD: &str = "SKILL.md";

/// The metadata of a child, links within the folder followed.
fn followed(folder: &Dir, name: &str) -> Option<Metadata> {
    // Most children are no links, and this asks the system once instead of three times.
    let metadata = folder.symlink_metadata(name).ok()?;
    if metadata.is_symlink() { folder.metadata(name).ok() } else { Some(metadata) }
}

/// Whether a child is a link that cannot be followed within the root.
fn leads_away(folder: &Dir, name: &str) -> bool {
    folder.symlink_metadata(name).is_ok_and(|metadata| metadata.is_symlink())
}

/// Names of the `*.wasm` files of a folder, sorted.
fn components(folder: &Dir) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.entries()?.take(CHILDREN) {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".wasm") && !name.starts_with('.')) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn read_component(folder: &Dir, file_name: &str) -> Result<(Vec<u8>, Option<Stat>), Problem> {
    let invalid = |message: String| Problem::new(Code::InvalidComponent, message);
    files::read_stat(folder, file_name, COMPONENT_BYTES)
        .map_err(|error| invalid(Problem::unreadable("The component", &error).message))?
        .ok_or_else(|| invalid("The component vanished while it was read.".to_owned()))
}

/// `NAME/` beside `NAME.wasm`: nobody can say which of them is meant, so that neither is.
fn mark_doubles(found: &mut [Found]) {
    let mut claims = BTreeMap::<String, usize>::new();
    for one in &*found {
        *claims.entry(one.label.clone()).or_default() += 1;
    }
    for one in found.iter_mut().filter(|one| claims.get(&one.label).is_some_and(|claims| *claims > 1)) {
        let message = format!("Both '{0}/' and '{0}.wasm' claim the name.", one.label);
        one.candidate = Err(Problem::new(Code::SeveralComponents, message));
    }
}

#[cfg(test)]
mod tests;

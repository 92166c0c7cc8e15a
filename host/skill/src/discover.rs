//! Discovery: the candidates of one root, before anything is decided.

use std::{collections::BTreeMap, ffi::OsString, io, path::Path, sync::Arc};

use cap_std::fs::{Dir, Metadata};
use patchbay_core::{COMPONENT_BYTES, Code, Digest, Name, RootAllowance, text};
use patchbay_policy::Root;

use crate::{
    CachedFile, Candidate, Component, FileCache, FileRecord, FoundSkill, NoCache, Problem, SkillFiles, SkillMd, Stat,
    component::{self, ComponentFile},
    files,
    limit::RootBudget,
    listing::{self, Listing},
    package::SKILL_MD_BYTES,
    reading::{checked_name, packaged, skill_md},
};

/// What was found in a root.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    /// Its children, good and bad, sorted by their names.
    pub found: Vec<FoundSkill>,
    /// The files that had to be read, because nothing was remembered of them, and what they held.
    pub read: Vec<FileRecord>,
}

/// Finds the skills among the immediate children of a root: `NAME/` with a SKILL.md and at most one component, or
/// `NAME.wasm` with the SKILL.md embedded. Hidden children and other files are ignored. A folder that does not exist holds
/// nothing. A file that `seen` knows in its present state is not read.
///
/// `path` is the user's folder of skills, or the workspace. In a workspace nothing outside of it is read; the user's own
/// folder may hold links to folders elsewhere.
///
/// The children are counted against `allowed` in the order of their names. The first one that goes over becomes the
/// diagnostic `root_limit`; it and all behind it are left out, and none of them is read.
///
/// # Errors
/// Where the folder itself exists and cannot be read.
pub fn discover(root: Root, path: &Path, cache: &dyn FileCache, allowed: &RootAllowance) -> io::Result<Discovered> {
    let Some(folder) = component::open_root(root, path)? else { return Ok(Discovered::default()) };
    let most = usize::try_from(allowed.skills).unwrap_or(usize::MAX);
    let mut names = children(&folder, most)?;
    let too_many = (names.len() > most).then(|| names.pop_last()).flatten();
    let budget = RootBudget::new(root, *allowed);
    let mut scan = RootScan { root, path: path.into(), folder, cache, read: Vec::new(), budget };
    let mut found: Vec<FoundSkill> = Vec::new();
    let limited = |name: &OsString, problem| {
        let name = name.to_string_lossy();
        let label = name.strip_suffix(".wasm").unwrap_or(&name);
        FoundSkill { label: text::excerpt(label, 80), root, candidate: Err(problem) }
    };
    let mut over = too_many.map(|(name, _)| limited(&name, scan.budget.too_many_skills()));
    for (file_name, kind) in names {
        let Some(name) = file_name.to_str() else {
            let message = "A folder's or file's name is not UTF-8.";
            let label = text::excerpt(&file_name.to_string_lossy(), 80);
            found.push(FoundSkill { label, root, candidate: Err(Problem::new(Code::InvalidName, message)) });
            continue;
        };
        let Some((label, candidate)) = scan.child(name, kind) else { continue };
        if let Err(problem) = &candidate
            && problem.code == Code::RootLimit
        {
            over = Some(limited(&file_name, problem.clone()));
            break;
        }
        found.push(FoundSkill { label: text::excerpt(label, 80), root, candidate });
    }
    mark_duplicates(&mut found);
    found.extend(over);
    Ok(Discovered { found, read: scan.read })
}

/// Looks at one skill, wherever it is, as [`discover`] looks at a child of the person's root: a folder `NAME/`, or a file
/// `NAME.wasm`, which may also end otherwise. `path` has a name and a parent; it is no link.
///
/// # Errors
/// Where its parent cannot be read.
pub fn discover_one(path: &Path) -> io::Result<FoundSkill> {
    let (Some(parent), Some(file_name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no name"));
    };
    let root = Root::User;
    let folder = component::open_root(root, parent)?.ok_or(io::ErrorKind::NotFound)?;
    let named = file_name.to_str().ok_or_else(|| Problem::new(Code::InvalidName, "Its name is not UTF-8."));
    let is_folder = folder.metadata(file_name).is_ok_and(|metadata| metadata.is_dir());
    let label = if is_folder { Some(file_name) } else { path.file_stem() }.unwrap_or(file_name).to_string_lossy();
    let budget = RootBudget::new(root, RootAllowance::default());
    let mut scan = RootScan { root, path: parent.into(), folder, cache: &NoCache, read: Vec::new(), budget };
    let candidate = named.and_then(|name| match is_folder {
        true => scan.skill_folder(name),
        false => scan.skill_file(name, &label, None),
    });
    Ok(FoundSkill { label: text::excerpt(&label, 80), root, candidate })
}

/// What a child of a root is, as far as its folder's entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildKind {
    Folder,
    /// A file, a link, or unknown.
    Other,
}

/// The children of a root that may be skills: the first `most` of them by their names, and one more if there are more. All
/// names are seen, few are held, so that which ones count does not depend on the file system.
fn children(folder: &Dir, most: usize) -> io::Result<BTreeMap<OsString, ChildKind>> {
    let mut names = BTreeMap::new();
    for entry in folder.entries()? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let bytes = name.as_encoded_bytes();
        let plain_file = kind.is_file() && !bytes.ends_with(b".wasm");
        if bytes.starts_with(b".") || plain_file {
            continue;
        }
        names.insert(name, if kind.is_dir() { ChildKind::Folder } else { ChildKind::Other });
        if names.len() > most.saturating_add(1) {
            names.pop_last();
        }
    }
    Ok(names)
}

/// The state of looking at one root.
struct RootScan<'a> {
    root: Root,
    path: Arc<Path>,
    folder: Dir,
    cache: &'a dyn FileCache,
    read: Vec<FileRecord>,
    budget: RootBudget,
}

/// What is known of a file, and the text of its instructions if it was read just now.
struct ScannedFile {
    cached: CachedFile,
    size: u64,
    instructions: Option<Arc<str>>,
}

impl RootScan<'_> {
    /// What a child of the root is called as a skill, and what it is; `None` where it is no skill's.
    fn child<'n>(&mut self, file_name: &'n str, kind: ChildKind) -> Option<(&'n str, Result<Candidate, Problem>)> {
        // A folder costs no call of the system before it is opened.
        let metadata = if kind == ChildKind::Folder { None } else { followed(&self.folder, file_name) };
        let is_folder = kind == ChildKind::Folder
            || metadata.as_ref().map_or_else(|| leads_away(&self.folder, file_name), Metadata::is_dir);
        if is_folder {
            return Some((file_name, self.skill_folder(file_name)));
        }
        let name = file_name.strip_suffix(".wasm")?;
        Some((name, self.skill_file(file_name, name, metadata)))
    }

    /// `NAME.wasm`.
    fn skill_file(&mut self, file: &str, name: &str, metadata: Option<Metadata>) -> Result<Candidate, Problem> {
        let name = checked_name(name)?;
        let place =
            ComponentFile { root: self.root, path: Arc::clone(&self.path), folder: None, file: file.to_owned() };
        self.budget.file(metadata.as_ref().map_or(0, Metadata::len))?;
        let scanned = match self.cached(file, metadata.as_ref()) {
            Some((cached, size)) if cached.skill_md.is_some() => ScannedFile { cached, size, instructions: None },
            _ => {
                let (bytes, stat) = read_component(&self.folder, file)?;
                let fresh = packaged(&name, &bytes, Digest::of(&bytes));
                self.record(file.to_owned(), stat, fresh.cached.clone());
                ScannedFile { cached: fresh.cached, size: bytes.len() as u64, instructions: fresh.instructions }
            }
        };
        let component = Component::in_file(scanned.cached.digest, scanned.size, place);
        let files = BTreeMap::from([(file.to_owned(), scanned.cached.digest)]);
        self.candidate(name, scanned, &files, Some(component), Vec::new())
    }

    /// `NAME/`.
    fn skill_folder(&mut self, folder_name: &str) -> Result<Candidate, Problem> {
        let name = checked_name(folder_name)?;
        let unreadable = |error| Problem::unreadable("The folder", &error);
        let folder = component::open_folder(self.root, &self.path, &self.folder, folder_name).map_err(unreadable)?;
        let mut listing = listing::list(&folder).map_err(unreadable)?;
        let scanned = self.skill_md(&name, &folder, &mut listing)?;
        let mut files = BTreeMap::from([(SKILL_MD.to_owned(), scanned.cached.digest)]);
        let component = match &listing.components[..] {
            [] => None,
            [file] => {
                let component = self.component(&name, &folder, file)?;
                files.insert(file.clone(), component.digest());
                Some(component)
            }
            several => {
                let several: Vec<_> = several.iter().map(|name| text::excerpt(name, 80)).take(5).collect();
                let message = format!("Several components: {}; a skill has at most one.", several.join(", "));
                return Err(Problem::new(Code::SeveralComponents, message));
            }
        };
        match listing.over.take() {
            // The rest of such a skill is never read, so it is no part of its digest either.
            Some(over) => listing.skipped.push(over),
            None => self.other_files(&name, &folder, &mut listing, &mut files)?,
        }
        self.candidate(name, scanned, &files, component, listing.skipped)
    }

    fn skill_md(&mut self, name: &Name, folder: &Dir, listing: &mut Listing) -> Result<ScannedFile, Problem> {
        let file = format!("{name}/{SKILL_MD}");
        // Over a limit the listing may have stopped before it.
        let listed = listing.files.remove(SKILL_MD);
        let metadata = if listing.over.is_some() { followed(folder, SKILL_MD) } else { listed };
        self.budget.file(metadata.as_ref().map_or(0, Metadata::len))?;
        if let Some((cached, size)) = self.cached(&file, metadata.as_ref())
            && cached.skill_md.is_some()
        {
            return Ok(ScannedFile { cached, size, instructions: None });
        }
        if let Some(metadata) = metadata.filter(|metadata| metadata.len() <= SKILL_MD_BYTES) {
            // Judged before it is read; charged when it is counted.
            let mut budget = self.budget;
            budget.skill_md(metadata.len())?;
        }
        let (bytes, stat) = files::read_stat(folder, SKILL_MD, SKILL_MD_BYTES)
            .map_err(|error| Problem::unreadable("SKILL.md", &error))?
            .ok_or_else(|| Problem::new(Code::MissingSkillMd, "The folder has no SKILL.md."))?;
        let fresh = skill_md(name, &bytes);
        self.record(file, stat, fresh.cached.clone());
        Ok(ScannedFile { cached: fresh.cached, size: bytes.len() as u64, instructions: fresh.instructions })
    }

    /// The component of a folder.
    fn component(&mut self, name: &Name, folder: &Dir, file_name: &str) -> Result<Component, Problem> {
        let file = format!("{name}/{file_name}");
        let place = ComponentFile {
            root: self.root,
            path: Arc::clone(&self.path),
            folder: Some(name.to_string()),
            file: file_name.to_owned(),
        };
        let metadata = followed(folder, file_name);
        self.budget.file(metadata.as_ref().map_or(0, Metadata::len))?;
        if let Some((cached, size)) = self.cached(&file, metadata.as_ref()) {
            return Ok(Component::in_file(cached.digest, size, place));
        }
        let (bytes, stat) = read_component(folder, file_name)?;
        let digest = Digest::of(&bytes);
        self.record(file, stat, CachedFile { digest, skill_md: None });
        Ok(Component::in_file(digest, bytes.len() as u64, place))
    }

    /// Adds the digests of all other files of a skill's folder to `files`.
    fn other_files(
        &mut self,
        name: &Name,
        folder: &Dir,
        listing: &mut Listing,
        files: &mut BTreeMap<String, Digest>,
    ) -> Result<(), Problem> {
        for (path, metadata) in std::mem::take(&mut listing.files) {
            self.budget.file(metadata.len())?;
            let file = format!("{name}/{path}");
            if let Some((cached, _)) = self.cached(&file, Some(&metadata)) {
                files.insert(path, cached.digest);
                continue;
            }
            match files::digest_stat(folder, &path, listing::FILE_BYTES) {
                Ok(Some((digest, stat))) => {
                    self.record(file, stat, CachedFile { digest, skill_md: None });
                    files.insert(path, digest);
                }
                // It has gone since the folder was listed.
                Ok(None) => {}
                Err(error) => listing.unreadable(&path, &error),
            }
        }
        Ok(())
    }

    /// The candidate, if its SKILL.md is good and the root has room for it.
    fn candidate(
        &mut self,
        name: Name,
        scanned: ScannedFile,
        files: &BTreeMap<String, Digest>,
        component: Option<Component>,
        mut notes: Vec<Problem>,
    ) -> Result<Candidate, Problem> {
        let missing = || Problem::new(Code::MissingSkillMd, "There is no SKILL.md.");
        let SkillMd { bytes, manifest, mended } = &**scanned.cached.skill_md.as_ref().ok_or_else(missing)?;
        self.budget.skill_md(*bytes)?;
        notes.extend(mended.iter().cloned());
        let manifest = Arc::clone(manifest.as_ref().map_err(Problem::clone)?);
        let files = SkillFiles::new(files);
        Ok(Candidate { name, manifest, files, component, instructions: scanned.instructions, notes })
    }

    /// What is remembered of a file in this state, and its size.
    fn cached(&self, file: &str, metadata: Option<&Metadata>) -> Option<(CachedFile, u64)> {
        let metadata = metadata.filter(|metadata| metadata.is_file())?;
        Some((self.cache.get(file, &Stat::new(metadata)?)?, metadata.len()))
    }

    fn record(&mut self, file: String, stat: Option<Stat>, cached: CachedFile) {
        self.read.extend(stat.map(|stat| FileRecord { file, stat, cached }));
    }
}

pub(crate) const SKILL_MD: &str = "SKILL.md";

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

fn read_component(folder: &Dir, file_name: &str) -> Result<(Vec<u8>, Option<Stat>), Problem> {
    let invalid = |message: String| Problem::new(Code::InvalidComponent, message);
    files::read_stat(folder, file_name, COMPONENT_BYTES)
        .map_err(|error| invalid(Problem::unreadable("The component", &error).message))?
        .ok_or_else(|| invalid("The component vanished while it was read.".to_owned()))
}

/// `NAME/` beside `NAME.wasm`: nobody can say which of them is meant, so that neither is.
fn mark_duplicates(found: &mut [FoundSkill]) {
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

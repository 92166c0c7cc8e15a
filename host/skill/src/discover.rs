//! Discovery: reads the candidates of one root. [`build`](crate::build) decides later which of them become skills.
//!
//! Called by the crate `session` for the user's root and the workspace, and by the crate `plugin` for one skill.

mod command;

use std::{collections::BTreeMap, ffi::OsString, io, ops::ControlFlow, path::Path, sync::Arc};

use cap_std::fs::{Dir, Metadata};
use patchbay_core::{Code, Digest, Name, RootAllowance, text};
use patchbay_policy::Root;

use crate::{
    CachedFile, Candidate, Component, FileCache, FileRecord, FileStorage, FileTotals, FoundSkill, NoCache, Problem,
    SkillFiles, Stat,
    ahead::{ListedFolder, list_ahead},
    children::{ChildKind, children, is_claimed_twice, own_name},
    component::{self, ComponentFile, read_component},
    embedded::SKILL_MD_BYTES,
    files::{self, HashedFile},
    found::mark_duplicates,
    limit::RootBudget,
    listing::{self, Listing},
    reading::{parse_name, parse_packaged, parse_skill_md},
    source::{FileSource, SkillFolder},
};

/// The result of [`discover`].
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    /// The children of the root, sorted by name: candidates, and the problems of the others.
    pub found: Vec<FoundSkill>,
    /// The files that were not in the cache and had to be read. The caller adds the settled ones ([`Stat::is_settled`]) to the
    /// cache.
    pub read: Vec<FileRecord>,
}

/// Finds the skills among the immediate children of a root: `NAME/` with a SKILL.md and at most one component, or `NAME.wasm` with
/// an embedded SKILL.md. Hidden children and other files are ignored. A root that does not exist is empty. A file is not read if
/// `cache` has its current state.
///
/// `path` is the skills folder, or the workspace. Nothing outside a workspace is read; other roots may contain links to folders and
/// components elsewhere.
///
/// The children are counted against `allowed` in the order of their names. The first child over a limit becomes the
/// diagnostic `root_limit`; this child and all later ones are left out. Their files are not read, but the folders of some
/// may have been listed, because several threads list folders ahead.
///
/// A folder counts once: if it is found under several names, through links, only the first name with a valid skill is returned. For
/// later names, only the SKILL.md is read.
///
/// # Errors
/// The root exists but cannot be read. Problems of single children are in [`Discovered::found`].
pub fn discover(root: Root, path: &Path, cache: &dyn FileCache, allowed: &RootAllowance) -> io::Result<Discovered> {
    let Some(folder) = component::open_root(root, path)? else { return Ok(Discovered::default()) };
    let most = usize::try_from(allowed.skills).unwrap_or(usize::MAX);
    let mut names = children(&folder, most)?;
    let too_many = (names.len() > most).then(|| names.pop_last()).flatten();
    let names: Vec<_> = names.into_iter().collect();
    let Scanned { mut found, over, read } = scan(root, path, &folder, &names, cache, allowed);
    mark_duplicates(&mut found);
    let too_many = too_many.map(|(name, _)| FoundSkill::over_skills(root, allowed, &name.to_string_lossy()));
    found.extend(over.or(too_many));
    Ok(Discovered { found, read })
}

/// The result of [`scan`].
pub(crate) struct Scanned {
    /// The children, in order.
    pub(crate) found: Vec<FoundSkill>,
    /// The child that exceeded a limit of the root. Later children were not read.
    pub(crate) over: Option<FoundSkill>,
    pub(crate) read: Vec<FileRecord>,
}

/// Reads the `children` of the opened `folder` at `path`. A child can be a path; its name is the last segment.
pub(crate) fn scan(
    root: Root,
    path: &Path,
    folder: &Dir,
    children: &[(OsString, ChildKind)],
    cache: &dyn FileCache,
    allowed: &RootAllowance,
) -> Scanned {
    let mut scan = RootScan {
        root,
        path: path.into(),
        folder,
        children,
        cache,
        read: Vec::new(),
        budget: RootBudget::new(root, *allowed),
        folders: BTreeMap::new(),
    };
    let (mut found, mut over) = (Vec::new(), None);
    list_ahead(root, path, folder, children, |(file_name, kind), listed| {
        let Some(name) = file_name.to_str() else {
            let message = "A folder's or file's name is not UTF-8.";
            let label = text::excerpt(&file_name.to_string_lossy(), 80);
            found.push(FoundSkill { label, root, candidate: Err(Problem::new(Code::InvalidName, message)) });
            return ControlFlow::Continue(());
        };
        let Some((label, candidate)) = scan.child(name, *kind, listed) else { return ControlFlow::Continue(()) };
        if let Err(problem) = &candidate
            && problem.code == Code::RootLimit
        {
            over = Some(FoundSkill::over_limit(root, &file_name.to_string_lossy(), problem.clone()));
            return ControlFlow::Break(());
        }
        found.push(FoundSkill { label: text::excerpt(label, 80), root, candidate });
        ControlFlow::Continue(())
    });
    Scanned { found, over, read: scan.read }
}

/// Reads one skill at any `path`, like [`discover`] reads a child of the user's root: a folder `NAME/`, or a file, which need not
/// end in `.wasm`; a file that ends in `.md` is a command in Claude Code's format. `path` must have a name and a parent.
///
/// # Errors
/// The parent folder cannot be read.
pub fn discover_one(path: &Path) -> io::Result<FoundSkill> {
    let (Some(parent), Some(file_name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no name"));
    };
    let root = Root::User;
    let folder = component::open_root(root, parent)?.ok_or(io::ErrorKind::NotFound)?;
    let named = file_name.to_str().ok_or_else(|| Problem::new(Code::InvalidName, "Its name is not UTF-8."));
    let is_folder = path.is_dir();
    let label = if is_folder { Some(file_name) } else { path.file_stem() }.unwrap_or(file_name).to_string_lossy();
    let mut scan = RootScan {
        root,
        path: parent.into(),
        folder: &folder,
        children: &[],
        cache: &NoCache,
        read: Vec::new(),
        budget: RootBudget::new(root, RootAllowance::default()),
        folders: BTreeMap::new(),
    };
    // `skill_folder` returns `None` only for a repeated folder, which cannot happen here.
    let none = || Problem::new(Code::MissingSkillMd, "SKILL.md is missing.");
    let candidate = named.and_then(|name| match is_folder {
        true => scan.skill_folder(name, None)?.ok_or_else(none),
        false if name.ends_with(".md") => scan.command(name, &label, None),
        false => scan.skill_file(name, &label, SkillFileLocation::default()),
    });
    Ok(FoundSkill { label: text::excerpt(&label, 80), root, candidate })
}

/// The state of one [`discover`] call.
struct RootScan<'a> {
    root: Root,
    /// The path that was passed to [`discover`]: the user's skills folder, or the workspace.
    path: Arc<Path>,
    folder: &'a Dir,
    /// All children, sorted by name; empty for a single skill.
    children: &'a [(OsString, ChildKind)],
    cache: &'a dyn FileCache,
    /// Files that were read because the cache did not have them.
    read: Vec<FileRecord>,
    /// The remaining limits of the root.
    budget: RootBudget,
    /// The folders of the candidates so far, by device and inode. The value is the name of the first candidate that may become a
    /// skill.
    folders: BTreeMap<(u64, u64), Name>,
}

/// The location of a single-file skill.
#[derive(Default)]
struct SkillFileLocation {
    /// The file's metadata; `None` if it is not known.
    metadata: Option<Metadata>,
    /// The folder and name of the link's target, if the file is a link out of the root.
    linked: Option<(Dir, String)>,
}

/// The content of a file, from the cache or just read.
struct ScannedFile {
    cached: CachedFile,
    /// Size of the file, in bytes.
    size: u64,
    /// The instructions; `None` if the content came from the cache.
    instructions: Option<Arc<str>>,
}

/// The files of a candidate.
struct ListedFiles {
    files: BTreeMap<String, Digest>,
    totals: FileTotals,
    source: FileSource,
    /// Problems of files that are left out.
    skipped: Vec<Problem>,
    /// Device and inode of the skill's folder.
    folder_id: Option<(u64, u64)>,
}

impl RootScan<'_> {
    /// Reads a child of the root. Returns its name as a skill and the candidate; `None` if the child cannot be a skill, or if an
    /// earlier candidate already has its folder. `listed` is the child's folder if it was listed ahead.
    fn child<'n>(
        &mut self,
        file_name: &'n str,
        kind: ChildKind,
        listed: Option<ListedFolder>,
    ) -> Option<(&'n str, Result<Candidate, Problem>)> {
        // A folder needs no system call before it is opened.
        let metadata = if kind == ChildKind::Folder { None } else { followed(self.folder, file_name) };
        let is_folder = kind == ChildKind::Folder || metadata.as_ref().is_some_and(Metadata::is_dir);
        let leads_away = !is_folder && metadata.is_none() && leads_away(self.folder, file_name);
        let own_name = own_name(file_name);
        if self.root == Root::Package
            && let Some(name) = own_name.strip_suffix(".md")
        {
            return Some((name, self.command(file_name, name, metadata)));
        }
        if leads_away && let Some(name) = own_name.strip_suffix(".wasm") {
            return Some((name, self.linked_skill(file_name, name).transpose()?));
        }
        if is_folder || leads_away {
            return Some((own_name, self.skill_folder(file_name, listed).transpose()?));
        }
        let name = own_name.strip_suffix(".wasm")?;
        Some((name, self.skill_file(file_name, name, SkillFileLocation { metadata, linked: None })))
    }

    /// Reads the skill `NAME.wasm` that is a link out of the root. A link in a workspace is refused.
    fn linked_skill(&mut self, file: &str, name: &str) -> Result<Option<Candidate>, Problem> {
        let refused = |why: &str| {
            let message = format!("'{}' is a link {why}.", text::excerpt(file, 80));
            Problem::new(Code::InvalidComponent, message)
        };
        let linked = component::linked_file(self.root, &self.path, self.folder, file);
        let (folder, target) = match linked {
            Ok(Some(linked)) => linked,
            Ok(None) => {
                return Err(refused("that leads out of the workspace; the links of its skills must stay inside"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(refused("to nothing")),
            Err(error) => return Err(refused(&format!("whose target cannot be read: {}", error.kind()))),
        };
        let metadata = folder.metadata(&target).ok();
        if metadata.as_ref().is_some_and(Metadata::is_dir) {
            return Err(refused("to a folder; give the link the name of the skill, without '.wasm'"));
        }
        self.skill_file(file, name, SkillFileLocation { metadata, linked: Some((folder, target)) }).map(Some)
    }

    /// Reads the skill `NAME.wasm`.
    fn skill_file(&mut self, file: &str, name: &str, place: SkillFileLocation) -> Result<Candidate, Problem> {
        let name = parse_name(name)?;
        let SkillFileLocation { metadata, linked } = place;
        let location =
            ComponentFile { root: self.root, path: Arc::clone(&self.path), folder: None, file: file.to_owned() };
        self.budget.count_file(metadata.as_ref().map_or(0, Metadata::len))?;
        let scanned = match self.cached(file, metadata.as_ref()) {
            Some((cached, size)) if cached.skill_md.is_some() => ScannedFile { cached, size, instructions: None },
            _ => {
                let (bytes, stat) = match &linked {
                    Some((folder, target)) => read_component(folder, target)?,
                    None => read_component(self.folder, file)?,
                };
                let fresh = parse_packaged(&name, &bytes, Digest::of(&bytes));
                self.record(file.to_owned(), stat, fresh.cached.clone());
                ScannedFile { cached: fresh.cached, size: bytes.len() as u64, instructions: fresh.instructions }
            }
        };
        let component = Component::in_file(scanned.cached.digest, scanned.size, location);
        let files = BTreeMap::from([(own_name(file).to_owned(), scanned.cached.digest)]);
        let embedded = scanned.cached.skill_md.as_ref().and_then(|skill_md| skill_md.embedded);
        let totals = embedded.unwrap_or(FileTotals::none(FileStorage::Component));
        let listed = ListedFiles { files, totals, source: FileSource::NoPack, skipped: Vec::new(), folder_id: None };
        self.candidate(name, scanned, listed, Some(component))
    }

    /// Reads the skill in the folder `NAME/`. `listed` is the folder if it was listed ahead. Returns `None` if an earlier candidate
    /// already has this folder.
    fn skill_folder(&mut self, folder_name: &str, listed: Option<ListedFolder>) -> Result<Option<Candidate>, Problem> {
        let name = parse_name(own_name(folder_name))?;
        let unreadable = |error: io::Error| Problem::unreadable("The folder", &error);
        let (folder, listing) = match listed {
            Some(listed) => listed.map(|(folder, listing)| (folder, Some(listing))),
            None => {
                component::open_folder(self.root, &self.path, self.folder, folder_name).map(|folder| (folder, None))
            }
        }
        .map_err(unreadable)?;
        let folder_id = folder.dir_metadata().ok().and_then(|metadata| files::identity(&metadata));
        if self.is_repeated(&name, folder_id) {
            // Even then, the child's name must match the name in SKILL.md.
            let scanned = self.skill_md(&name, folder_name, &folder, followed(&folder, SKILL_MD))?;
            let manifest = scanned.cached.skill_md.as_ref().map(|skill_md| &skill_md.manifest);
            return manifest.map_or(Ok(None), |manifest| manifest.as_ref().map(|_| None).map_err(Problem::clone));
        }
        let mut listing = match listing {
            Some(listing) => listing,
            None => listing::list(&folder).map_err(unreadable)?,
        };
        self.budget.count_entries(listing.entries)?;
        if !listing.has_skill_md {
            return Err(no_skill_md());
        }
        if listing.is_cut {
            let component = format!("{name}.wasm");
            listing.over = Some(listing::cut(&component));
            if followed(&folder, &component).is_some_and(|there| there.is_file()) {
                listing.components.push(component);
            }
        }
        // A listing over a limit may have stopped before SKILL.md.
        let listed = listing.files.remove(SKILL_MD);
        let skill_md = if listing.over.is_some() { followed(&folder, SKILL_MD) } else { listed };
        let scanned = self.skill_md(&name, folder_name, &folder, skill_md)?;
        let mut files = BTreeMap::from([(SKILL_MD.to_owned(), scanned.cached.digest)]);
        let component = match &listing.components[..] {
            [] => None,
            [file] => {
                let component = self.component(folder_name, &folder, file)?;
                files.insert(file.clone(), component.digest());
                Some(component)
            }
            several => {
                let several: Vec<_> = several.iter().map(|name| text::excerpt(name, 80)).take(5).collect();
                let message = format!("Several components: {}; a skill has at most one.", several.join(", "));
                return Err(Problem::new(Code::SeveralComponents, message));
            }
        };
        let mut listed = ListedFiles {
            files,
            totals: FileTotals::none(FileStorage::Nowhere),
            source: FileSource::NoPack,
            skipped: std::mem::take(&mut listing.skipped),
            folder_id,
        };
        match listing.over.take() {
            // The other files of such a skill are never read, so its digest does not cover them.
            Some(over) => listed.skipped.push(over),
            None => {
                let (root, path) = (self.root, Arc::clone(&self.path));
                listed.source = FileSource::Folder(SkillFolder { root, path, folder: folder_name.to_owned() });
                listed.totals.place = FileStorage::Pack;
                self.other_files(folder_name, &folder, listing, &mut listed)?;
            }
        }
        let candidate = self.candidate(name, scanned, listed, component)?;
        if let Some(folder_id) = folder_id {
            let first = self.folders.entry(folder_id).or_insert_with(|| candidate.name.clone());
            if *first != candidate.name && is_claimed_twice(self.children, first) {
                first.clone_from(&candidate.name);
            }
        }
        Ok(Some(candidate))
    }

    /// Returns true if an earlier candidate already has the folder of the child `name`, in which case `build` would leave the child
    /// out. A name that is claimed twice does not become a skill, so it is not compared.
    fn is_repeated(&self, name: &Name, folder_id: Option<(u64, u64)>) -> bool {
        // Each skill of a package is compared with the lock, even if its folder has become a link to another skill.
        if self.root == Root::Package {
            return false;
        }
        let first = folder_id.and_then(|folder_id| self.folders.get(&folder_id));
        first.is_some_and(|first| [first, name].iter().all(|name| !is_claimed_twice(self.children, name)))
    }

    /// Reads the SKILL.md in a skill's folder at `place`. `metadata` describes the file.
    fn skill_md(
        &mut self,
        name: &Name,
        place: &str,
        folder: &Dir,
        metadata: Option<Metadata>,
    ) -> Result<ScannedFile, Problem> {
        let file = format!("{place}/{SKILL_MD}");
        self.budget.count_file(metadata.as_ref().map_or(0, Metadata::len))?;
        if let Some((cached, size)) = self.cached(&file, metadata.as_ref())
            && cached.skill_md.is_some()
        {
            return Ok(ScannedFile { cached, size, instructions: None });
        }
        if let Some(metadata) = metadata.filter(|metadata| metadata.len() <= SKILL_MD_BYTES) {
            // This only checks the limit before reading; `candidate` counts the bytes.
            let mut budget = self.budget;
            budget.count_skill_md(metadata.len())?;
        }
        let (bytes, stat) = files::read_stat(folder, SKILL_MD, SKILL_MD_BYTES)
            .map_err(|error| Problem::unreadable("SKILL.md", &error))?
            .ok_or_else(no_skill_md)?;
        let fresh = parse_skill_md(name, &bytes);
        self.record(file, stat, fresh.cached.clone());
        Ok(ScannedFile { cached: fresh.cached, size: bytes.len() as u64, instructions: fresh.instructions })
    }

    /// Returns the component `file_name` in a skill's folder. Its digest comes from the cache if the file is unchanged.
    fn component(&mut self, place: &str, folder: &Dir, file_name: &str) -> Result<Component, Problem> {
        let file = format!("{place}/{file_name}");
        let location = ComponentFile {
            root: self.root,
            path: Arc::clone(&self.path),
            folder: Some(place.to_owned()),
            file: file_name.to_owned(),
        };
        let metadata = followed(folder, file_name);
        self.budget.count_file(metadata.as_ref().map_or(0, Metadata::len))?;
        if let Some((cached, size)) = self.cached(&file, metadata.as_ref()) {
            return Ok(Component::in_file(cached.digest, size, location));
        }
        let (bytes, stat) = read_component(folder, file_name)?;
        let digest = Digest::of(&bytes);
        self.record(file, stat, CachedFile { digest, skill_md: None });
        Ok(Component::in_file(digest, bytes.len() as u64, location))
    }

    /// Adds the remaining files of a skill's folder to `listed`.
    fn other_files(
        &mut self,
        place: &str,
        folder: &Dir,
        listing: Listing,
        listed: &mut ListedFiles,
    ) -> Result<(), Problem> {
        for (path, metadata) in listing.files {
            self.budget.count_file(metadata.len())?;
            let file = format!("{place}/{path}");
            let (digest, size) = if let Some((cached, size)) = self.cached(&file, Some(&metadata)) {
                (cached.digest, size)
            } else {
                match files::hash(folder, &path, listing::FILE_BYTES) {
                    Ok(Some(HashedFile { digest, size, stat })) => {
                        self.record(file, stat, CachedFile { digest, skill_md: None });
                        (digest, size)
                    }
                    // The file was removed after the folder was listed.
                    Ok(None) => continue,
                    Err(error) => {
                        listed.skipped.push(listing::unreadable(&path, &error));
                        continue;
                    }
                }
            };
            listed.totals.add(&path, size);
            listed.files.insert(path, digest);
        }
        Ok(())
    }

    /// Creates the candidate if its SKILL.md is valid and does not exceed the limit of the root.
    fn candidate(
        &mut self,
        name: Name,
        scanned: ScannedFile,
        listed: ListedFiles,
        component: Option<Component>,
    ) -> Result<Candidate, Problem> {
        let missing = || Problem::new(Code::MissingSkillMd, "SKILL.md is missing.");
        let skill_md = &**scanned.cached.skill_md.as_ref().ok_or_else(missing)?;
        self.budget.count_skill_md(skill_md.bytes)?;
        let ListedFiles { files, totals, source, skipped: mut notes, folder_id } = listed;
        notes.extend(skill_md.notes.iter().cloned());
        let manifest = Arc::clone(skill_md.manifest.as_ref().map_err(Problem::clone)?);
        let (files, instructions) = (SkillFiles::new(&files), scanned.instructions);
        let root_path = (self.root == Root::Extra).then(|| self.path.to_string_lossy().into());
        Ok(Candidate { name, manifest, files, totals, component, instructions, notes, root_path, source, folder_id })
    }

    /// Returns the cached content of a regular file with this metadata, and its size.
    fn cached(&self, file: &str, metadata: Option<&Metadata>) -> Option<(CachedFile, u64)> {
        let metadata = metadata.filter(|metadata| metadata.is_file())?;
        Some((self.cache.get(file, &Stat::new(metadata)?)?, metadata.len()))
    }

    /// Records a file that was read, for the cache. Without a stat the file is not cached.
    fn record(&mut self, file: String, stat: Option<Stat>, cached: CachedFile) {
        self.read.extend(stat.map(|stat| FileRecord { file, stat, cached }));
    }
}

/// Name of the manifest file in a skill's folder.
pub(crate) const SKILL_MD: &str = "SKILL.md";

/// Returns the metadata of a child. Follows links within the folder; `None` for a link that leads out of it.
fn followed(folder: &Dir, name: &str) -> Option<Metadata> {
    // For most children, which are not links, this is one system call instead of three.
    let metadata = folder.symlink_metadata(name).ok()?;
    if metadata.is_symlink() { folder.metadata(name).ok() } else { Some(metadata) }
}

/// Returns true if a child is a link. Called when [`followed`] found nothing, so the link leads out of the folder or to nothing.
fn leads_away(folder: &Dir, name: &str) -> bool {
    folder.symlink_metadata(name).is_ok_and(|metadata| metadata.is_symlink())
}

fn no_skill_md() -> Problem {
    Problem::new(Code::MissingSkillMd, "The folder has no SKILL.md.")
}

#[cfg(test)]
mod tests;

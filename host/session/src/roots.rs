//! The skill roots, in increasing order of precedence: the folders of `skill_roots`, packages, the binary, the user's folder, the
//! workspace. File contents are cached in memory and in the store, so scanning an unchanged root reads no files. Used by
//! `building`.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use parking_lot::{Mutex, MutexGuard};
use patchbay_core::{Code, PackageName, RootAllowance, RootLimits};
use patchbay_policy::Root;
use patchbay_skill::{
    BundledSkill, CachedFile, Discovered, FileCache, FileRecord, FoundSkill, LockError, NoCache, PackagesLock, Problem,
    SkillMd, Stat, agent_plugin::AgentPlugin, bundled, discover, discover_packages, read_packages_lock,
};
use patchbay_store::{SeenFile, Source, Store, StoreError};

use crate::{
    json::to_json,
    known_files::{FilePath, KnownFiles},
};

/// The roots of all sessions of the process.
pub(crate) struct Roots {
    bundled: &'static [BundledSkill],
    /// The skills of the binary, once they have been read. They never change while the process runs.
    read: OnceLock<Vec<FoundSkill>>,
    /// The user's skills folder.
    user: PathBuf,
    /// The folders of `skill_roots`, in increasing order of precedence.
    extra: Vec<PathBuf>,
    /// The only package whose skills are scanned, instead of all roots.
    package: Option<ServedPackage>,
    packages: PackagePaths,
    /// The last lock that was read, with the stat of its file.
    lock: Mutex<Option<(Stat, Arc<PackagesLock>)>>,
    /// Identity of the running build; `None` if unknown, which disables the cache.
    program: Option<String>,
    source: Source,
    limits: RootLimits,
    /// Cached files by the folder of their root.
    remembered: Mutex<HashMap<String, Arc<KnownFiles>>>,
}

/// A package whose skills are served without the skills of other roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedPackage {
    /// The package in this folder, which must be an Agent Plugin ([`AgentPlugin`]), without grants.
    Folder(PathBuf),
    /// The installed package of this name, with its grants.
    Installed(String),
}

/// The paths of a home's packages.
#[derive(Clone, Debug)]
pub struct PackagePaths {
    /// The folder that contains the packages, as `NAME/DIGEST`.
    pub folder: PathBuf,
    /// The folder that contains the data of the packages' MCP servers, as `NAME`.
    pub data: PathBuf,
    /// `packages.lock`.
    pub lock: PathBuf,
}

impl PackagePaths {
    /// Returns the folder with the data of a package's MCP servers, which all its versions share.
    pub fn data_of(&self, package: &PackageName) -> PathBuf {
        self.data.join(package.as_str())
    }
}

/// Cached files from the store by root folder, for roots that are not in memory.
pub(crate) type Recalled = Vec<(String, Vec<SeenFile>)>;

/// Whether a scan uses cached files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheMode {
    Use,
    /// Read every file, because the cache was wrong.
    Bypass,
}

pub(crate) struct Scan {
    pub(crate) found: Vec<FoundSkill>,
    updates: Vec<CacheUpdate>,
}

/// Changes of one root's cache.
struct CacheUpdate {
    folder: String,
    read: Vec<FileRecord>,
    gone: Vec<String>,
}

struct ScannedRoot {
    root: Root,
    /// The folder of skills, or the workspace.
    path: PathBuf,
    /// The folder of skills, canonical if it exists.
    folder: PathBuf,
}

impl ScannedRoot {
    /// Returns the name of the root's cache.
    fn cache(&self) -> String {
        self.folder.to_string_lossy().into_owned()
    }
}

impl Roots {
    /// Creates the roots of a process.
    pub(crate) fn new(
        bundled: &'static [BundledSkill],
        user: PathBuf,
        extra: Vec<PathBuf>,
        packages: PackagePaths,
        limits: RootLimits,
        source: Source,
    ) -> Self {
        let (read, remembered, lock) = (OnceLock::new(), Mutex::default(), Mutex::default());
        let (package, program) = (None, program(&source));
        Self { bundled, read, user, extra, package, packages, lock, program, source, limits, remembered }
    }

    /// Creates the roots of a process that serves the skills of a package, and no others.
    pub(crate) fn of_package(
        package: ServedPackage,
        user: PathBuf,
        packages: PackagePaths,
        limits: RootLimits,
        source: Source,
    ) -> Self {
        Self { package: Some(package), ..Self::new(&[], user, Vec::new(), packages, limits, source) }
    }

    /// Returns the skills of the binary. The first call reads them.
    pub(crate) fn bundled(&self) -> &[FoundSkill] {
        self.read.get_or_init(|| bundled(self.bundled))
    }

    /// Returns the folders that users copy skills into, existing or not, and the lock of packages.
    pub(crate) fn folders(&self, workspace: &Path) -> Vec<PathBuf> {
        let in_workspace =
            Root::ALL.into_iter().filter_map(Root::workspace_folder).map(|folder| workspace.join(folder));
        // The lock stands for the packages, because every change to them replaces it.
        [self.user.clone(), self.packages.lock.clone()]
            .into_iter()
            .chain(self.extra.iter().cloned())
            .chain(in_workspace)
            .collect()
    }

    /// Returns the roots to scan besides the binary, in increasing order of precedence. A folder that several roots name is scanned
    /// once, for the root of lowest precedence.
    fn scanned(&self, workspace: &Path) -> Vec<ScannedRoot> {
        let mut scanned: Vec<ScannedRoot> = Vec::new();
        let mut add = |root: Root, path: PathBuf, folder: PathBuf| {
            if scanned.iter().all(|scanned| scanned.folder != folder) {
                scanned.push(ScannedRoot { root, path, folder });
            }
        };
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        for extra in &self.extra {
            let path = canonical(extra);
            add(Root::Extra, path.clone(), path);
        }
        if self.packages.lock.symlink_metadata().is_ok() {
            add(Root::Package, self.packages.folder.clone(), canonical(&self.packages.folder));
        }
        add(Root::User, self.user.clone(), canonical(&self.user));
        for (root, folder) in Root::ALL.into_iter().filter_map(|root| Some((root, root.workspace_folder()?))) {
            add(root, workspace.to_owned(), canonical(&workspace.join(folder)));
        }
        scanned
    }

    /// Returns the limits of the skills of a root.
    pub(crate) fn limits(&self) -> &RootLimits {
        &self.limits
    }

    /// Reads the cache of the roots of `workspace` from the store. Roots that are already in memory are left out.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub(crate) async fn recall(&self, store: &Store, workspace: &str) -> Result<Recalled, StoreError> {
        let mut recalled = Vec::new();
        let Some(program) = &self.program else { return Ok(recalled) };
        for folder in self.scanned(Path::new(workspace)).iter().map(ScannedRoot::cache) {
            if !self.remembered().contains_key(&folder) {
                let files = store.seen(&folder, program).await?;
                recalled.push((folder, files));
            }
        }
        Ok(recalled)
    }

    /// Scans all roots. `recalled` is the result of [`Roots::recall`], `trusted` indicates whether the workspace is
    /// trusted. Reads files, so it must run on a blocking thread.
    pub(crate) fn scan(&self, recalled: Recalled, workspace: &Path, trusted: bool, mode: CacheMode) -> Scan {
        match &self.package {
            None => {}
            Some(ServedPackage::Folder(folder)) => return Scan { found: package_skills(folder), updates: Vec::new() },
            Some(ServedPackage::Installed(name)) => {
                let found =
                    self.discover_packages(Some(name), &self.packages.folder, &NoCache, &self.limits.allowance(true));
                // If the folder of packages cannot be read, there are no skills.
                return Scan { found: found.map(|found| found.found).unwrap_or_default(), updates: Vec::new() };
            }
        }
        for (folder, files) in recalled {
            let mut known = KnownFiles::default();
            for file in files {
                if let Some((stat, cached)) = remembered(&file) {
                    known.insert(FilePath::of(&file.file), stat, cached);
                }
            }
            self.remembered().entry(folder).or_insert(Arc::new(known));
        }
        let mut scan = Scan { found: self.bundled().to_vec(), updates: Vec::new() };
        // Sessions start even if a root cannot be read, because the author of a workspace must not be able to prevent sessions.
        for scanned in self.scanned(workspace) {
            let allowed = self.limits.allowance(trusted || !scanned.root.is_workspace());
            if let Err(error) = self.scan_root(&mut scan, &scanned, &allowed, mode) {
                let (whose, label) = match (scanned.root, scanned.root.workspace_folder()) {
                    (_, Some(folder)) => ("The workspace's", folder),
                    (Root::Extra, _) => ("An extra", "skill_roots"),
                    (Root::Package, _) => ("The packages'", "packages"),
                    _ => ("Your", "skills"),
                };
                let message = match error.kind() {
                    io::ErrorKind::NotADirectory => {
                        format!("{whose} skills folder cannot be read: there is a file in its place; move it away.")
                    }
                    // The crate `workspace` refused the path. Its message names no path outside of the workspace.
                    io::ErrorKind::InvalidInput => format!("{whose} skills folder cannot be read: {error}."),
                    kind => format!("{whose} skills folder cannot be read: {kind}."),
                };
                let candidate = Err(Problem::new(Code::FolderUnusable, message));
                scan.found.push(FoundSkill { label: label.to_owned(), root: scanned.root, candidate });
            }
        }
        scan
    }

    fn scan_root(
        &self,
        scan: &mut Scan,
        scanned: &ScannedRoot,
        allowed: &RootAllowance,
        mode: CacheMode,
    ) -> io::Result<()> {
        let (root, path) = (scanned.root, &*scanned.path);
        let discover = |cache: &dyn FileCache| match root {
            Root::Package => self.discover_packages(None, path, cache, allowed),
            _ => discover(root, path, cache, allowed),
        };
        // The clock is read before any file: a file that was already settled then ([`Stat::is_settled`]) cannot change unnoticed.
        let (Some(now), true) = (now(&self.source), self.program.is_some()) else {
            scan.found.extend(discover(&NoCache)?.found);
            return Ok(());
        };
        let folder = scanned.cache();
        let files = self.remembered().get(&folder).cloned().unwrap_or_default();
        let remembered = Remembered { files: &files, recognised: RefCell::default(), mode };
        let Discovered { found, read } = discover(&remembered)?;
        scan.found.extend(found);
        let read: Vec<FileRecord> = read.into_iter().filter(|sighting| sighting.stat.is_settled(now)).collect();
        let gone = remembered.gone(&read);
        if !read.is_empty() || !gone.is_empty() {
            scan.updates.push(CacheUpdate { folder, read, gone });
        }
        Ok(())
    }

    /// Reads the skills of the packages in `packages.lock`, or of the package `only`. Without a valid lock, no package can be used.
    fn discover_packages(
        &self,
        only: Option<&str>,
        path: &Path,
        cache: &dyn FileCache,
        allowed: &RootAllowance,
    ) -> io::Result<Discovered> {
        match self.read_lock() {
            Ok(lock) => match only {
                None => discover_packages(path, &lock, cache, allowed),
                Some(name) => discover_packages(path, &lock.only(name), cache, allowed),
            },
            Err(why) => {
                let message = format!(
                    "packages.lock cannot be used: {why}. No package is loaded. Restore the file, or delete it and add the packages again."
                );
                let candidate = Err(Problem::new(Code::PackagesLockInvalid, message));
                let found = FoundSkill { label: "packages.lock".to_owned(), root: Root::Package, candidate };
                Ok(Discovered { found: vec![found], read: Vec::new() })
            }
        }
    }

    /// Returns the packages' lock, which is parsed again only if its file has changed.
    pub(crate) fn read_lock(&self) -> Result<Arc<PackagesLock>, LockError> {
        let path = &self.packages.lock;
        // Without a stat, the file is read each time.
        let stat = Stat::of(path).ok().flatten();
        let mut known = self.lock.lock();
        if let Some((seen, lock)) = &*known
            && stat.as_ref() == Some(seen)
        {
            return Ok(Arc::clone(lock));
        }
        let now = now(&self.source);
        let lock = Arc::new(read_packages_lock(path)?);
        *known = stat.filter(|stat| now.is_some_and(|now| stat.is_settled(now))).map(|stat| (stat, Arc::clone(&lock)));
        Ok(lock)
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<String, Arc<KnownFiles>>> {
        self.remembered.lock()
    }

    /// Stores the cache updates of a scan.
    pub(crate) async fn remember(&self, store: &Store, scan: &mut Scan) {
        let Some(program) = &self.program else { return };
        for CacheUpdate { folder, read, gone } in scan.updates.drain(..) {
            {
                let mut all = self.remembered();
                let files = Arc::make_mut(all.entry(folder.clone()).or_default());
                for file in &gone {
                    files.remove(FilePath::of(file));
                }
                for FileRecord { file, stat, cached } in &read {
                    files.insert(FilePath::of(file), *stat, cached.clone());
                }
            }
            let read = read.into_iter().map(seen_file).collect();
            store.remember_seen(folder, program.clone(), read, gone).await;
        }
    }
}

/// Reads the skills of a package that is not installed. They get the identity of skills in an extra root at this folder, so the
/// grants of an installed package, or of other skills with these names, do not apply to them.
fn package_skills(folder: &Path) -> Vec<FoundSkill> {
    let root = Root::Extra;
    match AgentPlugin::read(folder) {
        Err(problem) => vec![FoundSkill { label: "plugin.json".to_owned(), root, candidate: Err(problem) }],
        Ok(plugin) => {
            let place: Arc<str> = folder.to_string_lossy().into();
            let found = plugin.skills.into_iter().map(|skill| FoundSkill { root, ..skill.found });
            found
                .map(|mut found| {
                    if let Ok(skill) = &mut found.candidate {
                        skill.root_path = Some(Arc::clone(&place));
                    }
                    found
                })
                .collect()
        }
    }
}

/// The cache of one root during a scan.
struct Remembered<'a> {
    files: &'a KnownFiles,
    /// Files that were used from the cache. A scan looks up each file once.
    recognised: RefCell<Vec<FilePath<'a>>>,
    mode: CacheMode,
}

impl Remembered<'_> {
    /// Returns the cached files that were neither used nor are in `read`: files that are gone, and files that changed too recently
    /// to be cached again.
    fn gone(self, read: &[FileRecord]) -> Vec<String> {
        let recognised = self.recognised.into_inner();
        if recognised.len() == self.files.len() {
            return Vec::new();
        }
        let read = read.iter().map(|sighting| FilePath::of(&sighting.file));
        let there: HashSet<FilePath<'_>> = recognised.into_iter().chain(read).collect();
        self.files.paths().filter(|file| !there.contains(file)).map(|file| file.to_string()).collect()
    }
}

impl FileCache for Remembered<'_> {
    fn get(&self, file: &str, stat: &Stat) -> Option<CachedFile> {
        if self.mode == CacheMode::Bypass {
            return None;
        }
        let (file, cached) = self.files.get(FilePath::of(file), stat)?;
        self.recognised.borrow_mut().push(file);
        Some(cached.clone())
    }
}

/// Converts a cached file to a store row.
fn seen_file(FileRecord { file, stat, cached }: FileRecord) -> SeenFile {
    let skill_md = cached.skill_md.map(|skill_md| to_json(&*skill_md));
    SeenFile { file, stat: stat.to_string(), digest: cached.digest, skill_md }
}

/// Converts a store row to a cached file; `None` if it cannot be parsed, in which case the file is read again.
fn remembered(file: &SeenFile) -> Option<(Stat, CachedFile)> {
    let skill_md = match &file.skill_md {
        Some(json) => Some(Arc::new(serde_json::from_str::<SkillMd>(json).ok()?)),
        None => None,
    };
    Some((file.stat.parse().ok()?, CachedFile { digest: file.digest, skill_md }))
}

/// Identifies the running build by the stat of its file. Another build may parse the same SKILL.md differently.
fn program(source: &Source) -> Option<String> {
    // On Linux this is the running program, even if its file has been replaced.
    let path = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe().ok()? };
    let stat = Stat::of(&path).ok()??;
    stat.is_settled(now(source)?).then(|| stat.to_string())
}

/// Returns the nanoseconds since 1970.
fn now(source: &Source) -> Option<i64> {
    i64::try_from(source.since_1970().as_nanos()).ok()
}

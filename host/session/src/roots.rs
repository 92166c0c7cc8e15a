//! Where skills come from: the binary, the user's folder, the workspace. What their files held is remembered, in memory and
//! in the store, so that looking at a root that did not change reads none of them.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use patchbay_core::{Code, RootAllowance, RootLimits};
use patchbay_policy::Root;
use patchbay_skill::{
    BundledSkill, CachedFile, Discovered, FileCache, FileRecord, FoundSkill, NoCache, Problem, SkillMd, Stat, bundled,
    discover,
};
use patchbay_store::{SeenFile, Store, StoreError};

use crate::json::to_json;

/// Where a workspace has its skills.
const IN_WORKSPACE: &str = ".patchbay/skills";

/// The roots that all sessions of the process share.
pub(crate) struct Roots {
    bundled: &'static [BundledSkill],
    /// What they are: they stay the same as long as the process runs.
    read: OnceLock<Vec<FoundSkill>>,
    /// The user's folder of skills.
    user: PathBuf,
    /// The very build that this is; `None` where it cannot be told, and then nothing is remembered.
    program: Option<String>,
    limits: RootLimits,
    /// What the files of each folder held, by the folder.
    remembered: Mutex<HashMap<String, Arc<Files>>>,
}

/// What files held in which state, by their path below the root.
type Files = HashMap<String, (Stat, CachedFile)>;

/// The remembered files of each root that is not in memory yet, by the root's folder.
pub(crate) type Recalled = Vec<(String, Vec<SeenFile>)>;

/// Whether what was remembered of files is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheMode {
    Use,
    /// Every file is read: something was not what was remembered.
    Bypass,
}

/// What there is, and what is worth remembering of it.
pub(crate) struct Scan {
    pub(crate) found: Vec<FoundSkill>,
    updates: Vec<CacheUpdate>,
}

/// What changed in one root since it was last looked at.
struct CacheUpdate {
    folder: String,
    read: Vec<FileRecord>,
    gone: Vec<String>,
}

impl Roots {
    /// The roots of a process with these bundled skills and this folder of the user's.
    pub(crate) fn new(bundled: &'static [BundledSkill], user: PathBuf, limits: RootLimits) -> Self {
        let (read, remembered) = (OnceLock::new(), Mutex::default());
        Self { bundled, read, user, program: program(), limits, remembered }
    }

    /// The folders that skills are dropped into, whether they are there or not.
    pub(crate) fn folders(&self, workspace: &Path) -> Vec<PathBuf> {
        vec![self.user.clone(), workspace.join(IN_WORKSPACE)]
    }

    /// What the skills of a root may take in all.
    pub(crate) fn limits(&self) -> &RootLimits {
        &self.limits
    }

    /// Reads what the store remembers of the files in the roots of `workspace`. A root that is in memory already is left out.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub(crate) async fn recall(&self, store: &Store, workspace: &str) -> Result<Recalled, StoreError> {
        let mut recalled = Vec::new();
        let Some(program) = &self.program else { return Ok(recalled) };
        for folder in [self.user.to_string_lossy().into_owned(), workspace.to_owned()] {
            if !self.remembered().contains_key(&folder) {
                let files = store.seen(&folder, program).await?;
                recalled.push((folder, files));
            }
        }
        Ok(recalled)
    }

    /// Scans all roots. `recalled` is what [`Roots::recall`] returned, `trusted` whether the workspace is. Reads files, so
    /// that it must run on a thread that may block.
    pub(crate) fn scan(&self, recalled: Recalled, workspace: &Path, trusted: bool, mode: CacheMode) -> Scan {
        for (folder, files) in recalled {
            let files = Arc::new(files.into_iter().filter_map(remembered).collect());
            self.remembered().entry(folder).or_insert(files);
        }
        let mut scan = Scan { found: self.read.get_or_init(|| bundled(self.bundled)).clone(), updates: Vec::new() };
        // A root that cannot be read is no reason to start nothing; nor may the author of a workspace keep a person out.
        for (root, path, label, whose, trusted) in [
            (Root::User, &*self.user, "skills", "Your", true),
            (Root::Workspace, workspace, IN_WORKSPACE, "The workspace's", trusted),
        ] {
            let allowed = self.limits.allowance(trusted);
            if let Err(error) = self.scan_root(&mut scan, root, path, &allowed, mode) {
                let message = match error.kind() {
                    io::ErrorKind::NotADirectory => {
                        format!("{whose} folder of skills cannot be read: there is a file in its place; move it away.")
                    }
                    // The guard's own words, which name no path outside of the workspace.
                    io::ErrorKind::InvalidInput => format!("{whose} folder of skills cannot be read: {error}."),
                    kind => format!("{whose} folder of skills cannot be read: {kind}."),
                };
                let candidate = Err(Problem::new(Code::FolderUnusable, message));
                scan.found.push(FoundSkill { label: label.to_owned(), root, candidate });
            }
        }
        scan
    }

    fn scan_root(
        &self,
        scan: &mut Scan,
        root: Root,
        path: &Path,
        allowed: &RootAllowance,
        mode: CacheMode,
    ) -> io::Result<()> {
        // Before anything is read: a file that was at rest until now cannot change unnoticed from here on.
        let (Some(now), true) = (now(), self.program.is_some()) else {
            scan.found.extend(discover(root, path, &NoCache, allowed)?.found);
            return Ok(());
        };
        let folder = path.to_string_lossy().into_owned();
        let remembered = Remembered::new(self.remembered().get(&folder).cloned().unwrap_or_default(), mode);
        let Discovered { found, read } = discover(root, path, &remembered, allowed)?;
        scan.found.extend(found);
        let read: Vec<FileRecord> = read.into_iter().filter(|sighting| sighting.stat.is_settled(now)).collect();
        let gone = remembered.gone(&read);
        if !read.is_empty() || !gone.is_empty() {
            scan.updates.push(CacheUpdate { folder, read, gone });
        }
        Ok(())
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<String, Arc<Files>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a look has found.
    pub(crate) async fn remember(&self, store: &Store, scan: &mut Scan) {
        let Some(program) = &self.program else { return };
        for CacheUpdate { folder, read, gone } in scan.updates.drain(..) {
            {
                let mut all = self.remembered();
                let files = Arc::make_mut(all.entry(folder.clone()).or_default());
                for file in &gone {
                    files.remove(file);
                }
                let new = read.iter().map(|FileRecord { file, stat, cached }| (file.clone(), (*stat, cached.clone())));
                files.extend(new);
            }
            let read = read.into_iter().map(seen_file).collect();
            store.remember_seen(folder, program.clone(), read, gone).await;
        }
    }
}

/// What is remembered of one root.
struct Remembered {
    files: Arc<Files>,
    /// The files that were recognised.
    recognised: RefCell<HashSet<String>>,
    mode: CacheMode,
}

impl Remembered {
    fn new(files: Arc<Files>, mode: CacheMode) -> Self {
        Self { files, recognised: RefCell::default(), mode }
    }

    /// The files that neither were recognised nor are remembered as they are now.
    fn gone(self, read: &[FileRecord]) -> Vec<String> {
        let recognised = self.recognised.into_inner();
        if recognised.len() == self.files.len() {
            return Vec::new();
        }
        let read: HashSet<&str> = read.iter().map(|sighting| sighting.file.as_str()).collect();
        let gone = self.files.keys().filter(|file| !recognised.contains(*file) && !read.contains(file.as_str()));
        gone.cloned().collect()
    }
}

impl FileCache for Remembered {
    fn get(&self, file: &str, stat: &Stat) -> Option<CachedFile> {
        if self.mode == CacheMode::Bypass {
            return None;
        }
        let (_, cached) = self.files.get(file).filter(|(seen, _)| seen == stat)?;
        self.recognised.borrow_mut().insert(file.to_owned());
        Some(cached.clone())
    }
}

/// A file as the store has it.
fn seen_file(FileRecord { file, stat, cached }: FileRecord) -> SeenFile {
    let skill_md = cached.skill_md.map(|skill_md| to_json(&*skill_md));
    SeenFile { file, stat: stat.to_string(), digest: cached.digest, skill_md }
}

/// A file of the store; `None` where its row cannot be read, and then the file is read again.
fn remembered(file: SeenFile) -> Option<(String, (Stat, CachedFile))> {
    let skill_md = match &file.skill_md {
        Some(json) => Some(Arc::new(serde_json::from_str::<SkillMd>(json).ok()?)),
        None => None,
    };
    Some((file.file, (file.stat.parse().ok()?, CachedFile { digest: file.digest, skill_md })))
}

/// Which build this process runs, by the state of its file: another build may read the same SKILL.md otherwise.
fn program() -> Option<String> {
    // On Linux this is the very program that runs, also when its file has been replaced meanwhile.
    let path = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe().ok()? };
    let stat = Stat::of(&path).ok()??;
    stat.is_settled(now()?).then(|| stat.to_string())
}

/// Nanoseconds since 1970.
fn now() -> Option<i64> {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

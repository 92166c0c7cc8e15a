//! Where skills come from: the binary, the person's folder, the workspace. What their files held is remembered in the store,
//! so that looking at a root that did not change reads none of them.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

use patchbay_core::Code;
use patchbay_policy::Root;
use patchbay_skill::{
    Bundled, Discovered, Found, Known, Manifest, Problem, Seen, Sighting, Stat, Unseen, bundled, discover,
};
use patchbay_store::{SeenFile, Store, StoreError};

use crate::{SessionError, host};

/// Where a workspace has its skills.
const IN_WORKSPACE: &str = ".patchbay/skills";

/// The roots that all sessions of the process share.
pub(crate) struct Roots {
    bundled: &'static [Bundled],
    /// What they are: they stay the same as long as the process runs.
    read: OnceLock<Vec<Found>>,
    /// The person's folder of skills.
    user: PathBuf,
    /// The very build that this is; none where it cannot be told, and then nothing is remembered.
    program: Option<String>,
}

/// Whether what was remembered of files is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Believed,
    /// Every file is read: something was not what was remembered.
    Doubted,
}

/// What there is, and what is worth remembering of it.
pub(crate) struct Look {
    pub(crate) found: Vec<Found>,
    news: Vec<News>,
}

/// What changed in one root since it was last looked at.
struct News {
    folder: String,
    read: Vec<SeenFile>,
    gone: Vec<String>,
}

impl Roots {
    /// The roots of a process with these bundled skills and this folder of the person's.
    pub(crate) fn new(bundled: &'static [Bundled], user: PathBuf) -> Self {
        Self { bundled, read: OnceLock::new(), user, program: program() }
    }

    /// The folders that skills are dropped into, whether they are there or not.
    pub(crate) fn folders(&self, workspace: &Path) -> Vec<PathBuf> {
        vec![self.user.clone(), workspace.join(IN_WORKSPACE)]
    }

    /// Looks at all roots. Reads files: for a thread where that may take its time.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub(crate) fn look(&self, store: &Store, workspace: &Path, memory: Memory) -> Result<Look, SessionError> {
        let mut look = Look { found: self.read.get_or_init(|| bundled(self.bundled)).clone(), news: Vec::new() };
        // A root that cannot be read is no reason to start nothing; nor may the author of a workspace keep a person out.
        for (root, path, label, whose) in
            [(Root::User, &*self.user, "skills", "Your"), (Root::Workspace, workspace, IN_WORKSPACE, "The workspace's")]
        {
            if let Err(error) = self.look_at(&mut look, store, root, path, memory)? {
                let message = match error.kind() {
                    io::ErrorKind::NotADirectory => {
                        format!("{whose} folder of skills cannot be read: there is a file in its place; move it away.")
                    }
                    // The guard's own words, which name no path outside of the workspace.
                    io::ErrorKind::InvalidInput => format!("{whose} folder of skills cannot be read: {error}."),
                    kind => format!("{whose} folder of skills cannot be read: {kind}."),
                };
                let candidate = Err(Problem::new(Code::FolderUnusable, message));
                look.found.push(Found { label: label.to_owned(), root, candidate });
            }
        }
        Ok(look)
    }

    fn look_at(
        &self,
        look: &mut Look,
        store: &Store,
        root: Root,
        path: &Path,
        memory: Memory,
    ) -> Result<io::Result<()>, StoreError> {
        // Before anything is read: a file that was at rest until now cannot change unnoticed from here on.
        let (Some(now), Some(program)) = (now(), &self.program) else {
            let found = discover(root, path, &Unseen).map(|discovered| look.found.extend(discovered.found));
            return Ok(found);
        };
        let folder = path.to_string_lossy().into_owned();
        let remembered = Remembered::new(store.seen(&folder, program)?, memory);
        let Discovered { found, read } = match discover(root, path, &remembered) {
            Ok(discovered) => discovered,
            Err(error) => return Ok(Err(error)),
        };
        look.found.extend(found);
        let read: Vec<SeenFile> =
            read.into_iter().filter(|sighting| sighting.stat.is_settled(now)).map(seen_file).collect();
        let gone = remembered.gone(&read);
        if !read.is_empty() || !gone.is_empty() {
            look.news.push(News { folder, read, gone });
        }
        Ok(Ok(()))
    }

    /// Remembers what a look has found.
    pub(crate) async fn remember(&self, store: &Store, look: &mut Look) {
        let Some(program) = &self.program else { return };
        for News { folder, read, gone } in look.news.drain(..) {
            store.remember_seen(folder, program.clone(), read, gone).await;
        }
    }
}

/// What is remembered of one root.
struct Remembered {
    files: HashMap<String, SeenFile>,
    /// The files that were recognised.
    recognised: RefCell<HashSet<String>>,
    memory: Memory,
}

impl Remembered {
    fn new(files: Vec<SeenFile>, memory: Memory) -> Self {
        let files = files.into_iter().map(|file| (file.file.clone(), file)).collect();
        Self { files, recognised: RefCell::default(), memory }
    }

    /// The files that neither were recognised nor are to be remembered anew.
    fn gone(self, read: &[SeenFile]) -> Vec<String> {
        let (mut files, recognised) = (self.files, self.recognised.into_inner());
        files.retain(|file, _| !recognised.contains(file));
        for SeenFile { file, .. } in read {
            files.remove(file);
        }
        files.into_keys().collect()
    }
}

impl Seen for Remembered {
    fn known(&self, file: &str, stat: &Stat) -> Option<Known> {
        if self.memory == Memory::Doubted {
            return None;
        }
        let seen = self.files.get(file).filter(|seen| seen.stat == stat.to_string())?;
        let manifest = match &seen.manifest {
            Some(json) => Some(Arc::new(serde_json::from_str::<Manifest>(json).ok()?)),
            None => None,
        };
        self.recognised.borrow_mut().insert(file.to_owned());
        Some(Known { digest: seen.digest, manifest })
    }
}

fn seen_file(Sighting { file, stat, known }: Sighting) -> SeenFile {
    let manifest = known.manifest.map(|manifest| host::to_json(&*manifest));
    SeenFile { file, stat: stat.to_string(), digest: known.digest, manifest }
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

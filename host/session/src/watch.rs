//! Watches the folders of skills while a terminal is open. If a reload would change the session's skills, the user is
//! notified once per snapshot. The snapshot itself does not change here.
//!
//! File events only trigger a comparison, since events may be lost and most changes of files change no skill.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use patchbay_workspace::resolved_path;
use tokio::{
    sync::Notify,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout, timeout_at},
};

use crate::Session;

const DIFFERS: &str = "Skills have changed on disk. Run /reload_skills to use them.";
/// Limit of watched folders, because the system has a limited number of watches per user.
const FOLDERS: usize = 4_096;
/// Limit of directory entries that are read to find folders.
const ENTRIES: usize = 100_000;
/// Maximum depth of the watched folders below a skill's folder.
const DEPTH: usize = 8;
/// Interval of comparisons if not every folder is watched.
const EVERY: Duration = Duration::from_secs(30);
/// Quiet time before a comparison, since files are copied in pieces.
const SETTLED: Duration = Duration::from_millis(250);
/// The longest wait for a pause between changes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Watches the folders of skills until it is dropped.
#[derive(Debug)]
pub struct SkillWatch {
    task: JoinHandle<()>,
}

impl Drop for SkillWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    /// Notifies the fronts of this session, once until the next reload, that skills on disk differ from its snapshot. Must
    /// be called within a runtime.
    pub fn watch_skills(self: &Arc<Self>) -> SkillWatch {
        let roots = self.host.roots.folders(Path::new(self.workspace()));
        SkillWatch { task: tokio::spawn(watch(Arc::downgrade(self), Folders::new(roots))) }
    }
}

async fn watch(session: Weak<Session>, mut folders: Folders) {
    let changed = Arc::clone(&folders.changed);
    // The version of the snapshot that was already reported.
    let mut said = None;
    loop {
        // Set the watches before comparing. Any later change then causes an event.
        let Ok((watched, all)) = spawn_blocking(move || {
            let all = folders.watch();
            (folders, all)
        })
        .await
        else {
            return;
        };
        folders = watched;
        let Some(session) = session.upgrade() else { return };
        let snapshot = session.snapshot();
        if said != Some(snapshot.version()) && differs(&session).await {
            // A reload may have applied the changes in the meantime.
            if session.snapshot().version() == snapshot.version() {
                said = Some(snapshot.version());
                session.notify(DIFFERS);
            } else {
                changed.notify_one();
            }
        }
        drop(session);
        next_look(&changed, (!all).then_some(EVERY)).await;
    }
}

/// Returns when the skills are to be compared again: once a change was followed by [`SETTLED`] of quiet, or by [`PATIENCE`]
/// of further changes. `every` is how long it waits for the first change; `None` if every folder is watched.
async fn next_look(changed: &Notify, every: Option<Duration>) {
    match every {
        None => changed.notified().await,
        Some(every) => drop(timeout(every, changed.notified()).await),
    }
    let patience = Instant::now() + PATIENCE;
    while let Ok(Ok(())) = timeout_at(patience, timeout(SETTLED, changed.notified())).await {}
}

/// Returns whether a reload would change the skills of `session`. Errors are logged and count as no difference.
async fn differs(session: &Arc<Session>) -> bool {
    let differs = session.host.differs(&session.snapshot(), session.workspace()).await;
    differs.inspect_err(|error| tracing::warn!("cannot compare the skills on disk: {error}")).unwrap_or(false)
}

/// The watched folders of skills.
struct Folders {
    roots: Vec<PathBuf>,
    /// `None` if the system reports no changes.
    watcher: Option<RecommendedWatcher>,
    changed: Arc<Notify>,
}

impl Folders {
    fn new(roots: Vec<PathBuf>) -> Self {
        let changed = Arc::new(Notify::new());
        // On Linux, events contain the path as it was watched; on macOS, links in it are resolved.
        let (tell, mut mine) = (Arc::clone(&changed), roots.clone());
        mine.extend(roots.iter().map(|root| resolved_path(root)));
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // After an error, events may have been lost.
            if event.map_or(true, |event| !event.kind.is_access() && concerns(&event, &mine)) {
                tell.notify_one();
            }
        });
        let watcher = watcher.inspect_err(|error| tracing::warn!("cannot watch the skills: {error}")).ok();
        Self { roots, watcher, changed }
    }

    /// Watches all existing folders, including new ones; returns whether every folder of the skills is watched.
    fn watch(&mut self) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let (folders, mut all) = folders(&self.roots);
        // All paths are added in one step, because macOS restarts its event stream after each change.
        let mut watched = watcher.paths_mut();
        for folder in folders {
            // A folder that was just deleted is reported by the watch on its parent.
            if watched.add(&folder, RecursiveMode::NonRecursive).is_err() && folder.is_dir() {
                all = false;
            }
        }
        watched.commit().is_ok() && all
    }
}

/// Returns whether an event concerns a root, its contents, or the folder that contains the root.
fn concerns(event: &Event, roots: &[PathBuf]) -> bool {
    let near = |path: &Path, root: &Path| path.starts_with(root) || root.parent() == Some(path);
    event.need_rescan() || event.paths.iter().any(|path| roots.iter().any(|root| near(path, root)))
}

/// Returns the folders to watch, and whether they are complete. The folders are each root with its subfolders, and the two
/// folders above each root, where the root may appear later. They are incomplete beyond a limit, and if a skill's folder is a
/// link, because the link's target may have any size.
fn folders(roots: &[PathBuf]) -> (Vec<PathBuf>, bool) {
    let above = roots.iter().flat_map(|root| root.ancestors().skip(1).take(2)).filter(|path| path.is_dir());
    let mut folders: Vec<PathBuf> = above.map(Path::to_owned).collect();
    let mut waiting: VecDeque<(PathBuf, usize)> = roots.iter().map(|root| (root.clone(), 0)).collect();
    let (mut entries, mut all) = (0, true);
    while let Some((folder, depth)) = waiting.pop_front() {
        let Ok(found) = fs::read_dir(&folder) else { continue };
        if folders.len() >= FOLDERS {
            return (folders, false);
        }
        folders.push(folder);
        if depth > DEPTH {
            continue;
        }
        for entry in found.flatten() {
            entries += 1;
            if entries > ENTRIES {
                return (folders, false);
            }
            let Ok(kind) = entry.file_type() else { continue };
            // A skill's folder may be a link. Its target is watched but not walked. Therefore skills are then also compared at
            // intervals.
            let linked = kind.is_symlink() && depth == 0 && entry.path().is_dir();
            if (kind.is_dir() || linked) && belongs(&entry.file_name()) {
                all &= !linked;
                waiting.push_back((entry.path(), if linked { DEPTH + 1 } else { depth + 1 }));
            }
        }
    }
    (folders, all)
}

/// Returns whether a folder of this name may belong to a skill.
fn belongs(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !name.starts_with('.') && name != "node_modules" && name != "__pycache__"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how long [`next_look`] waits while changes are reported forever, one after each `pause`.
    async fn waited(every: Option<Duration>, pause: Duration) -> Duration {
        let changed = Notify::new();
        let reports = async {
            loop {
                tokio::time::sleep(pause).await;
                changed.notify_one();
            }
        };
        let start = Instant::now();
        tokio::select! {
            () = next_look(&changed, every) => start.elapsed(),
            () = reports => unreachable!("it never ends"),
        }
    }

    #[tokio::test]
    async fn skills_are_compared_at_intervals_if_some_folders_are_unwatched() {
        let mut folders = Folders { roots: Vec::new(), watcher: None, changed: Arc::new(Notify::new()) };
        assert!(!folders.watch(), "nothing is watched if the system reports no changes");
        let (every, never) = (Duration::from_millis(100), Duration::from_secs(3_600));
        let start = Instant::now();
        for _ in 0..2 {
            assert!(waited(Some(every), never).await >= every + SETTLED);
        }
        // Far less than the hour before the first change, even on a slow machine.
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[tokio::test]
    async fn skills_are_compared_only_after_changes_if_folders_are_watched() {
        assert!(timeout(SETTLED * 2, next_look(&Notify::new(), None)).await.is_err());
        // After the first change, followed by a quiet time without a second change.
        let pause = SETTLED * 3;
        // If the process itself is held up, the next change may come in the quiet time. Then the test tries again.
        for attempt in 1.. {
            let waited = waited(None, pause).await;
            assert!(waited >= pause + SETTLED, "{waited:?}");
            if waited < pause + PATIENCE {
                break;
            }
            assert!(attempt < 20, "{waited:?}");
        }
    }

    #[tokio::test]
    async fn steady_changes_delay_a_comparison_by_two_seconds() {
        // If the process itself is held up, there may be a quiet time. Then the test tries again.
        for attempt in 1.. {
            let waited = waited(None, SETTLED / 10).await;
            if waited >= PATIENCE && waited < PATIENCE * 3 {
                break;
            }
            assert!(attempt < 20, "{waited:?}");
        }
    }

    #[test]
    fn folders_of_roots_are_found_and_bounded() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("config/skills");
        let found = |root: &PathBuf| {
            let (folders, all) = folders(std::slice::from_ref(root));
            let mut below: Vec<String> = folders
                .iter()
                .filter_map(|folder| Some(folder.strip_prefix(root).ok()?.display().to_string()))
                .collect();
            below.sort();
            (below, all)
        };
        assert_eq!(found(&root), (vec![], true));
        for folder in ["a/deep/er", "b", "c/.git/x", "c/node_modules/x"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        assert_eq!(found(&root).0, ["", "a", "a/deep", "a/deep/er", "b", "c"]);
        fs::create_dir_all(root.join("b/1/2/3/4/5/6/7/8/9/10")).unwrap();
        assert!(found(&root).0.last().unwrap().ends_with("c"));
        assert!(!found(&root).0.iter().any(|folder| folder.ends_with("/10")));
        for n in 0..FOLDERS {
            fs::create_dir(root.join(format!("many{n}"))).unwrap();
        }
        let (folders, all) = found(&root);
        assert!(folders.len() <= FOLDERS && !all, "{}", folders.len());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn change_in_a_root_behind_a_link_is_reported() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("real/skills/a")).unwrap();
        std::os::unix::fs::symlink("real", home.path().join("link")).unwrap();
        let root = home.path().join("link/skills");
        let mut folders = Folders::new(vec![root.clone()]);
        assert!(folders.watch());
        fs::write(root.join("a/SKILL.md"), "x").unwrap();
        timeout(Duration::from_secs(30), folders.changed.notified()).await.unwrap();
        // The path as macOS reports it.
        let real = home.path().canonicalize().unwrap().join("real/skills/a/SKILL.md");
        assert!(concerns(&Event::new(notify::EventKind::Any).add_path(real), &[resolved_path(&root)]));
    }

    #[cfg(unix)]
    #[test]
    fn linked_skill_is_watched_but_not_walked() {
        let home = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (home.path().join("skills"), home.path().join("elsewhere"));
        fs::create_dir_all(elsewhere.join("inner")).unwrap();
        fs::create_dir_all(root.join("own")).unwrap();
        assert!(folders(std::slice::from_ref(&root)).1);
        // Neither a hidden link nor a link to nothing is a skill.
        std::os::unix::fs::symlink(&elsewhere, root.join(".hidden")).unwrap();
        std::os::unix::fs::symlink(home.path().join("none"), root.join("dangling")).unwrap();
        assert!(folders(std::slice::from_ref(&root)).1);
        std::os::unix::fs::symlink(&elsewhere, root.join("linked")).unwrap();
        let (folders, all) = folders(std::slice::from_ref(&root));
        assert!(folders.contains(&root.join("linked")) && !folders.contains(&root.join("linked/inner")));
        assert!(!all, "the subfolders of the target are not watched");
    }
}

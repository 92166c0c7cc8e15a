//! Reports which files of a plugin were saved. `patchbay plugin dev` builds again after each report.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use patchbay_core::text;
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use crate::located::{COMPARED, PluginContents};

/// How long it must be quiet before the files are compared, because editors write a file in several steps.
const SETTLED: Duration = Duration::from_millis(50);
/// The longest wait for a quiet moment.
const PATIENCE: Duration = Duration::from_millis(600);
/// How often files are compared without an event. Events can be lost, for example when a folder is created again.
const EVERY: Duration = Duration::from_secs(1);

/// The size in bytes and the modification time of a file.
type FileStamp = (u64, Option<SystemTime>);

/// Watches a plugin's files, except compiler outputs and test cases.
pub struct PluginWatch {
    /// A plugin's folder, or a component.
    path: PathBuf,
    has_components: bool,
    stamps: BTreeMap<PathBuf, FileStamp>,
    /// Whether the folder has too many files to watch, in which case changes are not seen.
    is_too_large: bool,
    /// The folders that are watched.
    folders: Vec<PathBuf>,
    /// `None` if the system reports no events.
    watcher: Option<RecommendedWatcher>,
    changed: Arc<Notify>,
}

impl PluginWatch {
    /// Watches the plugin at `path`, a folder or a component. `has_components` also watches the components in the folder, for a
    /// plugin that another tool builds.
    pub fn new(path: &Path, has_components: bool) -> Self {
        let changed = Arc::new(Notify::new());
        let tell = Arc::clone(&changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // After an error, events may have been lost.
            if event.map_or(true, |event| !event.kind.is_access()) {
                tell.notify_one();
            }
        });
        let (stamps, folders) = (BTreeMap::new(), Vec::new());
        let (path, watcher, is_too_large) = (path.to_owned(), watcher.ok(), false);
        let mut watch = Self { path, has_components, stamps, is_too_large, folders, watcher, changed };
        watch.stamps = watch.look();
        watch
    }

    /// Returns the limit of watched files if the folder exceeds it. No change is seen until some files are removed.
    pub fn exceeded(&self) -> Option<usize> {
        self.is_too_large.then_some(COMPARED)
    }

    /// Waits until files are saved, and returns their paths in the folder, sorted. Dropping the future loses no change.
    pub async fn changed(&mut self) -> Vec<String> {
        loop {
            // Set the watches before comparing. Any later change then causes an event.
            let stamps = self.look();
            let saved = self.differences(&stamps);
            if !saved.is_empty() {
                self.stamps = stamps;
                return saved;
            }
            let _ = timeout(EVERY, self.changed.notified()).await;
            let patience = Instant::now() + PATIENCE;
            while let Ok(Ok(())) = timeout_at(patience, timeout(SETTLED, self.changed.notified())).await {}
        }
    }

    fn differences(&self, stamps: &BTreeMap<PathBuf, FileStamp>) -> Vec<String> {
        let saved = stamps.iter().filter(|(path, stamp)| self.stamps.get(*path) != Some(stamp)).map(|(path, _)| path);
        let deleted = self.stamps.keys().filter(|path| !stamps.contains_key(*path));
        let folder = if self.path.is_dir() { &self.path } else { self.path.parent().unwrap_or(&self.path) };
        let shown = |path: &PathBuf| text::excerpt(&path.strip_prefix(folder).unwrap_or(path).to_string_lossy(), 80);
        let mut names: Vec<String> = saved.chain(deleted).map(shown).collect();
        names.sort();
        names
    }

    /// Returns the current files, and watches their folders.
    fn look(&mut self) -> BTreeMap<PathBuf, FileStamp> {
        let mut contents = if self.path.is_dir() {
            PluginContents::read(&self.path, true)
        } else {
            let folders = self.path.parent().map(Path::to_owned).into_iter().collect();
            Some(PluginContents { folders, files: vec![self.path.clone()] })
        };
        if let Some(contents) = contents.as_mut().filter(|_| self.has_components && self.path.is_dir()) {
            let entries = fs::read_dir(&self.path).into_iter().flatten().flatten().map(|entry| entry.path());
            contents.files.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "wasm")));
        }
        // If there are too many files, all of them are ignored.
        self.is_too_large = contents.is_none();
        let contents = contents.unwrap_or(PluginContents { folders: Vec::new(), files: Vec::new() });
        if contents.folders != self.folders {
            self.watch(&contents.folders);
            self.folders = contents.folders;
        }
        let stamps = contents.files.into_iter().filter_map(|path| {
            let metadata = fs::metadata(&path).ok()?;
            Some((path, (metadata.len(), metadata.modified().ok())))
        });
        stamps.collect()
    }

    fn watch(&mut self, folders: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        // All paths are changed together, because macOS restarts its event stream after each change.
        let mut watched = watcher.paths_mut();
        for folder in folders {
            // If the folder was just deleted, the next comparison notices.
            let _ = watched.add(folder, RecursiveMode::NonRecursive);
        }
        let _ = watched.commit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn saved_files_are_named_and_outputs_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("src/lib.rs", "a");
        let mut watch = PluginWatch::new(folder.path(), false);
        let nothing = timeout(Duration::from_millis(200), watch.changed()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        for (path, text) in [("target/x", "a"), ("greet.wasm", "a"), ("fixtures/a.json", "{}"), ("src/lib.rs", "ab")] {
            write(path, text);
        }
        let saved = timeout(Duration::from_secs(30), watch.changed()).await.unwrap();
        assert_eq!(saved, ["src/lib.rs"]);
        write("src/new/deep.rs", "a");
        assert_eq!(timeout(Duration::from_secs(30), watch.changed()).await.unwrap(), ["src/new/deep.rs"]);
        fs::remove_file(folder.path().join("src/lib.rs")).unwrap();
        assert_eq!(timeout(Duration::from_secs(30), watch.changed()).await.unwrap(), ["src/lib.rs"]);
        assert_eq!(watch.exceeded(), None);
        for number in 0..=COMPARED {
            write(&format!("src/{number}"), "");
        }
        let saved = timeout(Duration::from_secs(30), watch.changed()).await.unwrap();
        assert!(!saved.is_empty());
        // Some files may be reported while others are still being written.
        while watch.exceeded().is_none() {
            timeout(Duration::from_secs(30), watch.changed()).await.unwrap();
        }
        assert_eq!(watch.exceeded(), Some(COMPARED));
        fs::remove_dir_all(folder.path().join("src")).unwrap();
        write("skill.js", "a");
        let saved = timeout(Duration::from_secs(30), watch.changed()).await.unwrap();
        assert_eq!((saved, watch.exceeded()), (vec!["skill.js".to_owned()], None));
        let mut component = PluginWatch::new(&folder.path().join("greet.wasm"), false);
        write("greet.wasm", "ab");
        assert_eq!(timeout(Duration::from_secs(30), component.changed()).await.unwrap(), ["greet.wasm"]);
    }
}

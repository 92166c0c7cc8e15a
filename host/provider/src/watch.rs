//! Watches the folder of adapters and `config.toml`: a change takes effect within a second, without a restart. Interactive fronts
//! start it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use patchbay_workspace::resolved_path;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::Providers;

/// How long there must be no event before a reload, because a file is copied piece by piece.
const SETTLED: Duration = Duration::from_millis(150);
/// The longest wait for such a pause.
const PATIENCE: Duration = Duration::from_millis(600);
/// Maximum number of checks whether `config.toml` has stopped changing. A partly written file can be valid TOML with fewer tables:
/// without the wait, providers, their origins and their keys would be gone for a moment.
const LOOKS: u32 = 20;

/// A running watch. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why the watch did not start. Providers work without it; changes take effect at the next start.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The folder cannot be created.
    #[error("cannot create the folder of providers: {0}")]
    Folder(#[from] io::Error),
    /// The system cannot report changes.
    #[error("cannot watch the folder of providers: {0}")]
    Watch(#[from] notify::Error),
}

impl Providers {
    /// Starts to watch the folder of adapters, which is created if it is missing, and `config.toml` beside it.
    /// Must be called within a runtime.
    ///
    /// # Errors
    /// Every failure is reported as [`WatchError`].
    pub fn watch(self: &Arc<Self>) -> Result<Watch, WatchError> {
        let folder = self.folder().to_owned();
        fs::create_dir_all(&folder)?;
        let (sender, changes) = mpsc::unbounded_channel();
        let watched = [folder.clone(), resolved_path(&folder)];
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error means that events were lost, which may have been relevant.
            let relevant = event.as_ref().map_or(true, |event| !event.kind.is_access() && is_relevant(event, &watched));
            if relevant {
                // The folder may have been deleted or created again; the present watch would not see the new one.
                let folder_changed =
                    event.map_or(true, |event| watched.iter().any(|folder| event.paths.contains(folder)));
                let _ = sender.send(folder_changed);
            }
        })?;
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        if let Some(config) = folder.parent() {
            watcher.watch(config, RecursiveMode::NonRecursive)?;
        }
        let task = tokio::spawn(reload(Arc::downgrade(self), watcher, changes));
        Ok(Watch { task })
    }
}

/// Whether an event is about an adapter or about `config.toml`. `folders` are two paths of the folder of adapters, because events
/// contain the watched path on Linux, but the path without symlinks on macOS.
fn is_relevant(event: &Event, folders: &[PathBuf]) -> bool {
    let is_folder = |path: &Path| folders.iter().any(|folder| folder == path);
    let is_adapter =
        |path: &Path| path.parent().is_some_and(is_folder) && path.extension().is_some_and(|end| end == "wasm");
    event.paths.iter().any(|path| is_adapter(path) || is_folder(path) || path.ends_with("config.toml"))
}

/// Reloads the providers after each change. Each item of `changes` is whether the folder itself changed.
async fn reload(
    providers: Weak<Providers>,
    mut watcher: RecommendedWatcher,
    mut changes: mpsc::UnboundedReceiver<bool>,
) {
    // Load now, because notices about later changes compare with the present state.
    match providers.upgrade() {
        Some(providers) => drop(providers.registry().await),
        None => return,
    }
    while let Some(mut folder_changed) = changes.recv().await {
        let patience = Instant::now() + PATIENCE;
        while let Ok(Ok(Some(also))) = timeout_at(patience, timeout(SETTLED, changes.recv())).await {
            folder_changed |= also;
        }
        let Some(folder) = providers.upgrade().map(|providers| providers.folder().to_owned()) else { return };
        if let Some(config) = folder.parent() {
            settled(&config.join("config.toml")).await;
        }
        // The reload below covers these changes.
        while let Ok(also) = changes.try_recv() {
            folder_changed |= also;
        }
        let Some(providers) = providers.upgrade() else { return };
        if folder_changed {
            // Fails if the folder is gone; the watch on the parent reports its return.
            let _ = watcher.watch(providers.folder(), RecursiveMode::NonRecursive);
        }
        providers.reload().await;
    }
}

/// Waits until two checks in a row find the same size and modification time of `file`.
async fn settled(file: &Path) {
    let mut before = stamp(file);
    for _ in 0..LOOKS {
        sleep(SETTLED).await;
        let now = stamp(file);
        if now == before {
            return;
        }
        before = now;
    }
}

fn stamp(file: &Path) -> Option<(u64, Option<SystemTime>)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

#[cfg(test)]
mod tests {
    use patchbay_egress::Secrets;
    use patchbay_sandbox::{Limits, Sandbox};
    use patchbay_store::Store;
    use std::{io::Write as _, sync::Mutex};

    use tokio::sync::broadcast;

    use super::*;
    use crate::{CatalogueSettings, ExchangeLimits, Settings, SettingsSource, Sources};

    fn providers(home: &Path) -> Arc<Providers> {
        with_settings(home, Box::new(|| Ok(Settings::default())))
    }

    fn with_settings(home: &Path, settings: SettingsSource) -> Arc<Providers> {
        let config = home.join("config");
        fs::create_dir_all(&config).unwrap();
        let sources = Sources {
            folder: config.join("providers"),
            bundled: &[],
            settings,
            limits: ExchangeLimits::default(),
            catalogue: CatalogueSettings::default(),
        };
        let store = Store::open(&home.join("data")).unwrap();
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        Providers::new(store, sandbox, Arc::new(Secrets::open(&config)), sources)
    }

    /// Waits for a notice about `file`.
    async fn wait_for_notice(notices: &mut broadcast::Receiver<String>, file: &str) {
        let received = async { while !notices.recv().await.unwrap().contains(file) {} };
        timeout(Duration::from_secs(30), received).await.unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn events_are_relevant_also_with_paths_without_links() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().canonicalize().unwrap().join("real/providers");
        fs::create_dir_all(&real).unwrap();
        std::os::unix::fs::symlink("real", home.path().join("link")).unwrap();
        let given = home.path().join("link/providers");
        let folders = [given.clone(), resolved_path(&given)];
        let relevant = |path: PathBuf| is_relevant(&Event::new(notify::EventKind::Any).add_path(path), &folders);
        for folder in [given, real.clone()] {
            assert!(relevant(folder.join("a.wasm")) && relevant(folder.clone()), "{}", folder.display());
            assert!(!relevant(folder.join("a.txt")), "{}", folder.display());
        }
        assert!(relevant(real.with_file_name("config.toml")) && !relevant(real.join("deep/a.wasm")));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn new_file_is_noticed_after_the_folder_was_created_again() {
        let home = tempfile::tempdir().unwrap();
        let all = providers(home.path());
        let mut notices = all.notices();
        let _watch = all.watch().unwrap();
        // Only the watch loads the providers.
        let read = async {
            while all.current().is_none() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), read).await.unwrap();
        let folder = home.path().join("config/providers");
        fs::write(folder.join("a.wasm"), "x").unwrap();
        wait_for_notice(&mut notices, "a.wasm").await;
        for file in ["b.wasm", "c.wasm"] {
            fs::remove_dir_all(&folder).unwrap();
            sleep(Duration::from_secs(1)).await;
            fs::create_dir(&folder).unwrap();
            // The folder must be watched again before the next file is written.
            sleep(Duration::from_secs(2)).await;
            fs::write(folder.join(file), "x").unwrap();
            wait_for_notice(&mut notices, file).await;
        }
    }

    /// Writes `config.toml` in pieces for longer than the wait for a pause. Returns the contents that were read, first
    /// and after the change.
    async fn read_around_pieces() -> Vec<String> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config/config.toml");
        let (seen, read) = (Arc::new(Mutex::new(Vec::new())), file.clone());
        let source = {
            let seen = Arc::clone(&seen);
            move || {
                seen.lock().unwrap().push(fs::read_to_string(&read).unwrap_or_default());
                Ok(Settings::default())
            }
        };
        let all = with_settings(home.path(), Box::new(source));
        fs::write(&file, "before").unwrap();
        let _watch = all.watch().unwrap();
        let read = async |count: usize| {
            let read = async {
                while seen.lock().unwrap().len() < count {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(Duration::from_secs(30), read).await.unwrap();
        };
        read(1).await;
        let mut writer = fs::File::create(&file).unwrap();
        for _ in 0..30 {
            writer.write_all(b"# a line\n").unwrap();
            sleep(Duration::from_millis(50)).await;
        }
        read(2).await;
        seen.lock().unwrap().clone()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn config_toml_is_read_once_it_has_stopped_changing() {
        let expected = ["before".to_owned(), "# a line\n".repeat(30)];
        // On a busy machine, the writer itself may pause for so long that a partial file is read. In that case, try
        // again.
        for attempt in 1.. {
            let seen = read_around_pieces().await;
            if seen == expected {
                break;
            }
            assert!(attempt < 20, "{seen:?}");
        }
    }
}

//! The folder of adapters and `config.toml`, watched: what is dropped in works within a second, without a restart.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::Providers;

/// How long it must be quiet before the folder is looked at: a file is copied piece by piece.
const SETTLED: Duration = Duration::from_millis(150);
/// How long is waited for quiet at most.
const PATIENCE: Duration = Duration::from_millis(600);
/// How often `config.toml` is looked at until it has stopped changing. What is cut off while it is written is valid TOML with less in
/// it: providers, their origins and their keys would be gone for a moment.
const LOOKS: u32 = 20;

/// Watches as long as it is held.
#[derive(Debug)]
pub struct Watch {
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why nothing is watched. What is there works nevertheless; changes are seen at the next start.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The folder cannot be made.
    #[error("the folder of providers cannot be made: {0}")]
    Folder(#[from] io::Error),
    /// The system does not tell of changes.
    #[error("the folder of providers cannot be watched: {0}")]
    Watch(#[from] notify::Error),
}

impl Providers {
    /// Watches the folder of adapters, which is made if it is not there, and `config.toml` beside it. Within a runtime.
    ///
    /// # Errors
    /// [`WatchError`].
    pub fn watch(self: &Arc<Self>) -> Result<Watch, WatchError> {
        let folder = self.folder().to_owned();
        fs::create_dir_all(&folder)?;
        let (tell, told) = mpsc::unbounded_channel();
        let mine = folder.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Where events were lost nobody knows what they were about.
            let about = event.as_ref().map_or(true, |event| !event.kind.is_access() && concerns(event, &mine));
            if about {
                // It may be gone, or there again, which the watch on what was there before knows nothing of.
                let anew = event.map_or(true, |event| event.paths.contains(&mine));
                let _ = tell.send(anew);
            }
        })?;
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        if let Some(config) = folder.parent() {
            watcher.watch(config, RecursiveMode::NonRecursive)?;
        }
        let task = tokio::spawn(reload(Arc::downgrade(self), watcher, told));
        Ok(Watch { task })
    }
}

/// Whether an event is about an adapter or about `config.toml`.
fn concerns(event: &Event, folder: &Path) -> bool {
    let adapter = |path: &Path| path.parent() == Some(folder) && path.extension().is_some_and(|end| end == "wasm");
    event.paths.iter().any(|path| adapter(path) || path == folder || path.ends_with("config.toml"))
}

/// `told`: that something has changed, and whether the folder itself has.
async fn reload(providers: Weak<Providers>, mut watcher: RecommendedWatcher, mut told: mpsc::UnboundedReceiver<bool>) {
    // What comes later is told as a change of what there was.
    match providers.upgrade() {
        Some(providers) => drop(providers.registry().await),
        None => return,
    }
    while let Some(mut anew) = told.recv().await {
        let patience = Instant::now() + PATIENCE;
        while let Ok(Ok(Some(also))) = timeout_at(patience, timeout(SETTLED, told.recv())).await {
            anew |= also;
        }
        let Some(folder) = providers.upgrade().map(|providers| providers.folder().to_owned()) else { return };
        if let Some(config) = folder.parent() {
            settled(&config.join("config.toml")).await;
        }
        // They are about what is read now.
        while let Ok(also) = told.try_recv() {
            anew |= also;
        }
        let Some(providers) = providers.upgrade() else { return };
        if anew {
            // None there: its return is told by the watch on the folder above.
            let _ = watcher.watch(providers.folder(), RecursiveMode::NonRecursive);
        }
        providers.reload().await;
    }
}

/// Waits until the size and the time of change of `file` are the same twice.
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
    use crate::{ExchangeLimits, Settings, SettingsSource, Sources};

    fn providers(home: &Path) -> Arc<Providers> {
        with_settings(home, Box::new(|| Ok(Settings::default())))
    }

    fn with_settings(home: &Path, settings: SettingsSource) -> Arc<Providers> {
        let config = home.join("config");
        fs::create_dir_all(&config).unwrap();
        let sources =
            Sources { folder: config.join("providers"), bundled: &[], settings, limits: ExchangeLimits::default() };
        let store = Store::open(&home.join("data")).unwrap();
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        Providers::new(store, sandbox, Arc::new(Secrets::open(&config)), sources).unwrap()
    }

    /// Waits until somebody tells of `file`.
    async fn told(notices: &mut broadcast::Receiver<String>, file: &str) {
        let told = async { while !notices.recv().await.unwrap().contains(file) {} };
        timeout(Duration::from_secs(30), told).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_dropped_in_is_told_also_where_the_folder_was_made_anew() {
        let home = tempfile::tempdir().unwrap();
        let all = providers(home.path());
        let mut notices = all.notices();
        let _watch = all.watch().unwrap();
        // Nobody asks for providers but the watch.
        let read = async {
            while all.current().is_none() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), read).await.unwrap();
        let folder = home.path().join("config/providers");
        fs::write(folder.join("a.wasm"), "x").unwrap();
        told(&mut notices, "a.wasm").await;
        for file in ["b.wasm", "c.wasm"] {
            fs::remove_dir_all(&folder).unwrap();
            sleep(Duration::from_secs(1)).await;
            fs::create_dir(&folder).unwrap();
            // As long as it takes to be watched again.
            sleep(Duration::from_secs(2)).await;
            fs::write(folder.join(file), "x").unwrap();
            told(&mut notices, file).await;
        }
    }
    /// Written in pieces for longer than anybody is patient.
    #[tokio::test(flavor = "multi_thread")]
    async fn config_toml_is_read_once_it_has_stopped_changing() {
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
        let seen = seen.lock().unwrap();
        assert_eq!(*seen, ["before".to_owned(), "# a line\n".repeat(30)]);
    }
}

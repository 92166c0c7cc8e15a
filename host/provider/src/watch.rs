//! The folder of adapters and `config.toml`, watched: what is dropped in works within a second, without a restart.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use crate::Providers;

/// How long it must be quiet before the folder is looked at: a file is copied piece by piece.
const SETTLED: Duration = Duration::from_millis(150);
/// How long is waited for quiet at most.
const PATIENCE: Duration = Duration::from_millis(600);

/// Watches as long as it is held.
#[derive(Debug)]
pub struct Watch {
    _watcher: RecommendedWatcher,
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
                let _ = tell.send(());
            }
        })?;
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        if let Some(config) = folder.parent() {
            watcher.watch(config, RecursiveMode::NonRecursive)?;
        }
        let task = tokio::spawn(reload(Arc::downgrade(self), told));
        Ok(Watch { _watcher: watcher, task })
    }
}

/// Whether an event is about an adapter or about `config.toml`.
fn concerns(event: &Event, folder: &Path) -> bool {
    let adapter = |path: &Path| path.parent() == Some(folder) && path.extension().is_some_and(|end| end == "wasm");
    event.paths.iter().any(|path| adapter(path) || path == folder || path.ends_with("config.toml"))
}

async fn reload(providers: Weak<Providers>, mut told: mpsc::UnboundedReceiver<()>) {
    // What is there is known first, so that what comes is told as new.
    if let Some(providers) = providers.upgrade() {
        providers.registry().await;
    }
    while told.recv().await.is_some() {
        let patience = Instant::now() + PATIENCE;
        while let Ok(Ok(Some(()))) = timeout_at(patience, timeout(SETTLED, told.recv())).await {}
        let Some(providers) = providers.upgrade() else { return };
        providers.reload().await;
    }
}

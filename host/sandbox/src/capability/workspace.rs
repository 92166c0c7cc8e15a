//! `patchbay:host/workspace-read` and `workspace-write`: files below the workspace root.

use std::sync::atomic::Ordering;

use patchbay_policy::Capability;
use patchbay_workspace::{Entry, FileError, Workspace};

use crate::{
    Failure, Limits,
    bindings::patchbay::host::{types::Error as WitError, workspace_read, workspace_write},
    state::State,
};

/// Why a step on the workspace's files gave nothing.
enum Fault {
    Unopened(std::io::Error),
    File(FileError),
}

impl State {
    /// Runs a step on the workspace's files, on a thread that may block, if the call may use `capability`.
    async fn files<T: Send + 'static>(
        &mut self,
        capability: &Capability,
        step: impl FnOnce(&Workspace) -> Result<T, FileError> + Send + 'static,
    ) -> wasmtime::Result<Result<T, WitError>> {
        self.count_host_call()?;
        let access = match self.permit(capability) {
            Ok(services) => services.workspace.clone(),
            Err(denied) => return Ok(Err(denied)),
        };
        let opened = self.workspace.clone();
        let work = move || {
            let workspace = match opened {
                Some(workspace) => workspace,
                None => Workspace::open_for_plugins(&access).map_err(Fault::Unopened)?,
            };
            let done = step(&workspace).map_err(Fault::File)?;
            Ok((done, workspace))
        };
        // A call that is over its time goes on here until this one step is done, and its result is dropped.
        let done = tokio::task::spawn_blocking(work).await;
        Ok(match done {
            Ok(Ok((done, workspace))) => {
                self.workspace = Some(workspace);
                Ok(done)
            }
            Ok(Err(Fault::File(error))) => Err(self.file_error(error)),
            Ok(Err(Fault::Unopened(error))) => {
                tracing::warn!("the workspace cannot be opened: {error}");
                Err(failed("the workspace cannot be opened"))
            }
            Err(error) => {
                tracing::error!("a step on the workspace's files panicked or was cancelled: {error}");
                Err(failed("the host failed"))
            }
        })
    }

    /// Converts an error for the guest. What the person can allow is a denial, which is shown in the host's own words.
    fn file_error(&self, error: FileError) -> WitError {
        match (error, self.reach()) {
            (FileError::Instructions { path }, Ok(reach)) => reach.deny(reach.permits.deny_instructions(path)),
            (error, _) => WitError { kind: error.kind().to_owned(), message: error.to_string() },
        }
    }

    /// Counts a write of `bytes` bytes to `path` against what the skill may write in this session; over it, the guest is
    /// stopped.
    fn count_written(&self, path: &str, bytes: usize) -> Result<(), Failure> {
        let Some(services) = self.services() else { return Ok(()) };
        let names = path.split('/').count().min(patchbay_workspace::limits::DEPTH);
        let cost = (names as u64 * Limits::NAME_ON_DISK).saturating_add(bytes as u64);
        let limit = self.limits.write_bytes;
        let add = |written: u64| written.checked_add(cost).filter(|written| *written <= limit);
        let counted = services.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        counted.map(drop).map_err(|_| Failure::Written { limit })
    }
}

fn failed(message: &str) -> WitError {
    WitError { kind: "failed".to_owned(), message: message.to_owned() }
}

impl workspace_read::Host for State {
    async fn read(&mut self, path: String, offset: u64, max: u32) -> wasmtime::Result<Result<Vec<u8>, WitError>> {
        self.files(&Capability::WorkspaceRead, move |files| files.read(&path, offset, max)).await
    }

    async fn walk(
        &mut self,
        glob: String,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<workspace_read::Entry>, WitError>> {
        let entry = |Entry { path, is_directory, size }| workspace_read::Entry { path, is_directory, size };
        self.files(&Capability::WorkspaceRead, move |files| {
            let entries = files.walk(&glob, after.as_deref(), limit)?;
            Ok(entries.into_iter().map(entry).collect())
        })
        .await
    }
}

impl workspace_write::Host for State {
    async fn write(&mut self, path: String, contents: Vec<u8>) -> wasmtime::Result<Result<(), WitError>> {
        if self.permit(&Capability::WorkspaceWrite).is_ok() {
            self.count_written(&path, contents.len())?;
        }
        self.files(&Capability::WorkspaceWrite, move |files| files.write(&path, &contents)).await
    }

    async fn delete(&mut self, path: String) -> wasmtime::Result<Result<(), WitError>> {
        self.files(&Capability::WorkspaceWrite, move |files| files.delete(&path)).await
    }
}

//! `patchbay:host/workspace-read` and `workspace-write`: files below the workspace root.

use patchbay_policy::Capability;
use patchbay_workspace::{Entry, FileError, Workspace};

use crate::{
    bindings::patchbay::host::{types::Error as WitError, workspace_read, workspace_write},
    state::State,
};

impl State {
    /// Does something with the workspace's files, on a thread for that, if the call may use `capability`.
    async fn files<T: Send + 'static>(
        &mut self,
        capability: &Capability,
        work: impl FnOnce(&Workspace) -> Result<T, FileError> + Send + 'static,
    ) -> wasmtime::Result<Result<T, WitError>> {
        self.count_host_call()?;
        let root = match self.permit(capability) {
            Ok(services) => services.workspace.clone(),
            Err(denied) => return Ok(Err(denied)),
        };
        let opened = self.workspace.clone();
        let work = move || {
            let workspace = match opened {
                Some(workspace) => workspace,
                None => Workspace::open(&root).map_err(|error| {
                    tracing::warn!("the workspace cannot be opened: {error}");
                    failed("the workspace cannot be opened")
                })?,
            };
            let done = work(&workspace).map_err(told)?;
            Ok((done, workspace))
        };
        // A call that is over its time goes on here until this one step is done, and its result is dropped.
        let done = tokio::task::spawn_blocking(work).await;
        Ok(match done {
            Ok(Ok((done, workspace))) => {
                self.workspace = Some(workspace);
                Ok(done)
            }
            Ok(Err(error)) => Err(error),
            Err(error) => {
                tracing::error!("a step on the workspace's files did not end well: {error}");
                Err(failed("the host failed"))
            }
        })
    }
}

fn told(error: FileError) -> WitError {
    WitError { kind: error.kind().to_owned(), message: error.to_string() }
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
        self.files(&Capability::WorkspaceWrite, move |files| files.write(&path, &contents)).await
    }

    async fn delete(&mut self, path: String) -> wasmtime::Result<Result<(), WitError>> {
        self.files(&Capability::WorkspaceWrite, move |files| files.delete(&path)).await
    }
}

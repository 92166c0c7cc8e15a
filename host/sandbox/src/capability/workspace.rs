//! `patchbay:host/workspace-read` and `workspace-write`: files below the workspace root.

use std::sync::{Arc, atomic::Ordering};

use patchbay_policy::Capability;
use patchbay_workspace::FileEntry;

use super::HostResult;
use crate::{
    Failure, FilesError, GuestEffect, Limits,
    bindings::patchbay::host::{types::Error as WitError, workspace_read, workspace_write},
    state::{CallAccess, GuestState},
};

impl GuestState {
    /// Counts the host call and checks the permit. Every function of the capability calls it first.
    pub(super) async fn files(
        &mut self,
        capability: &Capability,
        effect: GuestEffect<'_>,
    ) -> HostResult<Arc<CallAccess>> {
        self.count_host_call()?;
        Ok(self.permit(capability, effect).await)
    }

    /// Counts a write of `bytes` bytes to `path` against the skill's limit in this session. Over
    /// the limit, the guest is stopped.
    fn count_written(&self, access: &CallAccess, path: &str, bytes: usize) -> Result<(), Failure> {
        let names = path.split('/').count().min(patchbay_workspace::limits::DEPTH);
        let cost = (names as u64 * Limits::NAME_ON_DISK).saturating_add(bytes as u64);
        let limit = self.limits.write_bytes;
        let add = |written: u64| written.checked_add(cost).filter(|written| *written <= limit);
        let counted = access.services.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        counted.map(drop).map_err(|_| Failure::Written { limit })
    }
}

impl CallAccess {
    /// Converts an error for the guest.
    pub(super) fn file_error(&self, error: FilesError) -> WitError {
        self.guest_error(error.into_fault(&self.permits))
    }
}

impl workspace_read::Host for GuestState {
    async fn read(&mut self, path: String, offset: u64, max: u32) -> HostResult<Vec<u8>> {
        let access = or_return!(self.files(&Capability::WorkspaceRead, GuestEffect::Read { path: &path }).await?);
        let read = access.services.workspace.read(path, offset, max).await;
        Ok(read.map_err(|error| access.file_error(error)))
    }

    async fn walk(
        &mut self,
        glob: String,
        after: Option<String>,
        limit: u32,
    ) -> HostResult<Vec<workspace_read::Entry>> {
        let access = or_return!(self.files(&Capability::WorkspaceRead, GuestEffect::List { glob: &glob }).await?);
        let entry = |FileEntry { path, is_directory, size }| workspace_read::Entry { path, is_directory, size };
        let found = access.services.workspace.walk(glob, after, limit).await;
        let found = found.map(|entries| entries.into_iter().map(entry).collect());
        Ok(found.map_err(|error| access.file_error(error)))
    }
}

impl workspace_write::Host for GuestState {
    async fn write(&mut self, path: String, contents: Vec<u8>) -> HostResult<()> {
        let effect = GuestEffect::Write { path: &path, contents: &contents };
        let access = or_return!(self.files(&Capability::WorkspaceWrite, effect).await?);
        self.count_written(&access, &path, contents.len())?;
        let files = &access.services.workspace;
        let pause = files.write_may_ask().then(|| self.budget.clock.pause());
        let written = files.write(path, contents).await;
        drop(pause);
        Ok(written.map_err(|error| access.file_error(error)))
    }

    async fn delete(&mut self, path: String) -> HostResult<()> {
        let access = or_return!(self.files(&Capability::WorkspaceDelete, GuestEffect::Delete { path: &path }).await?);
        let deleted = access.services.workspace.delete(path).await;
        Ok(deleted.map_err(|error| access.file_error(error)))
    }
}

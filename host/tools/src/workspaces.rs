//! State about workspaces that all calls share: protected paths, the user's home folder, and the number of bytes that
//! each skill has written in each session.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use parking_lot::Mutex;
use patchbay_core::SessionId;
use patchbay_policy::Identity;
use patchbay_workspace::{HomeFolder, ProtectedPaths, WorkspaceAccess};

#[derive(Default)]
pub(crate) struct Workspaces {
    protected: ProtectedPaths,
    home: HomeFolder,
    /// Bytes written, by session and skill. Skills that have not requested a write have no entry.
    written: Mutex<HashMap<(SessionId, Identity), Arc<AtomicU64>>>,
}

impl Workspaces {
    pub(crate) fn new(protected: ProtectedPaths, home: HomeFolder) -> Self {
        Self { protected, home, written: Mutex::default() }
    }

    pub(crate) fn holds_home(&self, workspace: &str) -> bool {
        self.home.is_within(Path::new(workspace))
    }

    /// Returns the access of a call to `workspace`.
    pub(crate) fn access(&self, workspace: &str, write_instructions: bool) -> WorkspaceAccess {
        WorkspaceAccess { root: workspace.into(), protected: self.protected.clone(), write_instructions }
    }

    /// Returns the byte counter of `skill` in `session`.
    pub(crate) fn written(&self, session: SessionId, skill: &Identity) -> Arc<AtomicU64> {
        let mut written = self.written.lock();
        Arc::clone(written.entry((session, skill.clone())).or_default())
    }
}

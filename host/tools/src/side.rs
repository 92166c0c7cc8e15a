//! The host's side of one call: all that its skill may reach is bound to who the skill is, and to the session and the
//! workspace it is called in.

use std::sync::Arc;

use patchbay_core::{CallId, SessionId};
use patchbay_policy::{Capability, Identity, Permits};
use patchbay_sandbox::{Inference, Progress, Services};
use patchbay_skill::Snapshot;

use crate::Tools;

pub(crate) struct Side {
    pub(crate) tools: Arc<Tools>,
    pub(crate) owner: Identity,
    pub(crate) session: SessionId,
    pub(crate) workspace: String,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The tool that runs, by its full name, and which run of it.
    pub(crate) tool: String,
    pub(crate) call: CallId,
    pub(crate) progress: Arc<dyn Progress>,
    pub(crate) inference: Option<Arc<dyn Inference>>,
}

impl Side {
    pub(crate) fn services(self, permits: &Permits) -> Services {
        let workspaces = &self.tools.workspaces;
        let workspace = Arc::new(workspaces.access(&self.workspace, permits.may_write_instructions()));
        let written = if permits.allows(&Capability::WorkspaceWrite) {
            workspaces.written(self.session, &self.owner)
        } else {
            Arc::default()
        };
        let side = Arc::new(self);
        Services {
            kv: Arc::clone(&side) as _,
            http: Arc::clone(&side) as _,
            tools: Arc::clone(&side) as _,
            log: Arc::clone(&side) as _,
            progress: Arc::clone(&side.progress),
            inference: side.inference.clone(),
            workspace,
            written,
        }
    }
}

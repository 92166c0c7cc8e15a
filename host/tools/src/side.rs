//! The host's side of one call: all that its skill may reach is bound to who the skill is, and to the session and the
//! workspace it is called in.

use std::{path::PathBuf, sync::Arc};

use patchbay_core::{CallId, SessionId};
use patchbay_policy::Identity;
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
    pub(crate) fn services(self) -> Services {
        let workspace = Arc::new(PathBuf::from(&self.workspace));
        let side = Arc::new(self);
        Services {
            kv: Arc::clone(&side) as _,
            http: Arc::clone(&side) as _,
            tools: Arc::clone(&side) as _,
            log: Arc::clone(&side) as _,
            progress: Arc::clone(&side.progress),
            inference: side.inference.clone(),
            workspace,
        }
    }
}

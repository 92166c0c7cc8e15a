//! Host services for one call, scoped to the skill's identity, session and workspace. One file for each capability.

mod http;
mod kv;
mod log;
mod nested;

use std::sync::Arc;

use patchbay_policy::{Capability, Identity, Permits};
use patchbay_sandbox::{LocalFiles, Services};
use patchbay_skill::Skill;

use crate::{Tools, record::CallRecord};

/// The services of one call.
pub(crate) struct CallServices {
    tools: Arc<Tools>,
    /// The owner of the skill's grants and stored state.
    owner: Identity,
    record: Arc<CallRecord>,
}

impl CallServices {
    /// Returns the services of the call of `record`, which runs a tool of `skill` with `permits`.
    pub(crate) fn of(tools: &Arc<Tools>, record: &Arc<CallRecord>, skill: &Skill, permits: &Permits) -> Services {
        let context = &record.context;
        let owner = Identity::new(skill.root, &context.workspace, skill.name.clone());
        let workspaces = &tools.workspaces;
        let workspace = LocalFiles::new(workspaces.access(&context.workspace, permits.may_write_instructions()));
        let written = if permits.allows(&Capability::WorkspaceWrite) {
            workspaces.written(context.hold.session(), &owner)
        } else {
            Arc::default()
        };
        let (progress, inference) = (Arc::clone(&context.progress), context.inference.clone());
        let services = Arc::new(Self { tools: Arc::clone(tools), owner, record: Arc::clone(record) });
        Services {
            kv: Arc::clone(&services) as _,
            http: Arc::clone(&services) as _,
            tools: Arc::clone(&services) as _,
            log: services,
            progress,
            inference,
            workspace: Arc::new(workspace),
            written,
            permit_source: None,
        }
    }
}

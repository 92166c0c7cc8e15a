//! Host services for one call, scoped to the skill's identity, session and workspace. One file for each capability.

mod allowed_changes;
mod call;
mod files;
mod http;
mod inference;
mod kv;
mod log;
mod nested;
mod nested_order;
mod permit;
mod skill_files;

use std::sync::Arc;

use patchbay_core::Asker;
use patchbay_policy::{Capability, Identity, Permits};
use patchbay_sandbox::{EffectGate, Inference, LocalFiles, PermitSource, Services};
use patchbay_skill::Skill;
use patchbay_store::StoreError;

use crate::{
    Tools,
    edited_files::EditedFiles,
    keep::{self, ChangeKeeper},
    record::CallRecord,
};
use allowed_changes::AllowedChanges;
use nested_order::NestedOrder;

/// The services of one call.
pub(crate) struct CallServices {
    tools: Arc<Tools>,
    /// The owner of the skill's grants and stored state.
    owner: Identity,
    record: Arc<CallRecord>,
    nested_order: NestedOrder,
    /// The files of the workspace. The editor is used only for a skill that may change files.
    files: EditedFiles,
    allowed_changes: AllowedChanges,
}

/// The message for an effect that did not happen because the store failed to record the call first.
const NOT_RECORDED: &str = "the host could not record the call; nothing was changed";

impl CallServices {
    /// Returns the services for the call of `record`, which runs a tool of `skill` with `permits`.
    pub(crate) fn of(tools: &Arc<Tools>, record: &Arc<CallRecord>, skill: &Skill, permits: &Permits) -> Services {
        let context = &record.context;
        let owner = skill.identity(&context.workspace);
        let workspaces = &tools.workspaces;
        let files = LocalFiles::new(workspaces.access(&context.workspace, permits.may_write_instructions()));
        // The request in the manifest decides, because the user may allow writing during the call.
        let asks_to_write = skill.manifest.capabilities.iter().any(|it| it.capability == Capability::WorkspaceWrite);
        let written = if asks_to_write { workspaces.written(context.hold.session(), &owner) } else { Arc::default() };
        let editor = context.editor.clone().filter(|_| asks_to_write);
        let files = EditedFiles::new(files, editor, context.workspace.clone());
        let (tools, record) = (Arc::clone(tools), Arc::clone(record));
        let services = Arc::new(Self {
            tools,
            owner,
            record,
            nested_order: NestedOrder::default(),
            files,
            allowed_changes: AllowedChanges::default(),
        });
        let inference = context.inference.is_some().then(|| Arc::clone(&services) as Arc<dyn Inference>);
        let permit_source = Some(Arc::clone(&services) as Arc<dyn PermitSource>);
        let gate = Some(Arc::clone(&services) as Arc<dyn EffectGate>);
        Services {
            kv: Arc::clone(&services) as _,
            http: Arc::clone(&services) as _,
            call: Arc::clone(&services) as _,
            tools: Arc::clone(&services) as _,
            skill_files: Some(Arc::clone(&services) as _),
            workspace: Arc::clone(&services) as _,
            log: services,
            progress: Arc::clone(&context.progress),
            inference,
            written,
            permit_source,
            gate,
            fixed: None,
        }
    }

    /// Returns the [`ChangeKeeper`] of this call.
    fn change_keeper(&self) -> ChangeKeeper<'_> {
        let context = &self.record.context;
        ChangeKeeper {
            store: &self.tools.store,
            hold: &context.hold,
            agent: context.agent,
            call: self.record.outermost().id,
            in_turn: context.line.is_none() && matches!(context.asker, Asker::Agent(_)),
            reverts: &[],
        }
    }

    /// Returns why a change of a file of `size` bytes cannot be undone; `None` if it can. `before` is the size of all files that
    /// are changed first.
    async fn why_not_kept(&self, size: u64, before: u64) -> Result<Option<&'static str>, StoreError> {
        keep::why_not_kept(&self.tools.store, &self.record.context.hold, size, before).await
    }

    /// Records that the call is about to have an effect. Returns whether that is committed;
    /// otherwise the effect must not happen.
    async fn begin_effect(&self) -> bool {
        let begun = self.record.begin_effect().await;
        if let Err(error) = &begun {
            tracing::error!("a call with effects could not be recorded: {error}");
        }
        begun.is_ok()
    }
}

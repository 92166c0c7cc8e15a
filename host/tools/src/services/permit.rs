//! Asks a person for a permit that a call lacks.

use patchbay_policy::{Capability, Root};
use patchbay_sandbox::{BoxFuture, PermitSource};
use patchbay_skill::Skill;
use patchbay_store::{GrantRow, StoreError};

use super::CallServices;
use crate::{Approval, Question};

impl PermitSource for CallServices {
    fn request<'a>(&'a self, capability: &'a Capability) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let context = &self.record.context;
            let (Some(approvals), Some(skill)) = (&context.approvals, context.snapshot.skill(self.owner.name.as_str()))
            else {
                return false;
            };
            // Another process may have added a grant since the call began.
            match self.tools.permits(skill, &context.workspace).await {
                Ok(permits) if permits.allows(capability) => return true,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("the grants could not be read: {error}");
                    return false;
                }
            }
            let question = Question {
                agent: context.agent,
                asker: context.asker.clone(),
                skill: self.owner.clone(),
                chain: self.record.chain(),
                capability: capability.clone(),
            };
            let answer = approvals.ask(skill.digest, question).await;
            if answer == Approval::Always
                && let Err(error) = self.grant(skill, capability).await
            {
                tracing::error!("the grant of '{capability}' to '{}' could not be kept: {error}", self.owner);
            }
            answer != Approval::No
        })
    }
}

impl CallServices {
    /// Stores the grant that `patchbay grant add` would store. A grant of a bundled skill applies to every version of it;
    /// any other grant applies to the skill's current files.
    async fn grant(&self, skill: &Skill, capability: &Capability) -> Result<(), StoreError> {
        let (digest, files) = match self.owner.root {
            Root::Bundled => (String::new(), String::new()),
            Root::User | Root::Workspace => match self.tools.store.skill_files(&skill.digest).await? {
                Some(files) => (skill.digest.to_string(), files),
                // A snapshot of an older build does not list the skill's files; then nothing can be granted to it.
                None => return Ok(()),
            },
        };
        let grant = GrantRow {
            root: self.owner.root.as_str().to_owned(),
            workspace: self.owner.workspace.clone(),
            skill: self.owner.name.to_string(),
            capability: capability.to_string(),
            skill_digest: digest,
        };
        self.tools.store.add_grant(grant, files).await
    }
}

//! Asks a person for a permit that a call lacks.

use patchbay_core::text;
use patchbay_policy::{Capability, Permits, Root, grant_command};
use patchbay_sandbox::{BoxFuture, PermitSource};
use patchbay_skill::Skill;
use patchbay_store::{GrantRow, RecordedApproval, StoreError};

use super::CallServices;
use crate::{Approval, OfferedGrant, Question};

impl PermitSource for CallServices {
    fn request<'a>(&'a self, capability: &'a Capability) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let context = &self.record.context;
            let (Some(approvals), Some(skill)) = (&context.approvals, context.snapshot.skill(self.owner.name.as_str()))
            else {
                return false;
            };
            // Another process may have added a grant since the call began.
            let question = match self.tools.permits(skill, &context.workspace).await {
                Ok(permits) if permits.allows(capability) => return true,
                Ok(permits) => self.question(skill, capability, &permits).await,
                Err(error) => Err(error),
            };
            let question = match question {
                Ok(Some(question)) => question,
                Ok(None) => return false,
                Err(error) => {
                    tracing::error!("the grants could not be read: {error}");
                    return false;
                }
            };
            let answer = approvals.ask(skill.digest, question, &self.tools.question_slots).await;
            if answer.is_yes() {
                self.record.note_approval(RecordedApproval {
                    capability: capability.to_string(),
                    answer: answer.as_str().to_owned(),
                    by: context.principal.to_string(),
                });
            }
            if answer == Approval::Always
                && let Err(error) = self.grant(skill, capability).await
            {
                tracing::error!("the grant of '{capability}' to '{}' could not be kept: {error}", self.owner);
            }
            answer.is_yes()
        })
    }
}

impl CallServices {
    /// Returns the question to the person; `None` for a skill of an untrusted workspace, which is never asked for.
    async fn question(
        &self,
        skill: &Skill,
        capability: &Capability,
        permits: &Permits,
    ) -> Result<Option<Question>, StoreError> {
        let context = &self.record.context;
        let store = &self.tools.store;
        if self.owner.root == Root::Workspace && !store.is_trusted(&self.owner.workspace).await? {
            return Ok(None);
        }
        let only_once = permits.only_for_one_call(capability);
        // Without the list of its files, as in a snapshot of an older build, nothing can be granted to a skill.
        let grantable = self.owner.root == Root::Bundled || store.skill_files(&skill.digest).await?.is_some();
        let grant = (grantable && !only_once).then(|| OfferedGrant {
            command: grant_command(&self.owner, capability),
            digest: (self.owner.root != Root::Bundled).then_some(skill.digest),
        });
        let asked = skill.manifest.capabilities.iter().find(|asked| asked.capability == *capability);
        let reason = asked.and_then(|asked| asked.reason.as_deref());
        Ok(Some(Question {
            agent: context.agent,
            asker: context.asker.clone(),
            skill: self.owner.clone(),
            chain: self.record.chain(),
            capability: capability.clone(),
            workspace: context.workspace.clone(),
            reason: reason.map(|reason| text::excerpt(reason, Question::REASON)),
            only_once,
            grant,
        }))
    }

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

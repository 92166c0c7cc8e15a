//! Asks a person for a permit that a call lacks.

use patchbay_core::{Digest, text};
use patchbay_policy::{Capability, Identity, Permits, Root, grant_command};
use patchbay_sandbox::{BoxFuture, PermitSource};
use patchbay_skill::Skill;
use patchbay_store::{GrantRow, RecordedApproval, Store, StoreError};

use super::CallServices;
use crate::{OfferedGrant, Question, QuestionSubject, SkillCapability, approval::StoredGrant};

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
            let grant = stored_grant(&self.tools.store, &self.owner, skill.digest, capability);
            let slots = &self.tools.question_slots;
            let answer = match self.record.ask(approvals, question, slots, grant).await {
                Ok(answer) => answer,
                Err(no_room) => {
                    self.record.note_unasked(capability, no_room);
                    return false;
                }
            };
            if answer.is_yes() {
                self.record.note_approval(RecordedApproval {
                    capability: capability.to_string(),
                    answer: answer.as_str().to_owned(),
                    by: context.principal.to_string(),
                });
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
        if self.owner.root.is_workspace() && !store.is_trusted(&self.owner.workspace).await? {
            return Ok(None);
        }
        let only_once = permits.only_for_one_call(capability);
        // Without the list of its files, as in a snapshot of an older build, nothing can be granted to a skill.
        let grantable = self.owner.root == Root::Bundled || store.skill_files(&skill.digest).await?.is_some();
        let grant = (grantable && !only_once).then(|| OfferedGrant {
            what: grant_command(&self.owner, capability),
            // Grants of bundled skills are valid for every version of them.
            scope: (self.owner.root != Root::Bundled).then(|| format!("for the skill's files {}", skill.digest)),
        });
        let asked = skill.manifest.capabilities.iter().find(|asked| asked.capability == *capability);
        let reason = asked.and_then(|asked| asked.reason.as_deref());
        Ok(Some(Question {
            agent: context.agent,
            asker: context.asker.clone(),
            subject: QuestionSubject::Capability(SkillCapability {
                skill: self.owner.clone(),
                capability: capability.clone(),
                digest: skill.digest,
            }),
            chain: self.record.chain(),
            workspace: context.workspace.clone(),
            reason: reason.map(|reason| text::excerpt(reason, Question::REASON)),
            only_once,
            grant,
        }))
    }
}

/// Returns the grant that `patchbay grant add` would store. A grant of a bundled skill applies to every version of it; any
/// other grant applies to the skill's files with this digest, which are listed in the store: the grant is not offered otherwise.
fn stored_grant(store: &Store, skill: &Identity, digest: Digest, capability: &Capability) -> StoredGrant {
    let is_bundled = skill.root == Root::Bundled;
    let grant = GrantRow {
        root: skill.root.as_str().to_owned(),
        workspace: skill.workspace.clone(),
        skill: skill.name.to_string(),
        capability: capability.to_string(),
        skill_digest: if is_bundled { String::new() } else { digest.to_string() },
    };
    let files_store = store.clone();
    StoredGrant::new(store, grant, async move {
        if is_bundled {
            return Ok(String::new());
        }
        let files = files_store.skill_files(&digest).await?;
        files.ok_or(StoreError::BadRow("list of a skill's files"))
    })
}

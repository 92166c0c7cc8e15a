//! Asks the user for a missing permit. The question shows the effect that the host will perform, and a yes is for that effect
//! unless the user chose a wider answer.

use futures_util::future::BoxFuture;
use patchbay_core::{Digest, text};
use patchbay_policy::{Capability, Identity, Permits, Root, grant_command};
use patchbay_sandbox::{ExistingFile, Fault, FilesError, GuestEffect, Permission, PermitSource};
use patchbay_skill::Skill;
use patchbay_store::{GrantRow, RecordedApproval, Store, StoreError};
use patchbay_workspace::FileError;

use super::{CallServices, allowed_changes::FileChange};
use crate::{Act, Approval, OfferedGrant, Question, QuestionSubject, SkillCapability, approval::StoredGrant};

impl PermitSource for CallServices {
    fn request<'a>(
        &'a self,
        capability: &'a Capability,
        effect: GuestEffect<'a>,
    ) -> BoxFuture<'a, Result<Permission, Fault>> {
        Box::pin(async move {
            let asked = self.ask(capability, effect).await;
            asked.unwrap_or_else(|error| {
                tracing::error!("the grants could not be read: {error}");
                Ok(Permission::Refused)
            })
        })
    }
}

impl CallServices {
    /// Returns the permission for `effect`. The outer error is one of the store.
    async fn ask(
        &self,
        capability: &Capability,
        effect: GuestEffect<'_>,
    ) -> Result<Result<Permission, Fault>, StoreError> {
        let context = &self.record.context;
        let (Some(approvals), Some(skill)) = (&context.approvals, context.snapshot.skill(self.owner.name.as_str()))
        else {
            return Ok(Ok(Permission::Refused));
        };
        // Another process may have added a grant since the call began.
        let permits = self.tools.permits(skill, &context.workspace).await?;
        if permits.allows(capability) {
            return Ok(Ok(Permission::ThisCall));
        }
        // A person is never asked for a skill of an untrusted workspace.
        if self.owner.root.is_workspace() && !self.tools.store.is_trusted(&self.owner.workspace).await? {
            return Ok(Ok(Permission::Refused));
        }
        loop {
            let before = match self.file_before(effect).await {
                Ok(before) => before,
                Err(error) => return Ok(Err(error.into_fault(&permits))),
            };
            let change = FileChange::of(effect, before);
            // The file gets its earlier contents back, which needs no question.
            if change.as_ref().is_some_and(|change| self.allowed_changes.revert(change)) {
                return Ok(Ok(Permission::ThisEffect));
            }
            let act = Act::new(effect, before);
            let question = self.question(skill, capability, act, &permits).await?;
            let shown = question.subject.shown_digest();
            let grant = stored_grant(&self.tools.store, &self.owner, skill.digest, capability);
            let answer = match self.record.ask(approvals, question, &self.tools.question_slots, grant).await {
                Ok(answer) => answer,
                Err(no_room) => {
                    self.record.note_unasked(capability, no_room);
                    return Ok(Ok(Permission::Refused));
                }
            };
            if answer.is_yes() {
                self.record.note_approval(RecordedApproval {
                    capability: capability.to_string(),
                    answer: answer.as_str().to_owned(),
                    shown: Some(shown),
                    by: context.principal.to_string(),
                });
            }
            match answer {
                Approval::No | Approval::Never => return Ok(Ok(Permission::Refused)),
                Approval::Call | Approval::Session | Approval::Always => return Ok(Ok(Permission::ThisCall)),
                Approval::Once => match self.file_before(effect).await {
                    // The file changed since the question was shown, so the yes does not apply. Ask again.
                    Ok(now) if now != before => {}
                    Ok(_) => {
                        self.allowed_changes.extend(change);
                        return Ok(Ok(Permission::ThisEffect));
                    }
                    Err(error) => return Ok(Err(error.into_fault(&permits))),
                },
            }
        }
    }

    /// Checks a change of a file, and returns the file that it would find.
    async fn file_before(&self, effect: GuestEffect<'_>) -> Result<Option<ExistingFile>, FilesError> {
        match effect {
            GuestEffect::Write { path, .. } => self.before_change(path, true).await,
            GuestEffect::Delete { path } => match self.before_change(path, false).await? {
                None => Err(FileError::NotFound { path: text::excerpt(path, 200) }.into()),
                file => Ok(file),
            },
            _ => Ok(None),
        }
    }

    /// Returns the question to the person.
    async fn question(
        &self,
        skill: &Skill,
        capability: &Capability,
        act: Act,
        permits: &Permits,
    ) -> Result<Question, StoreError> {
        let context = &self.record.context;
        let store = &self.tools.store;
        let only_once = permits.only_for_one_call(capability);
        // Without the list of its files, as in a snapshot of an older build, nothing can be granted to a skill.
        let grantable = self.owner.root == Root::Bundled || store.skill_files(&skill.digest).await?.is_some();
        let grant = (grantable && !only_once).then(|| OfferedGrant {
            what: grant_command(&self.owner, capability),
            covers: match self.owner.root {
                Root::User | Root::Bundled => OfferedGrant::EVERY_WORKSPACE,
                _ => OfferedGrant::ONE_WORKSPACE,
            },
            // Grants of bundled skills are valid for every version of them.
            scope: (self.owner.root != Root::Bundled).then(|| format!("for the skill's files {}", skill.digest)),
        });
        let asked = skill.manifest.capabilities.iter().find(|asked| asked.capability == *capability);
        let reason = asked.and_then(|asked| asked.reason.as_deref());
        Ok(Question {
            agent: context.agent,
            asker: context.asker.clone(),
            subject: QuestionSubject::Capability(SkillCapability {
                act,
                skill: self.owner.clone(),
                capability: capability.clone(),
                digest: skill.digest,
            }),
            chain: self.record.chain(),
            workspace: context.workspace.clone(),
            reason: reason.map(|reason| text::excerpt(reason, Question::REASON)),
            only_once,
            grant,
        })
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

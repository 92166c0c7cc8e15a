//! Asks the user for a missing permit. The question shows the effect that the host will perform, and a yes is for that effect
//! unless the user chose a wider answer.

use futures_util::future::BoxFuture;
use patchbay_core::{Digest, text};
use patchbay_policy::{Capability, Denial, Identity, Permits, Root, grant_commands_in};
use patchbay_sandbox::{EffectGate, Fault, FilesError, FoundFile, GuestEffect, Permission, PermitSource};
use patchbay_skill::Skill;
use patchbay_store::{GrantRow, RecordedApproval, Store, StoreError};
use patchbay_workspace::FileError;

use super::{CallServices, allowed_changes::FileChange};
use crate::{
    Act, Approval, OfferedGrant, PersonAnswer, Question, QuestionSubject, SkillCapability, approval::StoredGrant,
    http_capability,
};

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
                Ok(Permission::Refused(None))
            })
        })
    }
}

impl EffectGate for CallServices {
    fn denial(&self, effect: GuestEffect<'_>) -> Option<Denial> {
        self.record.context.mode.get().denial(effect)
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
        let Some(skill) = context.snapshot.skill(self.owner.name.as_str()) else {
            return Ok(Ok(Permission::Refused(None)));
        };
        // Another process may have added a grant since the call began.
        let permits = self.tools.permits(skill, &context.workspace).await?;
        let offered = offered(capability, effect);
        if permits.allows(&offered) {
            return Ok(Ok(Permission::ThisCall(offered)));
        }
        // A person is never asked for a skill of an untrusted workspace.
        if self.owner.root.is_workspace() && !self.tools.store.is_trusted(&self.owner.workspace).await? {
            return Ok(Ok(Permission::Refused(None)));
        }
        loop {
            let mode = context.mode.get();
            // Without a person, only the mode can answer.
            if !mode.asks(effect) || (context.approvals.is_none() && !mode.allows(effect)) {
                return Ok(Ok(Permission::Refused(None)));
            }
            let before = match self.file_before(effect).await {
                Ok(before) => before,
                Err(error) => return Ok(Err(error.into_fault(&permits))),
            };
            if mode.allows(effect) && !permits.only_for_one_call(capability) {
                self.note_approval(capability, mode.as_str(), None);
                return Ok(Ok(Permission::ThisEffect));
            }
            let Some(approvals) = &context.approvals else { return Ok(Ok(Permission::Refused(None))) };
            let found = before.as_ref().map(|before| before.file);
            let change = FileChange::of(effect, found);
            // The file gets its earlier contents back, which needs no question.
            if change.as_ref().is_some_and(|change| self.allowed_changes.revert(change)) {
                return Ok(Ok(Permission::ThisEffect));
            }
            let act = Act::new(effect, before.as_ref(), change.as_ref().and_then(FileChange::after));
            // A question may stay open for long.
            drop(before);
            let question = self.question(skill, capability, &offered, act, &permits).await?;
            let shown = question.subject.shown_digest();
            let grant = stored_grant(&self.tools.store, &self.owner, skill.digest, &offered, self.only_in());
            let asked = self.record.ask(approvals, question, &self.tools.question_slots, grant).await;
            let PersonAnswer { approval, said } = match asked {
                Ok(answer) => answer,
                Err(no_room) => {
                    self.record.note_unasked(capability, no_room);
                    return Ok(Ok(Permission::Refused(None)));
                }
            };
            if approval.is_yes() {
                let is_offered = matches!(approval, Approval::Call | Approval::Session | Approval::Always);
                let of = if is_offered { &offered } else { capability };
                self.note_approval(of, approval.as_str(), Some(shown));
            }
            return Ok(Ok(match approval {
                Approval::No | Approval::Never => Permission::Refused(said),
                Approval::Call | Approval::Session | Approval::Always => Permission::ThisCall(offered),
                Approval::Wide => Permission::ThisCall(capability.clone()),
                Approval::Folder => Permission::ThisEffect,
                Approval::Once | Approval::Exact => match self.file_before(effect).await {
                    // The file changed since the question was shown, so the yes does not apply. Ask again.
                    Ok(now) if now.as_ref().map(|now| now.file) != found => continue,
                    Ok(_) => {
                        self.allowed_changes.extend(change);
                        Permission::ThisEffect
                    }
                    Err(error) => return Ok(Err(error.into_fault(&permits))),
                },
            }));
        }
    }

    /// Notes in the journal that a person allowed `capability`, with an answer or a mode.
    fn note_approval(&self, capability: &Capability, answer: &str, shown: Option<Digest>) {
        self.record.note_approval(RecordedApproval {
            capability: capability.to_string(),
            answer: answer.to_owned(),
            shown,
            by: self.record.context.principal.to_string(),
        });
    }

    /// Returns the workspace that a stored grant names: none for a skill that belongs to the workspace.
    fn only_in(&self) -> &str {
        let workspace = &self.record.context.workspace;
        if self.owner.workspace == *workspace { "" } else { workspace }
    }

    /// Checks a change of a file, and returns the file that it would find.
    async fn file_before(&self, effect: GuestEffect<'_>) -> Result<Option<FoundFile>, FilesError> {
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
        offered: &Capability,
        act: Act,
        permits: &Permits,
    ) -> Result<Question, StoreError> {
        let context = &self.record.context;
        let store = &self.tools.store;
        let only_once = permits.only_for_one_call(capability);
        // Without the list of its files, as in a snapshot of an older build, nothing can be granted to a skill.
        let grantable = self.owner.root == Root::Bundled || store.skill_files(&skill.digest).await?.is_some();
        let grant = (grantable && !only_once).then(|| {
            let [what, take_back] = grant_commands_in(&self.owner, offered, self.only_in());
            // Grants of bundled skills are valid for every version of them.
            let scope = (self.owner.root != Root::Bundled).then(|| format!("for the skill's files {}", skill.digest));
            OfferedGrant { what, take_back, scope }
        });
        let asked = skill.manifest.capabilities.iter().find(|asked| asked.capability == *capability);
        let reason = asked.and_then(|asked| asked.reason.as_deref());
        Ok(Question {
            agent: context.agent,
            asker: context.asker.clone(),
            subject: QuestionSubject::Capability(SkillCapability {
                act: Box::new(act),
                skill: self.owner.clone(),
                capability: capability.clone(),
                offered: offered.clone(),
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

/// Returns what a yes beyond one effect allows: `capability`, or the host alone that a request goes to.
fn offered(capability: &Capability, effect: GuestEffect<'_>) -> Capability {
    let host = || {
        let (Capability::Http(_), GuestEffect::Request { url, .. }) = (capability, effect) else { return None };
        http_capability(url)
    };
    host().filter(|host| capability.includes(host)).unwrap_or_else(|| capability.clone())
}

/// Returns the grant that `patchbay grant add` would store. A grant of a bundled skill applies to every version of it; any
/// other grant applies to the skill's files with this digest, which are listed in the store: the grant is not offered otherwise.
fn stored_grant(store: &Store, skill: &Identity, digest: Digest, capability: &Capability, place: &str) -> StoredGrant {
    let is_bundled = skill.root == Root::Bundled;
    let grant = GrantRow {
        root: skill.root.as_str().to_owned(),
        workspace: skill.workspace.clone(),
        skill: skill.name.to_string(),
        capability: capability.to_string(),
        place: place.to_owned(),
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

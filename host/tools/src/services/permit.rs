//! Asks the user for a missing permit. The question shows the effect that the host will perform, and a yes only covers that effect
//! unless the user chose a wider answer.

use futures_util::future::BoxFuture;
use patchbay_core::{Digest, text};
use patchbay_policy::{Capability, Denial, Permits, Root, grant_commands_in};
use patchbay_sandbox::{EffectGate, Fault, FilesError, GuestEffect, Permission, PermitSource};
use patchbay_skill::{LinkedFolder, Skill};
use patchbay_store::{GrantRow, RecordedApproval, StoreError};
use patchbay_workspace::{FileError, limits::COMPARED_BYTES};

use super::{CallServices, allowed_changes::FileChange};
use crate::{
    Act, Approval, OfferedGrant, PersonAnswer, Question, QuestionSubject, SkillCapability, act::FileAct,
    approval::StoredGrant, http_capability,
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
                tracing::error!("cannot read the grants: {error}");
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
    /// Returns the permission for `effect`. The outer error comes from the store.
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
        // The user is never asked for a skill of an untrusted workspace.
        if self.owner.root.is_workspace() && !self.tools.store.is_trusted(&self.owner.workspace).await? {
            return Ok(Ok(Permission::Refused(None)));
        }
        loop {
            let mode = context.mode.get();
            // Without a user, only the mode can answer.
            if !mode.asks(effect) || (context.approvals.is_none() && !mode.allows(effect)) {
                return Ok(Ok(Permission::Refused(None)));
            }
            let is_answered_by_mode = mode.allows(effect) && !permits.only_for_one_call(capability);
            let (changes, acts) = match self.changes(effect, !is_answered_by_mode).await {
                Ok(changes) => changes,
                Err(error) => return Ok(Err(error.into_fault(&permits))),
            };
            if is_answered_by_mode {
                self.note_approval(capability, mode.as_str(), None, None);
                return Ok(Ok(Permission::ThisEffect));
            }
            let Some(approvals) = &context.approvals else { return Ok(Ok(Permission::Refused(None))) };
            let is_declaration = matches!(effect, GuestEffect::Change { .. });
            if self.allowed_changes.cover(&changes, is_declaration) {
                return Ok(Ok(Permission::ThisEffect));
            }
            let act = Act::new(effect, acts);
            let granted_for = self.tools.granted_for(&self.owner, skill.digest).await;
            let question = self.question(skill, capability, &offered, act, &permits, &granted_for).await?;
            let shown = question.subject.shown_digest();
            let grant = self.stored_grant(skill.digest, granted_for, &offered);
            let asked = self.record.ask(approvals, question, &self.tools.question_permits, grant).await;
            let PersonAnswer { approval, said, client } = match asked {
                Ok(answer) => answer,
                Err(no_room) => {
                    self.record.note_unasked(capability, no_room);
                    return Ok(Ok(Permission::Refused(None)));
                }
            };
            if approval.is_yes() {
                let is_offered = matches!(approval, Approval::Call | Approval::Session | Approval::Always);
                let of = if is_offered { &offered } else { capability };
                self.note_approval(of, approval.as_str(), Some(shown), client);
            }
            return Ok(Ok(match approval {
                Approval::No | Approval::Never => Permission::Refused(said),
                Approval::Call | Approval::Session | Approval::Always => Permission::ThisCall(offered),
                Approval::Wide => Permission::ThisCall(capability.clone()),
                Approval::Folder => Permission::ThisEffect,
                Approval::Once | Approval::Exact => match self.changes(effect, false).await {
                    // A file changed since the question was shown, so the yes does not apply. Ask again.
                    Ok((now, _)) if now != changes => continue,
                    Ok(_) => {
                        if is_declaration {
                            self.allowed_changes.declare(changes);
                        } else {
                            changes.into_iter().for_each(|change| self.allowed_changes.add_made(change));
                        }
                        Permission::ThisEffect
                    }
                    Err(error) => return Ok(Err(error.into_fault(&permits))),
                },
            }));
        }
    }

    /// Notes in the journal that the user allowed `capability`, with an answer or a mode.
    fn note_approval(&self, capability: &Capability, answer: &str, shown: Option<Digest>, client: Option<String>) {
        self.record.note_approval(RecordedApproval {
            capability: capability.to_string(),
            answer: answer.to_owned(),
            shown,
            by: self.record.context.principal.to_string(),
            client,
        });
    }

    /// Returns the workspace that a stored grant names; empty for a skill that belongs to the workspace.
    fn only_in(&self) -> &str {
        let workspace = &self.record.context.workspace;
        if self.owner.workspace == *workspace { "" } else { workspace }
    }

    /// Checks the file changes of `effect`, and returns them. With `describes`, also returns their descriptions. Only one file's
    /// contents are in memory at a time, and none while a question is open.
    async fn changes(
        &self,
        effect: GuestEffect<'_>,
        describes: bool,
    ) -> Result<(Vec<FileChange>, Vec<FileAct>), FilesError> {
        let (mut changes, mut acts, mut size) = (Vec::new(), Vec::new(), 0_u64);
        for edit in effect.edits() {
            let before = self.files.before_change(edit.path, edit.contents.is_some()).await?;
            if before.is_none() && edit.contents.is_none() {
                return Err(FileError::NotFound { path: text::excerpt(edit.path, 200) }.into());
            }
            let file = before.as_ref().map(|before| before.file);
            // The total size is limited, because all files are read while the call's clock is paused.
            size = size.saturating_add(file.map_or(0, |file| file.size));
            if !changes.is_empty() && size > COMPARED_BYTES {
                return Err(FilesError::Failed("the files of declared changes exceed 64 MiB together"));
            }
            if describes {
                let mut act = FileAct::new(edit, before.as_ref());
                if let Some(file) = file
                    && let Ok(Some(why)) = self.why_not_kept(file.size, size - file.size).await
                {
                    act.add_line(why);
                }
                acts.push(act);
            }
            changes.push(FileChange::of(edit, file));
        }
        Ok((changes, acts))
    }

    /// Returns the question to the user.
    async fn question(
        &self,
        skill: &Skill,
        capability: &Capability,
        offered: &Capability,
        act: Act,
        permits: &Permits,
        granted_for: &str,
    ) -> Result<Question, StoreError> {
        let context = &self.record.context;
        let store = &self.tools.store;
        let only_once = permits.only_for_one_call(capability);
        // Without the list of its files, as in a snapshot of an older build, nothing can be granted to a skill.
        let grantable = self.owner.root == Root::Bundled || store.skill_files(&skill.digest).await?.is_some();
        let grant = (grantable && !only_once).then(|| {
            let [what, take_back] = grant_commands_in(&self.owner, offered, self.only_in());
            // Grants of bundled skills are valid for every version of them.
            let scope = (self.owner.root != Root::Bundled).then(|| match LinkedFolder::of_grant(granted_for) {
                Some(folder) => format!("for any files in the linked folder {}", text::clean_line(folder.path())),
                None => format!("for the skill's files {granted_for}"),
            });
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

    /// Returns the grant that `patchbay grant add` would store for the skill with this digest. The store lists the skill's files,
    /// because the grant is not offered otherwise. `granted_for` is stored as its digest.
    fn stored_grant(&self, digest: Digest, granted_for: String, capability: &Capability) -> StoredGrant {
        let (store, skill) = (&self.tools.store, &self.owner);
        // The list of files is only compared for grants to a digest.
        let is_for_files = skill.root != Root::Bundled && LinkedFolder::of_grant(&granted_for).is_none();
        let grant = GrantRow {
            root: skill.root.as_str().to_owned(),
            workspace: skill.workspace.clone(),
            skill: skill.name.to_string(),
            capability: capability.to_string(),
            place: self.only_in().to_owned(),
            skill_digest: granted_for,
        };
        let files_store = store.clone();
        StoredGrant::new(store, grant, async move {
            if !is_for_files {
                return Ok(String::new());
            }
            let files = files_store.skill_files(&digest).await?;
            files.ok_or(StoreError::BadRow("list of a skill's files"))
        })
    }
}

/// Returns the capability that a yes for more than one effect allows: `capability`, or only the host that a request goes to.
fn offered(capability: &Capability, effect: GuestEffect<'_>) -> Capability {
    let host = || {
        let (Capability::Http(_), GuestEffect::Request { url, .. }) = (capability, effect) else { return None };
        http_capability(url)
    };
    host().filter(|host| capability.includes(host)).unwrap_or_else(|| capability.clone())
}

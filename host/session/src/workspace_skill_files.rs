//! Stores the files of an untrusted workspace's skills once a session uses skills.
//!
//! A repository decides which files its skills have, up to 32 MiB, and may change them all the time. Storing them whenever a
//! session is opened would fill the disk of a user who only lists skills there. Therefore a new snapshot leaves the files in the
//! workspace until the session's first turn, or its first command that may read them. If a file has changed by then, the skill
//! has no files, and a notice says so.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use patchbay_core::{AgentId, Digest, EventKind, Name};
use patchbay_policy::Capability;
use patchbay_skill::{Candidate, FileSet, FileStorage, Skill, Snapshot};
use patchbay_store::{Store, StoreError};
use patchbay_tools::SkillFilesError;

use crate::{Host, Session, SessionError, building::off_thread, roots::CacheMode};

/// Maximum number of skills that a notice names.
const NAMED: usize = 5;

impl Session {
    /// Stores the files of the workspace's skills for a command that runs `skill`, if the command may read them.
    pub(crate) async fn keep_files_for(&self, skill: &Skill, agent: AgentId) {
        let calls_tools = skill.manifest.capabilities.iter().any(|asked| asked.capability == Capability::Tools);
        if skill.root.is_workspace() || calls_tools {
            self.keep_skill_files(agent).await;
        }
    }

    /// Stores the files of the workspace's skills that are not stored yet. A notice for `agent` names the skills whose files have
    /// changed.
    pub(crate) async fn keep_skill_files(&self, agent: AgentId) {
        let snapshot = self.snapshot();
        if self.files_kept_for.load(Ordering::Relaxed) == snapshot.version() {
            return;
        }
        match self.host.keep_skill_files(self.workspace(), &snapshot).await {
            Ok(changed) => {
                self.files_kept_for.store(snapshot.version(), Ordering::Relaxed);
                if !changed.is_empty() {
                    self.log().publish(agent, EventKind::Notice { text: notice(&changed) });
                }
            }
            Err(error) => tracing::warn!("the files of the workspace's skills could not be stored: {error}"),
        }
    }

    /// Returns whether this process has run a turn or a skill in the session.
    pub(crate) fn uses_skills(&self) -> bool {
        self.files_kept_for.load(Ordering::Relaxed) > 0
    }
}

fn notice(changed: &[Name]) -> String {
    let mut names: Vec<String> = changed.iter().take(NAMED).map(|name| format!("'{name}'")).collect();
    if changed.len() > NAMED {
        names.push(format!("{} more", changed.len() - NAMED));
    }
    format!(
        "Files of skills have changed since they were listed: {}. Run /reload_skills to use them.",
        names.join(", ")
    )
}

impl Host {
    /// Stores the files of the workspace's skills in `snapshot` that are not stored yet. Returns the skills whose files have
    /// changed since the snapshot was made.
    async fn keep_skill_files(
        self: &Arc<Self>,
        workspace: &str,
        snapshot: &Snapshot,
    ) -> Result<Vec<Name>, SessionError> {
        let skills: BTreeMap<Digest, Name> = snapshot
            .skills()
            .filter(|skill| is_in_pack(skill))
            .map(|skill| (skill.digest, skill.name.clone()))
            .collect();
        if skills.is_empty() {
            return Ok(Vec::new());
        }
        let store = self.store.clone();
        let missing = off_thread(move || missing(&store, skills)).await??;
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let candidates = self.candidates(workspace, &missing.keys().copied().collect()).await?;
        let store = self.store.clone();
        Ok(off_thread(move || store_files(&store, missing, candidates)).await??)
    }

    /// Returns the files of a skill of a snapshot. Files of a workspace's skill that are not stored yet are read from the
    /// workspace.
    ///
    /// # Errors
    /// Every failure is reported as [`SkillFilesError`].
    pub(crate) async fn skill_files(
        self: &Arc<Self>,
        workspace: &str,
        skill: &Skill,
    ) -> Result<Arc<FileSet>, SkillFilesError> {
        let stored = self.tools.skill_files(skill).await;
        if !matches!(stored, Err(SkillFilesError::Missing(_))) || !is_in_pack(skill) {
            return stored;
        }
        let Ok(mut candidates) = self.candidates(workspace, &BTreeSet::from([skill.digest])).await else {
            return stored;
        };
        let Some(candidate) = candidates.pop() else { return stored };
        match off_thread(move || read(&candidate)).await {
            Ok(Some(files)) => Ok(Arc::new(files)),
            _ => stored,
        }
    }

    /// Returns the current skills of the workspace with these digests.
    async fn candidates(
        self: &Arc<Self>,
        workspace: &str,
        digests: &BTreeSet<Digest>,
    ) -> Result<Vec<Candidate>, SessionError> {
        let trusted = self.store.is_trusted(workspace).await?;
        let scan = self.scan(workspace, trusted, CacheMode::Use).await?;
        let found = scan.found.into_iter().filter(|found| found.root.is_workspace());
        Ok(found.filter_map(|found| found.candidate.ok()).filter(|it| digests.contains(&it.digest())).collect())
    }
}

fn is_in_pack(skill: &Skill) -> bool {
    skill.root.is_workspace() && skill.files.is_some_and(|files| files.place == FileStorage::Pack)
}

/// Returns the subset of `skills` whose files are not stored.
fn missing(store: &Store, mut skills: BTreeMap<Digest, Name>) -> Result<BTreeMap<Digest, Name>, StoreError> {
    let held = store.retain_components()?;
    skills.retain(|digest, _| !held.has_skill_files(digest));
    Ok(skills)
}

/// Stores the files of `candidates`, one skill at a time, and returns the skills that are still missing. Garbage
/// collection keeps the stored files because the session's snapshot names them.
fn store_files(
    store: &Store,
    mut missing: BTreeMap<Digest, Name>,
    candidates: Vec<Candidate>,
) -> Result<Vec<Name>, StoreError> {
    let held = store.retain_components()?;
    for candidate in candidates {
        if let Some(files) = read(&candidate) {
            held.add_skill_files(&candidate.digest(), &files.to_pack())?;
            missing.remove(&candidate.digest());
        }
    }
    Ok(missing.into_values().collect())
}

/// Returns the files of a skill; `None` if one has changed since the skill was found.
fn read(candidate: &Candidate) -> Option<FileSet> {
    let read = candidate.read_files().ok()?;
    (read.candidate.digest() == candidate.digest()).then_some(read.files)
}

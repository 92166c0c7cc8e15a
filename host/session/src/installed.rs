//! Lists the skills that a new session would have, with their size and the state of their grants, for the operator.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use patchbay_core::Digest;
use patchbay_policy::{Capability, CapabilityState, Identity};
use patchbay_skill::{Diagnostic, LinkedFolder, Skill};

use crate::{Host, SessionError, roots::CacheMode, workspace_path::workspace_path};

/// The skills of a new session, and those that were left out.
#[derive(Clone, Debug)]
pub struct InstalledSkills {
    /// The skills, sorted by name.
    pub skills: Vec<InstalledSkill>,
    /// The problems of skills that could not be listed.
    pub diagnostics: Vec<Diagnostic>,
}

/// A skill of a new session.
#[derive(Clone, Debug)]
pub struct InstalledSkill {
    /// The skill as the snapshot has it.
    pub skill: Skill,
    /// Size of its component in bytes; `None` without one.
    pub component_bytes: Option<u64>,
    /// The folder that the skill is a link to, if it was added with `patchbay plugin add --link`.
    pub linked: Option<LinkedFolder>,
    /// The capabilities requested in its SKILL.md, in the order of that file, and whether each is allowed.
    pub capabilities: Vec<(Capability, CapabilityState)>,
}

impl Host {
    /// Returns the value that a grant for the skill with this digest stores as its digest: the digest itself, or the linked folder.
    pub async fn granted_for(&self, skill: &Identity, digest: Digest) -> String {
        self.tools.granted_for(skill, digest).await
    }

    /// Returns the skills that a new session on the folder `workspace` would have. New components are compiled and stored.
    ///
    /// # Errors
    /// [`SessionError`] if the workspace or the store cannot be used.
    pub async fn installed_skills(self: &Arc<Self>, workspace: &Path) -> Result<InstalledSkills, SessionError> {
        let workspace = workspace_path(workspace)?;
        let snapshot = self.preview_snapshot_of(&workspace).await?;
        let trusted = self.store.is_trusted(&workspace).await?;
        // All files are in the cache now.
        let scan = self.scan(&workspace, trusted, CacheMode::Use).await?;
        let candidates = scan.found.iter().filter_map(|found| found.candidate.as_ref().ok()?.component.as_ref());
        let sizes: BTreeMap<Digest, u64> = candidates.map(|component| (component.digest(), component.size())).collect();
        let mut skills = Vec::new();
        for skill in snapshot.skills() {
            let permits = self.tools.permits(skill, &workspace).await?;
            let asked = skill.manifest.capabilities.iter().map(|asked| asked.capability.clone());
            skills.push(InstalledSkill {
                component_bytes: skill.component.and_then(|component| sizes.get(&component).copied()),
                linked: self.tools.linked_folder(&skill.identity(&workspace)),
                capabilities: asked.map(|asked| (asked.clone(), permits.state(&asked))).collect(),
                skill: skill.clone(),
            });
        }
        Ok(InstalledSkills { skills, diagnostics: snapshot.diagnostics().to_vec() })
    }
}

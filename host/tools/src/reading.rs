//! Determines whether calls have effects, and whether they may change files. An agent runs the calls of one response in parallel if
//! they only read. A tool runs its nested calls in parallel if they change no files.

use patchbay_policy::Capability;
use patchbay_skill::Skill;

use crate::{CallContext, ResolvedTool, SkillTool, Tools};

impl SkillTool<'_> {
    /// Returns whether a call can have effects once the skill is granted everything that its manifest requests. The current grants
    /// do not count, because other programs rely on the result for as long as they run. False if the tool declares that it only
    /// reads, because the host then denies effects, or if the skill requests no capability with effects.
    pub fn can_have_effects(&self) -> bool {
        let asks = || self.skill.manifest.capabilities.iter().any(|asked| asked.capability.has_effects());
        !self.spec.is_read_only() && asks()
    }
}

impl Tools {
    /// Returns whether a call of `tool` has no effects. This is true if the tool declares it (the host then denies
    /// effects), if its skill requests no capability with effects, or if none of these is granted and the user cannot
    /// be asked. If the grants cannot be read, it has effects.
    pub async fn only_reads(&self, context: &CallContext, tool: &ResolvedTool<'_>) -> bool {
        match tool {
            ResolvedTool::Internal(tool) => tool.only_reads(),
            // A source's statement about effects is only a claim.
            ResolvedTool::Outside(_) => false,
            ResolvedTool::Skill(tool) => {
                tool.spec.is_read_only() || !self.may_use(context, tool.skill, Capability::has_effects).await
            }
        }
    }

    /// Returns whether `tool` belongs to a skill that may change files of the workspace, itself or through tools that it calls.
    pub(crate) async fn may_change_files(&self, context: &CallContext, tool: &ResolvedTool<'_>) -> bool {
        let changes = |capability: &Capability| {
            matches!(capability, Capability::WorkspaceWrite | Capability::WorkspaceDelete | Capability::Tools)
        };
        match tool {
            // Neither these tools nor servers use the host's files. Servers that change files must order their calls themselves.
            ResolvedTool::Internal(_) | ResolvedTool::Outside(_) => false,
            ResolvedTool::Skill(tool) => !tool.spec.is_read_only() && self.may_use(context, tool.skill, changes).await,
        }
    }

    /// Returns whether `skill` requests one of the capabilities that `of` selects, and is granted it or can ask the user for it.
    async fn may_use(&self, context: &CallContext, skill: &Skill, of: impl Fn(&Capability) -> bool) -> bool {
        let asked = || skill.manifest.capabilities.iter().map(|asked| &asked.capability).filter(|asked| of(asked));
        if asked().next().is_none() {
            return false;
        }
        // The user may allow it during the call.
        if context.approvals.is_some() {
            return true;
        }
        match self.permits(skill, &context.workspace).await {
            Ok(permits) => asked().any(|asked| permits.allows(asked)),
            Err(error) => {
                tracing::warn!("cannot read the grants of a skill: {error}");
                true
            }
        }
    }
}

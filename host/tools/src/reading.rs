//! Tells calls that only read from those with effects, and those that may change files. An agent runs reading calls of one answer
//! side by side, a tool the calls that change no files.

use patchbay_policy::Capability;
use patchbay_skill::Skill;

use crate::{CallContext, ResolvedTool, SkillTool, Tools};

impl SkillTool<'_> {
    /// Returns whether a call can have effects once the skill is granted all that its manifest asks for. Other programs rely on it
    /// for as long as they run, so the grants of this moment do not count. False if the tool declares that it only reads, because
    /// the host then denies effects, or if the skill asks for no capability with effects.
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

    /// Returns whether `tool` is of a skill that may change files of the workspace, itself or by tools that it calls.
    pub(crate) async fn may_change_files(&self, context: &CallContext, tool: &ResolvedTool<'_>) -> bool {
        let changes = |capability: &Capability| {
            matches!(capability, Capability::WorkspaceWrite | Capability::WorkspaceDelete | Capability::Tools)
        };
        match tool {
            // Neither these tools nor servers use the host's files. Servers that change files order their own calls.
            ResolvedTool::Internal(_) | ResolvedTool::Outside(_) => false,
            ResolvedTool::Skill(tool) => !tool.spec.is_read_only() && self.may_use(context, tool.skill, changes).await,
        }
    }

    /// Returns whether `skill` asks for one of the capabilities that `of` selects, and is granted
    /// it or can ask the user for it.
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

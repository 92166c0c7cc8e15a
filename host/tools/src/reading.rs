//! Tells calls that only read from those with effects. An agent runs reading calls of one answer side by side.

use crate::{CallContext, ResolvedTool, Tools};

impl Tools {
    /// Returns whether a call of `tool` has no effects: the tool declares it, so that the host denies effects; or its skill asks
    /// for no capability with effects, or for none that it is granted where no person can be asked. If the grants cannot be
    /// read, it has effects.
    pub async fn only_reads(&self, context: &CallContext, tool: &ResolvedTool<'_>) -> bool {
        let skill = match tool {
            ResolvedTool::Internal(tool) => return tool.only_reads(),
            // What its source says of effects is a claim.
            ResolvedTool::Outside(_) => return false,
            ResolvedTool::Skill(tool) if tool.spec.is_read_only() => return true,
            ResolvedTool::Skill(tool) => tool.skill,
        };
        let asked =
            || skill.manifest.capabilities.iter().map(|asked| &asked.capability).filter(|asked| asked.has_effects());
        if asked().next().is_none() {
            return true;
        }
        // A person may allow it during the call.
        if context.approvals.is_some() {
            return false;
        }
        match self.permits(skill, &context.workspace).await {
            Ok(permits) => !asked().any(|asked| permits.allows(asked)),
            Err(error) => {
                tracing::warn!("the grants of a skill could not be read: {error}");
                false
            }
        }
    }
}

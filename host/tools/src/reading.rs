//! Tells calls that only read from those with effects. An agent runs reading calls of one answer side by side.

use patchbay_policy::Capability;

use crate::{CallContext, ResolvedTool, Tools};

impl Tools {
    /// Returns whether a call of `tool` has no effects: its skill asks for no capability with effects, or for none that it is
    /// granted where no person can be asked. If the grants cannot be read, it has effects.
    pub async fn only_reads(&self, context: &CallContext, tool: &ResolvedTool<'_>) -> bool {
        let skill = match tool {
            ResolvedTool::Internal(tool) => return tool.only_reads(),
            // What its source says of effects is a claim.
            ResolvedTool::Outside(_) => return false,
            ResolvedTool::Skill(tool) => tool.skill,
        };
        let asked =
            || skill.manifest.capabilities.iter().map(|asked| &asked.capability).filter(|asked| has_effects(asked));
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

/// Returns whether a skill with this capability can change something outside of itself.
fn has_effects(capability: &Capability) -> bool {
    match capability {
        Capability::WorkspaceRead | Capability::Clock | Capability::Random => false,
        Capability::Kv
        | Capability::Http(_)
        | Capability::WorkspaceWrite
        | Capability::WorkspaceDelete
        | Capability::Inference
        | Capability::Tools
        | Capability::Credential(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_with_effects() {
        for (capability, expected) in [
            ("workspace-read", false),
            ("clock", false),
            ("random", false),
            ("workspace-write", true),
            ("workspace-delete", true),
            ("kv", true),
            ("http:example.org", true),
            ("inference", true),
            ("tools", true),
            ("credential:key", true),
        ] {
            assert_eq!(has_effects(&capability.parse().unwrap()), expected, "{capability}");
        }
    }
}

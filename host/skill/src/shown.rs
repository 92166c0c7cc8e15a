//! The order in which skills and tools are kept if a model cannot be shown all of them. `agent` lists skills and declares tools
//! by it; `tools` orders equal results of a search by it.

use patchbay_policy::Root;

/// The place of a skill or a tool in that order. The first ones are kept; within a place, names decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShownRank {
    /// Tools that the host implements.
    Host,
    /// The skills in the user's folder.
    User,
    /// Skills of a trusted workspace.
    TrustedWorkspace,
    /// The skills that are bundled with the binary.
    Bundled,
    /// Skills of packages.
    Package,
    /// The skills in folders of `skill_roots`.
    Extra,
    /// Tools outside of the sandbox, such as an MCP server's.
    Outside,
    /// Skills of a workspace that is not trusted. Its author may be anybody.
    UntrustedWorkspace,
}

/// Counts the results of one search that an untrusted workspace may have: a repository can write any words into its skills.
#[derive(Debug, Default)]
pub struct ResultLimit {
    untrusted: usize,
}

impl ResultLimit {
    /// Most results of an untrusted workspace.
    const UNTRUSTED: usize = 2;

    /// Returns whether the next result, of a skill or tool in this place, may be returned.
    pub fn admits(&mut self, rank: ShownRank) -> bool {
        self.untrusted += usize::from(rank == ShownRank::UntrustedWorkspace);
        rank != ShownRank::UntrustedWorkspace || self.untrusted <= Self::UNTRUSTED
    }
}

impl ShownRank {
    /// Returns the place of the skills in `root`.
    pub(crate) fn of(root: Root, is_trusted: bool) -> Self {
        match root {
            Root::User => Self::User,
            Root::Bundled => Self::Bundled,
            Root::Package => Self::Package,
            Root::Extra => Self::Extra,
            Root::WorkspaceClaude | Root::WorkspaceAgents | Root::Workspace if is_trusted => Self::TrustedWorkspace,
            Root::WorkspaceClaude | Root::WorkspaceAgents | Root::Workspace => Self::UntrustedWorkspace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_workspace_has_two_results_of_a_search() {
        use ShownRank::{UntrustedWorkspace as Theirs, User};
        let mut limit = ResultLimit::default();
        let admitted = [Theirs, User, Theirs, Theirs, User, Theirs].map(|rank| limit.admits(rank));
        assert_eq!(admitted, [true, true, true, false, true, false]);
    }
}

//! The priority of skills and tools if not all of them can be shown to a model. The crate `agent` selects the skills that it lists
//! and the tools that it declares in this order. Search results with equal scores have this order too: skills in `agent`, tools in
//! `tools`.

use patchbay_policy::Root;

/// The rank of a skill or a tool. Earlier variants are kept first; within a rank, names decide.
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
    /// The skills in the folders that `skill_roots` lists.
    Extra,
    /// Tools outside of the sandbox, such as an MCP server's.
    Outside,
    /// Skills of an untrusted workspace, which anyone may have written.
    UntrustedWorkspace,
}

/// Limits the results of one search that come from an untrusted workspace, because a repository can stuff its skills with any
/// words.
#[derive(Debug, Default)]
pub struct ResultLimit {
    untrusted: usize,
}

impl ResultLimit {
    /// The most results from an untrusted workspace.
    const UNTRUSTED: usize = 2;

    /// Returns whether the next result, a skill or tool with this rank, may be returned.
    pub fn admits(&mut self, rank: ShownRank) -> bool {
        self.untrusted += usize::from(rank == ShownRank::UntrustedWorkspace);
        rank != ShownRank::UntrustedWorkspace || self.untrusted <= Self::UNTRUSTED
    }
}

impl ShownRank {
    /// Returns the rank of the skills in `root`.
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

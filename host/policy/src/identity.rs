//! The identity of a skill: its root, its workspace and its name. Grants and stored state belong to an identity.

use std::fmt;

use patchbay_core::Name;
use serde::{Deserialize, Serialize};

/// Where a skill was found. Later roots take precedence over earlier ones.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Root {
    /// A folder of `skill_roots` in `config.toml`.
    Extra,
    /// Packages that `patchbay plugin add` copied and `packages.lock` lists.
    Package,
    /// Skills built into the binary.
    Bundled,
    /// The user's configuration folder.
    User,
    /// The workspace's `.claude` folder.
    WorkspaceClaude,
    /// The workspace's `.agents` folder.
    WorkspaceAgents,
    /// The workspace's `.patchbay` folder.
    Workspace,
}

impl Root {
    /// All roots, in increasing order of precedence.
    pub const ALL: [Self; 7] = [
        Self::Extra,
        Self::Package,
        Self::Bundled,
        Self::User,
        Self::WorkspaceClaude,
        Self::WorkspaceAgents,
        Self::Workspace,
    ];

    /// Returns the name of the root.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the folder of skills in a workspace; `None` for a root outside of workspaces.
    pub fn workspace_folder(self) -> Option<&'static str> {
        match self {
            Self::WorkspaceClaude => Some(".claude/skills"),
            Self::WorkspaceAgents => Some(".agents/skills"),
            Self::Workspace => Some(".patchbay/skills"),
            Self::Extra | Self::Package | Self::Bundled | Self::User => None,
        }
    }

    /// Returns whether the root is in a workspace, where its skills may have been written by anyone.
    pub fn is_workspace(self) -> bool {
        self.workspace_folder().is_some()
    }

    /// Returns the root with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|root| root.as_str() == word)
    }
}

/// The owner of grants and stored state. Skills of the same name in two roots or workspaces have different identities.
/// Neither can use the grants or state of the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The root that contains the skill.
    pub root: Root,
    /// The canonical path of the workspace, or of the folder for [`Root::Extra`]; the package's name for [`Root::Package`];
    /// otherwise empty.
    pub workspace: String,
    /// The name of the skill in its root.
    pub name: Name,
}

/// Root, name and workspace; unique for each identity.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.root, self.name)?;
        if self.workspace.is_empty() { Ok(()) } else { write!(f, " of {}", self.workspace) }
    }
}

impl Identity {
    /// Returns the identity of the skill `name` in `root`, as seen from `workspace`. For [`Root::Extra`],
    /// `workspace` is the path of the root; for [`Root::Package`], the name of the package.
    pub fn new(root: Root, workspace: &str, name: Name) -> Self {
        let has_owner = root.is_workspace() || matches!(root, Root::Extra | Root::Package);
        let workspace = if has_owner { workspace.to_owned() } else { String::new() };
        Self { root, workspace, name }
    }
}

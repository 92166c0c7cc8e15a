//! The identity of a skill: its root, its workspace and its name. Grants and stored state belong to an identity.

use std::fmt;

use patchbay_core::Name;
use serde::{Deserialize, Serialize};

/// Where a skill was found. Later roots take precedence over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Root {
    /// Skills built into the binary.
    Bundled,
    /// The user's configuration folder.
    User,
    /// The workspace's `.patchbay` folder.
    Workspace,
}

impl Root {
    /// Returns the name of the root.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }

    /// Returns the root with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Bundled, Self::User, Self::Workspace].into_iter().find(|root| root.as_str() == word)
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The owner of grants and stored state. Skills of the same name in two roots or workspaces have different identities, so
/// that neither can use the grants and state of the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The root of the skill.
    pub root: Root,
    /// The workspace's canonical path for [`Root::Workspace`]; otherwise empty.
    pub workspace: String,
    /// The skill's name.
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
    /// Returns the identity of the skill `name` in `root`, as seen from `workspace`.
    pub fn new(root: Root, workspace: &str, name: Name) -> Self {
        let workspace = if root == Root::Workspace { workspace.to_owned() } else { String::new() };
        Self { root, workspace, name }
    }
}

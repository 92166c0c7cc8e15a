use std::fmt;

use patchbay_core::Name;
use serde::{Deserialize, Serialize};

/// Where a skill comes from. Later roots win over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Root {
    /// The binary itself.
    Bundled,
    /// The person's configuration folder.
    User,
    /// The workspace's `.patchbay` folder.
    Workspace,
}

impl Root {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }

    /// The root that a stored word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Bundled, Self::User, Self::Workspace].into_iter().find(|root| root.as_str() == word)
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whom grants and stored state belong to. A skill of another root or workspace is another identity, whatever its
/// name, so that it can take neither.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The root it was found in.
    pub root: Root,
    /// The workspace's canonical path, for [`Root::Workspace`] alone; else empty.
    pub workspace: String,
    /// The skill's name.
    pub name: Name,
}

/// Root, name and workspace, each identity another text.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.root, self.name)?;
        if self.workspace.is_empty() { Ok(()) } else { write!(f, " of {}", self.workspace) }
    }
}

impl Identity {
    /// The identity of the skill `name` in `root`, as seen from `workspace`.
    pub fn new(root: Root, workspace: &str, name: Name) -> Self {
        let workspace = if root == Root::Workspace { workspace.to_owned() } else { String::new() };
        Self { root, workspace, name }
    }
}

//! The parts of a fence, and the gaps left by missing parts.

use serde::{Deserialize, Serialize};

/// The parts of a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    /// The version of Landlock, up to the one that this build knows; 0 if there is none.
    pub landlock: u32,
    /// Which namespaces can be created.
    pub isolation: Isolation,
    /// Whether system calls can be refused.
    pub seccomp: bool,
}

/// Namespaces around a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// No namespaces. Protected files are compared afterwards instead.
    #[default]
    None,
    /// A mount namespace, in which protected files are mounted read-only.
    Mounts,
    /// A process namespace as well: the kernel kills all of its processes when the first one ends.
    Processes,
}

impl Support {
    /// The version of Landlock that limits signals and abstract sockets, too.
    pub const LANDLOCK: u32 = 6;
    /// The version of Landlock that can prevent truncating files.
    pub(crate) const TRUNCATE: u32 = 3;

    /// Whether the fence is complete, which means that it has no [gaps](Self::gaps).
    pub fn is_whole(self) -> bool {
        self.landlock >= Self::LANDLOCK && self.seccomp && self.isolation >= Isolation::Mounts
    }

    /// Returns the gaps in the fence, one clause each; empty if it is complete.
    pub fn gaps(self) -> Vec<&'static str> {
        let mut gaps = Vec::new();
        if self.landlock == 0 {
            gaps.push("can read and change all files that you can");
        } else if self.isolation < Isolation::Mounts {
            gaps.push("can change .git, agents' rules, and the modes and times of all your files");
            if self.landlock < Self::TRUNCATE {
                gaps.push("can truncate all your files");
            }
        }
        if !self.seccomp {
            gaps.push("can use the network");
        }
        if self.landlock < Self::LANDLOCK {
            gaps.push("can send signals to your other programs");
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_named() {
        let whole = Support { landlock: 6, isolation: Isolation::Mounts, seccomp: true };
        assert!(whole.is_whole() && whole.gaps().is_empty());
        let old = Support { landlock: 5, ..whole };
        assert_eq!((old.is_whole(), old.gaps()), (false, vec!["can send signals to your other programs"]));
        let alone = Support { isolation: Isolation::None, ..whole };
        let open = "can change .git, agents' rules, and the modes and times of all your files";
        assert_eq!(alone.gaps(), [open]);
        let older = Support { landlock: 2, ..alone };
        assert_eq!(older.gaps()[..2], [open, "can truncate all your files"]);
        assert_eq!(Support::default().gaps().len(), 3);
    }
}

//! The error for a blocked component or skill. `tools` returns it when a blocked skill is called.

use std::fmt;

use patchbay_core::{Digest, Name};

/// A component or skill that the operator has blocked. A block overrides all grants and is checked before every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The digest of the blocked skill or component.
    pub digest: Digest,
    /// True if `digest` covers all of the skill's files, false if it is only the component's digest.
    pub whole: bool,
    /// The skill that was about to run.
    pub skill: Name,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, whole, skill } = self;
        match whole {
            true => write!(f, "skill '{skill}' with the digest {digest} is blocked")?,
            false => write!(f, "component {digest} of skill '{skill}' is blocked")?,
        }
        write!(f, ". To unblock it: patchbay plugin unblock {digest}")
    }
}

impl std::error::Error for Blocked {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_message_contains_the_unblock_command() {
        let digest = Digest::of(b"x");
        let words = |whole| Blocked { digest, whole, skill: "calc".parse().unwrap() }.to_string();
        let lift = format!("is blocked. To unblock it: patchbay plugin unblock {digest}");
        assert_eq!(words(false), format!("component {digest} of skill 'calc' {lift}"));
        assert_eq!(words(true), format!("skill 'calc' with the digest {digest} {lift}"));
    }
}

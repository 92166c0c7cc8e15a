use patchbay_core::{Digest, Name};

/// The operator's no to a component, whatever it was granted and whichever skill brings it. It is read before every call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("component {component} of skill '{skill}' is blocked. To lift it: patchbay plugin unblock {component}")]
pub struct Blocked {
    /// What may not run.
    pub component: Digest,
    /// The skill that wanted to run it.
    pub skill: Name,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_name_the_command() {
        let component = Digest::of(b"x");
        let words = Blocked { component, skill: "calc".parse().unwrap() }.to_string();
        assert_eq!(
            words,
            format!(
                "component {component} of skill 'calc' is blocked. To lift it: patchbay plugin unblock {component}"
            )
        );
    }
}

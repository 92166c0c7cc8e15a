use patchbay_core::Digest;

use crate::{Capability, Identity, Root};

/// The operator's yes to one capability, for one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is granted.
    pub capability: Capability,
    /// The component it was given for. None: whatever component the identity has (bundled skills follow the binary).
    pub digest: Option<Digest>,
}

/// Where a capability stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It works.
    Granted,
    /// The operator has not granted it.
    NotGranted,
    /// It was granted to a component that has been replaced since.
    Stale,
}

impl State {
    /// As `/help` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::NotGranted => "not granted",
            Self::Stale => "stale",
        }
    }
}

/// What one call may do: what its manifest asks for, against what the operator granted.
#[derive(Clone, Debug)]
pub struct Permits {
    identity: Identity,
    component: Digest,
    asked: Vec<Capability>,
    grants: Vec<Grant>,
}

/// Why a capability does not work, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The manifest does not ask for it.
    #[error(
        "skill '{skill}' may not use '{capability}': its SKILL.md does not ask for it. Add it under 'capabilities' there, then run /reload_skills"
    )]
    NotAsked {
        /// Who wanted it.
        skill: String,
        /// What it wanted.
        capability: Capability,
    },
    /// The operator has not granted it.
    #[error("skill '{skill}' may not use '{capability}': it is not granted. To grant it: {command}")]
    NotGranted {
        /// Who wanted it.
        skill: String,
        /// What it wanted.
        capability: Capability,
        /// The exact command.
        command: String,
    },
    /// It was granted to a component that has been replaced since.
    #[error(
        "skill '{skill}' may not use '{capability}': its component has changed since that was granted. To grant it anew: {command}"
    )]
    Stale {
        /// Who wanted it.
        skill: String,
        /// What it wanted.
        capability: Capability,
        /// The exact command.
        command: String,
    },
}

impl Permits {
    /// What `identity`, running `component`, may do: `asked` by its manifest, `grants` of the operator.
    pub fn new(identity: Identity, component: Digest, asked: Vec<Capability>, grants: Vec<Grant>) -> Self {
        Self { identity, component, asked, grants }
    }

    /// Where `capability` stands, not regarding whether the manifest asks for it.
    pub fn state(&self, capability: &Capability) -> State {
        let mut state = State::NotGranted;
        for grant in self.grants.iter().filter(|grant| grant.capability == *capability) {
            match grant.digest {
                Some(digest) if digest != self.component => state = State::Stale,
                _ => return State::Granted,
            }
        }
        state
    }

    /// Whether the call may use `capability`.
    ///
    /// # Errors
    /// The [`Denial`], which says what to do next.
    pub fn check(&self, capability: &Capability) -> Result<(), Denial> {
        let skill = self.identity.name.to_string();
        let capability = capability.clone();
        if !self.asked.contains(&capability) {
            return Err(Denial::NotAsked { skill, capability });
        }
        match self.state(&capability) {
            State::Granted => Ok(()),
            State::NotGranted => {
                let command = self.command(&capability);
                Err(Denial::NotGranted { skill, capability, command })
            }
            State::Stale => {
                let command = self.command(&capability);
                Err(Denial::Stale { skill, capability, command })
            }
        }
    }

    fn command(&self, capability: &Capability) -> String {
        let root = match self.identity.root {
            Root::User => "",
            Root::Bundled => "--root bundled ",
            Root::Workspace => "--root workspace ",
        };
        format!("patchbay grant add {root}{} {capability}", self.identity.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(asked: &[Capability], grants: Vec<Grant>) -> Permits {
        let identity = Identity::new(Root::Workspace, "/w", "notes".parse().unwrap());
        Permits::new(identity, Digest::of(b"now"), asked.to_vec(), grants)
    }

    #[test]
    fn asked_and_granted_or_denied_with_the_command() {
        let kv = Capability::Kv;
        let granted = |digest| vec![Grant { capability: Capability::Kv, digest }];
        assert!(matches!(permits(&[], granted(None)).check(&kv), Err(Denial::NotAsked { .. })));
        assert_eq!(permits(std::slice::from_ref(&kv), granted(Some(Digest::of(b"now")))).check(&kv), Ok(()));
        assert_eq!(
            permits(std::slice::from_ref(&kv), vec![]).check(&kv).unwrap_err().to_string(),
            "skill 'notes' may not use 'kv': it is not granted. To grant it: patchbay grant add --root workspace notes kv"
        );
        let stale = permits(std::slice::from_ref(&kv), granted(Some(Digest::of(b"before"))));
        assert!(matches!(stale.check(&kv), Err(Denial::Stale { .. })));
        assert_eq!(stale.state(&kv), State::Stale);
    }
}

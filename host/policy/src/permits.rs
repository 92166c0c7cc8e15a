use crate::{
    Capability, HostPattern, Identity, Root,
    shell::{quoted, quoted_folder},
};

/// The operator's yes to one capability, and whether it holds for the skill as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is granted.
    pub capability: Capability,
    /// Whether it holds.
    pub standing: Standing,
}

impl Grant {
    /// A grant that holds.
    pub fn holding(capability: Capability) -> Self {
        Self { capability, standing: Standing::Holds }
    }
}

/// Whether a grant holds for a skill as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was given for these very files, or for a bundled skill, which follows the binary.
    Holds,
    /// It was given for other files: names of those that changed, cleaned; empty where that is not known.
    Changed(Vec<String>),
    /// It was given by a build that looked at the component alone.
    Unchecked,
    /// The session's snapshot is of a build that looked at the component alone.
    OldSnapshot,
}

impl Standing {
    /// Why a grant does not hold, in a few words; `None` where it does.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Holds => None,
            Self::Changed(files) if files.is_empty() => Some("its files changed".to_owned()),
            Self::Changed(files) => Some(format!("changed: {}", files.join(", "))),
            Self::Unchecked => Some("granted before Patchbay checked a skill's other files".to_owned()),
            Self::OldSnapshot => Some("/reload_skills reads the skill's files".to_owned()),
        }
    }
}

/// Where a capability stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityState {
    /// It works.
    Granted,
    /// The operator has not granted it.
    NotGranted,
    /// It was granted for other files than the skill has now.
    Stale,
    /// It is granted, and the workspace is or holds the person's home folder, where that is not enough.
    HomeFolder,
}

impl CapabilityState {
    /// As `/help` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::NotGranted => "not granted",
            Self::Stale => "stale",
            Self::HomeFolder => "granted, but not in a home folder",
        }
    }
}

/// The workspace that a call runs in, and what the person said about writing there.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceTrust {
    /// The workspace's canonical path.
    pub path: String,
    /// It is, or holds, the person's home folder.
    pub holds_home: bool,
    /// `patchbay trust add --write`: plugins with `workspace-write` may write where that needs a yes of its own, in a home
    /// folder and in files with instructions for agents.
    pub write: bool,
}

impl WorkspaceTrust {
    fn keeps_writers_out(&self) -> bool {
        self.holds_home && !self.write
    }
}

/// What one call may do: what its manifest asks for, against what the operator granted.
#[derive(Clone, Debug)]
pub struct Permits {
    identity: Identity,
    asked: Vec<Capability>,
    grants: Vec<Grant>,
    workspace: WorkspaceTrust,
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
    /// The manifest of a bundled skill does not ask for it.
    #[error(
        "skill '{skill}' may not use '{capability}': it is a bundled skill that does not ask for it, so that no grant gives it. A skill of your own can ask for it"
    )]
    NotAskedBundled {
        /// The skill's name.
        skill: String,
        /// What it wanted.
        capability: Capability,
    },
    /// Writing in a workspace that is or holds the person's home folder.
    #[error(
        "skill '{skill}' may not use '{capability}': this workspace is or holds your home folder. To allow it: {command}"
    )]
    HomeFolder {
        /// The skill's name.
        skill: String,
        /// What it wanted.
        capability: Capability,
        /// The exact command.
        command: String,
    },
    /// Writing a file with instructions for agents.
    #[error("skill '{skill}' may not write '{path}': it holds instructions for agents. To allow it: {command}")]
    Instructions {
        /// The skill's name.
        skill: String,
        /// The path of the file in the workspace, cleaned.
        path: String,
        /// The exact command.
        command: String,
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
    /// It was granted for other files than the skill has now.
    #[error("skill '{skill}' may not use '{capability}': {advice}")]
    Stale {
        /// Who wanted it.
        skill: String,
        /// What it wanted.
        capability: Capability,
        /// Why the grant does not hold, and the exact command that renews it.
        advice: String,
    },
    /// It was granted, and the session's snapshot is too old to tell for which files.
    #[error(
        "skill '{skill}' may not use '{capability}': this session has the skill as an older Patchbay stored it, without its other files. Run /reload_skills"
    )]
    OldSnapshot {
        /// Who wanted it.
        skill: String,
        /// What it wanted.
        capability: Capability,
    },
    /// The operator did not allow the credential at this place of a request.
    #[error("{message}")]
    Placement {
        /// What is refused, and what would allow it.
        message: String,
    },
}

impl Denial {
    /// Returns the capability whose grant, or new grant, would lift this denial.
    pub fn grantable(&self) -> Option<&Capability> {
        match self {
            Self::NotGranted { capability, .. } | Self::Stale { capability, .. } => Some(capability),
            Self::NotAsked { .. }
            | Self::NotAskedBundled { .. }
            | Self::HomeFolder { .. }
            | Self::Instructions { .. }
            | Self::OldSnapshot { .. }
            | Self::Placement { .. } => None,
        }
    }
}

impl Permits {
    /// What `identity` may do: `asked` by its manifest, `grants` of the operator.
    pub fn new(identity: Identity, asked: Vec<Capability>, grants: Vec<Grant>) -> Self {
        Self { identity, asked, grants, workspace: WorkspaceTrust::default() }
    }

    /// The same in the workspace of the call.
    #[must_use]
    pub fn in_workspace(self, workspace: WorkspaceTrust) -> Self {
        Self { workspace, ..self }
    }

    /// Returns these permits with a grant of `capability` that holds; `None` if the call could not use it even then.
    pub fn granting(&self, capability: &Capability) -> Option<Self> {
        let mut permits = self.clone();
        permits.grants.push(Grant::holding(capability.clone()));
        permits.allows(capability).then_some(permits)
    }

    /// Whether the call may write files with instructions for agents, such as AGENTS.md.
    pub fn may_write_instructions(&self) -> bool {
        self.workspace.write
    }

    /// The denial for a call that wants to write the file with instructions at `path`, which is cleaned.
    pub fn deny_instructions(&self, path: String) -> Denial {
        Denial::Instructions { skill: self.identity.name.to_string(), path, command: self.trust_command() }
    }

    /// Where `capability` stands, not regarding whether the manifest asks for it.
    pub fn state(&self, capability: &Capability) -> CapabilityState {
        match self.standing(capability) {
            None => CapabilityState::NotGranted,
            Some(Standing::Holds)
                if *capability == Capability::WorkspaceWrite && self.workspace.keeps_writers_out() =>
            {
                CapabilityState::HomeFolder
            }
            Some(Standing::Holds) => CapabilityState::Granted,
            Some(_) => CapabilityState::Stale,
        }
    }

    /// The standing of the grant of `capability`, if there is one.
    pub fn standing(&self, capability: &Capability) -> Option<&Standing> {
        let mut grants = self.grants.iter().filter(|grant| grant.capability == *capability);
        let first = grants.next()?;
        let holds = grants.find(|grant| grant.standing == Standing::Holds);
        Some(&holds.unwrap_or(first).standing)
    }

    /// Whether the call may use `capability`, for who needs no words about it.
    pub fn allows(&self, capability: &Capability) -> bool {
        self.check(capability).is_ok()
    }

    /// Whether the call may use `capability`.
    ///
    /// # Errors
    /// The [`Denial`], which says what to do next.
    pub fn check(&self, capability: &Capability) -> Result<(), Denial> {
        if !self.asked.contains(capability) {
            return Err(self.not_asked(capability.clone()));
        }
        self.granted(capability)
    }

    /// The pattern by which a request to `host` on `port` is allowed: one that covers it, that the manifest asks for and
    /// that the operator granted. Of several, the most exact.
    ///
    /// `host` as the URL standard normalises it; `default_port`: whether `port` is the scheme's own.
    ///
    /// # Errors
    /// The [`Denial`] of the most exact pattern that covers the request and that the manifest asks for; if it asks for
    /// none, [`Denial::NotAsked`] with the capability that would be enough.
    pub fn check_http(&self, host: &str, port: u16, default_port: bool) -> Result<HostPattern, Denial> {
        let mut covering: Vec<(&Capability, &HostPattern)> = self
            .asked
            .iter()
            .filter_map(|capability| match capability {
                Capability::Http(pattern) if pattern.covers(host, port, default_port) => Some((capability, pattern)),
                _ => None,
            })
            .collect();
        covering.sort_by_key(|(_, pattern)| pattern.breadth());
        let mut denial = None;
        for (capability, pattern) in covering {
            match self.granted(capability) {
                Ok(()) => return Ok(pattern.clone()),
                Err(denied) => denial = denial.or(Some(denied)),
            }
        }
        Err(denial.unwrap_or_else(|| {
            let port = (!default_port).then_some(port);
            self.not_asked(Capability::Http(HostPattern::One(host.to_owned(), port)))
        }))
    }

    /// Whether `capability`, which the manifest asks for, is granted.
    fn granted(&self, capability: &Capability) -> Result<(), Denial> {
        let (skill, wanted) = (self.identity.name.to_string(), capability.clone());
        let stale = |reason: &str| {
            let advice = format!("{reason}. To grant it again: {}", self.command(capability));
            Err(Denial::Stale { skill: skill.clone(), capability: wanted.clone(), advice })
        };
        match self.standing(capability) {
            Some(Standing::Holds)
                if *capability == Capability::WorkspaceWrite && self.workspace.keeps_writers_out() =>
            {
                Err(Denial::HomeFolder { skill, capability: wanted, command: self.trust_command() })
            }
            Some(Standing::Holds) => Ok(()),
            None => Err(Denial::NotGranted { command: self.command(capability), skill, capability: wanted }),
            Some(Standing::Unchecked) => stale("it was granted before Patchbay checked a skill's other files"),
            Some(Standing::Changed(files)) if files.is_empty() => {
                stale("its files have changed since that was granted")
            }
            Some(Standing::Changed(files)) => {
                stale(&format!("its files have changed since that was granted: {}", files.join(", ")))
            }
            Some(Standing::OldSnapshot) => Err(Denial::OldSnapshot { skill, capability: wanted }),
        }
    }

    fn not_asked(&self, capability: Capability) -> Denial {
        let skill = self.identity.name.to_string();
        match self.identity.root {
            Root::Bundled => Denial::NotAskedBundled { skill, capability },
            Root::User | Root::Workspace => Denial::NotAsked { skill, capability },
        }
    }

    /// The command that allows writing where that needs a yes of its own.
    fn trust_command(&self) -> String {
        format!("patchbay trust add --write {}", quoted_folder(&self.workspace.path))
    }

    fn command(&self, capability: &Capability) -> String {
        grant_command(&self.identity, capability)
    }
}

/// Returns the command that grants `capability` to a skill.
pub fn grant_command(identity: &Identity, capability: &Capability) -> String {
    let root = match identity.root {
        Root::User => String::new(),
        Root::Bundled => "--root bundled ".to_owned(),
        Root::Workspace => format!("--root workspace --workspace {} ", quoted_folder(&identity.workspace)),
    };
    format!("patchbay grant add {root}{} {}", identity.name, quoted(&capability.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(asked: &[Capability], grants: Vec<Grant>) -> Permits {
        permits_of(Root::Workspace, asked, grants)
    }

    fn permits_of(root: Root, asked: &[Capability], grants: Vec<Grant>) -> Permits {
        let identity = Identity::new(root, "/my work", "notes".parse().unwrap());
        Permits::new(identity, asked.to_vec(), grants)
    }

    #[test]
    fn asked_and_granted_or_denied_with_the_command() {
        let kv = Capability::Kv;
        let granted = |standing| vec![Grant { capability: Capability::Kv, standing }];
        let not_asked = permits(&[], granted(Standing::Holds));
        assert!(matches!(not_asked.check(&kv), Err(Denial::NotAsked { .. })) && !not_asked.allows(&kv));
        let allowed = permits(std::slice::from_ref(&kv), granted(Standing::Holds));
        assert!(allowed.check(&kv) == Ok(()) && allowed.allows(&kv));
        assert_eq!(
            permits(std::slice::from_ref(&kv), vec![]).check(&kv).unwrap_err().to_string(),
            "skill 'notes' may not use 'kv': it is not granted. To grant it: patchbay grant add --root workspace --workspace '/my work' notes kv"
        );
    }

    #[test]
    fn a_denial_names_a_command_for_each_root() {
        let any = [Capability::Http(HostPattern::Any)];
        for (root, command) in [
            (Root::User, "patchbay grant add notes 'http:*'"),
            (Root::Bundled, "patchbay grant add --root bundled notes 'http:*'"),
            (Root::Workspace, "patchbay grant add --root workspace --workspace '/my work' notes 'http:*'"),
        ] {
            let denial = permits_of(root, &any, vec![]).check(&any[0]).unwrap_err().to_string();
            assert!(denial.ends_with(&format!(". To grant it: {command}")), "{denial}");
        }
    }

    #[test]
    fn a_bundled_skill_cannot_be_made_to_ask() {
        let denial = permits_of(Root::Bundled, &[], vec![]).check(&Capability::Kv).unwrap_err().to_string();
        assert!(!denial.contains("Add it") && denial.contains("bundled skill that does not ask for it"), "{denial}");
    }

    #[test]
    fn writing_in_a_home_folder_needs_its_own_yes() {
        let (read, write) = (Capability::WorkspaceRead, Capability::WorkspaceWrite);
        let both = [read.clone(), write.clone()];
        let granted = || both.iter().map(|it| Grant::holding(it.clone())).collect::<Vec<_>>();
        let place = |holds_home, write| WorkspaceTrust { path: "/home/me".to_owned(), holds_home, write };
        let home = permits(&both, granted()).in_workspace(place(true, false));
        assert_eq!(home.check(&read), Ok(()));
        assert_eq!(
            home.check(&write).unwrap_err().to_string(),
            "skill 'notes' may not use 'workspace-write': this workspace is or holds your home folder. To allow it: patchbay trust add --write /home/me"
        );
        assert!(!home.allows(&write) && !home.may_write_instructions());
        assert_eq!(home.state(&write).as_str(), "granted, but not in a home folder");
        assert!(matches!(
            permits(&both, vec![]).in_workspace(place(true, true)).check(&write),
            Err(Denial::NotGranted { .. })
        ));
        let trusted = permits(&both, granted()).in_workspace(place(true, true));
        assert!(trusted.check(&write) == Ok(()) && trusted.may_write_instructions());
        assert_eq!(permits(&both, granted()).in_workspace(place(false, false)).check(&write), Ok(()));
        assert_eq!(
            home.deny_instructions("AGENTS.md".to_owned()).to_string(),
            "skill 'notes' may not write 'AGENTS.md': it holds instructions for agents. To allow it: patchbay trust add --write /home/me"
        );
    }

    #[test]
    fn grant_lifts_a_denial_only_where_it_is_enough() {
        let write = Capability::WorkspaceWrite;
        let asked = [Capability::Kv, write.clone()];
        let stale = vec![Grant { capability: Capability::Kv, standing: Standing::Changed(vec![]) }];
        for permits in [permits(&asked, vec![]), permits(&asked, stale)] {
            let denial = permits.check(&Capability::Kv).unwrap_err();
            assert_eq!(denial.grantable(), Some(&Capability::Kv));
            let granted = permits.granting(&Capability::Kv).unwrap();
            assert!(granted.allows(&Capability::Kv) && !granted.allows(&write) && !permits.allows(&Capability::Kv));
        }
        let not_asked = permits(&[], vec![]);
        assert_eq!(not_asked.check(&Capability::Kv).unwrap_err().grantable(), None);
        assert!(not_asked.granting(&Capability::Kv).is_none());
        let home = WorkspaceTrust { path: "/home/me".to_owned(), holds_home: true, write: false };
        assert!(permits(&asked, vec![]).in_workspace(home).granting(&write).is_none());
    }

    #[test]
    fn stale_grant_says_what_changed() {
        let kv = Capability::Kv;
        let denial = |standing| {
            let stale = permits(std::slice::from_ref(&kv), vec![Grant { capability: Capability::Kv, standing }]);
            assert!(!stale.allows(&kv) && stale.state(&kv) == CapabilityState::Stale);
            stale.check(&kv).unwrap_err().to_string()
        };
        let (head, tail) =
            ("skill 'notes' may not use 'kv': ", "patchbay grant add --root workspace --workspace '/my work' notes kv");
        assert_eq!(
            denial(Standing::Changed(vec!["SKILL.md".to_owned(), "a.md (new)".to_owned()])),
            format!(
                "{head}its files have changed since that was granted: SKILL.md, a.md (new). To grant it again: {tail}"
            )
        );
        assert_eq!(
            denial(Standing::Changed(vec![])),
            format!("{head}its files have changed since that was granted. To grant it again: {tail}")
        );
        assert_eq!(
            denial(Standing::Unchecked),
            format!("{head}it was granted before Patchbay checked a skill's other files. To grant it again: {tail}")
        );
        assert!(denial(Standing::OldSnapshot).ends_with("Run /reload_skills"));
    }

    /// `asked` and `granted` as texts after `http:`; `granted` for the files as they are, `stale` for others.
    fn http(asked: &[&str], granted: &[&str], stale: &[&str]) -> Permits {
        let capability = |text: &&str| format!("http:{text}").parse::<Capability>().unwrap();
        let grant =
            |standing: Standing| move |text: &&str| Grant { capability: capability(text), standing: standing.clone() };
        let stale = stale.iter().map(grant(Standing::Changed(vec![])));
        let grants = granted.iter().map(grant(Standing::Holds)).chain(stale).collect();
        permits(&asked.iter().map(capability).collect::<Vec<_>>(), grants)
    }

    #[test]
    fn a_request_needs_a_pattern_that_is_asked_for_and_granted() {
        // Asked, granted, host, port, whether it is the scheme's own, the pattern that allows it.
        type Row = (&'static [&'static str], &'static [&'static str], &'static str, u16, bool, Option<&'static str>);
        #[rustfmt::skip]
        let table: &[Row] = &[
            (&["a.org"], &["a.org"], "a.org", 443, true, Some("a.org")),
            (&["a.org"], &["a.org"], "a.org", 444, false, None),
            (&["a.org:444"], &["a.org:444"], "a.org", 444, false, Some("a.org:444")),
            (&["a.org"], &[], "a.org", 443, true, None),
            (&[], &["a.org"], "a.org", 443, true, None),
            // Granted is what is asked for, not something near it.
            (&["a.org"], &["*"], "a.org", 443, true, None),
            (&["*"], &["a.org"], "a.org", 443, true, None),
            (&["*.a.org"], &["*.a.org"], "x.a.org", 443, true, Some("*.a.org")),
            (&["*.a.org"], &["*.a.org"], "a.org", 443, true, None),
            // The most exact of several; a wider one where that is not granted.
            (&["*", "*.org", "*.a.org", "x.a.org"], &["*", "*.org", "*.a.org", "x.a.org"], "x.a.org", 443, true, Some("x.a.org")),
            (&["*", "*.org", "*.a.org", "x.a.org"], &["*", "*.org", "*.a.org"], "x.a.org", 443, true, Some("*.a.org")),
            (&["*", "x.a.org"], &["*"], "x.a.org", 443, true, Some("*")),
            (&["a.org", "a.org:443"], &["a.org", "a.org:443"], "a.org", 443, true, Some("a.org:443")),
        ];
        for (asked, granted, host, port, own, allowed) in table {
            let found = http(asked, granted, &[]).check_http(host, *port, *own).ok().map(|host| host.to_string());
            assert_eq!(found.as_deref(), *allowed, "{asked:?} {granted:?} {host}:{port}");
        }
    }

    #[test]
    fn a_denied_request_says_what_to_do() {
        let denial = |permits: Permits, host, port, own| permits.check_http(host, port, own).unwrap_err().to_string();
        assert_eq!(
            denial(http(&["*", "*.org", "a.org"], &[], &["*"]), "a.org", 443, true),
            "skill 'notes' may not use 'http:a.org': it is not granted. To grant it: patchbay grant add --root workspace --workspace '/my work' notes http:a.org"
        );
        assert_eq!(
            denial(http(&["a.org"], &[], &["a.org"]), "a.org", 443, true),
            "skill 'notes' may not use 'http:a.org': its files have changed since that was granted. To grant it again: patchbay grant add --root workspace --workspace '/my work' notes http:a.org"
        );
        for (port, own, capability) in [(443, true, "http:b.org"), (8443, false, "http:b.org:8443")] {
            assert_eq!(
                denial(http(&["a.org"], &["a.org"], &[]), "b.org", port, own),
                format!(
                    "skill 'notes' may not use '{capability}': its SKILL.md does not ask for it. Add it under 'capabilities' there, then run /reload_skills"
                )
            );
        }
    }
}

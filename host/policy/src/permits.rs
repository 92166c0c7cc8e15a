//! The permits of one call, and denials with the command that would lift them. `tools` creates the permits for
//! each call; `sandbox` checks them.

use crate::{
    Capability, HostPattern, Identity, Root,
    shell::{quoted, quoted_folder},
};

/// The operator's grant of one capability, and whether it is valid for the skill's current files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The capability that the skill is allowed to use.
    pub capability: Capability,
    /// Whether the grant is valid.
    pub standing: Standing,
}

impl Grant {
    /// Returns a valid grant for `capability`.
    pub fn holding(capability: Capability) -> Self {
        Self { capability, standing: Standing::Holds }
    }
}

/// Whether a grant is valid for the skill's current files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Valid: granted for these files, or for a bundled skill, whose files are part of the binary.
    Holds,
    /// Granted for other files. Contains the names of the changed files, cleaned by `text::clean`; empty if they are unknown.
    Changed(Vec<String>),
    /// Granted by a build that recorded only the component's digest.
    Unchecked,
    /// Granted for a linked folder that is no longer linked, or that has changed since the session's snapshot.
    Unlinked,
    /// The session's snapshot was made by a build that recorded only the component's digest.
    OldSnapshot,
}

impl Standing {
    /// Returns a short reason why the grant is not valid; `None` if it is valid.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Holds => None,
            Self::Changed(files) if files.is_empty() => Some("its files changed".to_owned()),
            Self::Changed(files) => Some(format!("changed: {}", files.join(", "))),
            Self::Unchecked => Some("granted before Patchbay checked a skill's other files".to_owned()),
            Self::Unlinked => Some("granted for a linked folder that changed or is no longer linked".to_owned()),
            Self::OldSnapshot => Some("/reload_skills reads the skill's files".to_owned()),
        }
    }
}

/// Whether a skill can use a capability, as shown by `/help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityState {
    /// The skill may use the capability.
    Granted,
    /// The operator has not granted it.
    NotGranted,
    /// The operator has granted less, such as one host.
    InPart,
    /// Granted for files that have changed since.
    Stale,
    /// Granted, but the workspace is or contains the user's home folder, where writing
    /// needs `trust add --write` as well.
    HomeFolder,
}

impl CapabilityState {
    /// Returns the text that `/help` shows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::NotGranted => "not granted",
            Self::InPart => "granted in part",
            Self::Stale => "stale",
            Self::HomeFolder => "granted, but not in a home folder",
        }
    }
}

/// The workspace of a call, and whether skills may write its protected files.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceTrust {
    /// The workspace's canonical path.
    pub path: String,
    /// Whether it is or contains the user's home folder.
    pub holds_home: bool,
    /// Set by `patchbay trust add --write`: skills with `workspace-write` may write in a home folder, and to
    /// files with instructions for agents.
    pub write: bool,
}

impl WorkspaceTrust {
    fn keeps_writers_out(&self) -> bool {
        self.holds_home && !self.write
    }
}

/// The permits of one call: the capabilities that the manifest asks for and the operator has granted.
#[derive(Clone, Debug)]
pub struct Permits {
    identity: Identity,
    asked: Vec<Capability>,
    grants: Vec<Grant>,
    workspace: WorkspaceTrust,
    /// Capabilities that the user has allowed for this call, although it writes in a home folder without write trust.
    in_home: Vec<Capability>,
    /// The full name of the called tool, if the tool declares itself read-only.
    reading_tool: Option<String>,
}

/// Why a capability cannot be used, and how to change that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The manifest does not ask for the capability.
    #[error(
        "skill '{skill}' may not use '{capability}': its SKILL.md does not ask for it. Add it under 'capabilities' there, build the component again if its SKILL.md is embedded, then run /reload_skills"
    )]
    NotAsked {
        /// The name of the skill that needs the capability.
        skill: String,
        /// The capability that the skill may not use.
        capability: Capability,
    },
    /// The manifest of a bundled skill does not ask for the capability.
    #[error(
        "skill '{skill}' may not use '{capability}': it is a bundled skill that does not ask for it, so it cannot be granted. A skill of your own can ask for it"
    )]
    NotAskedBundled {
        /// The name of the skill that needs the capability.
        skill: String,
        /// The capability that the skill may not use.
        capability: Capability,
    },
    /// The tool declares itself read-only.
    #[error(
        "tool '{tool}' may not use '{capability}': it declares 'read-only', and this capability has effects. Its author can remove the declaration"
    )]
    ReadOnly {
        /// The tool's full name, including its skill or server.
        tool: String,
        /// The capability that the tool requested.
        capability: Capability,
    },
    /// Writing in a workspace that is or contains the user's home folder.
    #[error(
        "skill '{skill}' may not use '{capability}': this workspace is or contains your home folder. To allow it: \
         {command}"
    )]
    HomeFolder {
        /// The name of the skill that needs the capability.
        skill: String,
        /// The capability that the skill may not use.
        capability: Capability,
        /// The command that allows it.
        command: String,
    },
    /// Writing a file with instructions for agents.
    #[error("skill '{skill}' may not write '{path}': it contains instructions for agents. To allow it: {command}")]
    Instructions {
        /// The name of the skill that needs the capability.
        skill: String,
        /// The path of the file in the workspace, cleaned.
        path: String,
        /// The command that allows it.
        command: String,
    },
    /// The operator has not granted the capability.
    #[error("skill '{skill}' may not use '{capability}': it is not granted. To grant it: {command}")]
    NotGranted {
        /// The name of the skill that needs the capability.
        skill: String,
        /// The capability that the skill may not use.
        capability: Capability,
        /// The command that grants it.
        command: String,
    },
    /// The grant was given for files that have changed since.
    #[error("skill '{skill}' may not use '{capability}': {advice}")]
    Stale {
        /// The name of the skill that needs the capability.
        skill: String,
        /// The capability that the skill may not use.
        capability: Capability,
        /// Why the grant is not valid, and the command that renews it.
        advice: String,
    },
    /// The capability was granted, but the session's snapshot does not record the skill's files.
    #[error(
        "skill '{skill}' may not use '{capability}': an older Patchbay stored it in this session without its other \
         files. Run /reload_skills"
    )]
    OldSnapshot {
        /// The name of the skill that needs the capability.
        skill: String,
        /// The capability that the skill may not use.
        capability: Capability,
    },
    /// A call to a tool outside of the sandbox that the operator or the user has not allowed.
    #[error("tool '{tool}' may not be called: {why}. {advice}")]
    OutsideTool {
        /// The tool's full name, including its skill or server.
        tool: String,
        /// Why the call is not allowed, as part of a sentence.
        why: &'static str,
        /// How to allow it: a sentence without its full stop.
        advice: String,
    },
    /// The session is in plan mode, which denies every change.
    #[error(
        "the session is in plan mode, so {action} is denied. Do not try another way; say what you would do. The user can change the mode"
    )]
    PlanMode {
        /// The denied action, such as `writing files`.
        action: String,
    },
    /// The user refused and gave a reason.
    #[error("{denial}. The user said no: {said}")]
    Refused {
        /// The denial that the user was asked about.
        denial: Box<Denial>,
        /// The user's reason, cleaned.
        said: String,
    },
    /// The operator has not allowed the credential in this part of a request.
    #[error("{message}")]
    Placement {
        /// The refused action, and how to allow it.
        message: String,
    },
}

impl Denial {
    /// Returns the capability that the user could allow to lift this denial: with a grant or, in a home folder, for
    /// one call.
    pub fn grantable(&self) -> Option<&Capability> {
        match self {
            Self::NotGranted { capability, .. }
            | Self::Stale { capability, .. }
            | Self::HomeFolder { capability, .. } => Some(capability),
            Self::Refused { denial, .. } => denial.grantable(),
            Self::NotAsked { .. }
            | Self::NotAskedBundled { .. }
            | Self::ReadOnly { .. }
            | Self::Instructions { .. }
            | Self::OldSnapshot { .. }
            | Self::OutsideTool { .. }
            | Self::PlanMode { .. }
            | Self::Placement { .. } => None,
        }
    }
}

impl Denial {
    /// Adds the user's reason `said` to the denial, if there is one.
    #[must_use]
    pub fn with_reason(self, said: Option<String>) -> Self {
        match said {
            Some(said) => Self::Refused { denial: Box::new(self), said },
            None => self,
        }
    }
}

impl Permits {
    /// Returns the permits of `identity`: `asked` are the capabilities in its manifest, and
    /// `grants` come from the operator.
    pub fn new(identity: Identity, asked: Vec<Capability>, grants: Vec<Grant>) -> Self {
        Self { identity, asked, grants, workspace: WorkspaceTrust::default(), in_home: Vec::new(), reading_tool: None }
    }

    /// Restricts a call of `tool`, which declares that it only reads, to capabilities without effects.
    #[must_use]
    pub fn only_reading(self, tool: String) -> Self {
        Self { reading_tool: Some(tool), ..self }
    }

    /// Sets the workspace of the call.
    #[must_use]
    pub fn in_workspace(self, workspace: WorkspaceTrust) -> Self {
        Self { workspace, ..self }
    }

    /// Returns these permits after the user has allowed `capability` for one call, in a home folder too. `None` if the
    /// call still could not use the capability.
    pub fn granting(&self, capability: &Capability) -> Option<Self> {
        let mut permits = self.clone();
        permits.grants.push(Grant::holding(capability.clone()));
        if self.only_for_one_call(capability) {
            permits.in_home.push(capability.clone());
        }
        permits.allows(capability).then_some(permits)
    }

    /// Returns whether the user can allow `capability` for one call only, because it changes files in a home folder
    /// without write trust.
    pub fn only_for_one_call(&self, capability: &Capability) -> bool {
        capability.changes_workspace() && self.workspace.keeps_writers_out()
    }

    /// Returns whether the call may write files with instructions for agents, such as AGENTS.md.
    pub fn may_write_instructions(&self) -> bool {
        self.workspace.write
    }

    /// Returns the denial for writing the file with instructions at `path`, which must be cleaned.
    pub fn deny_instructions(&self, path: String) -> Denial {
        Denial::Instructions { skill: self.identity.name.to_string(), path, command: self.trust_command() }
    }

    /// Returns how far `capability` is granted, even if the manifest does not ask for it.
    pub fn state(&self, capability: &Capability) -> CapabilityState {
        let is_in_part = |grant: &Grant| capability.includes(&grant.capability) && grant.standing == Standing::Holds;
        match self.standing(capability) {
            None if self.grants.iter().any(is_in_part) => CapabilityState::InPart,
            None => CapabilityState::NotGranted,
            Some(Standing::Holds) if self.only_for_one_call(capability) => CapabilityState::HomeFolder,
            Some(Standing::Holds) => CapabilityState::Granted,
            Some(_) => CapabilityState::Stale,
        }
    }

    /// Returns the standing of a grant that includes `capability`, preferably a valid one; `None` if no grant includes it.
    pub fn standing(&self, capability: &Capability) -> Option<&Standing> {
        self.standing_of(|granted| granted.includes(capability))
    }

    /// Returns the standing of a grant that `meant` selects, preferably a valid one; `None` if it selects no grant.
    fn standing_of(&self, meant: impl Fn(&Capability) -> bool) -> Option<&Standing> {
        let mut grants = self.grants.iter().filter(|grant| meant(&grant.capability));
        let first = grants.next()?;
        let holds = std::iter::once(first).chain(grants).find(|grant| grant.standing == Standing::Holds);
        Some(&holds.unwrap_or(first).standing)
    }

    /// Returns the capabilities that the call may use, sorted. Both the manifest and a grant include each of them.
    pub fn permitted(&self) -> Vec<Capability> {
        let named = self.asked.iter().chain(self.grants.iter().map(|grant| &grant.capability));
        let mut permitted: Vec<_> = named.filter(|capability| self.allows(capability)).cloned().collect();
        permitted.sort_unstable();
        permitted.dedup();
        permitted
    }

    /// Returns whether two calls with the same input must give the same result: no capability other than
    /// `workspace-read` is allowed.
    pub fn is_deterministic(&self) -> bool {
        !self.asked.iter().any(|capability| *capability != Capability::WorkspaceRead && self.allows(capability))
    }

    /// Returns whether the manifest asks for `capability`.
    pub fn asks(&self, capability: &Capability) -> bool {
        self.asked.iter().any(|asked| asked.includes(capability))
    }

    /// Returns whether the call may use `capability`.
    pub fn allows(&self, capability: &Capability) -> bool {
        self.check(capability).is_ok()
    }

    /// Checks that the call may use `capability`.
    ///
    /// # Errors
    /// The [`Denial`], which explains how to allow the capability.
    pub fn check(&self, capability: &Capability) -> Result<(), Denial> {
        if !self.asks(capability) {
            return Err(self.not_asked(capability.clone()));
        }
        self.granted(capability, self.standing(capability))
    }

    /// Returns the pattern that allows a request to `host` on `port`. Both the manifest and a valid grant must cover it. Of their
    /// most specific matching patterns, the broader is returned, because only an exact host may be at a private address.
    ///
    /// `host` must be normalised as in the URL standard; `is_default_port` is whether `port` is the scheme's default.
    ///
    /// # Errors
    /// The [`Denial`] of the most specific pattern in the manifest that covers the request; without one,
    /// [`Denial::NotAsked`] with the capability that would be sufficient.
    pub fn check_http(&self, host: &str, port: u16, is_default_port: bool) -> Result<HostPattern, Denial> {
        let fits = |pattern: &HostPattern| pattern.covers(host, port, is_default_port);
        let mut covering: Vec<(&Capability, &HostPattern)> = self
            .asked
            .iter()
            .filter_map(|capability| match capability {
                Capability::Http(pattern) if fits(pattern) => Some((capability, pattern)),
                _ => None,
            })
            .collect();
        covering.sort_by_key(|(_, pattern)| pattern.breadth());
        let mut denial = None;
        for (capability, pattern) in covering {
            let covers = |granted: &Capability| matches!(granted, Capability::Http(granted) if fits(granted));
            match self.granted(capability, self.standing_of(covers)) {
                Ok(()) => {
                    let valid = self.grants.iter().filter(|grant| grant.standing == Standing::Holds);
                    let covering = valid.filter_map(|grant| match &grant.capability {
                        Capability::Http(granted) if fits(granted) => Some(granted),
                        _ => None,
                    });
                    let narrowest = covering.min_by_key(|granted| granted.breadth()).unwrap_or(pattern);
                    return Ok(std::cmp::max_by_key(pattern, narrowest, |pattern| pattern.breadth()).clone());
                }
                Err(denied) => denial = denial.or(Some(denied)),
            }
        }
        Err(denial.unwrap_or_else(|| {
            let port = (!is_default_port).then_some(port);
            self.not_asked(Capability::Http(HostPattern::One(host.to_owned(), port)))
        }))
    }

    /// Checks that the call may use `capability` if its grant has this `standing`. The manifest must ask for it.
    fn granted(&self, capability: &Capability, standing: Option<&Standing>) -> Result<(), Denial> {
        if let Some(tool) = self.reading_tool.as_ref().filter(|_| capability.has_effects()) {
            return Err(Denial::ReadOnly { tool: tool.clone(), capability: capability.clone() });
        }
        let (skill, wanted) = (self.identity.name.to_string(), capability.clone());
        let stale = |reason: &str| {
            let advice = format!("{reason}. To grant it again: {}", self.command(capability));
            Err(Denial::Stale { skill: skill.clone(), capability: wanted.clone(), advice })
        };
        match standing {
            Some(Standing::Holds) if self.only_for_one_call(capability) && !self.in_home.contains(capability) => {
                Err(Denial::HomeFolder { skill, capability: wanted, command: self.trust_command() })
            }
            Some(Standing::Holds) => Ok(()),
            None => Err(Denial::NotGranted { command: self.command(capability), skill, capability: wanted }),
            Some(Standing::Unchecked) => stale("it was granted before Patchbay checked a skill's other files"),
            Some(Standing::Unlinked) => stale(
                "it was granted for a linked folder that changed or is no longer linked. To read its files: \
                 /reload_skills",
            ),
            Some(Standing::Changed(files)) if files.is_empty() => stale("its files have changed since it was granted"),
            Some(Standing::Changed(files)) => {
                stale(&format!("its files have changed since it was granted: {}", files.join(", ")))
            }
            Some(Standing::OldSnapshot) => Err(Denial::OldSnapshot { skill, capability: wanted }),
        }
    }

    fn not_asked(&self, capability: Capability) -> Denial {
        let skill = self.identity.name.to_string();
        match self.identity.root {
            Root::Bundled => Denial::NotAskedBundled { skill, capability },
            _ => Denial::NotAsked { skill, capability },
        }
    }

    /// Returns the command that allows writing to protected files.
    fn trust_command(&self) -> String {
        format!("patchbay trust add --write {}", quoted_folder(&self.workspace.path))
    }

    fn command(&self, capability: &Capability) -> String {
        grant_command(&self.identity, capability)
    }
}

/// Returns the command that grants `capability` to a skill in every workspace.
pub fn grant_command(identity: &Identity, capability: &Capability) -> String {
    command("add", identity, capability, "")
}

/// Returns two commands: the first grants `capability` to a skill in the workspace `place` only, and the second removes this grant.
/// An empty `place` means every workspace.
pub fn grant_commands_in(identity: &Identity, capability: &Capability, place: &str) -> [String; 2] {
    ["add", "remove"].map(|verb| command(verb, identity, capability, place))
}

fn command(verb: &str, identity: &Identity, capability: &Capability, place: &str) -> String {
    let only_in = if place.is_empty() { String::new() } else { format!("--in {} ", quoted_folder(place)) };
    let root = match identity.root {
        Root::User => String::new(),
        Root::Bundled => "--root bundled ".to_owned(),
        Root::Package => format!("--package {} ", quoted(&identity.workspace)),
        root => format!("--root {root} --workspace {} ", quoted_folder(&identity.workspace)),
    };
    format!("patchbay grant {verb} {root}{only_in}{} {}", identity.name, quoted(&capability.to_string()))
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
    fn reading_tool_has_no_capability_with_effects() {
        let asked = [Capability::Kv, Capability::WorkspaceRead];
        let grants = asked.iter().cloned().map(Grant::holding).collect();
        let permits = permits_of(Root::User, &asked, grants).only_reading("notes__list".to_owned());
        assert!(permits.allows(&Capability::WorkspaceRead));
        let denial = permits.check(&Capability::Kv).unwrap_err();
        assert!(denial.to_string().starts_with("tool 'notes__list' may not use 'kv': it declares 'read-only'"));
        assert_eq!((denial.grantable(), permits.granting(&Capability::Kv).is_none()), (None, true));
    }

    #[test]
    fn permitted_capabilities_are_asked_for_and_granted() {
        let parse = |text: &str| text.parse::<Capability>().unwrap();
        let permitted = |asked: &[&str], granted: &[&str]| {
            let grants = granted.iter().map(|grant| Grant::holding(parse(grant))).collect();
            let asked: Vec<_> = asked.iter().map(|asked| parse(asked)).collect();
            permits(&asked, grants).permitted().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(permitted(&["http:*", "kv"], &["http:example.com", "kv"]), ["kv", "http:example.com"]);
        assert_eq!(permitted(&["http:example.com"], &["http:*", "kv"]), ["http:example.com"]);
        assert_eq!(permitted(&["kv"], &[]), [""; 0]);
    }

    #[test]
    fn capability_needs_manifest_and_grant() {
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
    fn grant_of_less_than_is_asked_for_is_valid_for_it() {
        let http = |text: &str| format!("http:{text}").parse::<Capability>().unwrap();
        let one = permits_of(Root::User, &[http("*")], vec![Grant::holding(http("example.org"))]);
        let rule = |permits: &Permits, host| permits.check_http(host, 443, true).map(|rule| rule.to_string());
        // The manifest asks for public hosts, so the rule allows no others.
        assert_eq!(rule(&one, "example.org"), Ok("*".to_owned()));
        assert!(matches!(rule(&one, "example.com"), Err(Denial::NotGranted { .. })));
        assert!(one.allows(&http("example.org")) && !one.allows(&http("*")));
        assert_eq!(one.state(&http("*")).as_str(), "granted in part");
        let below = permits_of(Root::User, &[http("a.example.org")], vec![Grant::holding(http("*.example.org"))]);
        assert_eq!(rule(&below, "a.example.org"), Ok("*.example.org".to_owned()));
        assert!(matches!(rule(&below, "b.example.org"), Err(Denial::NotAsked { .. })));
        assert!(!below.allows(&http("*.example.org")));
        let granted = one.granting(&http("example.com")).unwrap();
        assert_eq!(rule(&granted, "example.com"), Ok("*".to_owned()));
        // Another port is another service.
        let ported = permits_of(Root::User, &[http("*")], vec![Grant::holding(http("example.org:8443"))]);
        assert!(ported.check_http("example.org", 8443, false).is_err() && !ported.allows(&http("example.org:8443")));
    }

    #[test]
    fn denial_contains_the_grant_command_of_each_root() {
        let any = [Capability::Http(HostPattern::Any)];
        for (root, command) in [
            (Root::User, "patchbay grant add notes 'http:*'"),
            (Root::Bundled, "patchbay grant add --root bundled notes 'http:*'"),
            (Root::Workspace, "patchbay grant add --root workspace --workspace '/my work' notes 'http:*'"),
            (Root::Extra, "patchbay grant add --root extra --workspace '/my work' notes 'http:*'"),
            (Root::Package, "patchbay grant add --package '/my work' notes 'http:*'"),
        ] {
            let denial = permits_of(root, &any, vec![]).check(&any[0]).unwrap_err().to_string();
            assert!(denial.ends_with(&format!(". To grant it: {command}")), "{denial}");
        }
    }

    #[test]
    fn denial_of_bundled_skill_does_not_suggest_editing_it() {
        let denial = permits_of(Root::Bundled, &[], vec![]).check(&Capability::Kv).unwrap_err().to_string();
        assert!(!denial.contains("Add it") && denial.contains("bundled skill that does not ask for it"), "{denial}");
    }

    #[test]
    fn changes_in_a_home_folder_need_write_trust() {
        let (read, write) = (Capability::WorkspaceRead, Capability::WorkspaceWrite);
        let delete = Capability::WorkspaceDelete;
        let both = [read.clone(), write.clone(), delete.clone()];
        let granted = || both.iter().map(|it| Grant::holding(it.clone())).collect::<Vec<_>>();
        let place = |holds_home, write| WorkspaceTrust { path: "/home/me".to_owned(), holds_home, write };
        let home = permits(&both, granted()).in_workspace(place(true, false));
        assert_eq!(home.check(&read), Ok(()));
        assert_eq!(
            home.check(&write).unwrap_err().to_string(),
            "skill 'notes' may not use 'workspace-write': this workspace is or contains your home folder. To allow \
             it: patchbay trust add --write /home/me"
        );
        assert!(!home.allows(&write) && !home.may_write_instructions());
        assert_eq!(home.state(&write).as_str(), "granted, but not in a home folder");
        assert!(matches!(
            permits(&both, vec![]).in_workspace(place(true, true)).check(&write),
            Err(Denial::NotGranted { .. })
        ));
        // The user can allow it for one call.
        let once = home.granting(&write).unwrap();
        assert!(home.only_for_one_call(&write) && !home.only_for_one_call(&read));
        assert!(once.check(&write) == Ok(()) && !once.may_write_instructions());
        assert!(matches!(once.check(&delete), Err(Denial::HomeFolder { .. })), "it was about writing alone");
        assert_eq!(home.granting(&delete).unwrap().check(&delete), Ok(()));
        let once = permits(&both, vec![]).in_workspace(place(true, false)).granting(&write).unwrap();
        assert!(once.allows(&write) && !once.allows(&read));
        let trusted = permits(&both, granted()).in_workspace(place(true, true));
        assert!(trusted.check(&write) == Ok(()) && trusted.may_write_instructions());
        assert_eq!(permits(&both, granted()).in_workspace(place(false, false)).check(&write), Ok(()));
        assert_eq!(
            home.deny_instructions("AGENTS.md".to_owned()).to_string(),
            "skill 'notes' may not write 'AGENTS.md': it contains instructions for agents. To allow it: patchbay \
             trust add --write /home/me"
        );
    }

    #[test]
    fn grant_lifts_a_denial_only_if_sufficient() {
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
        let home = permits(&asked, vec![]).in_workspace(home);
        assert!(home.only_for_one_call(&write) && home.granting(&write).unwrap().allows(&write));
        assert!(!home.granting(&Capability::Kv).unwrap().allows(&write));
    }

    #[test]
    fn stale_grant_names_changed_files() {
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
                "{head}its files have changed since it was granted: SKILL.md, a.md (new). To grant it again: {tail}"
            )
        );
        assert_eq!(
            denial(Standing::Changed(vec![])),
            format!("{head}its files have changed since it was granted. To grant it again: {tail}")
        );
        assert_eq!(
            denial(Standing::Unchecked),
            format!("{head}it was granted before Patchbay checked a skill's other files. To grant it again: {tail}")
        );
        assert!(denial(Standing::OldSnapshot).ends_with("Run /reload_skills"));
    }

    /// Returns permits for host patterns without `http:`. Grants in `granted` are valid; grants in `stale` are for other files.
    fn http(asked: &[&str], granted: &[&str], stale: &[&str]) -> Permits {
        let capability = |text: &&str| format!("http:{text}").parse::<Capability>().unwrap();
        let grant =
            |standing: Standing| move |text: &&str| Grant { capability: capability(text), standing: standing.clone() };
        let stale = stale.iter().map(grant(Standing::Changed(vec![])));
        let grants = granted.iter().map(grant(Standing::Holds)).chain(stale).collect();
        permits(&asked.iter().map(capability).collect::<Vec<_>>(), grants)
    }

    #[test]
    fn request_needs_a_pattern_in_manifest_and_grants() {
        // Patterns in the manifest, granted patterns, host, port, whether it is the default port, the pattern that allows it.
        type Row = (&'static [&'static str], &'static [&'static str], &'static str, u16, bool, Option<&'static str>);
        #[rustfmt::skip]
        let table: &[Row] = &[
            (&["a.org"], &["a.org"], "a.org", 443, true, Some("a.org")),
            (&["a.org"], &["a.org"], "a.org", 444, false, None),
            (&["a.org:444"], &["a.org:444"], "a.org", 444, false, Some("a.org:444")),
            (&["a.org"], &[], "a.org", 443, true, None),
            (&[], &["a.org"], "a.org", 443, true, None),
            // Both sides must cover the host. The broader pattern decides which addresses can be reached.
            (&["a.org"], &["*"], "a.org", 443, true, Some("*")),
            (&["*"], &["a.org"], "a.org", 443, true, Some("*")),
            (&["*"], &["a.org"], "b.org", 443, true, None),
            (&["*.a.org"], &["x.a.org"], "y.a.org", 443, true, None),
            (&["*.a.org"], &["*.a.org"], "x.a.org", 443, true, Some("*.a.org")),
            (&["*.a.org"], &["*.a.org"], "a.org", 443, true, None),
            // The most specific granted pattern.
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
    fn denied_request_names_the_next_step() {
        let denial = |permits: Permits, host, port, own| permits.check_http(host, port, own).unwrap_err().to_string();
        assert_eq!(
            denial(http(&["*", "*.org", "a.org"], &["b.org"], &[]), "a.org", 443, true),
            "skill 'notes' may not use 'http:a.org': it is not granted. To grant it: patchbay grant add --root workspace --workspace '/my work' notes http:a.org"
        );
        assert_eq!(
            denial(http(&["a.org"], &[], &["a.org"]), "a.org", 443, true),
            "skill 'notes' may not use 'http:a.org': its files have changed since it was granted. To grant it \
             again: patchbay grant add --root workspace --workspace '/my work' notes http:a.org"
        );
        for (port, own, capability) in [(443, true, "http:b.org"), (8443, false, "http:b.org:8443")] {
            assert_eq!(
                denial(http(&["a.org"], &["a.org"], &[]), "b.org", port, own),
                format!(
                    "skill 'notes' may not use '{capability}': its SKILL.md does not ask for it. Add it under 'capabilities' there, build the component again if its SKILL.md is embedded, then run /reload_skills"
                )
            );
        }
    }
}

//! What would decide about a call, without running it: for `patchbay policy`. The rules are those of calls: block list, manifest,
//! grants, trust, mode.

use std::{path::Path, sync::Arc};

use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{Code, Outcome, text};
use patchbay_policy::{Capability, CapabilityState, Permits, Standing, grant_command};
use patchbay_skill::{InvocationMode, Snapshot};
use patchbay_tools::{Mode, SkillTool};
use serde::Serialize;

use crate::{Host, builtin, workspace_path};

/// What would decide about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What is called, as a sentence.
    pub subject: String,
    /// One for each capability that the skill asks for; empty if nothing is decided.
    pub verdicts: Vec<Verdict>,
}

/// What would become of the use of one capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The capability, as the manifest asks for it.
    pub capability: String,
    /// What becomes of it.
    pub fate: Fate,
    /// What decides that, as sentences.
    pub why: String,
}

/// What becomes of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It happens.
    Allow,
    /// A person is asked; where no person can be asked, it is denied.
    Ask,
    /// It does not happen.
    Deny,
}

impl Fate {
    /// Returns the word for people and for files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl Host {
    /// Returns what would decide about `what` in `workspace` at this moment: a tool by its full name, whose input is not looked at, or
    /// a line that begins with `/`. Nothing of it runs; new components are asked for their tools.
    ///
    /// # Errors
    /// The outcome that the call would have: no such tool or command, or an error of the store.
    pub async fn explain(self: &Arc<Self>, workspace: &Path, what: &str, mode: Mode) -> Result<Explanation, Outcome> {
        let failed = |error: crate::SessionError| Outcome::error(error.code(), error);
        let snapshot = self.preview_snapshot(workspace).await.map_err(failed)?;
        let workspace = workspace_path(workspace).map_err(failed)?;
        let tool = match called(&snapshot, what)? {
            Called::Tool(tool) => tool,
            Called::Nothing(subject) => return Ok(Explanation { subject, verdicts: Vec::new() }),
        };
        let found = SkillTool::find(&snapshot, &tool).map_err(|error| Outcome::error(error.code(), error))?;
        let Some((skill, spec)) = snapshot.tool(&tool) else {
            return Err(Outcome::error(Code::ToolNotFound, format_args!("there is no tool '{tool}'.")));
        };
        let store = |error: patchbay_store::StoreError| Outcome::error(error.code(), format_args!("{error}."));
        let permits = self.tools.permits(skill, &workspace).await.map_err(store)?;
        let blocked = self.store.rules().await.map_err(store)?.first_blocked(skill.component).is_some();
        let trusted = !skill.root.is_workspace() || self.store.is_trusted(&workspace).await.map_err(store)?;
        let case = Case { permits: &permits, mode, can_ask: trusted };
        let identity = skill.identity(&workspace);
        let asked = skill.manifest.capabilities.iter().map(|asked| &asked.capability);
        let verdicts = asked.map(|capability| {
            let (fate, why) = match (blocked, found.spec().is_read_only() && capability.has_effects()) {
                (true, _) => (Fate::Deny, "The component is blocked (patchbay plugin unblock).".to_owned()),
                (_, true) => (Fate::Deny, "The tool declares that it only reads.".to_owned()),
                _ => case.decide(capability, &grant_command(&identity, capability)),
            };
            Verdict { capability: capability.to_string(), fate, why }
        });
        let does = text::excerpt(&spec.description, 100);
        let subject = format!("{tool} is a tool of the {} skill '{}': {does}", skill.root, skill.name);
        Ok(Explanation { subject, verdicts: verdicts.collect() })
    }
}

/// What a text calls.
enum Called {
    /// A tool by its full name.
    Tool(String),
    /// Nothing that is decided about, as a sentence.
    Nothing(String),
}

fn called(snapshot: &Snapshot, what: &str) -> Result<Called, Outcome> {
    let what = what.trim();
    let Line::Command { name, .. } = Line::parse(what)? else {
        let tool = what.split_whitespace().next().unwrap_or_default();
        return match tool.strip_prefix("mcp__") {
            Some(_) => Ok(Called::Nothing(format!(
                "{} is a tool of an MCP server: its table in config.toml decides, then stored answers ('patchbay grant list'), then \
                 you. In plan mode it is denied unless the table has read_only = true.",
                text::excerpt(tool, 80)
            ))),
            None => Ok(Called::Tool(tool.to_owned())),
        };
    };
    match resolve(name, builtin::TABLE, snapshot)? {
        Resolved::BuiltIn(_) => {
            Ok(Called::Nothing(format!("/{name} is a built-in command: no grant or mode decides about it.")))
        }
        Resolved::Alias(skill) => {
            let Some(skill) = snapshot.skill(skill.as_str()) else {
                return Err(Outcome::error(
                    Code::SkillNotFound,
                    format_args!("skill '{skill}' not found in snapshot."),
                ));
            };
            match (skill.manifest.invocation_mode, skill.command_tool()) {
                (InvocationMode::ToolDispatch, Some(tool)) => Ok(Called::Tool(tool)),
                _ => Ok(Called::Nothing(format!(
                    "/{name} adds the instructions of the skill '{}' to the conversation. Each call that the model then makes is \
                     decided about by itself.",
                    skill.name
                ))),
            }
        }
    }
}

/// What decides about the capabilities of one call.
struct Case<'a> {
    permits: &'a Permits,
    mode: Mode,
    /// Whether a person is asked: not for a skill of an untrusted workspace.
    can_ask: bool,
}

impl Case<'_> {
    /// Returns what becomes of the use of `capability`, and why.
    fn decide(&self, capability: &Capability, command: &str) -> (Fate, String) {
        let (fate, why) = self.by_grants(capability, command);
        let changes_files = capability.changes_workspace();
        match (self.mode, capability, fate) {
            (Mode::Plan, _, _) if changes_files => (Fate::Deny, "Plan mode changes nothing.".to_owned()),
            (Mode::Plan, Capability::Kv, _) => {
                (Fate::Deny, format!("Plan mode changes no stored keys. Reading them is '{}': {why}", fate.as_str()))
            }
            (Mode::Plan, Capability::Http(_), Fate::Allow) => {
                (Fate::Allow, format!("{why} In plan mode for GET without a body alone."))
            }
            (Mode::Plan, Capability::Http(_), _) => (Fate::Deny, format!("{why} Plan mode asks about no request.")),
            (Mode::Edits, Capability::WorkspaceWrite, Fate::Ask) if !self.permits.only_for_one_call(capability) => {
                (Fate::Allow, "Mode 'edits' writes without a question, except files that start programs.".to_owned())
            }
            _ => (fate, why),
        }
    }

    fn by_grants(&self, capability: &Capability, command: &str) -> (Fate, String) {
        let asks = |why: &str| match self.can_ask {
            true => (Fate::Ask, format!("{why} To grant it: {command}")),
            false => {
                (Fate::Deny, format!("{why} The workspace is not trusted, so you are not asked about its skills."))
            }
        };
        match self.permits.state(capability) {
            CapabilityState::Granted => {
                (Fate::Allow, "It is granted ('patchbay grant list', or a bundled skill's own).".to_owned())
            }
            CapabilityState::NotGranted => asks("It is not granted."),
            CapabilityState::InPart => asks("Only a part of it is granted ('patchbay grant list'); the rest is not."),
            CapabilityState::Stale => {
                let why = self.permits.standing(capability).and_then(Standing::why).unwrap_or_default();
                asks(&format!("Its grant is stale: {why}."))
            }
            CapabilityState::HomeFolder => asks("The workspace is or holds your home folder: a yes is for one act."),
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_policy::{Grant, Identity, Root, WorkspaceTrust};

    use super::*;

    /// Written by hand: capability, granted or not, and the fates in the modes ask, edits and plan.
    #[test]
    fn each_capability_has_its_fate_in_each_mode() {
        let table = [
            ("workspace-read", false, "ask ask ask"),
            ("workspace-read", true, "allow allow allow"),
            ("workspace-write", false, "ask allow deny"),
            ("workspace-write", true, "allow allow deny"),
            ("workspace-delete", false, "ask ask deny"),
            ("workspace-delete", true, "allow allow deny"),
            ("kv", false, "ask ask deny"),
            ("kv", true, "allow allow deny"),
            ("http:example.org", false, "ask ask deny"),
            ("http:example.org", true, "allow allow allow"),
            ("inference", false, "ask ask ask"),
            ("tools", true, "allow allow allow"),
        ];
        let identity = || Identity::new(Root::User, "", "notes".parse().unwrap());
        for (name, granted, expected) in table {
            let capability: Capability = name.parse().unwrap();
            let grants = granted.then(|| Grant::holding(capability.clone())).into_iter().collect();
            let permits = Permits::new(identity(), vec![capability.clone()], grants);
            let fates = Mode::ALL.map(|mode| {
                Case { permits: &permits, mode, can_ask: true }.decide(&capability, "patchbay grant add").0.as_str()
            });
            assert_eq!(fates.join(" "), expected, "{name}, granted {granted}");
        }
        let write = Capability::WorkspaceWrite;
        let home = WorkspaceTrust { path: "/home/me".to_owned(), holds_home: true, write: false };
        let permits = Permits::new(identity(), vec![write.clone()], Vec::new()).in_workspace(home);
        let case = |can_ask| Case { permits: &permits, mode: Mode::Edits, can_ask }.decide(&write, "").0;
        assert_eq!((case(true), case(false)), (Fate::Ask, Fate::Deny));
    }
}

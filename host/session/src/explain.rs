//! Explains how a call would be decided, without running it, for `patchbay policy explain`. The same rules apply as to a real
//! call: block list, manifest, grants, trust, mode. If the tool declares its kind and the input names a file or an address, those
//! are taken into account, too.

use std::{path::Path, sync::Arc};

use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{Code, Outcome, text};
use patchbay_mcp::client::McpServerConfig;
use patchbay_policy::{Capability, CapabilityState, Permits, Standing, ToolDecision, grant_command};
use patchbay_skill::{InvocationMode, Snapshot};
use patchbay_tools::{Mode, SkillTool, http_capability, input_from_text};
use serde::Serialize;
use serde_json::Value;

use crate::{Host, builtin, workspace_path};

/// The rules that would decide about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The called tool, as a sentence.
    pub subject: String,
    /// One verdict for each capability that the skill requests; empty if nothing is decided.
    pub verdicts: Vec<Verdict>,
}

/// The outcome of using one capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The capability, as the manifest requests it.
    pub capability: String,
    /// The fate of an effect that needs the capability.
    pub fate: Fate,
    /// The reason for the fate, as sentences.
    pub why: String,
}

/// The fate of an effect: allowed, asked about or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "snake_case")]
pub enum Fate {
    /// The effect would be allowed.
    Allow,
    /// The user is asked; where the user cannot be asked, it is denied.
    Ask,
    /// The effect would be denied.
    Deny,
}

impl Fate {
    /// Returns the word for the fate in output and in files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Host {
    /// Explains how `what` would be decided in `workspace` now. `what` is a tool's full name, with or without an input, or a line
    /// that begins with `/`. It is not run; only new components are run to list their tools.
    ///
    /// # Errors
    /// The outcome that the call would have: no such tool or command, or an error of the store.
    pub async fn explain(self: &Arc<Self>, workspace: &Path, what: &str, mode: Mode) -> Result<Explanation, Outcome> {
        let failed = |error: crate::SessionError| Outcome::error(error.code(), error);
        let snapshot = self.preview_snapshot(workspace).await.map_err(failed)?;
        let workspace = workspace_path(workspace).map_err(failed)?;
        let (tool, text) = match called(&snapshot, what)? {
            Called::Tool(tool, text) => (tool, text),
            Called::Outside(name) => return self.explain_outside(&workspace, &name, mode).await,
            Called::Nothing(subject) => return Ok(Explanation { subject, verdicts: Vec::new() }),
        };
        let found = SkillTool::find(&snapshot, &tool).map_err(|error| Outcome::error(error.code(), error))?;
        let Some((skill, spec)) = snapshot.tool(&tool) else {
            return Err(Outcome::error(Code::ToolNotFound, format_args!("tool '{tool}' not found.")));
        };
        let store = |error: patchbay_store::StoreError| Outcome::error(error.code(), format_args!("{error}."));
        let permits = self.tools.permits(skill, &workspace).await.map_err(store)?;
        let blocked = patchbay_tools::blocked(&*self.store.rules().await.map_err(store)?, skill).is_some();
        let trusted = !skill.root.is_workspace() || self.store.is_trusted(&workspace).await.map_err(store)?;
        let named = Named::by(spec.annotation("kind"), input_from_text(spec, &text, &tool, None).ok());
        let refusal = match &named.path {
            Some(path) => self.tools.refusal_of_change(&workspace, path, &permits).await,
            None => None,
        };
        let case = Case { permits: &permits, mode, can_ask: trusted, named: &named, refusal };
        let identity = skill.identity(&workspace);
        let asked = skill.manifest.capabilities.iter().map(|asked| &asked.capability);
        let verdicts = asked.map(|capability| {
            let (fate, why) = match (blocked, found.spec().is_read_only() && capability.has_effects()) {
                (true, _) => {
                    (Fate::Deny, "The skill or its component is blocked (patchbay plugin blocked lists it).".to_owned())
                }
                (_, true) => (Fate::Deny, "The tool declares that it only reads.".to_owned()),
                _ => case.decide_input(capability, |capability| grant_command(&identity, capability)),
            };
            Verdict { capability: capability.to_string(), fate, why }
        });
        let does = text::excerpt(&spec.description, 100);
        let subject = format!("{tool} is a tool of the {} skill '{}': {does}", skill.root, skill.name);
        Ok(Explanation { subject, verdicts: verdicts.collect() })
    }

    /// Explains a call to an MCP server's tool from the server's table in `config.toml`. Servers of packages have no table, and
    /// the defaults apply. The server is not started, so its own annotations of the tool are not known.
    async fn explain_outside(&self, workspace: &str, name: &str, mode: Mode) -> Result<Explanation, Outcome> {
        let (server, tool) = name.strip_prefix("mcp__").and_then(|name| name.split_once("__")).unwrap_or_default();
        let [server, tool] = [server, tool].map(|part| text::excerpt(part, 80));
        let store = |error: patchbay_store::StoreError| Outcome::error(error.code(), format_args!("{error}."));
        let allowances = self.store.server_allowances().await.map_err(store)?;
        let of_package = allowances.into_iter().any(|allowance| allowance.name.as_str() == server);
        let (configured, default) = (self.servers.table(&server), McpServerConfig::default());
        let table = configured.or_else(|| of_package.then_some(&default)).ok_or_else(|| {
            let why = format_args!(
                "config.toml has no table [mcp.{server}], and no package has an allowed server '{server}'."
            );
            Outcome::error(Code::ToolNotFound, why)
        })?;
        let starts = !table.in_workspace || self.store.is_trusted(workspace).await.map_err(store)?;
        let said = table.tools.get(&tool);
        let (fate, why) = match said {
            _ if !starts => (Fate::Deny, "The server starts only in workspaces that you trust.".to_owned()),
            _ if mode == Mode::Plan && configured.is_none() => (Fate::Deny, "Plan mode changes nothing.".to_owned()),
            _ if mode == Mode::Plan && !table.read_only => {
                (Fate::Deny, format!("Plan mode changes nothing, and [mcp.{server}] does not have read_only = true."))
            }
            Some(ToolDecision::Deny) => (Fate::Deny, format!("[mcp.{server}] denies it.")),
            Some(ToolDecision::Allow) => (Fate::Allow, format!("[mcp.{server}] allows it.")),
            Some(ToolDecision::Ask) | None => {
                let marked = if said.is_none() { " A tool that the server marks as read-only is allowed." } else { "" };
                let why = "You are asked, unless an earlier answer was stored for it ('patchbay grant list').";
                (Fate::Ask, format!("{why}{marked}"))
            }
        };
        let subject = format!("{tool} is a tool of the MCP server '{server}', which is not started for this.");
        Ok(Explanation {
            subject,
            verdicts: vec![Verdict { capability: format!("call:mcp__{server}__{tool}"), fate, why }],
        })
    }
}

/// The files or addresses that an input names, for a tool that declares its kind. A tool that declares none
/// may do anything with its input.
#[derive(Debug, Default)]
struct Named {
    /// The file of the workspace that is changed.
    path: Option<String>,
    /// The file's new text, if the input contains it.
    text: String,
    /// The address of a request.
    url: Option<String>,
}

impl Named {
    fn by(kind: Option<&str>, input: Option<Value>) -> Self {
        let input = input.unwrap_or_default();
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        match kind {
            Some("edit" | "delete") => Self { path: text("path"), text: text("text").unwrap_or_default(), url: None },
            Some("fetch") => Self { url: text("url"), ..Self::default() },
            _ => Self::default(),
        }
    }
}

enum Called {
    /// A tool by its full name, with the text of its input.
    Tool(String, String),
    /// A tool of an MCP server by its full name.
    Outside(String),
    /// Something that needs no decision, described in a sentence.
    Nothing(String),
}

fn called(snapshot: &Snapshot, what: &str) -> Result<Called, Outcome> {
    let what = what.trim();
    let (name, argument) = match Line::parse(what)? {
        Line::Command { name, argument, .. } => (name, argument),
        _ => {
            let (tool, input) = what.split_once(char::is_whitespace).unwrap_or((what, ""));
            let tool = tool.to_owned();
            return Ok(match tool.starts_with("mcp__") {
                true => Called::Outside(tool),
                false => Called::Tool(tool, input.trim().to_owned()),
            });
        }
    };
    match resolve(name, builtin::TABLE, snapshot)? {
        Resolved::BuiltIn(_) => {
            Ok(Called::Nothing(format!("/{name} is a built-in command: grants and modes do not apply to it.")))
        }
        Resolved::Alias(skill) => {
            let Some(skill) = snapshot.skill(skill.as_str()) else {
                return Err(Outcome::error(
                    Code::SkillNotFound,
                    format_args!("skill '{skill}' not found in snapshot."),
                ));
            };
            match (skill.manifest.invocation_mode, skill.command_tool()) {
                (InvocationMode::ToolDispatch, Some(tool)) => Ok(Called::Tool(tool, argument.to_owned())),
                _ => Ok(Called::Nothing(format!(
                    "/{name} adds the instructions of the skill '{}' to the conversation. Each call that the model \
                     then makes is decided on its own.",
                    skill.name
                ))),
            }
        }
    }
}

/// The inputs to the decision about the capabilities of one call.
struct Case<'a> {
    permits: &'a Permits,
    mode: Mode,
    /// Whether the user can be asked, which is not the case for skills of an untrusted workspace.
    can_ask: bool,
    named: &'a Named,
    /// Why the named file cannot be changed, regardless of grants.
    refusal: Option<String>,
}

impl Case<'_> {
    /// Like [`Case::decide`], for the file or the host that the input names. `command` returns the command that grants a
    /// capability.
    fn decide_input(&self, capability: &Capability, command: impl Fn(&Capability) -> String) -> (Fate, String) {
        if let Some(refusal) = self.refusal.as_ref().filter(|_| capability.changes_workspace()) {
            return (Fate::Deny, format!("No grant allows this: {refusal}."));
        }
        let host =
            self.named.url.as_deref().filter(|_| matches!(capability, Capability::Http(_))).and_then(http_capability);
        match host {
            Some(host) if capability.includes(&host) => {
                let (fate, why) = self.decide(&host, &command(&host));
                (fate, format!("For '{host}': {why}"))
            }
            Some(host) => (Fate::Deny, format!("The skill does not ask for '{host}'.")),
            None => self.decide(capability, &command(capability)),
        }
    }

    /// Returns the fate of an effect that needs `capability`, and the reason.
    fn decide(&self, capability: &Capability, command: &str) -> (Fate, String) {
        let (fate, why) = self.by_grants(capability, command);
        let changes_files = capability.changes_workspace();
        match (self.mode, capability, fate) {
            (Mode::Plan, _, _) if changes_files => (Fate::Deny, "Plan mode changes nothing.".to_owned()),
            (Mode::Plan, Capability::Kv, _) => {
                (Fate::Deny, format!("Plan mode changes no stored keys. Reading them is '{}': {why}", fate.as_str()))
            }
            (Mode::Plan, Capability::Http(_), Fate::Allow) => {
                (Fate::Allow, format!("{why} Plan mode only allows GET without a body."))
            }
            (Mode::Plan, Capability::Http(_), _) | (Mode::Plan, Capability::Credential(_), Fate::Ask) => {
                (Fate::Deny, format!("{why} Plan mode does not ask about requests."))
            }
            (Mode::Edits, Capability::WorkspaceWrite, Fate::Ask) if !self.permits.only_for_one_call(capability) => {
                match &self.named.path {
                    None => {
                        let why = "Mode 'edits' writes without asking, except files that start programs.";
                        (Fate::Allow, why.to_owned())
                    }
                    Some(path) if self.mode.writes_alone(path, &self.named.text) => {
                        (Fate::Allow, "Mode 'edits' writes this file without asking.".to_owned())
                    }
                    Some(_) => (Fate::Ask, format!("Mode 'edits' asks about files that start programs. {why}")),
                }
            }
            _ => (fate, why),
        }
    }

    fn by_grants(&self, capability: &Capability, command: &str) -> (Fate, String) {
        let is_simulated = matches!(capability, Capability::Clock | Capability::Random);
        let asks = |why: &str| match self.can_ask {
            _ if is_simulated => {
                let why = format!("{why} You are never asked about it: the skill gets simulated values.");
                (Fate::Deny, format!("{why} To grant it: {command}"))
            }
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
            CapabilityState::InPart => asks("Only part of it is granted ('patchbay grant list'); the rest is not."),
            CapabilityState::Stale => {
                let why = self.permits.standing(capability).and_then(Standing::why).unwrap_or_default();
                asks(&format!("Its grant is stale: {why}."))
            }
            CapabilityState::HomeFolder => asks("The workspace is or contains your home folder: a yes is for one act."),
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
            ("credential:github", false, "ask ask deny"),
            ("credential:github", true, "allow allow allow"),
            ("clock", false, "deny deny deny"),
            ("random", true, "allow allow allow"),
            ("tools", true, "allow allow allow"),
        ];
        let identity = || Identity::new(Root::User, "", "notes".parse().unwrap());
        for (name, granted, expected) in table {
            let capability: Capability = name.parse().unwrap();
            let grants = granted.then(|| Grant::holding(capability.clone())).into_iter().collect();
            let permits = Permits::new(identity(), vec![capability.clone()], grants);
            let fates = Mode::ALL.map(|mode| {
                let named = Named::default();
                Case { permits: &permits, mode, can_ask: true, named: &named, refusal: None }
                    .decide(&capability, "patchbay grant add")
                    .0
                    .as_str()
            });
            assert_eq!(fates.join(" "), expected, "{name}, granted {granted}");
        }
        let write = Capability::WorkspaceWrite;
        let home = WorkspaceTrust { path: "/home/me".to_owned(), holds_home: true, write: false };
        let permits = Permits::new(identity(), vec![write.clone()], Vec::new()).in_workspace(home);
        let named = Named::default();
        let case = |can_ask| {
            Case { permits: &permits, mode: Mode::Edits, can_ask, named: &named, refusal: None }.decide(&write, "").0
        };
        assert_eq!((case(true), case(false)), (Fate::Ask, Fate::Deny));
    }
}

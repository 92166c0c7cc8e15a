//! `patchbay plugin call`: runs one tool of a plugin in a temporary home. The call takes the same path as `/tool` in a session and
//! therefore behaves as it will once the plugin is installed.

pub(super) mod denied;
pub(super) mod printed;
pub(super) mod report;
pub(super) mod trial_home;

use std::{collections::BTreeMap, env, io::Read as _, path::PathBuf, process::ExitCode, sync::Arc};

use patchbay_core::{Code, Name, ToolSpec, text};
use patchbay_egress::CredentialConfig;
use patchbay_plugin::locate;
use patchbay_policy::{Capability, Identity, Root};
use patchbay_session::{Host, LineInput, NewAttachment, Session};
use patchbay_skill::Skill;
use patchbay_store::{GrantRow, JournalFilter, Store};
use patchbay_tools::input_from_text;
use serde_json::{Map, Value};
use tokio::time::timeout;

use self::{denied::DenyingApprover, printed::PrintedLines, report::CallReport, trial_home::TrialHome};
use crate::{
    CliError, FAILED,
    args::PluginCall,
    config::{self, ConfigFile},
    home::HomeDirs,
    out::note,
    progress_line::{ProgressLine, Style},
    signals::{EndSignal, GRACE, SETTLING},
};

/// Exit code for wrong usage, the same as clap's.
const USAGE: u8 = 2;
/// Limit of an input from standard input in bytes, the same as for a line of a session.
pub(super) const INPUT_BYTES: u64 = 1 << 20;
/// Limit of the journal rows to read, for the call and its nested calls.
pub(super) const CALLS: u32 = 100_000;

/// The reason why the tool was not called.
pub(super) enum NotCalled {
    /// The command line names something that does not exist.
    Usage(CliError),
    Failed(CliError),
    /// A signal ended the command.
    Stopped(u8),
}

impl<E: Into<CliError>> From<E> for NotCalled {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) fn usage(message: impl Into<String>) -> NotCalled {
    NotCalled::Usage(CliError::new(Code::InvalidArgs, message))
}

pub(crate) async fn run(call: &PluginCall) -> Result<ExitCode, CliError> {
    let signal = EndSignal::watch(true, GRACE);
    let called = tokio::select! {
        biased;
        code = signal.received() => Err(NotCalled::Stopped(code)),
        called = called(call) => called,
    };
    match called {
        Ok(report) => {
            report.print(call.json);
            Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
        }
        Err(NotCalled::Usage(error)) => {
            note(&format!("Error: {error}"));
            Ok(ExitCode::from(USAGE))
        }
        Err(NotCalled::Failed(error)) => Err(error),
        Err(NotCalled::Stopped(code)) => Ok(ExitCode::from(code)),
    }
}

async fn called(call: &PluginCall) -> Result<CallReport, NotCalled> {
    let located = locate(&call.plugin).map_err(|error| usage(format!("{error}.")))?;
    let home = HomeDirs::find()?;
    let config = config::read(&home.paths.config)?;
    let store = Store::open(&home.paths.data)?;
    let trial = TrialHome::new(&located, &call.grant, &call.file)?;
    let mut notes = trial.notes.clone();
    if let Some(newer) = &located.newer {
        let folder = patchbay_policy::quoted(&call.plugin.to_string_lossy()).into_owned();
        notes.push(format!(
            "'{newer}' was changed after the component was built. To build it again: patchbay plugin build {folder}"
        ));
    }
    let printed = PrintedLines::collect();
    let style = if call.json { Style::Silent } else { Style::of_standard_error() };
    let progress = ProgressLine::new(style, &tokio::runtime::Handle::current());
    let settings = live_settings(config, &call.grant)?;
    let limits = settings.limits.clone();
    let settings = crate::host_config(&trial.dirs(&home), settings, progress)?;
    let host = Host::open_compiled_by(settings, &home.paths, &store)?;
    let session = host.new_session(&trial.workspace()).await?;
    let skill = loaded(&session, &trial)?;
    refuse_blocked(&store, &skill).await?;
    let spec = tool(&skill, &call.tool)?;
    grant(&host, &session, &skill, &call.grant).await?;
    let denied = Arc::new(DenyingApprover::default());
    session.set_approver(Arc::clone(&denied) as Arc<_>);
    let full_name = format!("{}__{}", skill.name, spec.name);
    let input = input(&full_name, spec, call.input.as_deref())?;
    let mut line = LineInput::from(&*format!("/tool {full_name} {input}"));
    line.attachments = attachments(&call.attach)?;
    // Discard lines that the plugin printed while it declared its tools.
    drop(printed.take());
    let outcome = session.submit_input(line).await;
    let _ = timeout(SETTLING, session.close()).await;
    let filter = JournalFilter { session: Some(session.id()), skill: None };
    let rows = host.store().journal_rows(&filter, 0, CALLS).await?;
    let mut report = CallReport::new(full_name, &outcome, &rows, &limits);
    (report.printed, report.denied) = (printed.take(), denied.take());
    if let Some(component) = skill.component {
        printed::translate(&mut report.printed, |line| home.paths.symbols().translated(&component, line));
    }
    (report.changed_files, report.notes) = (trial.changed_files(), notes);
    Ok(report)
}

/// Returns the user's settings that apply in a throw-away home: the limits and the granted credentials.
pub(super) fn live_settings(config: ConfigFile, granted: &[Capability]) -> Result<ConfigFile, NotCalled> {
    let ConfigFile { limits, egress, exchange, .. } = config;
    let credentials = granted_credentials(granted, config.credentials)?;
    Ok(ConfigFile { limits, egress, exchange, credentials, ..ConfigFile::default() })
}

/// Returns the plugin's skill, or why it was not loaded.
pub(super) fn loaded(session: &Session, trial: &TrialHome) -> Result<Skill, NotCalled> {
    let snapshot = session.snapshot();
    if let Some(skill) = snapshot.skill(trial.name.as_str()).filter(|skill| skill.root == Root::User) {
        return Ok(skill.clone());
    }
    let problem = snapshot.diagnostics().iter().find(|diagnostic| diagnostic.name == trial.name.as_str());
    Err(match problem {
        Some(problem) => CliError::new(problem.code, format!("{} cannot be loaded: {}", trial.name, problem.message)),
        None => CliError::new(Code::SkillNotFound, format!("{} was not loaded.", trial.name)),
    }
    .into())
}

/// Returns an error if the user has blocked the skill or its component, which must then not run in a temporary home either.
pub(super) async fn refuse_blocked(store: &Store, skill: &Skill) -> Result<(), NotCalled> {
    for digest in skill.component.into_iter().chain([skill.digest]) {
        if store.is_blocked(&digest).await? {
            let message =
                format!("the component or its skill is blocked. To unblock it: patchbay plugin unblock {digest}");
            return Err(CliError::new(Code::Blocked, message).into());
        }
    }
    Ok(())
}

/// Returns the tool with this bare or full name.
pub(super) fn tool<'s>(skill: &'s Skill, name: &str) -> Result<&'s ToolSpec, NotCalled> {
    let bare = name.strip_prefix(skill.name.as_str()).and_then(|rest| rest.strip_prefix("__")).unwrap_or(name);
    skill.tool(bare).ok_or_else(|| {
        let names: Vec<&str> = skill.tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = format!("{} has no tool '{}'; its tools: {names}.", skill.name, text::excerpt(name, 80));
        NotCalled::Usage(CliError::new(Code::ToolNotFound, message))
    })
}

/// Returns the input of a call, read from the argument INPUT.
pub(super) fn input(tool: &str, spec: &ToolSpec, given: Option<&str>) -> Result<Value, NotCalled> {
    let mut read = String::new();
    let given = match given {
        None | Some("") => return Ok(Value::Object(Map::new())),
        Some("-") => {
            let stdin = std::io::stdin().lock().take(INPUT_BYTES + 1).read_to_string(&mut read);
            stdin.map_err(|error| usage(format!("cannot read standard input: {error}.")))?;
            if read.len() as u64 > INPUT_BYTES {
                return Err(usage(format!("the input exceeds {INPUT_BYTES} bytes.")));
            }
            read.trim()
        }
        Some(given) => given.trim(),
    };
    match serde_json::from_str::<Value>(given) {
        Ok(object @ Value::Object(_)) => return Ok(object),
        Err(error) if given.starts_with('{') => return Err(usage(format!("INPUT is not JSON: {error}."))),
        _ => {}
    }
    input_from_text(spec, given, tool, None).map_err(|error| usage(error.to_string()))
}

/// Grants the capabilities of `--grant` to the skill, as `patchbay grant add` does.
pub(super) async fn grant(
    host: &Arc<Host>,
    session: &Session,
    skill: &Skill,
    capabilities: &[Capability],
) -> Result<(), NotCalled> {
    let asked = || skill.manifest.capabilities.iter().map(|asked| &asked.capability);
    for capability in capabilities {
        if !asked().any(|asked| asked.includes(capability)) {
            let all: Vec<String> = asked().map(ToString::to_string).collect();
            let all = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
            let message = format!("the SKILL.md of {} does not ask for '{capability}'; it asks for {all}.", skill.name);
            return Err(usage(message));
        }
        let identity = Identity::new(Root::User, session.workspace(), skill.name.clone());
        let row = GrantRow {
            root: identity.root.to_string(),
            workspace: identity.workspace,
            skill: identity.name.to_string(),
            capability: capability.to_string(),
            place: String::new(),
            skill_digest: skill.digest.to_string(),
        };
        host.store().add_grant(row, String::new()).await?;
    }
    Ok(())
}

/// Returns the granted credentials of config.toml. Their secrets must be in the environment, because the call does not read secrets
/// from the home.
fn granted_credentials(
    granted: &[Capability],
    mut configured: BTreeMap<Name, CredentialConfig>,
) -> Result<BTreeMap<Name, CredentialConfig>, NotCalled> {
    let mut credentials = BTreeMap::new();
    for capability in granted {
        let Capability::Credential(name) = capability else { continue };
        let Some(config) = configured.remove(name) else {
            if credentials.contains_key(name) {
                continue;
            }
            return Err(usage(format!(
                "credential '{name}' not found: config.toml needs a table [credentials.{name}] with the credential's origin."
            )));
        };
        if config.key_command.is_some() {
            return Err(usage(format!(
                "credential '{name}' comes from a key_command, which 'plugin call' does not run. Install the skill to use it."
            )));
        }
        let variables = config.variables(name);
        let is_set = |variable: &String| env::var_os(variable).is_some_and(|value| !value.is_empty());
        if !variables.names().iter().any(is_set) {
            return Err(usage(format!(
                "credential '{name}' has no secret in the environment: set {variables}. 'plugin call' does not read credentials.json."
            )));
        }
        credentials.insert(name.clone(), config);
    }
    Ok(credentials)
}

fn attachments(paths: &[PathBuf]) -> Result<Vec<NewAttachment>, NotCalled> {
    let attach = |path: &PathBuf| {
        let content = trial_home::read_file(path)?;
        NewAttachment::for_command(&path.to_string_lossy(), None, content).map_err(|refused| usage(refused.message))
    };
    paths.iter().map(attach).collect()
}

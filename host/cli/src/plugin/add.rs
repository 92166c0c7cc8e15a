//! `patchbay plugin add`: copies a skill into the skills folder, or an adapter into the providers folder.

use std::{path::Path, process::ExitCode};

use patchbay_core::{Code, Name, text};
use patchbay_plugin::{InspectionReport, InstallError, InstalledPlugin, LocatedPlugin, PluginForm, locate, stage};
use patchbay_policy::{Root, quoted};
use patchbay_store::GrantRow;

use super::inspector;
use crate::{
    CliError,
    args::PluginAdd,
    home::HomeDirs,
    open,
    out::{note, say},
    provider,
};

pub(crate) async fn run(add: &PluginAdd) -> Result<ExitCode, CliError> {
    let located = locate(&add.plugin).map_err(|error| CliError::new(Code::InvalidArgs, format!("{error}.")))?;
    let home = HomeDirs::find()?;
    match &located.form {
        PluginForm::Adapter(file) => provider::add(&open(&home)?, file, None).await?,
        PluginForm::Bare(file) => {
            let (name, file) = (&located.name, shown(file));
            let message = format!(
                "{file} has no SKILL.md. Write one into a folder '{name}', and embed it: patchbay plugin build {name} --wasm {file}"
            );
            return Err(CliError::new(Code::MissingSkillMd, message));
        }
        PluginForm::File(_) | PluginForm::Folder(..) => add_skill(add, &located, &home).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn add_skill(add: &PluginAdd, located: &LocatedPlugin, home: &HomeDirs) -> Result<(), CliError> {
    let given = shown(&add.plugin);
    if let Some(newer) = &located.newer {
        note(&format!(
            "note: '{newer}' was changed after the component was built. To build it again: patchbay plugin build {given}"
        ));
    }
    let staged = stage(located, &home.paths.config.join("skills")).map_err(CliError::from)?;
    let report = inspector()?.inspect(&staged.path()).await.map_err(CliError::io(&staged.path()))?;
    if !report.problems.is_empty() {
        let problems: Vec<String> = report.problems.iter().map(|problem| text::clean_line(problem)).collect();
        return Err(CliError::new(Code::InvalidArgs, format!("{given} is not added: {}", problems.join("; "))));
    }
    let InstalledPlugin { path, replaced } = staged.install(add.replace).map_err(|error| match error {
        InstallError::Exists { .. } => {
            CliError::new(Code::InvalidArgs, format!("{error}. To replace it: patchbay plugin add --replace {given}"))
        }
        other => other.into(),
    })?;
    let verb = if replaced { "Replaced" } else { "Added" };
    say!("{verb} {}: {}", described(&report), text::clean_line(&path.to_string_lossy()));
    for text in &report.notes {
        say!("note: {}", text::clean_line(text));
    }
    print_requests(&report, &granted(home, &located.name).await?);
    say!("Open sessions use it after /reload_skills.");
    Ok(())
}

/// Returns the name, version, size and tools of a skill.
fn described(report: &InspectionReport) -> String {
    let manifest = report.manifest.as_ref();
    let version = manifest.and_then(|manifest| manifest.version.as_deref());
    let command = manifest.and_then(|manifest| manifest.command.as_ref());
    let tools: Vec<String> = report.tools.iter().map(|tool| format!("{}__{}", report.name, tool.name)).collect();
    let mut parts = vec![report.name.clone()];
    parts.extend(version.map(|version| format!(" {}", text::clean_line(version))));
    let mut facts = Vec::new();
    facts.extend((report.size > 0).then(|| text::size(report.size as u64)));
    facts.extend(command.map(|command| format!("command /{command}")));
    facts.extend(match &*tools {
        [] => None,
        [tool] => Some(format!("tool {tool}")),
        tools => Some(format!("tools {}", tools.join(", "))),
    });
    if !facts.is_empty() {
        parts.push(format!(" ({})", facts.join("; ")));
    }
    parts.concat()
}

/// Returns the capabilities that are granted to the installed skill, as it is now.
async fn granted(home: &HomeDirs, name: &Name) -> Result<Vec<String>, CliError> {
    let host = open(home)?;
    let Some(skill) = host.candidate(Root::User, Path::new("."), name).await? else { return Ok(Vec::new()) };
    let digest = skill.digest().to_string();
    let is_valid = |grant: &GrantRow| {
        grant.root == Root::User.as_str()
            && grant.skill == name.as_str()
            && grant.place.is_empty()
            && grant.skill_digest == digest
    };
    let grants = host.store().grants().await?;
    Ok(grants.into_iter().filter(is_valid).map(|grant| grant.capability).collect())
}

/// Prints what the skill asks for, and the command that grants what is not granted.
fn print_requests(report: &InspectionReport, granted: &[String]) {
    let Some(manifest) = report.manifest.as_ref().filter(|manifest| !manifest.capabilities.is_empty()) else { return };
    say!("It asks for:");
    let mut missing = Vec::new();
    for asked in &manifest.capabilities {
        let capability = asked.capability.to_string();
        let state = match (granted.contains(&capability), asked.optional) {
            (true, _) => " (granted)",
            (false, true) => " (optional)",
            (false, false) => "",
        };
        let reason = asked.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        say!("  {capability}{state}{reason}");
        if !granted.contains(&capability) {
            missing.push(quoted(&capability).into_owned());
        }
    }
    if !missing.is_empty() {
        say!("To grant it: patchbay grant add {} {}", report.name, missing.join(" "));
    }
}

/// Returns a path as a word of a shell.
fn shown(path: &Path) -> String {
    quoted(&text::clean_line(&path.to_string_lossy())).into_owned()
}

impl From<InstallError> for CliError {
    fn from(error: InstallError) -> Self {
        Self::new(Code::FolderUnusable, format!("{error}."))
    }
}

//! `patchbay plugin add`: copies a skill into the skills folder, or an adapter into the providers folder.

use std::{path::Path, process::ExitCode};

use patchbay_core::{Code, Name, text};
use patchbay_plugin::{
    InspectionReport, InstallError, InstalledPlugin, LocatedPlugin, PluginForm, locate, stage, stage_link,
};
use patchbay_policy::{Identity, Root, quoted};
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
        PluginForm::Adapter(_) | PluginForm::Bare(_) | PluginForm::File(_) if add.link => {
            let message = format!("{} is not a skill's folder: only a folder can be linked.", shown(&add.plugin));
            return Err(CliError::new(Code::InvalidArgs, message));
        }
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
    let skills = home.paths.config.join("skills");
    let (staged, inspected) = match &located.form {
        PluginForm::Folder(folder, _) if add.link => (None, folder.clone()),
        _ => {
            let staged = stage(located, &skills).map_err(CliError::from)?;
            let path = staged.path();
            (Some(staged), path)
        }
    };
    let report = inspector(false)?.inspect(&inspected).await.map_err(CliError::io(&inspected))?;
    if !report.problems.is_empty() {
        let problems: Vec<String> = report.problems.iter().map(|problem| text::clean_line(problem)).collect();
        return Err(CliError::new(Code::InvalidArgs, format!("{given} is not added: {}", problems.join("; "))));
    }
    // The link is made after the check, because sessions follow it at once.
    let staged = staged.map_or_else(|| stage_link(located, &skills, add.replace), Ok);
    let installed = staged.and_then(|staged| staged.install(add.replace));
    let InstalledPlugin { path, replaced } = installed.map_err(|error| match error {
        InstallError::Exists { .. } => {
            let link = if add.link { "--link " } else { "" };
            let again = format!("patchbay plugin add {link}--replace {given}");
            CliError::new(Code::InvalidArgs, format!("{error}. To replace it: {again}"))
        }
        other => other.into(),
    })?;
    let verb = match (add.link, replaced) {
        (true, _) => "Linked",
        (false, true) => "Replaced",
        (false, false) => "Added",
    };
    say!("{verb} {}: {}", described(&report), text::clean_line(&path.to_string_lossy()));
    if add.link {
        say!(
            "Grants hold for any files in {}, until you remove the link.",
            text::clean_line(&inspected.to_string_lossy())
        );
    }
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
    let identity = Identity::new(Root::User, "", name.clone());
    let granted_for = host.granted_for(&identity, skill.digest()).await;
    let is_valid = |grant: &GrantRow| {
        grant.root == Root::User.as_str()
            && grant.skill == name.as_str()
            && grant.place.is_empty()
            && grant.skill_digest == granted_for
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

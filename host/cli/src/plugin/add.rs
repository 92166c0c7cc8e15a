//! `patchbay plugin add`: copies a package, links the folder of a skill, or copies an adapter into the providers folder.

use std::{path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, PackageName, text};
use patchbay_plugin::{
    FetchedPackage, InspectionReport, InstallError, InstalledPlugin, LocatedPlugin, PackageAddress, PluginForm, link,
    locate_folder,
    package::{
        HeldPackages, PackageReport, PackageSource, SkillReport, SourceForm, StagedPackage, find_source, report,
    },
};
use patchbay_policy::{Identity, Root, quoted};
use patchbay_session::Host;
use patchbay_skill::{
    PackageKind,
    agent_plugin::{Marketplace, MarketplacePlugin},
};
use patchbay_store::GrantRow;
use serde_json::json;

use super::{
    fetching::{Fetching, parse_address},
    inspector,
    packages::{UNDECIDED, check_renames, confirm, packages, print_grants, renames, shown, undecided},
};
use crate::{
    CliError,
    args::PluginAdd,
    home::HomeDirs,
    open,
    out::{note, say},
    provider,
};

pub(crate) async fn run(add: &PluginAdd) -> Result<ExitCode, CliError> {
    if add.link {
        link_skill(add, &HomeDirs::find()?).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut address = parse_address(&add.plugin.to_string_lossy())?;
    if let Some(folder) = &add.path {
        address = address.in_folder(folder).map_err(|error| CliError::new(Code::InvalidArgs, format!("{error}.")))?;
    }
    let fetching = Fetching::new()?;
    fetching.check_source(&address)?;
    let sign_in = fetching.sign_in(&address, &add.sign_in).await?;
    let fetched = fetching.fetch(&address, add.sha256, sign_in).await?;
    match find_source(&fetched.path)? {
        PackageSource::Adapter(file) => {
            let signer = fetching.judge(&address, fetched.signer, &[])?;
            let host = open(&HomeDirs::find()?)?;
            if !matches!(address, PackageAddress::Local(_))
                && let Err(code) = confirm_adapter(add, &host, &file, &signer).await?
            {
                return Ok(code);
            }
            provider::add(&host, &file, None).await?;
            Ok(ExitCode::SUCCESS)
        }
        PackageSource::Marketplace(marketplace) => Ok(list_marketplace(&marketplace, &add.plugin)),
        PackageSource::Package(source) => add_package(add, &source, &fetching, &address, &fetched).await,
    }
}

/// Asks about an adapter that was downloaded. A local adapter is added without a question, as with `provider add`.
async fn confirm_adapter(
    add: &PluginAdd,
    host: &Arc<Host>,
    file: &Path,
    signer: &str,
) -> Result<Result<(), ExitCode>, CliError> {
    let checked = host.providers().check(file, None).await.map_err(CliError::io(file))?;
    // `provider::add` refuses an adapter without a name, with the reason.
    let Some(name) = &checked.name else { return Ok(Ok(())) };
    say!("provider {name} ({})", checked.digest);
    say!("{signer}");
    Ok(confirm(&format!("Add provider '{name}'?"), add.yes))
}

/// Prints the plugins of a folder that is not a plugin itself.
fn list_marketplace(marketplace: &Marketplace, folder: &Path) -> ExitCode {
    note("This folder lists plugins but is not a plugin itself. Nothing was added. To add one of them:");
    for plugin in &marketplace.plugins {
        let MarketplacePlugin { name, description, .. } = plugin;
        say!("{name}{}", description.as_ref().map(|description| format!(": {description}")).unwrap_or_default());
        match &plugin.commands(&text::clean_line(&folder.to_string_lossy()))[..] {
            [] => say!("  its source has an unknown format"),
            commands => commands.iter().for_each(|command| say!("  {command}")),
        }
    }
    for problem in &marketplace.notes {
        say!("note: {problem}");
    }
    ExitCode::from(UNDECIDED)
}

async fn add_package(
    add: &PluginAdd,
    source: &SourceForm,
    fetching: &Fetching,
    address: &PackageAddress,
    fetched: &FetchedPackage,
) -> Result<ExitCode, CliError> {
    if add.json && !add.yes {
        let message = "--json cannot ask for confirmation. Read the package without --json, or repeat the command with --yes. Nothing \
                       was changed.";
        return Ok(undecided(Code::NotConfirmed, message));
    }
    let (home, given) = (HomeDirs::find()?, shown(&add.plugin));
    if let Some(newer) = &source.newer {
        note(&format!(
            "note: '{newer}' was changed after the component was built. To build it again: patchbay plugin build {given}"
        ));
    }
    let host = open(&home)?;
    let mut held = packages(&home, host.store()).hold().await?;
    let name = add.name.clone().unwrap_or_else(|| source.name.clone());
    if let Some(there) = held.lock().package(name.as_str()) {
        let message = format!(
            "package '{name}' is already installed, from {}. To install a newer version: patchbay plugin update {name}. To have both: patchbay \
             plugin add {given} --name NEW",
            text::clean_line(&there.from)
        );
        return Err(CliError::new(Code::PackageExists, message));
    }
    let mut staged = held.stage(source)?;
    staged.keep_signature(fetched)?;
    let mut report = reported(add, &name, source, &staged).await?;
    report.version = report.version.or_else(|| address.version());
    let signer = fetching.judge(address, staged.signer(), &report.asks())?;
    let conflicts = conflicts(&host, &report.skills, &format!("patchbay plugin add {given}")).await?;
    if !add.json {
        report.lines().iter().chain([&signer]).chain(&conflicts).for_each(|line| say!("{line}"));
    }
    let signer_of = staged.signer();
    if let Err(code) = confirm(&format!("Add package '{name}'? It gets no grants."), add.yes) {
        return Ok(code);
    }
    let from = match address {
        PackageAddress::Local(path) => {
            std::path::absolute(path).map_err(CliError::io(path))?.to_string_lossy().into_owned()
        }
        other => other.to_string(),
    };
    install(&mut held, &from, &fetched.found, &report, staged).await?;
    if add.json {
        say!("{}", json!({"added": report.to_json(), "conflicts": conflicts, "signer": signer_of}));
    } else {
        say!("Added package '{name}'.");
        print_grants(&report, |_, _| true);
        say!("Open sessions use it after /reload_skills.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Inspects the copy of a package; fails if nothing in it can be used.
async fn reported(
    add: &PluginAdd,
    name: &PackageName,
    source: &SourceForm,
    staged: &StagedPackage,
) -> Result<PackageReport, CliError> {
    let renames = renames(&add.rename);
    let report = report(&inspector(false)?, &staged.folder(), source.kind, name.clone(), &renames).await?;
    if let Some(why) = report.unusable() {
        let code = if source.kind == PackageKind::AgentPlugin { Code::PackageEmpty } else { Code::InvalidArgs };
        return Err(CliError::new(code, format!("{} was not added: {why}", shown(&add.plugin))));
    }
    check_renames(&add.rename, &report)?;
    Ok(report)
}

async fn install(
    held: &mut HeldPackages,
    from: &str,
    found: &str,
    report: &PackageReport,
    staged: StagedPackage,
) -> Result<(), CliError> {
    let mut package = report.locked(from, found, &held.today(), held.lock().next_order(), None);
    package.signer = staged.signer();
    let lock = held.lock().with(package).map_err(|error| CliError::new(Code::PackageLimit, format!("{error}.")))?;
    held.commit("add", &report.name, lock, Some(staged), Vec::new()).await?;
    Ok(())
}

/// Returns a line for each name or alias of a package's new skills that another skill already has. `command` is the command to
/// repeat with `--rename`.
pub(super) async fn conflicts<'a>(
    host: &Arc<Host>,
    skills: impl IntoIterator<Item = &'a SkillReport>,
    command: &str,
) -> Result<Vec<String>, CliError> {
    let mut skills = skills.into_iter().peekable();
    if skills.peek().is_none() {
        return Ok(Vec::new());
    }
    let snapshot = host.preview_snapshot(Path::new(".")).await?;
    let mut lines = Vec::new();
    for skill in skills {
        let name = &skill.name;
        let rename = format!("To use both: {command} --rename {}=NEW", skill.inspected.name);
        match snapshot.skill(name.as_str()) {
            Some(other) if other.root == Root::Package => {
                let owner = other.root_path.as_deref().unwrap_or_default();
                lines.push(format!(
                    "conflict: skill '{name}' is left out: package '{owner}' was added earlier and has one. {rename}"
                ));
            }
            Some(other) if other.root > Root::Package => {
                lines.push(format!(
                    "conflict: skill '{name}' is left out: the {} skill of this name wins. {rename}",
                    other.root
                ));
            }
            Some(other) => {
                lines.push(format!("note: skill '{name}' takes the place of the {} skill of this name.", other.root))
            }
            None => {}
        }
        let alias = skill.inspected.manifest.as_ref().and_then(|manifest| manifest.command.as_ref());
        let claimed = snapshot.aliases().find(|(other, _)| Some(*other) == alias);
        let owner = claimed.and_then(|(_, owners)| snapshot.skill(owners.first()?.as_str()));
        if let Some(owner) = owner.filter(|owner| owner.root >= Root::Package && owner.name != *name) {
            lines.push(format!(
                "conflict: '/{}' stays the command of the {} skill '{}'; '/skill {name}' works.",
                alias.map_or("", |alias| alias.as_str()),
                owner.root,
                owner.name
            ));
        }
    }
    Ok(lines)
}

/// Links the folder of a skill into the user's folder of skills.
async fn link_skill(add: &PluginAdd, home: &HomeDirs) -> Result<(), CliError> {
    let located = locate_folder(&add.plugin).map_err(|error| CliError::new(Code::InvalidArgs, format!("{error}.")))?;
    let given = shown(&add.plugin);
    let LocatedPlugin { form: PluginForm::Folder(folder, _), name, newer } = &located else {
        let message = format!("{given} is not a skill's folder: only a folder can be linked.");
        return Err(CliError::new(Code::InvalidArgs, message));
    };
    if let Some(newer) = newer {
        note(&format!(
            "note: '{newer}' was changed after the component was built. To build it again: patchbay plugin build {given}"
        ));
    }
    // The link is made after the check, because sessions follow it immediately.
    let report = inspector(false)?.inspect(folder).await.map_err(CliError::io(folder))?;
    if !report.problems.is_empty() {
        let problems: Vec<String> = report.problems.iter().map(|problem| text::clean_line(problem)).collect();
        return Err(CliError::new(Code::InvalidArgs, format!("{given} was not linked: {}", problems.join("; "))));
    }
    let installed = link(&located, &home.paths.config.join("skills"), add.replace);
    let InstalledPlugin { path, .. } = installed.map_err(|error| match error {
        InstallError::Exists { .. } => {
            let again = format!("patchbay plugin add --link --replace {given}");
            CliError::new(Code::InvalidArgs, format!("{error}. To replace it: {again}"))
        }
        other => other.into(),
    })?;
    say!("Linked {}: {}", described(&report), text::clean_line(&path.to_string_lossy()));
    say!("Grants apply to any files in {}, until you remove the link.", text::clean_line(&folder.to_string_lossy()));
    for text in &report.notes {
        say!("note: {}", text::clean_line(text));
    }
    let host = open(home)?;
    let identity = Identity::new(Root::User, "", name.clone());
    print_requests(&report, &granted(&host, &identity).await?);
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

/// Returns the capabilities that are currently granted to the linked skill.
async fn granted(host: &Arc<Host>, identity: &Identity) -> Result<Vec<String>, CliError> {
    let skills = host.skills_named(Path::new("."), &identity.name).await?;
    let Some((_, skill)) = skills.into_iter().find(|(other, _)| other == identity) else { return Ok(Vec::new()) };
    let granted_for = host.granted_for(identity, skill.digest()).await;
    let is_valid = |grant: &GrantRow| {
        grant.root == identity.root.as_str()
            && grant.skill == identity.name.as_str()
            && grant.place.is_empty()
            && grant.skill_digest == granted_for
    };
    let grants = host.store().grants().await?;
    Ok(grants.into_iter().filter(is_valid).map(|grant| grant.capability).collect())
}

/// Prints the capabilities that the skill requests, and the command that grants the missing ones.
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

impl From<InstallError> for CliError {
    fn from(error: InstallError) -> Self {
        Self::new(Code::FolderUnusable, format!("{error}."))
    }
}

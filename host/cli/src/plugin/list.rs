//! `patchbay plugin list`: the packages, the skills of a new session, and the providers.

use std::{path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Digest, text};
use patchbay_plugin::package::InstalledServer;
use patchbay_policy::{CapabilityState, Root};
use patchbay_provider::{ProviderSource, ProviderStatus};
use patchbay_session::{Host, InstalledSkill, InstalledSkills};
use patchbay_skill::{LinkedFolder, LockedPackage};
use patchbay_store::{PackageChange, PackageChangeRow};
use serde_json::{Value, json};

use super::packages::packages;
use crate::{
    CliError,
    args::PluginList,
    home::HomeDirs,
    open_watched,
    out::say,
    progress_line::{ProgressLine, Style},
};

pub(crate) async fn run(list: &PluginList) -> Result<ExitCode, CliError> {
    let style = if list.json { Style::Silent } else { Style::of_standard_error() };
    let host = open_watched(&HomeDirs::find()?, ProgressLine::new(style, &tokio::runtime::Handle::current()), false)?;
    let packages = packages(&HomeDirs::find()?, host.store());
    if list.changes {
        return changes(&host, list.json).await;
    }
    // An invalid lock is reported with the problems below.
    let installed = packages.read().unwrap_or_default();
    let allowances = host.store().server_allowances().await?;
    let servers = |package: &LockedPackage| InstalledServer::of_package(&packages, package, &allowances);
    let workspace = list.workspace.as_deref().unwrap_or(Path::new("."));
    let InstalledSkills { skills, diagnostics } = host.installed_skills(workspace).await?;
    let providers = host.providers().list().await;
    if list.json {
        for value in installed
            .packages()
            .iter()
            .map(|package| package_json(package, &servers(package)))
            .chain(skills.iter().map(skill_json))
            .chain(providers.iter().map(provider_json))
        {
            say!("{value}");
        }
        for problem in &diagnostics {
            let (name, code, message) = (&problem.name, problem.code, &problem.message);
            say!("{}", json!({"kind": "problem", "name": name, "code": code, "message": message}));
        }
        return Ok(ExitCode::SUCCESS);
    }
    for package in installed.packages() {
        print_package(package);
        servers(package).iter().for_each(|server| say!("  {server}"));
    }
    for skill in &skills {
        print_skill(skill);
    }
    for provider in &providers {
        let digest = provider.digest.as_ref().map(|digest| format!(" {}", short(digest))).unwrap_or_default();
        say!("{} {} provider{digest}: {}", provider.name, source(provider), provider.state);
    }
    for problem in &diagnostics {
        say!("not loaded: {} [{}] {}", problem.name, problem.code, problem.message);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_package(package: &LockedPackage) {
    let LockedPackage { name, version, digest, from, updated, skills, .. } = package;
    let version = version.as_deref().map(|version| format!(" {}", text::clean_line(version))).unwrap_or_default();
    say!("{name}{version} package {}, installed {}", short(digest), text::clean_line(updated));
    say!("  from {}", text::clean_line(from));
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    say!("  skills: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
}

fn package_json(package: &LockedPackage, servers: &[InstalledServer]) -> Value {
    let skills: Vec<&str> = package.skills.iter().map(|skill| skill.name.as_str()).collect();
    let server = |server: &InstalledServer| {
        let (state, name) = (server.decision.as_str(), server.decision.allowance().map(|allowance| &allowance.name));
        json!({"name": server.name, "runs": server.line(), "state": state, "as": name})
    };
    json!({
        "kind": "package",
        "name": package.name,
        "version": package.version,
        "digest": package.digest,
        "from": package.from,
        "found": package.found,
        "added": package.added,
        "updated": package.updated,
        "skills": skills,
        "servers": servers.iter().map(server).collect::<Vec<_>>(),
    })
}

/// Lists package changes, oldest first.
async fn changes(host: &Arc<Host>, as_json: bool) -> Result<ExitCode, CliError> {
    for PackageChangeRow { at, change, .. } in host.store().package_changes(true).await? {
        let PackageChange { who, action, package, before, after, grants } = change;
        let at = jiff::Timestamp::from_second(at).unwrap_or_default().to_string();
        if as_json {
            say!(
                "{}",
                json!({"at": at, "who": who, "action": action, "package": package, "before": before, "after": after, "grants": grants})
            );
            continue;
        }
        let digest = |digest: Option<Digest>| digest.as_ref().map_or("none".to_owned(), short);
        say!("{at} {} {action} {package}: {} to {}", text::clean_line(&who), digest(before), digest(after));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_skill(InstalledSkill { skill, component_bytes, linked, capabilities }: &InstalledSkill) {
    let version = skill.manifest.version.as_deref().map(|version| format!(" {}", text::clean_line(version)));
    let size = component_bytes.map(|bytes| format!(", {}", text::size(bytes))).unwrap_or_default();
    let (version, digest) = (version.unwrap_or_default(), short(&skill.digest));
    let package =
        skill.root_path.as_deref().filter(|_| skill.root == Root::Package).map(|package| format!(" of '{package}'"));
    say!("{}{version} {} skill{} {digest}{size}", skill.name, skill.root, package.unwrap_or_default());
    if let Some(folder) = linked {
        say!("  linked to {}", text::clean_line(folder.path()));
    }
    let tools: Vec<&str> = skill.tools.iter().map(|tool| tool.name.as_str()).collect();
    if !tools.is_empty() {
        say!("  tools: {}", tools.join(", "));
    }
    let asked: Vec<String> =
        capabilities.iter().map(|(asked, state)| format!("{asked} ({})", state.as_str())).collect();
    if !asked.is_empty() {
        say!("  asks for: {}", asked.join(", "));
    }
}

fn skill_json(InstalledSkill { skill, component_bytes, linked, capabilities }: &InstalledSkill) -> Value {
    let tools: Vec<&str> = skill.tools.iter().map(|tool| tool.name.as_str()).collect();
    let capability = |(asked, state): &(patchbay_policy::Capability, CapabilityState)| json!({"capability": asked, "state": state.as_str(), "granted": *state == CapabilityState::Granted});
    json!({
        "kind": "skill",
        "name": skill.name,
        "root": skill.root.as_str(),
        "package": skill.root_path.as_deref().filter(|_| skill.root == Root::Package),
        "version": skill.manifest.version,
        "digest": skill.digest,
        "component": skill.component,
        "bytes": component_bytes,
        "linked": linked.as_ref().map(LinkedFolder::path),
        "tools": tools,
        "capabilities": capabilities.iter().map(capability).collect::<Vec<_>>(),
    })
}

fn provider_json(provider: &ProviderStatus) -> Value {
    json!({
        "kind": "provider",
        "name": provider.name,
        "root": source(provider),
        "adapter": provider.adapter,
        "digest": provider.digest,
        "state": provider.state,
    })
}

/// Returns where a provider comes from, with the names of skill roots where possible.
fn source(provider: &ProviderStatus) -> &'static str {
    match &provider.source {
        ProviderSource::Bundled => "bundled",
        ProviderSource::Config => "config.toml",
        ProviderSource::File(_) => "user",
    }
}

/// Returns the first digits of a digest, enough for `plugin block`.
fn short(digest: &Digest) -> String {
    let digits: String = digest.to_hex().chars().take(12).collect();
    format!("sha256:{digits}")
}

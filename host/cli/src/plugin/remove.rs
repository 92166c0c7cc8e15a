//! `patchbay plugin remove`: removes a package, or a skill from the user's folder of skills.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use patchbay_core::{Code, Name, text};
use patchbay_plugin::{package::grants_of_removed, uninstall};
use patchbay_policy::{Identity, Root, quoted};
use patchbay_session::Host;
use patchbay_skill::{LinkedFolder, LockedPackage};
use patchbay_store::ServerAllowance;

use super::{allow::STILL_RUNNING, packages::packages};
use crate::{CliError, args::PluginRemove, home::HomeDirs, open, out::say};

pub(crate) async fn run(remove: &PluginRemove) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let host = open(&home)?;
    let packages = packages(&home, host.store());
    if packages.read()?.package(remove.name.as_str()).is_some() {
        let mut held = packages.hold().await?;
        if let Some(package) = held.lock().package(remove.name.as_str()).cloned() {
            let (lock, grants) =
                (held.lock().without(remove.name.as_str()), grants_of_removed(&packages, &package).await?);
            let mut servers = host.store().server_allowances().await?;
            servers.retain(|allowance| allowance.package == package.name);
            let left = LeftBehind { grants: grants.len(), servers, data: packages.data_of(&package.name) };
            held.commit("remove", &package.name, lock, None, grants).await?;
            return removed_package(&host, &package, &left, remove.data).await;
        }
    }
    let name: Name = remove
        .name
        .as_str()
        .parse()
        .map_err(|_| CliError::new(Code::PackageNotFound, format!("no package '{}' is installed.", remove.name)))?;
    remove_skill(&host, &home, &name, remove.data).await
}

/// What a package had when it was removed, for the report.
struct LeftBehind {
    /// The number of its grants.
    grants: usize,
    /// The servers that were allowed.
    servers: Vec<ServerAllowance>,
    /// The folder of its servers' data, which may not exist.
    data: PathBuf,
}

async fn removed_package(
    host: &Arc<Host>,
    package: &LockedPackage,
    left: &LeftBehind,
    data: bool,
) -> Result<ExitCode, CliError> {
    say!("Removed package '{}'.", package.name);
    for ServerAllowance { server, .. } in &left.servers {
        say!("Its server '{}' is no longer allowed.", text::clean_line(server));
    }
    if !left.servers.is_empty() {
        say!("{STILL_RUNNING}");
    }
    match left.grants {
        0 => {}
        1 => say!("Its grant has ended."),
        grants => say!("Its {grants} grants have ended."),
    }
    let (whose, kv) = if left.data.exists() { ("its skills and servers", "") } else { ("its skills", " (kv)") };
    let mut kept = format!("What {whose} have stored{kv} is kept.");
    if data {
        for skill in &package.skills {
            let identity = Identity::new(Root::Package, package.name.as_str(), skill.name.clone());
            host.remove_state(&identity).await?;
        }
        match fs::remove_dir_all(&left.data) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(CliError::io(&left.data)(error)),
            _ => kept = format!("What {whose} had stored{kv} is deleted."),
        }
    }
    say!("Open sessions keep it until /reload_skills. {kept}");
    Ok(ExitCode::SUCCESS)
}

async fn remove_skill(host: &Arc<Host>, home: &HomeDirs, name: &Name, data: bool) -> Result<ExitCode, CliError> {
    let skills = home.paths.config.join("skills");
    let removed = uninstall(&skills, name)?;
    if removed.is_empty() {
        let mut message = format!(
            "no package '{name}' found, and no skill '{name}' in {}.",
            text::clean_line(&skills.to_string_lossy())
        );
        let installed = host.installed_skills(Path::new(".")).await?;
        if let Some(other) = installed.skills.iter().find(|installed| installed.skill.name == *name) {
            message += &match (&other.skill.root, &other.skill.root_path) {
                (Root::Package, Some(package)) => {
                    format!(" To remove the package of this skill: patchbay plugin remove {package}")
                }
                (root, _) => format!(" The {root} skill of this name is not removed by this command."),
            };
        }
        if host.providers().list().await.iter().any(|provider| provider.name == name.as_str()) {
            message += &format!(" To remove the provider of this name: patchbay provider remove {name}");
        }
        return Err(CliError::new(Code::SkillNotFound, message));
    }
    for path in removed {
        say!("Removed {}.", text::clean_line(&path.to_string_lossy()));
    }
    let mut grants = host.store().grants().await?;
    grants.retain(|grant| grant.root == Root::User.as_str() && grant.skill == name.as_str());
    let (linked, grants): (Vec<_>, Vec<_>) =
        grants.into_iter().partition(|grant| LinkedFolder::of_grant(&grant.skill_digest).is_some());
    for grant in linked {
        let capability = grant.capability.clone();
        host.store().remove_grant(grant).await?;
        say!("Removed the grant of '{}' for the linked folder.", text::clean_line(&capability));
    }
    let of_skill = grants.iter().filter(|grant| grant.place.is_empty());
    let granted: Vec<String> = of_skill.map(|grant| quoted(&grant.capability).into_owned()).collect();
    if !granted.is_empty() {
        say!(
            "Its grants are kept, for these files only. To remove them: patchbay grant remove {name} {}",
            granted.join(" ")
        );
    }
    let mut kept = "What it has stored (kv) is kept.";
    if data {
        host.remove_state(&Identity::new(Root::User, "", name.clone())).await?;
        kept = "What it had stored (kv) is deleted.";
    }
    say!("Open sessions keep it until /reload_skills. {kept}");
    Ok(ExitCode::SUCCESS)
}

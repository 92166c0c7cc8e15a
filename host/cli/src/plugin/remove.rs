//! `patchbay plugin remove`: removes a skill from the user's folder of skills.

use std::{path::Path, process::ExitCode};

use patchbay_core::{Code, Name, text};
use patchbay_plugin::uninstall;
use patchbay_policy::{Root, quoted};
use patchbay_skill::LinkedFolder;

use crate::{CliError, home::HomeDirs, open, out::say};

pub(crate) async fn run(name: &Name) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let skills = home.paths.config.join("skills");
    let removed = uninstall(&skills, name)?;
    let host = open(&home)?;
    if removed.is_empty() {
        let mut message = format!("there is no skill '{name}' in {}.", text::clean_line(&skills.to_string_lossy()));
        let installed = host.installed_skills(Path::new(".")).await?;
        if let Some(other) = installed.skills.iter().find(|installed| installed.skill.name == *name) {
            message += &format!(" The {} skill of this name is not removed by this command.", other.skill.root);
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
            "Its grants stay, for these files alone. To remove them: patchbay grant remove {name} {}",
            granted.join(" ")
        );
    }
    say!("Open sessions keep it until /reload_skills. What it has stored (kv) is kept.");
    Ok(ExitCode::SUCCESS)
}

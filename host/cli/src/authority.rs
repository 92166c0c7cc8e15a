//! `patchbay grant` and `patchbay trust`: the operator's decisions.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use patchbay_core::Code;
use patchbay_policy::{Identity, Root};
use patchbay_session::{Host, workspace_path};
use patchbay_store::GrantRow;

use crate::{
    Failure,
    args::{Grant, Trust, Whose},
    out::say,
};

pub(crate) async fn grant(host: &Arc<Host>, command: Grant) -> Result<ExitCode, Failure> {
    match command {
        Grant::Add(whose) => {
            let workspace = folder(whose.workspace.as_deref());
            let found = host.candidate(whose.root(), &workspace, &whose.skill).await?;
            let Some((manifest, component)) = found.and_then(|skill| Some((skill.manifest, skill.component?.digest())))
            else {
                let message = format!(
                    "there is no skill '{}' with a component among the {} skills, so that nothing can be granted to it.",
                    whose.skill,
                    whose.root()
                );
                return Err(Failure::new(Code::SkillNotFound, message));
            };
            // A grant without effect would look like a promise.
            let asked: Vec<_> = manifest.capabilities.iter().map(|asked| asked.capability.to_string()).collect();
            if !asked.contains(&whose.capability.to_string()) {
                let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") };
                let message = format!(
                    "the SKILL.md of the {} skill '{}' does not ask for '{}'; it asks for {asked}.",
                    whose.root(),
                    whose.skill,
                    whose.capability
                );
                return Err(Failure::new(Code::InvalidArgs, message));
            }
            // Bundled skills follow the binary; any other grant is for the component that it was given for.
            let component = if whose.root() == Root::Bundled { String::new() } else { component.to_string() };
            let row = row(&whose, component)?;
            host.store().add_grant(row).await?;
            say!("Granted '{}' to the {} skill '{}'.", whose.capability, whose.root(), whose.skill);
        }
        Grant::Remove(whose) => {
            if host.store().remove_grant(row(&whose, String::new())?).await? {
                say!("'{}' is no longer granted to the {} skill '{}'.", whose.capability, whose.root(), whose.skill);
            } else {
                let message =
                    format!("'{}' was not granted to the {} skill '{}'.", whose.capability, whose.root(), whose.skill);
                return Err(Failure::new(Code::GrantNotFound, message));
            }
        }
        Grant::List => {
            let grants = host.store().grants()?;
            if grants.is_empty() {
                say!("No grants.");
            }
            for grant in grants {
                let place = if grant.workspace.is_empty() { String::new() } else { format!(" of {}", grant.workspace) };
                say!("{} {} skill{place}: {} {}", grant.skill, grant.root, grant.capability, grant.component);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(whose: &Whose, component: String) -> Result<GrantRow, Failure> {
    let workspace = workspace_path(&folder(whose.workspace.as_deref()))?;
    let identity = Identity::new(whose.root(), &workspace, whose.skill.clone());
    Ok(GrantRow {
        root: identity.root.to_string(),
        workspace: identity.workspace,
        skill: identity.name.to_string(),
        capability: whose.capability.to_string(),
        component,
    })
}

fn folder(workspace: Option<&Path>) -> PathBuf {
    workspace.unwrap_or(Path::new(".")).to_owned()
}

pub(crate) async fn trust(host: &Arc<Host>, command: Trust) -> Result<ExitCode, Failure> {
    match command {
        Trust::Add { workspace } => {
            let workspace = workspace_path(&workspace)?;
            let changed = host.store().set_trust(workspace.clone(), true).await?;
            let already = if changed { "" } else { " already" };
            say!("{workspace} is trusted{already}. Open sessions take notice at /reload_skills.");
        }
        Trust::Remove { workspace } => {
            let workspace = workspace_path(&workspace)?;
            if !host.store().set_trust(workspace.clone(), false).await? {
                return Err(Failure::new(Code::TrustNotFound, format!("{workspace} was not trusted.")));
            }
            say!("{workspace} is no longer trusted. Open sessions take notice at /reload_skills.");
        }
        Trust::List => {
            let trusted = host.store().trusted()?;
            if trusted.is_empty() {
                say!("No workspace is trusted.");
            }
            for workspace in trusted {
                say!("{workspace}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

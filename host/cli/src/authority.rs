//! `patchbay grant` and `patchbay trust`: the operator's decisions about skills and workspaces. `main` calls both.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use patchbay_core::{
    Code, Name,
    text::{clean_line, excerpt},
};
use patchbay_policy::{Capability, Identity, Root, Standing, grant_commands_in};
use patchbay_session::{Host, workspace_path};
use patchbay_skill::LinkedFolder;
use patchbay_store::GrantRow;
use patchbay_tools::{OutsideOrigin, changes};

use crate::{
    CliError,
    args::{GrantCommand, GrantTarget, TrustCommand},
    out::say,
};

pub(crate) async fn grant(host: &Arc<Host>, command: GrantCommand) -> Result<ExitCode, CliError> {
    match command {
        GrantCommand::Add(whose) => add_grants(host, &whose).await?,
        GrantCommand::Remove(whose) => remove_grants(host, &whose).await?,
        GrantCommand::Forget { tool } => {
            const SOURCES: [&str; 2] = [OutsideOrigin::Mcp.as_str(), OutsideOrigin::Client.as_str()];
            let shown = excerpt(&tool, 80);
            if !host.store().forget_tool(&SOURCES, tool).await? {
                let message =
                    format!("no 'always' answer is stored for tool '{shown}'. To list them: patchbay grant list");
                return Err(CliError::new(Code::GrantNotFound, message));
            }
            say!("'{shown}' is no longer always allowed.");
        }
        GrantCommand::List { stale: true } => list_stale(host).await?,
        GrantCommand::List { stale: false } => list_grants(host).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn add_grants(host: &Arc<Host>, whose: &GrantTarget) -> Result<(), CliError> {
    let workspace = folder(whose.workspace.as_deref());
    let identity = identity(whose)?;
    let mut candidates = host.skills_named(&workspace, &whose.skill).await?;
    candidates.retain(|(_, candidate)| candidate.component.is_some());
    let Some((_, skill)) = candidates.iter().find(|(other, _)| *other == identity) else {
        let mut message = format!(
            "no {} skill '{}' with a component found, so there is nothing to grant to.",
            whose.root(),
            whose.skill
        );
        for (other, _) in candidates.iter().filter(|(other, _)| other.root != identity.root) {
            let option = match other.root {
                Root::Package => format!("--package {}", other.workspace),
                root => format!("--root {root}"),
            };
            message += &format!(" A {} skill has this name; to grant to it, add {option}.", other.root);
        }
        return Err(CliError::new(Code::SkillNotFound, message));
    };
    let asked: Vec<&Capability> = skill.manifest.capabilities.iter().map(|asked| &asked.capability).collect();
    // Without this check, the command would report success for a grant without effect. A grant may be narrower than the request,
    // for example one host of http:*.
    let is_asked = |wanted: &&Capability| asked.iter().any(|asked| asked.includes(wanted));
    if let Some(other) = whose.capabilities.iter().find(|wanted| !is_asked(wanted)) {
        let asked: Vec<_> = asked.iter().map(ToString::to_string).collect();
        let asked = if asked.is_empty() { "nothing".to_owned() } else { asked.join(", ") };
        let message = format!(
            "the SKILL.md of the {} skill '{}' does not ask for '{other}'; it asks for {asked}.{}",
            whose.root(),
            whose.skill,
            if whose.capabilities.len() > 1 { " Nothing was granted." } else { "" }
        );
        return Err(CliError::new(Code::InvalidArgs, message));
    }
    // Grants of bundled skills follow the binary; other grants apply to the digest of the skill's files, or to a linked folder.
    let granted_for = host.granted_for(&identity, skill.digest()).await;
    let folder = LinkedFolder::of_grant(&granted_for);
    let files = if folder.is_some() { "" } else { skill.files.as_text() };
    for row in rows(whose, &granted_for)? {
        let capability = row.capability.clone();
        host.store().add_grant(row, files.to_owned()).await?;
        let linked = folder.as_ref().map(|folder| format!(", linked to {}", clean_line(folder.path())));
        say!("Granted '{capability}' to the {} skill '{}'{}.", whose.root(), whose.skill, linked.unwrap_or_default());
    }
    Ok(())
}

/// Removes every grant that exists, then returns an error for the first one that does not.
async fn remove_grants(host: &Arc<Host>, whose: &GrantTarget) -> Result<(), CliError> {
    let mut missing = None;
    for row in rows(whose, "")? {
        let capability = row.capability.clone();
        if host.store().remove_grant(row).await? {
            say!("'{capability}' is no longer granted to the {} skill '{}'.", whose.root(), whose.skill);
        } else {
            missing.get_or_insert(capability);
        }
    }
    let Some(capability) = missing else { return Ok(()) };
    let message = format!("'{capability}' was not granted to the {} skill '{}'.", whose.root(), whose.skill);
    Err(CliError::new(Code::GrantNotFound, message))
}

async fn list_grants(host: &Arc<Host>) -> Result<(), CliError> {
    let grants = host.store().grants().await?;
    if grants.is_empty() {
        say!("No grants.");
    }
    for grant in grants {
        let place =
            if grant.workspace.is_empty() { String::new() } else { format!(" of {}", clean_line(&grant.workspace)) };
        // Grants of bundled skills have no digest. Other grants without one are from older builds and are stale.
        let digest = match (&*grant.skill_digest, &*grant.root) {
            ("", "bundled") => "",
            ("", _) => " (stale)",
            (granted_for, _) => &match LinkedFolder::of_grant(granted_for) {
                Some(folder) => format!(" for the linked folder {}", clean_line(folder.path())),
                None => format!(" {granted_for}"),
            },
        };
        let only_in = match &*grant.place {
            "" => String::new(),
            place => format!(" in {}", clean_line(place)),
        };
        let kind = if Root::from_word(&grant.root).is_some() { "skill" } else { "tool" };
        let skill = clean_line(&grant.skill);
        say!("{skill} {} {kind}{place}{only_in}: {}{digest}", grant.root, clean_line(&grant.capability));
    }
    Ok(())
}

/// A grant that must be renewed, usually because files of its skill have changed.
pub(crate) struct StaleGrant {
    pub(crate) skill: Name,
    /// The reason, such as a list of the changed files or a removed link.
    pub(crate) why: String,
    /// The shell command that renews the grant.
    pub(crate) command: String,
}

/// Prints commands that renew stale grants to standard output, and the reasons to standard error.
async fn list_stale(host: &Arc<Host>) -> Result<(), CliError> {
    for StaleGrant { skill, why, command } in stale_grants(host).await? {
        // Write errors are ignored.
        let _ = writeln!(io::stderr(), "{skill}: {why}");
        say!("{command}");
    }
    Ok(())
}

/// Returns the stale grants of existing skills, in the order of `grant list`.
pub(crate) async fn stale_grants(host: &Arc<Host>) -> Result<Vec<StaleGrant>, CliError> {
    let mut stale = Vec::new();
    for grant in host.store().grants().await? {
        let GrantRow { root, workspace, skill, capability, place, skill_digest } = &grant;
        let (Some(root), Ok(name), Ok(capability)) = (Root::from_word(root), skill.parse::<Name>(), capability.parse())
        else {
            continue;
        };
        if root == Root::Bundled {
            continue;
        }
        let folder = if root.is_workspace() { Path::new(workspace) } else { Path::new(".") };
        // A skill that no longer exists cannot be granted anything.
        let identity = Identity::new(root, workspace, name.clone());
        let Ok(candidates) = host.skills_named(folder, &name).await else { continue };
        let Some((_, found)) = candidates.into_iter().find(|(other, _)| *other == identity) else { continue };
        let standing = match &**skill_digest {
            "" => Standing::Unchecked,
            granted if LinkedFolder::of_grant(granted).is_some() => {
                let is_linked = host.granted_for(&identity, found.digest()).await == granted;
                if is_linked { Standing::Holds } else { Standing::Unlinked }
            }
            granted => changes(host.store(), granted, &found.digest(), Some(found.files.as_text())).await?,
        };
        let Some(why) = standing.why() else { continue };
        let [command, _] = grant_commands_in(&identity, &capability, place);
        stale.push(StaleGrant { skill: name, why, command });
    }
    Ok(stale)
}

/// Returns one row for each capability on the command line.
fn rows(whose: &GrantTarget, skill_digest: &str) -> Result<Vec<GrantRow>, CliError> {
    let identity = identity(whose)?;
    let place = whose.place.as_deref().map(workspace_path).transpose()?.unwrap_or_default();
    let row = |capability: &Capability| GrantRow {
        root: identity.root.to_string(),
        workspace: identity.workspace.clone(),
        skill: identity.name.to_string(),
        capability: capability.to_string(),
        place: place.clone(),
        skill_digest: skill_digest.to_owned(),
    };
    Ok(whose.capabilities.iter().map(row).collect())
}

/// Returns the identity of the skill that the options name.
fn identity(whose: &GrantTarget) -> Result<Identity, CliError> {
    let owner = match &whose.package {
        Some(package) => package.to_string(),
        None => workspace_path(&folder(whose.workspace.as_deref()))?,
    };
    Ok(Identity::new(whose.root(), &owner, whose.skill.clone()))
}

fn folder(workspace: Option<&Path>) -> PathBuf {
    workspace.unwrap_or(Path::new(".")).to_owned()
}

pub(crate) async fn trust(host: &Arc<Host>, command: TrustCommand) -> Result<ExitCode, CliError> {
    let store = host.store();
    match command {
        TrustCommand::Add { workspace, write: false } => {
            let workspace = workspace_path(&workspace)?;
            let changed = store.set_trust(workspace.clone(), true).await?;
            let already = if changed { "" } else { "already " };
            say!("{} is {already}trusted. Run /reload_skills in open sessions.", clean_line(&workspace));
        }
        TrustCommand::Add { workspace, write: true } => {
            let workspace = workspace_path(&workspace)?;
            store.set_may_write(workspace.clone(), true).await?;
            say!(
                "Skills with workspace-write or workspace-delete may now change {}, including AGENTS.md and similar files, \
                 even if it is or contains your home folder.",
                clean_line(&workspace)
            );
        }
        TrustCommand::Remove { workspace } => {
            let workspace = workspace_path(&workspace)?;
            let trusted = store.set_trust(workspace.clone(), false).await?;
            let written = store.set_may_write(workspace.clone(), false).await?;
            let shown = clean_line(&workspace);
            if !trusted && !written {
                return Err(CliError::new(Code::TrustNotFound, format!("{shown} was not trusted.")));
            }
            say!("{shown} is no longer trusted. Run /reload_skills in open sessions.");
        }
        TrustCommand::List => {
            let (trusted, writable) = (store.trusted().await?, store.writable().await?);
            let all: BTreeSet<&String> = trusted.iter().chain(&writable).collect();
            if all.is_empty() {
                say!("No workspace is trusted.");
            }
            for workspace in all {
                let for_what = match (trusted.contains(workspace), writable.contains(workspace)) {
                    (true, true) => " (and for writing)",
                    (false, true) => " (for writing only)",
                    _ => "",
                };
                say!("{}{for_what}", clean_line(workspace));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `patchbay plugin update` and `diff`: new versions of packages, and what they change.

use std::{path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, PackageName, text};
use patchbay_plugin::{
    Inspector, PackageAddress, check_signer,
    package::{
        HeldPackages, InstalledServer, PackageDiff, PackageError, PackageReport, PackageSource, Packages,
        ServerDecision, SkillReport, SourceForm, StagedPackage, find_source, moved_grants, renames, report,
        report_locked,
    },
};
use patchbay_policy::quoted;
use patchbay_session::Host;
use patchbay_skill::{LockedPackage, PackagesLock};
use patchbay_store::MovedGrant;
use serde_json::json;

use super::{
    add::conflicts,
    fetching::{Fetching, parse_address},
    inspector,
    packages::{self, check_renames, confirm, packages, print_grants, undecided},
};
use crate::{
    CliError, FAILED,
    args::{PluginDiff, PluginUpdate},
    home::HomeDirs,
    open,
    out::{note, say},
};

pub(super) async fn run(update: &PluginUpdate) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let host = open(&home)?;
    let mut held = packages(&home, host.store()).hold().await?;
    let mut names = update.names.clone();
    if names.is_empty() {
        names = held.lock().packages().iter().map(|package| package.name.clone()).collect();
    }
    let inspector = inspector(false)?;
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let package = installed(&held.packages().read()?, &name)?;
        match update_one(update, &host, &mut held, &inspector, package).await {
            Ok(one) if one == ExitCode::SUCCESS => {}
            // A declined update must not hide an earlier failure.
            Ok(one) if code == ExitCode::SUCCESS => code = one,
            Ok(_) => {}
            // If the source of one package is gone, the others are still updated.
            Err(error) if update.names.len() != 1 => {
                note(&format!("Error: {name}: {error}"));
                code = ExitCode::from(FAILED);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(code)
}

/// Returns the entry of an installed package.
pub(super) fn installed(lock: &PackagesLock, name: &PackageName) -> Result<LockedPackage, CliError> {
    lock.package(name.as_str()).cloned().ok_or_else(|| {
        let names: Vec<&str> = lock.packages().iter().map(|package| package.name.as_str()).collect();
        let there = if names.is_empty() {
            "there are no packages".to_owned()
        } else {
            format!("installed: {}", names.join(", "))
        };
        CliError::new(Code::PackageNotFound, format!("no package '{name}' is installed; {there}."))
    })
}

async fn update_one(
    update: &PluginUpdate,
    host: &Arc<Host>,
    held: &mut HeldPackages,
    inspector: &Inspector,
    package: LockedPackage,
) -> Result<ExitCode, CliError> {
    let name = package.name.clone();
    let (fetching, address) = (Fetching::new()?, parse_address(&package.from)?);
    fetching.check_source(&address)?;
    let sign_in = fetching.sign_in(&address, &update.sign_in).await?;
    let address = fetching.newest(&address, &package, update.to.as_deref(), &sign_in).await?;
    let fetched = fetching.fetch(&address, None, sign_in).await?;
    let source = package_source(&fetched.path)?;
    let mut staged = held.stage(&source)?;
    staged.keep_signature(&fetched)?;
    if staged.digest() == package.digest {
        if !update.rename.is_empty() {
            let message = format!(
                "package '{name}' is up to date, so --rename has nothing new to rename. To give its skills other names: patchbay plugin \
                 remove {name}, then add it with --rename."
            );
            return Err(CliError::new(Code::InvalidArgs, message));
        }
        match update.json {
            true => say!("{}", json!({"package": name, "update": null})),
            false => say!("{name} is up to date."),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let old = installed_report(held.packages(), inspector, &package).await?;
    let new = new_report(update, inspector, &package, &staged, &address).await?;
    let diff = PackageDiff::new(&old, &new);
    let is_new = |skill: &&SkillReport| !old.skills.iter().any(|before| before.name == skill.name);
    let again = format!("patchbay plugin update {name}");
    let conflicts = conflicts(host, new.skills.iter().filter(is_new), &again).await?;
    check_version(&address, &package, &new)?;
    let signer = fetching.judge(&address, staged.signer(), &new.asks())?;
    let lines = diff.lines(update.text);
    if update.json {
        let (new, asks) = (new.to_json(), diff.newly_asked());
        say!(
            "{}",
            json!({"package": name, "update": new, "newly_asked": asks, "changes": lines, "conflicts": conflicts})
        );
    } else {
        let installed = format!("installed here on {}, from {}", package.updated, text::clean_line(&package.from));
        lines.iter().chain([&installed, &signer]).chain(&conflicts).for_each(|line| say!("{line}"));
    }
    if !update.check {
        let accepted = update.accept_signer.filter(|_| !update.yes);
        if let Err(error) = check_signer(package.signer, staged.signer(), accepted) {
            // The hint at the end of the error is not enough, because --yes never accepts another key.
            let alone = if update.yes && staged.signer().is_some() { ", without --yes" } else { "" };
            return Ok(undecided(Code::SignerChanged, &format!("{error}{alone}. Nothing was changed.")));
        }
    }
    if let Err(code) = may_take(update, &package, &new, &diff) {
        return Ok(code);
    }
    let today = held.today();
    let mut locked = new.locked(&package.from, &fetched.found, &today, package.order, Some(&package));
    locked.signer = staged.signer();
    let grants = moved_grants(held.packages(), &package, &locked).await?;
    let lock = held.lock().with(locked).map_err(|error| CliError::new(Code::PackageLimit, format!("{error}.")))?;
    held.commit("update", &name, lock, Some(staged), grants.clone()).await?;
    if !update.json {
        say!("Updated package '{name}'.");
        print_grant_changes(host, &new, &grants).await?;
        print_server_changes(host, held, &name).await?;
        say!("Open sessions use it after /reload_skills.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Inspects the copy of a new version; fails if nothing in it can be used.
async fn new_report(
    update: &PluginUpdate,
    inspector: &Inspector,
    package: &LockedPackage,
    staged: &StagedPackage,
    address: &PackageAddress,
) -> Result<PackageReport, CliError> {
    let mut renames = renames(package);
    renames.extend(packages::renames(&update.rename));
    let name = package.name.clone();
    let mut new = report(inspector, &staged.folder(), staged.kind(), name.clone(), &renames).await?;
    new.version = new.version.or_else(|| address.version());
    if let Some(why) = new.unusable() {
        let message = format!("cannot update package '{name}': {why}");
        return Err(CliError::new(Code::PackageEmpty, message));
    }
    check_renames(&update.rename, &new)?;
    Ok(new)
}

/// Refuses new content under the version that is installed: the registry's tag was moved. The caller has checked that the digest
/// differs.
fn check_version(address: &PackageAddress, package: &LockedPackage, new: &PackageReport) -> Result<(), CliError> {
    if !matches!(address, PackageAddress::Registry(_)) || new.version.is_none() || new.version != package.version {
        return Ok(());
    }
    let message = format!(
        "{address} was {} when it was installed, and is {} now: a version must not change. Ask its publisher. Nothing was changed.",
        package.digest, new.digest
    );
    Err(CliError::new(Code::VersionChanged, message))
}

/// Decides whether the new version may be installed. If not, returns the exit code as an error: the user declined, an option rules
/// it out, or the version is lower and `--to` does not name it.
fn may_take(
    update: &PluginUpdate,
    package: &LockedPackage,
    new: &PackageReport,
    diff: &PackageDiff,
) -> Result<(), ExitCode> {
    let name = &package.name;
    if update.check {
        return Err(ExitCode::SUCCESS);
    }
    let found = new.version.clone().unwrap_or_else(|| new.digest.to_string());
    let shown = text::clean_line(&found);
    if let Some(wanted) = update.to.as_ref().filter(|wanted| **wanted != found) {
        let message = format!("found version {shown} instead of {}. Nothing was changed.", text::excerpt(wanted, 80));
        return Err(undecided(Code::PackageOlder, &message));
    }
    if diff.is_lower() && update.to.is_none() {
        let message = format!(
            "{shown} is lower than the installed version. To install it anyway: patchbay plugin update {name} --to {shown}"
        );
        return Err(undecided(Code::PackageOlder, &message));
    }
    if update.yes && !diff.newly_asked().is_empty() {
        let asks = diff.newly_asked().join("; ");
        let message = format!(
            "--yes does not accept a version that asks for more: {asks}. Update it in a terminal, without --yes."
        );
        return Err(undecided(Code::PackageAsksMore, &message));
    }
    if update.yes && !diff.newly_left_out().is_empty() {
        let skills = diff.newly_left_out().join("; ");
        let message = format!(
            "--yes does not accept a version with skills that cannot be used: {skills}. Update it in a terminal, without --yes."
        );
        return Err(undecided(Code::NotConfirmed, &message));
    }
    if update.yes && update.to.is_none() {
        let message = format!("--yes needs an explicit version: patchbay plugin update {name} --yes --to {shown}");
        return Err(undecided(Code::NotConfirmed, &message));
    }
    confirm(&format!("Update package '{name}' to {shown}?"), update.yes)
}

/// Prints the commands that allow changed servers again.
async fn print_server_changes(host: &Arc<Host>, held: &HeldPackages, name: &PackageName) -> Result<(), CliError> {
    let allowances = host.store().server_allowances().await?;
    let package = held.lock().package(name.as_str());
    let servers = package.map(|package| InstalledServer::of_package(held.packages(), package, &allowances));
    for server in servers.into_iter().flatten().filter(|server| matches!(server.decision, ServerDecision::Changed(_))) {
        let shown = text::clean_line(&server.name);
        say!("Server '{shown}' has changed, so it is off. To allow it again: {}", server.allow_command(None));
    }
    Ok(())
}

/// Prints which grants moved or ended, and the commands that add missing grants.
async fn print_grant_changes(host: &Arc<Host>, new: &PackageReport, grants: &[MovedGrant]) -> Result<(), CliError> {
    for MovedGrant { skill, capability, to, .. } in grants {
        let capability = text::clean_line(capability);
        match to {
            Some(_) => say!("'{capability}' stays granted to '{skill}'."),
            None => say!("'{capability}' is no longer granted to '{skill}', which does not ask for it any more."),
        }
    }
    let granted = host.store().grants().await?;
    print_grants(new, |skill, asked| {
        !granted.iter().any(|grant| {
            grant.workspace == new.name.as_str()
                && grant.skill == skill.as_str()
                && grant.capability == asked.to_string()
        })
    });
    Ok(())
}

/// Reports the installed version. It must match the lock; otherwise the update would be compared with something else.
async fn installed_report(
    packages: &Packages,
    inspector: &Inspector,
    package: &LockedPackage,
) -> Result<PackageReport, CliError> {
    match report_locked(inspector, &packages.folder_of(package), package).await {
        Ok(report) if report.digest == package.digest => Ok(report),
        _ => {
            let name = &package.name;
            let message = format!(
                "the installed files of package '{name}' are not those in packages.lock, so they cannot be compared. To install it again: \
                 patchbay plugin remove {name}, then patchbay plugin add {}",
                quoted(&text::clean_line(&package.from))
            );
            Err(CliError::new(Code::PackageChanged, message))
        }
    }
}

/// Returns the package at a path.
pub(super) fn package_source(path: &Path) -> Result<SourceForm, PackageError> {
    match find_source(path)? {
        PackageSource::Package(source) => Ok(source),
        _ => {
            let path = text::clean_line(&path.to_string_lossy());
            Err(PackageError::new(Code::InvalidArgs, format!("{path} is not a package.")))
        }
    }
}

/// `patchbay plugin diff OLD NEW`.
pub(super) async fn diff(arguments: &PluginDiff) -> Result<ExitCode, CliError> {
    let (inspector, temporary) = (inspector(false)?, tempfile::tempdir().map_err(CliError::io(&std::env::temp_dir()))?);
    let home = HomeDirs::find()?;
    let packages = packages(&home, open(&home)?.store());
    let lock = packages.read()?;
    let mut reports = Vec::new();
    for which in [&arguments.old, &arguments.new] {
        // A bare name is looked up among the installed packages first; './NAME' is always a path.
        let package = which.to_str().and_then(|name| lock.package(name));
        let report = if let Some(package) = package {
            installed_report(&packages, &inspector, package).await?
        } else {
            let source = package_source(which)?;
            let staged = StagedPackage::of_source(temporary.path(), &source)?;
            report(&inspector, &staged.folder(), source.kind, source.name, &Default::default()).await?
        };
        reports.push(report);
    }
    let [old, new] = &reports[..] else { return Ok(ExitCode::from(FAILED)) };
    let diff = PackageDiff::new(old, new);
    if arguments.json {
        let (asks, lines) = (diff.newly_asked(), diff.lines(arguments.text));
        say!("{}", json!({"newly_asked": asks, "changes": lines}));
    } else {
        diff.lines(arguments.text).iter().for_each(|line| say!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

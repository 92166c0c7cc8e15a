//! `patchbay plugin sync`, `export`, `verify` and `sums`: keep the packages of several machines the same.

use std::{path::Path, process::ExitCode};

use patchbay_core::{Code, PackageName, text};
use patchbay_plugin::{
    PackageAddress,
    package::{
        StagedPackage, SyncPlan, SyncStep, VerifiedPackage, export as export_packages, verify as verify_package,
    },
};
use patchbay_skill::find_packages_lock;
use serde_json::json;

use super::{
    fetching::{Fetching, parse_address},
    inspector,
    packages::{UNDECIDED, confirm, packages, undecided},
    update::{installed, package_source},
};
use crate::{CliError, FAILED, args::PluginSync, home::HomeDirs, open, out::say};

pub(super) async fn run(sync: &PluginSync) -> Result<ExitCode, CliError> {
    let target = find_packages_lock(&sync.lock).map_err(|error| {
        let message = format!("{} cannot be used: {error}.", text::clean_line(&sync.lock.to_string_lossy()));
        CliError::new(Code::PackagesLockInvalid, message)
    })?;
    // A missing file must not count as an empty lock, because --exact would then remove everything.
    let target = target.ok_or_else(|| CliError::io(&sync.lock)(std::io::ErrorKind::NotFound.into()))?;
    let fetching = Fetching::new()?;
    for package in target.packages() {
        fetching.check_source(&parse_address(&package.found)?)?;
    }
    let home = HomeDirs::find()?;
    let host = open(&home)?;
    let mut held = packages(&home, host.store()).hold().await?;
    let sign_in = async |address: &PackageAddress| fetching.sign_in(address, &sync.sign_in).await;
    let (from, inspector) = (sync.from.as_deref(), inspector(false)?);
    let plan = SyncPlan::new(&held, &target, from, sync.exact, &inspector, &sign_in).await?;
    if plan.is_empty() {
        say!("The packages already match the lock.");
        return Ok(ExitCode::SUCCESS);
    }
    let (mut asks, mut lower) = (Vec::new(), Vec::new());
    for SyncStep { package, report, diff, replaces, .. } in plan.steps() {
        let signer = fetching.judge(&parse_address(&package.found)?, package.signer, &report.asks())?;
        let mut lines = diff.as_ref().map_or_else(|| report.lines(), |diff| diff.lines(false));
        if let Some(diff) = diff {
            asks.extend(diff.newly_asked().iter().cloned());
            lower.extend(diff.is_lower().then(|| package.name.to_string()));
        }
        let installed = held.lock().package(package.name.as_str());
        lines.extend(installed.map(|installed| format!("installed here on {}", installed.updated)));
        let from = text::clean_line(&package.from);
        lines.push(match replaces {
            Some(before) => format!(
                "comes from elsewhere now: {from}, before: {}; its grants and allowed servers are removed",
                text::clean_line(before)
            ),
            None => format!("from: {from}"),
        });
        let verb = if installed.is_some() { "Update" } else { "Add" };
        say!("{verb} package '{}':", package.name);
        lines.iter().chain([&signer]).for_each(|line| say!("  {line}"));
    }
    plan.removed().iter().for_each(|name| say!("Remove package '{name}'."));
    for (code, what, which) in
        [(Code::PackageAsksMore, "a version that asks for more", asks), (Code::PackageOlder, "a lower version", lower)]
    {
        if sync.yes && !which.is_empty() {
            let which = which.join("; ");
            let message = format!("--yes does not accept {what}: {which}. Sync in a terminal, without --yes.");
            return Ok(undecided(code, &message));
        }
    }
    if let Err(code) = confirm("Make these changes? They grant nothing.", sync.yes) {
        return Ok(code);
    }
    plan.apply(&mut held).await?;
    say!("The packages match the lock now. Open sessions use them after /reload_skills.");
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(folder: &Path) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let lock = export_packages(&packages(&home, open(&home)?.store()), folder)?;
    let folder = super::packages::shown(folder);
    say!(
        "Exported {} packages. On the other machine: patchbay plugin sync {folder}/packages.lock --from {folder}",
        lock.packages().len()
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn verify(names: &[PackageName], as_json: bool) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let packages = packages(&home, open(&home)?.store());
    let lock = packages.read()?;
    let chosen = match names {
        [] => lock.packages().to_vec(),
        names => names.iter().map(|name| installed(&lock, name)).collect::<Result<_, _>>()?,
    };
    let (mut is_wrong, mut is_unknown) = (false, false);
    for package in &chosen {
        let VerifiedPackage { name, wrong, unknown, uncovered } = verify_package(&packages, package);
        (is_wrong, is_unknown) = (is_wrong || !wrong.is_empty(), is_unknown || !unknown.is_empty());
        if as_json {
            let digest = package.digest;
            say!(
                "{}",
                json!({"package": name, "digest": digest, "wrong": wrong, "unknown": unknown, "uncovered": uncovered})
            );
            continue;
        }
        if wrong.is_empty() && unknown.is_empty() {
            match &package.signer {
                Some(signer) => say!("{name}: all files match packages.lock, signed by {signer}."),
                None => say!(
                    "{name}: all files match packages.lock. The package is not signed, so nothing proves who made it."
                ),
            }
        }
        wrong.iter().for_each(|what| say!("{name}: wrong: {what}"));
        unknown.iter().for_each(|what| say!("{name}: cannot tell: {what}"));
        uncovered.iter().for_each(|what| say!("{name}: note: {what}, which no digest covers"));
    }
    Ok(match (is_wrong, is_unknown) {
        (true, _) => ExitCode::from(FAILED),
        (false, true) => ExitCode::from(UNDECIDED),
        (false, false) => ExitCode::SUCCESS,
    })
}

pub(super) fn sums(path: &Path) -> Result<ExitCode, CliError> {
    let source = package_source(path)?;
    let temporary = tempfile::tempdir().map_err(CliError::io(&std::env::temp_dir()))?;
    let staged = StagedPackage::of_source(temporary.path(), &source)?;
    staged.sums().to_text().lines().for_each(|line| say!("{line}"));
    Ok(ExitCode::SUCCESS)
}

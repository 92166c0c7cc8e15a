//! Makes a home match another `packages.lock`, and exports the packages for machines without a network.

use std::{
    fs,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, PackageName};
use patchbay_skill::{Fingerprint, LockedPackage, PackagesLock};

use super::{
    HeldPackages, PackageDiff, PackageError, PackageReport, PackageSource, Packages, StagedPackage, VerifiedPackage,
    error::shown,
    held::{grants_of_removed, moved_grants},
    report::report_locked,
    source::find_source,
    verify::verify,
};
use crate::{AddressError, FetchOptions, Inspector, PackageAddress, SignIn, SignerChanged, check_signer};

/// The changes that make a home match a lock. Every copy is complete and has the digest in the lock.
pub struct SyncPlan {
    steps: Vec<SyncStep>,
    removed: Vec<PackageName>,
}

/// A package that a plan adds or updates.
pub struct SyncStep {
    /// The new entry of the lock: the origin comes from the target, everything else from the inspected copy.
    pub package: LockedPackage,
    /// The content of the copy.
    pub report: PackageReport,
    /// The changes from the installed version; `None` if the package is not installed.
    pub diff: Option<PackageDiff>,
    /// The origin of the installed package of this name, if the new package comes from elsewhere and no pinned signer vouches for
    /// it. The installed package's grants and allowances end, because they were given to another publisher.
    pub replaces: Option<String>,
    staged: StagedPackage,
}

impl SyncPlan {
    /// Plans the changes from the held packages to `target`. The files come from the exported folder `from`. Without it, they are
    /// fetched from the addresses in `target`, using `sign_in` for registries. Packages that `target` does not name are removed if
    /// `exact` is set.
    ///
    /// # Errors
    /// A package cannot be read, differs from its entry in `target`, or is not signed by the pinned signer. Errors of `sign_in` are
    /// passed on.
    pub async fn new<E: From<PackageError>>(
        held: &HeldPackages,
        target: &PackagesLock,
        from: Option<&Path>,
        exact: bool,
        inspector: &Inspector,
        sign_in: &impl AsyncFn(&PackageAddress) -> Result<SignIn, E>,
    ) -> Result<Self, E> {
        let mut steps = Vec::new();
        for package in target.in_order() {
            let before = held.lock().package(package.name.as_str());
            let is_there = |before: &&LockedPackage| before.digest == package.digest && before.skills == package.skills;
            // A package with a lost signature is also installed again.
            let is_whole = |before: &LockedPackage| {
                let VerifiedPackage { wrong, unknown, .. } = verify(held.packages(), before);
                wrong.is_empty() && unknown.is_empty()
            };
            if before.filter(is_there).is_some_and(is_whole) {
                continue;
            }
            let staged = match from {
                Some(from) => held.stage_copy(package, &from.join(package.folder()))?,
                None => stage_found(held, package, sign_in).await?,
            };
            check_pinned(package, &staged)?;
            if let Some(before) = before {
                check_pinned(before, &staged)?;
            }
            let report = report_locked(inspector, &staged.folder(), package).await?;
            let diff = match before {
                Some(before) => Some(difference(held, inspector, before, &report).await),
                None => None,
            };
            let package = new_entry(held, package, &report, staged.signer())?;
            let is_other = |before: &&LockedPackage| {
                before.from != package.from && (before.signer.is_none() || before.signer != package.signer)
            };
            let replaces = before.filter(is_other).map(|before| before.from.clone());
            steps.push(SyncStep { package, report, diff, replaces, staged });
        }
        let extra =
            held.lock().packages().iter().filter(|package| exact && target.package(package.name.as_str()).is_none());
        Ok(Self { removed: extra.map(|package| package.name.clone()).collect(), steps })
    }

    /// Returns whether nothing has to change.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.removed.is_empty()
    }

    /// Returns the packages that are added or updated, in order.
    pub fn steps(&self) -> &[SyncStep] {
        &self.steps
    }

    /// Returns the names of the packages that are removed.
    pub fn removed(&self) -> &[PackageName] {
        &self.removed
    }

    /// Makes all changes.
    ///
    /// # Errors
    /// A change failed. Earlier changes stay in effect.
    pub async fn apply(self, held: &mut HeldPackages) -> Result<(), PackageError> {
        for name in self.removed {
            let Some(package) = held.lock().package(name.as_str()).cloned() else { continue };
            let grants = grants_of_removed(held.packages(), &package).await?;
            held.commit("sync", &name, held.lock().without(name.as_str()), None, grants).await?;
        }
        for SyncStep { mut package, staged, replaces, .. } in self.steps {
            let grants = match held.lock().package(package.name.as_str()) {
                None => {
                    package.order = held.lock().next_order();
                    Vec::new()
                }
                Some(before) if replaces.is_some() => {
                    // This happens before the new files are in place, because even after a crash they must not be used with the old
                    // decisions.
                    held.packages().forget_servers(|allowance| allowance.package == before.name).await?;
                    grants_of_removed(held.packages(), before).await?
                }
                Some(before) => moved_grants(held.packages(), before, &package).await?,
            };
            let name = package.name.clone();
            let lock = held.lock().with(package).map_err(|error| PackageError::lock(&error))?;
            held.commit("sync", &name, lock, Some(staged), grants).await?;
        }
        Ok(())
    }
}

/// Returns the entry for an inspected copy, and checks that it matches the entry in `target`, because a lock from another machine
/// proves nothing by itself.
fn new_entry(
    held: &HeldPackages,
    target: &LockedPackage,
    report: &PackageReport,
    signer: Option<Fingerprint>,
) -> Result<LockedPackage, PackageError> {
    let before = held.lock().package(target.name.as_str());
    let mut entry = report.locked(&target.from, &target.found, &held.today(), target.order, before);
    entry.signer = signer;
    entry.skills.sort_by(|a, b| a.path.cmp(&b.path));
    entry.servers.sort_by(|a, b| a.name.cmp(&b.name));
    let differs = [
        ("kind", entry.kind != target.kind),
        ("version", entry.version != target.version),
        ("skills", entry.skills != target.skills),
        ("servers", entry.servers != target.servers),
    ];
    let differs: Vec<&str> = differs.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect();
    if differs.is_empty() {
        return Ok(entry);
    }
    let message = format!(
        "the lock does not match the files of package '{}': {}. Export it again on the machine that it comes from: \
         patchbay plugin export DIR",
        target.name,
        differs.join(", ")
    );
    Err(PackageError::new(Code::PackageChanged, message))
}

/// Compares a copy with the installed version: with its files, or with its entry in the lock if its files were changed.
async fn difference(
    held: &HeldPackages,
    inspector: &Inspector,
    before: &LockedPackage,
    new: &PackageReport,
) -> PackageDiff {
    match report_locked(inspector, &held.packages().folder_of(before), before).await {
        Ok(old) if old.digest == before.digest => PackageDiff::new(&old, new),
        _ => PackageDiff::from_entry(before, new),
    }
}

/// Checks the signer of a copy against the key that `package` pins.
fn check_pinned(package: &LockedPackage, staged: &StagedPackage) -> Result<(), PackageError> {
    let Err(SignerChanged { pinned, found }) = check_signer(package.signer, staged.signer(), None) else {
        return Ok(());
    };
    let found = found.map_or("is not signed".to_owned(), |found| format!("is signed by {found}"));
    let name = &package.name;
    let message = format!(
        "the pinned signer of package '{name}' is {pinned}, but the copy {found}. If its publisher confirms the \
         change, remove the \
         package and add it again."
    );
    Err(PackageError::new(Code::SignerChanged, message))
}

/// Fetches a package of the target from the address where it was found. It must have the digest in the lock.
async fn stage_found<E: From<PackageError>>(
    held: &HeldPackages,
    package: &LockedPackage,
    sign_in: &impl AsyncFn(&PackageAddress) -> Result<SignIn, E>,
) -> Result<StagedPackage, E> {
    let missing = |why: String| {
        let name = &package.name;
        let message = format!(
            "package '{name}' cannot be read from {}: {why} Name an exported folder with --from DIR.",
            shown(Path::new(&package.found))
        );
        E::from(PackageError::new(Code::PackageNotFound, message))
    };
    let address: PackageAddress = package.found.parse().map_err(|error: AddressError| missing(format!("{error}.")))?;
    let options = FetchOptions { sha256: None, sign_in: sign_in(&address).await? };
    let fetched = address.fetch(&options).await.map_err(|error| missing(format!("{error}.")))?;
    let source = match find_source(&fetched.path) {
        Ok(PackageSource::Package(source)) => source,
        Ok(_) => return Err(missing("it is no longer a package.".to_owned())),
        Err(error) => return Err(missing(error.to_string())),
    };
    let mut staged = held.stage(&source)?;
    staged.keep_signature(&fetched)?;
    if staged.digest() == package.digest { Ok(staged) } else { Err(missing("its digest has changed.".to_owned())) }
}

/// Writes the lock and all packages into `folder`, which is created and must be empty. [`SyncPlan::new`] reads it.
///
/// # Errors
/// A package differs from the lock or has lost its signature, or the folder is not empty or cannot be written.
pub fn export(packages: &Packages, folder: &Path) -> Result<PackagesLock, PackageError> {
    let lock = packages.read()?;
    let failed = |error| PackageError::io(folder)(error);
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        let message = format!("{} is not empty. Name a new folder.", shown(folder));
        return Err(PackageError::new(Code::InvalidArgs, message));
    }
    for package in lock.packages() {
        let from: PathBuf = packages.folder_of(package);
        let name = package.name.clone();
        let staged = StagedPackage::of_copy(folder, package, &from)?;
        check_pinned(package, &staged)?;
        staged.install(folder, &name)?;
    }
    let file = folder.join("packages.lock");
    fs::write(&file, lock.to_text()).map_err(PackageError::io(&file))?;
    Ok(lock)
}

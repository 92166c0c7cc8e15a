//! Makes a home equal to another `packages.lock`, and writes what a closed network needs for that.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, Name, PackageName};
use patchbay_skill::{Fingerprint, LockedPackage, PackagesLock};

use super::{
    HeldPackages, PackageDiff, PackageError, PackageReport, PackageSource, Packages, StagedPackage,
    error::shown,
    find_source,
    held::{grants_of_removed, moved_grants},
    report, verify,
};
use crate::{AddressError, FetchOptions, Inspector, PackageAddress, check_signer};

/// The changes that make a home equal to a lock. Every copy is complete and has the digest of the lock.
pub struct SyncPlan {
    steps: Vec<(LockedPackage, SyncStep, StagedPackage)>,
    removed: Vec<PackageName>,
}

/// One change of a plan.
pub enum SyncStep {
    /// A package that is not installed, or whose files were changed.
    Add(Box<PackageReport>),
    /// An installed package with another digest: what changes, and the day on which the version before was installed.
    Update(PackageDiff, String),
}

impl SyncPlan {
    /// Plans the changes from the held packages to `target`. The files come from the exported folder `from`, else from where the
    /// packages of `target` were found. Packages that `target` does not name are removed if `exact`.
    ///
    /// # Errors
    /// A package cannot be read, or has another digest.
    pub async fn new(
        held: &HeldPackages,
        target: &PackagesLock,
        from: Option<&Path>,
        exact: bool,
        inspector: &Inspector,
    ) -> Result<Self, PackageError> {
        let mut steps = Vec::new();
        for package in target.in_order() {
            let before = held.lock().package(package.name.as_str());
            let is_there = |before: &&LockedPackage| before.digest == package.digest && before.skills == package.skills;
            if before.filter(is_there).is_some_and(|before| verify(held.packages(), before).wrong.is_empty()) {
                continue;
            }
            let staged = stage(held, package, from).await?;
            let new = reported(inspector, &staged.folder(), package).await?;
            // Changed files cannot be compared, so the package is shown as a new one.
            let old = match before {
                Some(before) => reported(inspector, &held.packages().folder_of(before), before).await.ok(),
                None => None,
            };
            let step = match (before, old) {
                (Some(before), Some(old)) if old.digest == before.digest => {
                    SyncStep::Update(PackageDiff::new(&old, &new), before.updated.clone())
                }
                _ => SyncStep::Add(Box::new(new)),
            };
            steps.push((package.clone(), step, staged));
        }
        let extra =
            held.lock().packages().iter().filter(|package| exact && target.package(package.name.as_str()).is_none());
        Ok(Self { removed: extra.map(|package| package.name.clone()).collect(), steps })
    }

    /// Returns whether nothing has to change.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.removed.is_empty()
    }

    /// Returns the packages that are added or updated, in order, with the key that signed each copy.
    pub fn steps(&self) -> impl Iterator<Item = (&LockedPackage, &SyncStep, Option<Fingerprint>)> {
        self.steps.iter().map(|(package, step, staged)| (package, step, staged.signer()))
    }

    /// Returns the names of the packages that are removed.
    pub fn removed(&self) -> &[PackageName] {
        &self.removed
    }

    /// Makes all changes.
    ///
    /// # Errors
    /// A change failed; those before it are made.
    pub async fn apply(self, held: &mut HeldPackages) -> Result<(), PackageError> {
        for name in self.removed {
            let Some(package) = held.lock().package(name.as_str()).cloned() else { continue };
            let grants = grants_of_removed(held.packages(), &package).await?;
            held.commit("sync", &name, held.lock().without(name.as_str()), None, grants).await?;
        }
        for (target, _, staged) in self.steps {
            let (order, added, grants) = match held.lock().package(target.name.as_str()) {
                None => (held.lock().next_order(), held.today(), Vec::new()),
                Some(before) => {
                    (before.order, before.added.clone(), moved_grants(held.packages(), before, &target).await?)
                }
            };
            let name = target.name.clone();
            let package = LockedPackage { order, added, updated: held.today(), ..target };
            let lock = held.lock().with(package).map_err(|error| PackageError::lock(&error))?;
            held.commit("sync", &name, lock, Some(staged), grants).await?;
        }
        Ok(())
    }
}

/// Copies a package of the target, which must have the digest and the signer of the lock.
async fn stage(
    held: &HeldPackages,
    package: &LockedPackage,
    from: Option<&Path>,
) -> Result<StagedPackage, PackageError> {
    let staged = match from {
        Some(from) => held.stage_copy(package, &from.join(package.folder()))?,
        None => stage_found(held, package).await?,
    };
    match check_signer(package.signer, staged.signer(), None) {
        Ok(()) => Ok(staged),
        Err(error) => {
            let message = format!("package '{}': {error}.", package.name);
            Err(PackageError::new(Code::SignerChanged, message))
        }
    }
}

async fn stage_found(held: &HeldPackages, package: &LockedPackage) -> Result<StagedPackage, PackageError> {
    let missing = |why: String| {
        let name = &package.name;
        let message = format!(
            "package '{name}' cannot be read from {}: {why} Name an exported folder with --from DIR.",
            shown(Path::new(&package.found))
        );
        PackageError::new(Code::PackageNotFound, message)
    };
    let address: PackageAddress = package.found.parse().map_err(|error: AddressError| missing(format!("{error}.")))?;
    let fetched = address.fetch(&FetchOptions::default()).await.map_err(|error| missing(format!("{error}.")))?;
    let source = match find_source(&fetched.path) {
        Ok(PackageSource::Package(source)) => source,
        Ok(_) => return Err(missing("it is no longer a package.".to_owned())),
        Err(error) => return Err(missing(error.to_string())),
    };
    let mut staged = held.stage(&source)?;
    staged.keep_signature(&fetched)?;
    if staged.digest() == package.digest { Ok(staged) } else { Err(missing("it has another digest now.".to_owned())) }
}

async fn reported(
    inspector: &Inspector,
    folder: &Path,
    package: &LockedPackage,
) -> Result<PackageReport, PackageError> {
    report(inspector, folder, package.kind, package.name.clone(), &renames(package)).await
}

/// Returns the renames that a lock has for a package: the names in the package, each with the name in sessions.
pub fn renames(package: &LockedPackage) -> BTreeMap<Name, Name> {
    package.skills.iter().filter_map(|skill| Some((skill.own_name()?, skill.name.clone()))).collect()
}

/// Writes the lock and all packages into `folder`, which is created and must be empty. [`SyncPlan::new`] reads it.
///
/// # Errors
/// A package differs from the lock, or the folder cannot be written.
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
        StagedPackage::of_copy(folder, package.kind, &from, package.digest)?.install(folder, &name)?;
    }
    let file = folder.join("packages.lock");
    fs::write(&file, lock.to_text()).map_err(PackageError::io(&file))?;
    Ok(lock)
}

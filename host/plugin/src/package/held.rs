//! The installed packages of a home, and changes to them.

use std::{
    fs::{self, File, TryLockError},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use patchbay_core::{Code, PackageName};
use patchbay_policy::{Capability, Root};
use patchbay_session::PackagePaths;
use patchbay_skill::{LOCK_BYTES, LockedPackage, LockedSkill, PackagesLock, read_packages_lock};
use patchbay_store::{GrantRow, MovedGrant, PackageChange, ServerAllowance, Source, Store, utc_date};

use super::{PackageError, SourceForm, StagedPackage, staged::STAGING};

/// How often to retry a lock that another process holds, and the pause before each attempt.
const RETRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The packages of a home.
#[derive(Clone)]
pub struct Packages {
    paths: PackagePaths,
    store: Store,
    source: Source,
    /// The user of the operating system, for the record of changes.
    who: String,
}

/// The right to change the packages: no other process has it at the same time. Sessions can still read the packages.
pub struct HeldPackages {
    packages: Packages,
    lock: PackagesLock,
    _file: File,
}

impl Packages {
    /// Returns the packages of a home. `who` is recorded with each change.
    pub fn new(paths: PackagePaths, store: Store, who: String) -> Self {
        let source = store.source().clone();
        Self { paths, store, source, who }
    }

    /// Reads the lock.
    ///
    /// # Errors
    /// `packages_lock_invalid` if the lock cannot be read or parsed.
    pub fn read(&self) -> Result<PackagesLock, PackageError> {
        read_packages_lock(&self.paths.lock).map_err(|error| PackageError::lock(&error))
    }

    /// Returns the folder of an installed package.
    pub fn folder_of(&self, package: &LockedPackage) -> PathBuf {
        self.paths.folder.join(package.folder())
    }

    /// Returns the folder in which the servers of a package store data. It may not exist.
    pub fn data_of(&self, package: &PackageName) -> PathBuf {
        self.paths.data_of(package)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Acquires the right to change the packages. Completes or forgets changes that a crash interrupted, and deletes left-over
    /// copies.
    ///
    /// # Errors
    /// `packages_busy` if another process changes the packages; `packages_lock_invalid`; the folder or the store cannot be used.
    pub async fn hold(&self) -> Result<HeldPackages, PackageError> {
        let folder = &self.paths.folder;
        fs::create_dir_all(folder).map_err(PackageError::io(folder))?;
        let path = folder.join(".lock");
        let failed = |error| PackageError::io(&path)(error);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let mut retries = 0..RETRIES;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if retries.next().is_some() => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::WouldBlock) => {
                    let message =
                        "another 'patchbay plugin' command is changing the packages. Try again when it has ended.";
                    return Err(PackageError::new(Code::PackagesBusy, message));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        let lock = self.read()?;
        for row in self.store.package_changes(false).await? {
            let now = lock.package(row.change.package.as_str()).map(|package| package.digest);
            self.store.settle_package_change(row.id, now == row.change.after).await?;
        }
        self.forget_gone_servers(&lock).await?;
        let held = HeldPackages { packages: self.clone(), lock, _file: file };
        for (_, path) in entries(folder).into_iter().filter(|(name, _)| name.starts_with(STAGING)) {
            let _ = fs::remove_dir_all(&path);
        }
        held.delete_unused();
        Ok(held)
    }

    /// Removes the allowances for servers that no installed package declares. Otherwise they would keep their names reserved.
    async fn forget_gone_servers(&self, lock: &PackagesLock) -> Result<(), PackageError> {
        self.forget_servers(|ServerAllowance { package, server, .. }| {
            let installed = lock.package(package.as_str());
            !installed.is_some_and(|installed| installed.servers.iter().any(|locked| locked.name == *server))
        })
        .await
    }

    /// Removes the allowances that `is_ended` returns `true` for.
    pub(super) async fn forget_servers(&self, is_ended: impl Fn(&ServerAllowance) -> bool) -> Result<(), PackageError> {
        for allowance in self.store.server_allowances().await?.into_iter().filter(is_ended) {
            self.store.deny_server(allowance.package, allowance.server).await?;
        }
        Ok(())
    }
}

impl HeldPackages {
    /// Returns the lock as it is now.
    pub fn lock(&self) -> &PackagesLock {
        &self.lock
    }

    /// Returns the packages.
    pub fn packages(&self) -> &Packages {
        &self.packages
    }

    /// Returns today's date in UTC.
    pub fn today(&self) -> String {
        utc_date(self.packages.source.unix_s().div_euclid(86_400))
    }

    /// Copies a source into a folder beside the packages.
    ///
    /// # Errors
    /// The source cannot be read, breaks a rule, or changes while it is copied.
    pub fn stage(&self, source: &SourceForm) -> Result<StagedPackage, PackageError> {
        StagedPackage::of_source(&self.packages.paths.folder, source)
    }

    pub(crate) fn stage_copy(&self, package: &LockedPackage, from: &Path) -> Result<StagedPackage, PackageError> {
        StagedPackage::of_copy(&self.packages.paths.folder, package, from)
    }

    /// Replaces the lock, and installs `staged`, the copy for the package `name`. `grants` move with it. The old lock and files
    /// stay in use until a single rename replaces the lock.
    ///
    /// # Errors
    /// A file or the store cannot be written. The packages are unchanged, or the next [`Packages::hold`] completes the change.
    pub async fn commit(
        &mut self,
        action: &str,
        name: &PackageName,
        lock: PackagesLock,
        staged: Option<StagedPackage>,
        grants: Vec<MovedGrant>,
    ) -> Result<(), PackageError> {
        let Packages { paths, store, who, .. } = &self.packages;
        let digest = |lock: &PackagesLock| lock.package(name.as_str()).map(|package| package.digest);
        let change = PackageChange {
            who: who.clone(),
            action: action.to_owned(),
            package: name.clone(),
            before: digest(&self.lock),
            after: digest(&lock),
            grants,
        };
        let text = lock.to_text();
        if text.len() as u64 > LOCK_BYTES {
            // Such a lock could not be read back.
            let message = format!(
                "packages.lock would be larger than {} MiB with this change. Remove a package first. Nothing was changed.",
                LOCK_BYTES >> 20
            );
            return Err(PackageError::new(Code::PackageLimit, message));
        }
        if let Some(staged) = staged {
            staged.install(&paths.folder, name)?;
        }
        let id = store.begin_package_change(change).await?;
        write_whole(&paths.lock, text.as_bytes())?;
        store.settle_package_change(id, true).await?;
        self.packages.forget_gone_servers(&lock).await?;
        self.lock = lock;
        self.delete_unused();
        Ok(())
    }

    /// Deletes versions that the lock does not name. Failures are ignored: the next command tries again.
    fn delete_unused(&self) {
        let packages = entries(&self.packages.paths.folder).into_iter().filter(|(name, _)| !name.starts_with('.'));
        for (name, folder) in packages {
            let used = self.lock.package(&name).map(|package| package.digest.to_hex());
            for (version, path) in entries(&folder) {
                if used.as_deref() != Some(version.split('.').next().unwrap_or_default()) {
                    let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                }
            }
            // Only an empty folder is removed.
            let _ = fs::remove_dir(&folder);
        }
    }
}

/// Decides which grants move to `new`, the new version of a package. A grant moves if both versions of the skill request a
/// capability that covers it. All other grants of the old files end.
///
/// # Errors
/// The store could not be read.
pub async fn moved_grants(
    packages: &Packages,
    old: &LockedPackage,
    new: &LockedPackage,
) -> Result<Vec<MovedGrant>, PackageError> {
    let mut moved = Vec::new();
    for grant in grants_of(packages, old).await? {
        let before = old.skills.iter().find(|skill| skill.name.as_str() == grant.skill);
        let Some(before) = before.filter(|skill| skill.digest.to_string() == grant.skill_digest) else { continue };
        let is_version = |after: &&LockedSkill| {
            after.own_name().is_some_and(|own_name| before.is_version_of(&after.name, own_name.as_str()))
        };
        let to = new.skills.iter().find(is_version).filter(|after| {
            let granted = grant.capability.parse::<Capability>();
            let in_both = before.asks.iter().filter(|asked| after.asks.contains(asked));
            granted.is_ok_and(|granted| in_both.into_iter().any(|asked| asked.includes(&granted)))
        });
        if to.is_some_and(|after| after.digest == before.digest) {
            continue;
        }
        moved.push(moved_grant(grant, to.map(|skill| skill.digest.to_string())));
    }
    Ok(moved)
}

/// Returns the changes that end all grants of a removed package.
///
/// # Errors
/// The store could not be read.
pub async fn grants_of_removed(packages: &Packages, package: &LockedPackage) -> Result<Vec<MovedGrant>, PackageError> {
    let grants = grants_of(packages, package).await?;
    Ok(grants.into_iter().map(|grant| moved_grant(grant, None)).collect())
}

fn moved_grant(grant: GrantRow, to: Option<String>) -> MovedGrant {
    let GrantRow { skill, capability, place, skill_digest, .. } = grant;
    MovedGrant { skill, capability, place, from: skill_digest, to }
}

async fn grants_of(packages: &Packages, package: &LockedPackage) -> Result<Vec<GrantRow>, PackageError> {
    let mut grants = packages.store().grants().await?;
    grants.retain(|grant| grant.root == Root::Package.as_str() && grant.workspace == package.name.as_str());
    Ok(grants)
}

/// Replaces a file atomically, by renaming. `.NAME.new` beside it is left over only after a crash, and then reused.
fn write_whole(path: &Path, contents: &[u8]) -> Result<(), PackageError> {
    let new = path.with_file_name(format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(PackageError::io(path))
}

/// Returns the names and paths in a folder. Entries that cannot be read are left out.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

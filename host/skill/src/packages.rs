//! Discovers the skills of installed packages.
//!
//! Unlike in other roots, only skills that `packages.lock` names are read, and their files must have the digests in the lock. All
//! packages are in one folder, so they share the limits and the file cache of one root.

use std::{ffi::OsString, io, path::Path};

use patchbay_core::{Code, RootAllowance, text};
use patchbay_policy::Root;

use crate::{
    Candidate, Discovered, FileCache, FoundSkill, LOCK_BYTES, LockError, LockedPackage, PackagesLock, Problem,
    children::ChildKind,
    discover::{Scanned, scan},
    files,
};

/// Reads the skills of the packages in `lock`, in the order in which the packages were added. `folder` contains the packages as
/// `NAME/DIGEST`. If any file of a package's skills differs from the lock, the whole package is left out, with the diagnostic
/// `package_changed`.
///
/// # Errors
/// The folder exists but cannot be read.
pub fn discover_packages(
    folder: &Path,
    lock: &PackagesLock,
    cache: &dyn FileCache,
    allowed: &RootAllowance,
) -> io::Result<Discovered> {
    let packages = lock.in_order();
    let Some(opened) = files::open_folder(folder)? else {
        let missing = packages.iter().map(|package| changed(package, "its files are missing"));
        return Ok(Discovered { found: missing.collect(), read: Vec::new() });
    };
    let mut children = Vec::new();
    for package in &packages {
        let at = package.folder();
        children.extend(package.skills.iter().map(|skill| {
            let is_file = [".wasm", ".md"].iter().any(|end| skill.path.ends_with(end));
            let kind = if is_file { ChildKind::Other } else { ChildKind::Folder };
            (OsString::from(format!("{at}/{}", skill.path)), kind)
        }));
    }
    let most = usize::try_from(allowed.skills).unwrap_or(usize::MAX);
    let too_many = (children.len() > most).then(|| children.split_off(most));
    let Scanned { found, mut over, read } = scan(Root::Package, folder, &opened, &children, cache, allowed);
    if let Some((first, _)) = too_many.as_ref().and_then(|left_out| left_out.first()).filter(|_| over.is_none()) {
        over = Some(FoundSkill::over_skills(Root::Package, allowed, &first.to_string_lossy()));
    }
    let mut found = found.into_iter();
    let mut checked = Vec::new();
    for package in packages {
        // Fewer skills than in the lock are found only if a limit of the root was exceeded.
        let skills: Vec<FoundSkill> = found.by_ref().take(package.skills.len()).collect();
        match check(package, skills) {
            Ok(skills) => checked.extend(skills),
            Err(why) => checked.push(changed(package, &why)),
        }
    }
    checked.extend(over);
    Ok(Discovered { found: checked, read })
}

/// Checks that the skills of a package have the digests in the lock, and renames them as the lock says. The error describes the
/// difference.
fn check(package: &LockedPackage, skills: Vec<FoundSkill>) -> Result<Vec<FoundSkill>, String> {
    let named = |(found, locked): (FoundSkill, &crate::LockedSkill)| {
        let path = text::excerpt(&locked.path, 80);
        let candidate = found.candidate.map_err(|problem| match problem.code {
            Code::MissingSkillMd => format!("'{path}' is missing or cannot be read"),
            _ => format!("'{path}' is no longer a valid skill: [{}] {}", problem.code, problem.message),
        })?;
        if candidate.digest() != locked.digest {
            return Err(format!("the files of '{path}' have changed"));
        }
        let name = locked.name.clone();
        let candidate = Candidate { name: name.clone(), root_path: Some(package.name.as_str().into()), ..candidate };
        Ok(FoundSkill { label: name.to_string(), root: Root::Package, candidate: Ok(candidate) })
    };
    skills.into_iter().zip(&package.skills).map(named).collect()
}

/// Creates the diagnostic of a package that differs from the lock.
fn changed(package: &LockedPackage, why: &str) -> FoundSkill {
    let name = &package.name;
    let why = why.trim_end_matches('.');
    let message = format!(
        "Package '{name}' differs from packages.lock ({why}), so its skills are left out. To see what changed: patchbay plugin verify \
         {name}"
    );
    let candidate = Err(Problem::new(Code::PackageChanged, message));
    FoundSkill { label: name.to_string(), root: Root::Package, candidate }
}

/// Reads a `packages.lock`. A missing file counts as an empty lock.
///
/// # Errors
/// The file cannot be read or parsed. The message does not contain a path.
pub fn read_packages_lock(path: &Path) -> Result<PackagesLock, LockError> {
    Ok(find_packages_lock(path)?.unwrap_or_default())
}

/// Reads a `packages.lock`; `None` if the file does not exist.
///
/// # Errors
/// The same as for [`read_packages_lock`].
pub fn find_packages_lock(path: &Path) -> Result<Option<PackagesLock>, LockError> {
    let parts = path.parent().zip(path.file_name().and_then(|name| name.to_str()));
    let (folder, name) = parts.ok_or_else(|| LockError("it has no name".to_owned()))?;
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::FileTooLarge => LockError(format!("it is larger than {} MiB", LOCK_BYTES >> 20)),
        kind => LockError(format!("it cannot be read: {kind}")),
    };
    // The parent of a bare file name is empty.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Some(folder) = files::open_folder(folder).map_err(unreadable)? else { return Ok(None) };
    let Some(bytes) = files::read(&folder, name, LOCK_BYTES).map_err(unreadable)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).map_err(|_| LockError("it is not UTF-8".to_owned()))?;
    PackagesLock::parse(text).map(Some)
}

#[cfg(test)]
mod tests;

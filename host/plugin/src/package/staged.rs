//! A complete copy of a package that is not installed yet.

use std::{
    fs,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, Digest, PackageName};
use patchbay_skill::{Fingerprint, LockedPackage, PackageKind, agent_plugin::Sums, verify_signature};
use tempfile::TempDir;

use super::{
    PackageError, PackageSource, SourceForm,
    error::shown,
    files::{self, PackageTree},
    source::find_source,
};
use crate::{AddressError, FetchedPackage, PackageAddress, fetch::read_signature};

/// A copy in a hidden folder beside the packages. Dropping it deletes the copy.
#[derive(Debug)]
pub struct StagedPackage {
    staging: TempDir,
    kind: PackageKind,
    content: PackageContent,
    /// The signature and the key that made it.
    signature: Option<(Vec<u8>, Option<Fingerprint>)>,
    /// The archive that the signature covers, in the folder of the copy. Without one, the signature covers the package itself.
    archive: Option<PathBuf>,
}

/// The files of a copy, and the digest of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageContent {
    pub(crate) sums: Sums,
    pub(crate) digest: Digest,
}

/// The prefix of the hidden folders with copies. A crash leaves them behind.
pub(crate) const STAGING: &str = ".adding-";
/// The extension of a kept archive.
pub(crate) const ARCHIVE: &str = "tar.gz";

impl PackageContent {
    /// Reads the copy in the folder `copy`.
    pub(crate) fn of_copy(kind: PackageKind, copy: &Path) -> Result<Self, PackageError> {
        if kind == PackageKind::AgentPlugin {
            let sums = Sums::of_copy(copy)?;
            return Ok(Self { digest: sums.digest(), sums });
        }
        let only = only_entry(copy)?;
        if kind == PackageKind::Skill {
            let sums = Sums::of_copy(&only)?;
            return Ok(Self { digest: sums.digest(), sums });
        }
        // Computing the sums also checks the size of the file that is read next.
        let sums = Sums::of_copy(copy)?;
        let bytes = fs::read(&only).map_err(PackageError::io(&only))?;
        Ok(Self { digest: Digest::of(&bytes), sums })
    }
}

impl PackageContent {
    /// Returns the bytes that a signature covers: the single file, or the list that `plugin sums` prints.
    pub(crate) fn signed_bytes(&self, kind: PackageKind, copy: &Path) -> Result<Vec<u8>, PackageError> {
        if kind != PackageKind::File {
            return Ok(self.sums.to_text().into_bytes());
        }
        let only = only_entry(copy)?;
        fs::read(&only).map_err(PackageError::io(&only))
    }
}

/// Returns the only entry of a copy: the file or the folder of its skill.
pub(crate) fn only_entry(copy: &Path) -> Result<PathBuf, PackageError> {
    let failed = |error| PackageError::io(copy)(error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(copy).map_err(failed)?.take(2) {
        entries.push(entry.map_err(failed)?.path());
    }
    match entries.pop() {
        Some(only) if entries.is_empty() => Ok(only),
        _ => Err(PackageError::refused(format!("{} has more than one entry, or none.", shown(copy)))),
    }
}

impl StagedPackage {
    /// Copies a package into a hidden folder in `packages`.
    ///
    /// # Errors
    /// The source cannot be read, breaks a rule for packages, or changes while it is copied.
    pub fn of_source(packages: &Path, source: &SourceForm) -> Result<Self, PackageError> {
        let SourceForm { kind, path, component, .. } = source;
        let staging = staging(packages)?;
        let copy = staging.path().join("copy");
        let read = || match kind {
            PackageKind::AgentPlugin => PackageTree::of_folder(path).map(Some),
            PackageKind::Skill => PackageTree::of_skill(path, component.as_deref()).map(Some),
            // A hard link is allowed only here, because compilers create them.
            PackageKind::File => Ok(None),
        };
        let name = path.file_stem().unwrap_or_default();
        let content = match read()? {
            Some(tree) => {
                let to =
                    if *kind == PackageKind::Skill { copy.join(path.file_name().unwrap_or_default()) } else { copy };
                let sums = tree.copy(&to)?;
                if read()?.map(|tree| tree.sums()).transpose()?.as_ref() != Some(&sums) {
                    return Err(unstable(path));
                }
                PackageContent { digest: sums.digest(), sums }
            }
            None => {
                let bytes = crate::inspect::read(path).map_err(PackageError::io(path))?;
                let digest = Digest::of(&bytes);
                let name = format!("{}.wasm", name.to_string_lossy());
                files::write(&copy.join(&name), &bytes)?;
                if crate::inspect::read(path).map_err(PackageError::io(path))? != bytes {
                    return Err(unstable(path));
                }
                PackageContent { digest, sums: Sums::new([(name, digest)].into())? }
            }
        };
        Ok(Self { staging, kind: *kind, content, signature: None, archive: None })
    }

    /// Copies an installed or exported package, which must have the digest in the lock. If its archive was kept, the archive is
    /// unpacked instead, because only the archive is covered by the signature.
    pub(crate) fn of_copy(packages: &Path, package: &LockedPackage, from: &Path) -> Result<Self, PackageError> {
        let (beside, archive) = (from.with_extension("sig"), from.with_extension(ARCHIVE));
        let staged = match read_signature(&beside).map_err(PackageError::io(&beside))? {
            Some(signature) if archive.is_file() => Self::of_archive(packages, package, &archive, signature)?,
            signature => {
                let (staging, kind) = (staging(packages)?, package.kind);
                let copy = staging.path().join("copy");
                PackageTree::of_folder(from)?.copy(&copy)?;
                let content = PackageContent::of_copy(kind, &copy)?;
                let signature = match signature {
                    Some(signature) => {
                        let signer = verify_signature(&signature, &content.signed_bytes(kind, &copy)?).ok();
                        Some((signature, signer))
                    }
                    None => None,
                };
                Self { staging, kind, content, signature, archive: None }
            }
        };
        if staged.digest() != package.digest {
            let (found, expected) = (staged.digest(), package.digest);
            let message = format!("{} has the digest {found}, and not {expected}.", shown(from));
            return Err(PackageError::new(Code::PackageChanged, message));
        }
        Ok(staged)
    }

    fn of_archive(
        packages: &Path,
        package: &LockedPackage,
        archive: &Path,
        signature: Vec<u8>,
    ) -> Result<Self, PackageError> {
        let refused = |error: AddressError| PackageError::refused(format!("{}: {error}.", shown(archive)));
        let address: PackageAddress = package.found.parse().map_err(refused)?;
        let fetched = address.reopen(archive, signature)?;
        let PackageSource::Package(source) = find_source(&fetched.path)? else {
            return Err(PackageError::refused(format!("{} is not a package.", shown(archive))));
        };
        let mut staged = Self::of_source(packages, &source)?;
        staged.keep_signature(&fetched)?;
        Ok(staged)
    }

    /// Keeps the signature of the fetched package, and the archive that it covers. The signature of a folder is compared with the
    /// folder's sums.
    ///
    /// # Errors
    /// `signature_invalid` if it does not match; the archive cannot be copied.
    pub fn keep_signature(&mut self, fetched: &FetchedPackage) -> Result<(), PackageError> {
        let Some(signature) = &fetched.signature else { return Ok(()) };
        let signer = match fetched.signer.zip(fetched.archive.as_ref()) {
            Some((signer, archive)) => {
                let kept = self.staging.path().join(ARCHIVE);
                fs::copy(archive, &kept).map_err(PackageError::io(archive))?;
                self.archive = Some(kept);
                signer
            }
            // For anything else, the copy itself is checked.
            None => verify_signature(signature, &self.content.signed_bytes(self.kind, &self.folder())?)
                .map_err(|error| PackageError::new(Code::SignatureInvalid, format!("{error}.")))?,
        };
        self.signature = Some((signature.clone(), Some(signer)));
        Ok(())
    }

    /// Returns the key that signed the package, if it has a valid signature.
    pub fn signer(&self) -> Option<Fingerprint> {
        self.signature.as_ref().and_then(|(_, signer)| *signer)
    }

    /// Returns the folder of the copy.
    pub fn folder(&self) -> PathBuf {
        self.staging.path().join("copy")
    }

    /// Returns the form of the package.
    pub fn kind(&self) -> PackageKind {
        self.kind
    }

    /// Returns the digest of the package.
    pub fn digest(&self) -> Digest {
        self.content.digest
    }

    /// Returns the files of the copy. The paths of a skill's folder are relative to it.
    pub fn sums(&self) -> &Sums {
        &self.content.sums
    }

    /// Moves the copy into place in the folder of packages. It appears there with all its files or not at all.
    pub(crate) fn install(self, packages: &Path, name: &PackageName) -> Result<(), PackageError> {
        let folder = packages.join(name.as_str());
        fs::create_dir_all(&folder).map_err(PackageError::io(&folder))?;
        let place = folder.join(self.content.digest.to_hex());
        if self.kind != PackageKind::File {
            let (list, new) = (place.with_extension("sums"), self.staging.path().join("sums"));
            files::write(&new, self.content.sums.to_text().as_bytes())?;
            fs::rename(&new, &list).map_err(PackageError::io(&list))?;
        }
        let signature = match &self.signature {
            Some((bytes, _)) => {
                let new = self.staging.path().join("sig");
                files::write(&new, bytes)?;
                Some(new)
            }
            None => None,
        };
        for (end, new) in [("sig", &signature), (ARCHIVE, &self.archive)] {
            let kept = place.with_extension(end);
            match new {
                Some(new) => fs::rename(new, &kept).map_err(PackageError::io(&kept))?,
                None => drop(fs::remove_file(&kept)),
            }
        }
        if place.exists() {
            let copy = Sums::of_copy(&self.folder())?;
            if Sums::of_copy(&place).is_ok_and(|there| there == copy) {
                // Replacing the files would remove them for a moment, or for good if the process crashes then.
                return Ok(());
            }
            // The files were left by an interrupted command, or changed since.
            let old = self.staging.path().join("old");
            fs::rename(&place, &old).map_err(PackageError::io(&place))?;
        }
        fs::rename(self.folder(), &place).map_err(PackageError::io(&place))
    }
}

fn staging(packages: &Path) -> Result<TempDir, PackageError> {
    tempfile::Builder::new().prefix(STAGING).tempdir_in(packages).map_err(PackageError::io(packages))
}

fn unstable(path: &Path) -> PackageError {
    let message = format!("{} changed while it was copied. Try again when nothing writes there.", shown(path));
    PackageError::new(Code::PackageUnstable, message)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    };

    use patchbay_skill::{PackageKind, SIGNATURE_BYTES};

    use super::*;

    #[test]
    fn signature_is_a_small_regular_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sig");
        assert_eq!(read_signature(&path).unwrap(), None);
        fs::write(&path, vec![b'\n'; SIGNATURE_BYTES + 7]).unwrap();
        assert_eq!(read_signature(&path).unwrap().map(|bytes| bytes.len()), Some(SIGNATURE_BYTES + 1));
        fs::remove_file(&path).unwrap();
        // Opening a pipe would wait for a writer.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(read_signature(&path).unwrap_err().to_string(), "not a regular file");
    }

    #[test]
    fn installed_files_are_replaced_only_if_they_differ() {
        let folder = tempfile::tempdir().unwrap();
        let (source, packages) = (folder.path().join("hello"), folder.path().join("packages"));
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(&packages).unwrap();
        fs::write(source.join("SKILL.md"), "---\nsummary: Says hello\n---\nSay hello.\n").unwrap();
        let kind = PackageKind::Skill;
        let source = SourceForm { kind, name: "hello".parse().unwrap(), path: source, component: None, newer: None };
        let name = "hello".parse().unwrap();
        let install = || {
            let staged = StagedPackage::of_source(&packages, &source).unwrap();
            let place = packages.join("hello").join(staged.digest().to_hex());
            staged.install(&packages, &name).unwrap();
            place
        };
        let place = install();
        let inode = || fs::metadata(&place).unwrap().ino();
        let first = inode();
        install();
        assert_eq!(inode(), first);
        let skill_md = place.join("hello/SKILL.md");
        fs::set_permissions(&skill_md, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&skill_md, "changed").unwrap();
        install();
        assert!(inode() != first && fs::read_to_string(&skill_md).unwrap().ends_with("Say hello.\n"));
    }
}

//! Compares installed packages with the lock, offline and without running anything.

use std::{env, fs, path::Path};

use patchbay_core::{PackageName, text};
use patchbay_skill::{
    Fingerprint, LockedPackage, PackageKind, SignatureError,
    agent_plugin::{PackageServer, Sums, read_locked_servers},
    verify_signature,
};

use super::{
    PackageError, Packages, StagedPackage,
    report::FETCHES,
    staged::{ARCHIVE, PackageContent},
};
use crate::fetch::read_signature;

/// The findings of [`verify`] about one package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedPackage {
    /// The name of the package.
    pub name: PackageName,
    /// Each difference from the lock. Empty if all files match the lock.
    pub wrong: Vec<String>,
    /// Each check that was not possible, with the reason.
    pub unknown: Vec<String>,
    /// Code that no digest covers, although all files match the lock.
    pub uncovered: Vec<String>,
}

/// Checks one installed package: its list of files against the digest in the lock, and each file against the list.
pub fn verify(packages: &Packages, package: &LockedPackage) -> VerifiedPackage {
    let (mut wrong, mut unknown) = (Vec::new(), Vec::new());
    let folder = packages.folder_of(package);
    let content = PackageContent::of_copy(package.kind, &folder);
    let list = fs::read_to_string(folder.with_extension("sums")).ok().and_then(|text| Sums::parse(&text));
    let list = list.filter(|list| list.digest() == package.digest);
    if package.kind != PackageKind::File && list.is_none() {
        wrong.push("its list of files is missing or was changed".to_owned());
    }
    match content {
        Ok(content) if content.digest == package.digest => {}
        Ok(content) => {
            let files = list.map(|list| list.differences(&content.sums)).unwrap_or_default();
            wrong.push(match files.is_empty() {
                true => format!("its digest is {}, not {}", content.digest, package.digest),
                false => format!("files differ: {}", files.join(", ")),
            });
        }
        Err(_) if !folder.exists() => wrong.push("its files are missing".to_owned()),
        Err(error) => unread(&error, &mut wrong, &mut unknown),
    }
    if let Some(signer) = package.signer {
        check_signature(package, &folder, signer, &mut wrong, &mut unknown);
    }
    let servers = read_locked_servers(&folder, package).unwrap_or_default();
    let fetching = servers.into_iter().filter(PackageServer::fetches_code);
    let uncovered = fetching.map(|server| format!("server '{}' {FETCHES}", text::clean_line(&server.name))).collect();
    VerifiedPackage { name: package.name.clone(), wrong, unknown, uncovered }
}

/// Checks the kept signature against the files.
fn check_signature(
    package: &LockedPackage,
    folder: &Path,
    signer: Fingerprint,
    wrong: &mut Vec<String>,
    unknown: &mut Vec<String>,
) {
    let signature = match read_signature(&folder.with_extension("sig")) {
        Ok(Some(signature)) => signature,
        Ok(None) => return unknown.push("its signature is missing".to_owned()),
        Err(error) => return unknown.push(format!("its signature cannot be read: {error}")),
    };
    if folder.with_extension(ARCHIVE).is_file() {
        return check_archive(package, folder, signer, wrong);
    }
    let signed =
        PackageContent::of_copy(package.kind, folder).and_then(|content| content.signed_bytes(package.kind, folder));
    // Files that cannot be read were already reported.
    let Ok(signed) = signed else { return };
    match verify_signature(&signature, &signed) {
        Ok(found) if found == signer => {}
        Ok(found) => wrong.push(format!("it is signed by {found}, not by {signer}")),
        Err(SignatureError::Mismatch(_)) if package.kind != PackageKind::File => {
            unknown.push("its signature covers the archive that it came in, which was not kept".to_owned());
        }
        Err(error) => wrong.push(error.to_string()),
    }
}

/// Unpacks the archive that was signed, and compares it with the lock.
fn check_archive(package: &LockedPackage, folder: &Path, signer: Fingerprint, wrong: &mut Vec<String>) {
    let unpacked = tempfile::tempdir()
        .map_err(PackageError::io(&env::temp_dir()))
        .and_then(|temporary| StagedPackage::of_copy(temporary.path(), package, folder));
    match unpacked.map(|staged| staged.signer()) {
        Ok(Some(found)) if found == signer => {}
        Ok(found) => {
            let found = found.map_or("not signed".to_owned(), |found| format!("signed by {found}"));
            wrong.push(format!("its archive is {found}, but should be signed by {signer}"));
        }
        Err(error) => wrong.push(format!("its archive: {}", error.to_string().trim_end_matches('.'))),
    }
}

/// Records why a copy was not read. A copy that breaks a rule was changed; a copy that cannot be read may still be correct.
fn unread(error: &PackageError, wrong: &mut Vec<String>, unknown: &mut Vec<String>) {
    let message = error.to_string().trim_end_matches('.').to_owned();
    let list = if error.code() == patchbay_core::Code::PackageFileRefused { wrong } else { unknown };
    list.push(message);
}

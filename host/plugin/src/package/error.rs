//! Why a package was refused.

use std::{fmt, io, path::Path};

use patchbay_core::{Code, text};
use patchbay_skill::{LockError, Problem};
use patchbay_store::StoreError;

use crate::FetchError;

/// Why an operation on packages failed, with its stable code. Nothing was changed, or the change is completed by the next command.
#[derive(Debug)]
pub struct PackageError {
    code: Code,
    message: String,
}

impl PackageError {
    /// Creates an error. `message` is one line.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A file breaks a rule for packages.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Code::PackageFileRefused, message)
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = shown(path);
        move |error| Self::new(Code::FolderUnusable, format!("cannot use {path}: {error}."))
    }

    pub(crate) fn lock(error: &LockError) -> Self {
        let message = format!(
            "packages.lock cannot be used: {error}. Restore the file, or delete it and add the packages again."
        );
        Self::new(Code::PackagesLockInvalid, message)
    }

    /// Returns the stable code.
    pub fn code(&self) -> Code {
        self.code
    }
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PackageError {}

impl From<Problem> for PackageError {
    fn from(Problem { code, message }: Problem) -> Self {
        Self::new(code, message)
    }
}

impl From<FetchError> for PackageError {
    fn from(error: FetchError) -> Self {
        Self::new(error.code(), format!("{error}."))
    }
}

impl From<StoreError> for PackageError {
    fn from(error: StoreError) -> Self {
        Self::new(Code::StoreFailed, format!("{error}."))
    }
}

/// Returns a path for a message.
pub(crate) fn shown(path: &Path) -> String {
    text::clean_line(&path.to_string_lossy())
}

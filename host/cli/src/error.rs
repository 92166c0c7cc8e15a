//! The error of a subcommand. `main` prints it after `Error: `.

use std::{fmt, io, path::Path};

use patchbay_core::{Code, text};
use patchbay_session::SessionError;
use patchbay_store::StoreError;

#[derive(Debug)]
pub(crate) struct CliError {
    code: Code,
    message: String,
}

impl CliError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = text::clean_line(&path.to_string_lossy());
        move |error| Self::new(Code::FolderUnusable, format!("cannot use {path}: {error}."))
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        SessionError::from(error).into()
    }
}

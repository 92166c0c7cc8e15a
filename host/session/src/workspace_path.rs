//! The canonical path of a workspace. Sessions, snapshots and the binary identify a workspace by it.

use std::{
    io::{Error, ErrorKind},
    path::Path,
};

use patchbay_core::text;

use crate::SessionError;

/// Returns the canonical path of a workspace as a string. The same workspace therefore always has the same string, whichever path
/// the user typed.
///
/// # Errors
/// [`SessionError::Folder`] if `workspace` is not a folder, or its path is not UTF-8.
pub fn workspace_path(workspace: &Path) -> Result<String, SessionError> {
    let what = || format!("the workspace '{}'", text::clean_line(&workspace.to_string_lossy()));
    let path = workspace.canonicalize().map_err(|source| SessionError::Folder { what: what(), source })?;
    if !path.is_dir() {
        return Err(SessionError::Folder { what: what(), source: Error::from(ErrorKind::NotADirectory) });
    }
    path.into_os_string().into_string().map_err(|_| SessionError::Folder {
        what: what(),
        source: Error::new(ErrorKind::InvalidInput, "its path is not UTF-8"),
    })
}

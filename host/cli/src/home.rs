//! Locates and creates the home: the folders below `PATCHBAY_HOME`, or the XDG folders.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use etcetera::{BaseStrategy as _, base_strategy::Xdg};
use patchbay_core::Code;
use patchbay_session::Paths;

use crate::CliError;

/// Configuration folders that users copy files into. They are created at the first start because `cp FILE …/skills/` should work.
const CONFIG_FOLDERS: [&str; 3] = ["skills", "agents", "providers"];

pub(crate) struct HomeDirs {
    pub(crate) paths: Paths,
    /// The user's home folder (`$HOME`), if known.
    pub(crate) home_folder: Option<PathBuf>,
}

impl HomeDirs {
    /// Returns the home, creating missing folders.
    pub(crate) fn find() -> Result<Self, CliError> {
        let paths = paths()?;
        for folder in [&paths.config, &paths.data, &paths.cache, &paths.state] {
            make_private(folder).map_err(CliError::io(folder))?;
            keep_others_out(folder)?;
        }
        for folder in CONFIG_FOLDERS.map(|name| paths.config.join(name)) {
            // Errors here are reported where they matter: by `/skills`, `/providers` and the notices of a session.
            if make_private(&folder).is_ok() && !folder.is_symlink() {
                keep_others_out(&folder)?;
            }
        }
        Ok(Self { paths, home_folder: etcetera::home_dir().ok() })
    }

    /// Returns the home if it contains a database, without creating anything.
    pub(crate) fn existing() -> Option<Self> {
        let paths = paths().ok()?;
        let home_folder = etcetera::home_dir().ok();
        paths.data.join("patchbay.db").exists().then_some(Self { paths, home_folder })
    }
}

/// Returns the paths of the home's folders, whether they exist or not.
pub(crate) fn paths() -> Result<Paths, CliError> {
    Ok(match env::var_os("PATCHBAY_HOME").filter(|home| !home.is_empty()) {
        Some(home) => {
            let home = PathBuf::from(home);
            let home = std::path::absolute(&home).map_err(CliError::io(&home))?;
            Paths {
                config: home.join("config"),
                data: home.join("data"),
                cache: home.join("cache"),
                state: home.join("state"),
            }
        }
        None => {
            let xdg = Xdg::new().map_err(|error| {
                CliError::new(Code::FolderUnusable, format!("no home folder found ({error}). Set PATCHBAY_HOME."))
            })?;
            let name = "patchbay";
            let state = xdg.state_dir().unwrap_or_else(|| xdg.data_dir());
            Paths {
                config: xdg.config_dir().join(name),
                data: xdg.data_dir().join(name),
                cache: xdg.cache_dir().join(name),
                state: state.join(name),
            }
        }
    })
}

/// Creates a folder with mode 0700, because it will contain conversations, keys and the state of skills.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Ensures that no other user can change the content of `folder`, which decides what code runs and where keys are sent. A
/// folder of another user (except root) is an error; write permission of group and others is removed.
#[cfg(unix)]
pub(crate) fn keep_others_out(folder: &Path) -> Result<(), CliError> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    const OTHERS_WRITE: u32 = 0o022;
    let found = fs::metadata(folder).map_err(CliError::io(folder))?;
    // Both files belong to the effective user of this process.
    let own = fs::metadata("/proc/self").or_else(|_| tempfile::tempfile()?.metadata());
    let user = own.map_err(CliError::io(folder))?.uid();
    if found.uid() != user && found.uid() != 0 {
        let message = format!(
            "cannot use {}: it belongs to another user (uid {}), who could change what runs. Change its owner (chown), or set PATCHBAY_HOME to a folder that you own.",
            shown(folder),
            found.uid()
        );
        return Err(CliError::new(Code::FolderUnusable, message));
    }
    if found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let mode = fs::Permissions::from_mode(found.mode() & 0o7777 & !OTHERS_WRITE);
    fs::set_permissions(folder, mode).map_err(|error| {
        let message = format!(
            "cannot use {folder}: other users can write to it, and its mode cannot be changed ({error}). Run: chmod go-w {folder}",
            folder = shown(folder)
        );
        CliError::new(Code::FolderUnusable, message)
    })
}

#[cfg(not(unix))]
pub(crate) fn keep_others_out(_: &Path) -> Result<(), CliError> {
    Ok(())
}

#[cfg(unix)]
fn shown(folder: &Path) -> String {
    patchbay_core::text::clean_line(&folder.to_string_lossy())
}

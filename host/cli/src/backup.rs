//! `patchbay backup`: copies the home into an empty folder, even while other processes use the home. The copy is itself a home,
//! without keys and tokens.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
};

use patchbay_core::{Code, text};
use patchbay_policy::quoted;
use patchbay_store::{BackedUp, KvStore, Store};

use crate::{
    CliError, doctor,
    home::{HomeDirs, keep_others_out, make_private},
    out::say,
    plugin::packages,
};

/// The entries of the configuration folder that are copied. `credentials.json` is left out.
const CONFIG: [&str; 5] = ["config.toml", "packages.lock", "skills", "agents", "providers"];
/// The folders of the data folder that are copied besides the store: packages, and the data of their MCP servers.
const DATA: [&str; 2] = ["packages", "package-data"];
/// Nesting limit of the folders that are copied.
const MAX_DEPTH: usize = 64;

pub(crate) async fn run(folder: &Path) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let folder = empty_folder(folder, &home)?;
    let store = Store::open(&home.paths.data)?;
    // `held` keeps other processes from changing the packages until they and `packages.lock` have been copied.
    let held = packages(&home, &store).hold().await?;
    let packages = match held.lock().packages().len() {
        0 => String::new(),
        1 => ", 1 package".to_owned(),
        many => format!(", {many} packages"),
    };
    let backing_up = tokio::task::spawn_blocking({
        let folder = folder.clone();
        move || back_up(&home, &store, &folder)
    });
    let BackedUp { sessions, files, bytes } =
        backing_up.await.map_err(|error| CliError::new(Code::Internal, error.to_string()))??;
    drop(held);
    let path = folder.to_string_lossy();
    say!(
        "Backed up {sessions} {}, {files} files{packages} and the configuration to {} ({}).\n\
         Not in the backup: credentials.json, client tokens, logs. To check it: PATCHBAY_HOME={} patchbay doctor",
        if sessions == 1 { "session" } else { "sessions" },
        text::clean_line(&path),
        doctor::size(bytes),
        quoted(&path),
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the absolute path of the folder to write into, which is created if it does not exist.
fn empty_folder(folder: &Path, home: &HomeDirs) -> Result<PathBuf, CliError> {
    make_private(folder).map_err(CliError::io(folder))?;
    let folder = folder.canonicalize().map_err(CliError::io(folder))?;
    let refused = |why: &str| {
        let folder = text::clean_line(&folder.to_string_lossy());
        Err(CliError::new(Code::FolderUnusable, format!("cannot back up to {folder}: {why}")))
    };
    let paths = &home.paths;
    for own in [&paths.config, &paths.data, &paths.cache, &paths.state] {
        if own.canonicalize().is_ok_and(|own| folder.starts_with(own)) {
            return refused("it is inside the home that is being backed up. Choose a folder outside it.");
        }
    }
    if fs::read_dir(&folder).map_err(CliError::io(&folder))?.next().is_some() {
        return refused("it is not empty. Choose a new folder.");
    }
    keep_others_out(&folder)?;
    #[cfg(unix)]
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).map_err(CliError::io(&folder))?;
    Ok(folder)
}

fn back_up(home: &HomeDirs, store: &Store, folder: &Path) -> Result<BackedUp, CliError> {
    let (config, data) = (folder.join("config"), folder.join("data"));
    for folder in [&config, &data] {
        make_private(folder).map_err(CliError::io(folder))?;
    }
    for name in CONFIG {
        copy(&home.paths.config.join(name), &config.join(name), MAX_DEPTH)?;
    }
    for name in DATA {
        copy(&home.paths.data.join(name), &data.join(name), MAX_DEPTH)?;
    }
    let kv = KvStore::open(&home.paths.data, store.clone())?;
    Ok(store.back_up(&kv, &data)?)
}

/// Copies a file, a link (as a link), or a folder with everything in it. Anything else, such as a socket, is skipped, as is a
/// missing path: a server of a package may delete its files during the copy.
fn copy(from: &Path, to: &Path, depth: usize) -> Result<(), CliError> {
    let kind = match fs::symlink_metadata(from) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(CliError::io(from)(error)),
    };
    if kind.is_dir() {
        let Some(depth) = depth.checked_sub(1) else {
            let message =
                format!("cannot back up {}: it is nested too deep.", text::clean_line(&from.to_string_lossy()));
            return Err(CliError::new(Code::FolderUnusable, message));
        };
        make_private(to).map_err(CliError::io(to))?;
        let entries = match fs::read_dir(from) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(CliError::io(from))?,
        };
        for entry in entries {
            let entry = entry.map_err(CliError::io(from))?;
            copy(&entry.path(), &to.join(entry.file_name()), depth)?;
        }
    } else if kind.is_file() {
        match fs::copy(from, to) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => drop(copied.map_err(CliError::io(from))?),
        }
    } else if kind.is_symlink() {
        #[cfg(unix)]
        fs::read_link(from).and_then(|target| std::os::unix::fs::symlink(target, to)).map_err(CliError::io(from))?;
    }
    Ok(())
}

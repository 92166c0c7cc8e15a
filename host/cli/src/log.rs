//! The log of the host: `patchbay.log` in the state folder, filtered by `PATCHBAY_LOG`. `main` starts it.

use std::{
    fs::{self, File},
    path::Path,
    sync::Mutex,
};

use tracing_subscriber::EnvFilter;

use crate::CliError;

/// A log over this size in bytes is renamed at start and replaces the previous old log.
const LOG_BYTES: u64 = 8 << 20;

pub(crate) fn start(state: &Path) -> Result<(), CliError> {
    let path = state.join("patchbay.log");
    if fs::metadata(&path).is_ok_and(|file| file.len() > LOG_BYTES) {
        fs::rename(&path, state.join("patchbay.log.1")).map_err(CliError::io(&path))?;
    }
    let file = File::options().create(true).append(true).open(&path).map_err(CliError::io(&path))?;
    let filter = EnvFilter::try_from_env("PATCHBAY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Mutex::new(file)).init();
    Ok(())
}

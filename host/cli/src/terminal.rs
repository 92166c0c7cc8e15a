//! Starts the terminal front with the history file of the home. `main` calls it.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::Code;
use patchbay_session::Session;

use crate::{CliError, FAILED, home::HomeDirs};

pub(crate) fn run(
    runtime: &tokio::runtime::Runtime,
    home: &HomeDirs,
    session: Arc<Session>,
) -> Result<ExitCode, CliError> {
    let history = home.paths.state.join("history");
    let all_ok = patchbay_repl::run(runtime.handle(), session, &history, env!("CARGO_PKG_VERSION"))
        .map_err(|error| CliError::new(Code::Internal, error.to_string()))?;
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

//! Starts the terminal front with the history file of the home. `main` calls it.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::Code;
use patchbay_repl::TerminalSettings;
use patchbay_session::Session;

use crate::{CliError, FAILED, config, home::HomeDirs, progress_line::ProgressLine};

pub(crate) fn run(
    runtime: &tokio::runtime::Runtime,
    home: &HomeDirs,
    session: Arc<Session>,
    plain: bool,
    progress: &ProgressLine,
) -> Result<ExitCode, CliError> {
    let settings = config::read(&home.paths.config)?.terminal;
    let history = home.paths.state.join("history");
    let options = patchbay_repl::Options {
        history: &history,
        version: env!("CARGO_PKG_VERSION"),
        settings: TerminalSettings { plain: plain || settings.plain, ..settings },
        compiling: &|| progress.hand_over(),
    };
    let all_ok = patchbay_repl::run(runtime.handle(), session, options)
        .map_err(|error| CliError::new(Code::Internal, error.to_string()))?;
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

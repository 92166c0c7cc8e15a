//! Starts the terminal front with the history file of the home. `main` calls it.

use std::{process::ExitCode, sync::Arc};

use patchbay_core::Code;
use patchbay_repl::{FrontEnd, TerminalSettings};
use patchbay_session::Session;
use tokio::time::timeout;

use crate::{
    CliError, config,
    home::HomeDirs,
    progress_line::ProgressLine,
    signals::{EndSignal, GRACE, SETTLING},
};

/// Returns the settings of the terminal. `plain` is the option of that name.
pub(crate) fn settings(home: &HomeDirs, plain: bool) -> Result<TerminalSettings, CliError> {
    let settings = config::read(&home.paths.config)?.terminal;
    Ok(TerminalSettings { plain: plain || settings.plain, ..settings })
}

pub(crate) fn run(
    runtime: &tokio::runtime::Runtime,
    home: &HomeDirs,
    session: Arc<Session>,
    settings: TerminalSettings,
    progress: &ProgressLine,
) -> Result<ExitCode, CliError> {
    let history = home.paths.state.join("history");
    let options = patchbay_repl::Options {
        history: &history,
        version: env!("CARGO_PKG_VERSION"),
        settings,
        compiling: &|| progress.hand_over(),
    };
    // The front handles the signals itself: SIGINT is Ctrl+C, the others leave.
    let signal = EndSignal::watch(false, GRACE);
    let ended = runtime.block_on(patchbay_repl::run(session, options));
    Ok(match ended.map_err(|error| CliError::new(Code::Internal, error.to_string()))? {
        FrontEnd::Left => ExitCode::SUCCESS,
        // `EndSignal` receives the signal as well, but perhaps later. A terminal can be closed without a signal.
        FrontEnd::Signalled => {
            // The timer needs the runtime from the start.
            let received = runtime.block_on(async { timeout(SETTLING, signal.received()).await });
            received.map_or(ExitCode::SUCCESS, ExitCode::from)
        }
    })
}

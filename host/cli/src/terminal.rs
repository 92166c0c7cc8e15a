//! Starts the terminal front with the history file of the home. `main` calls it.

use std::{
    process::ExitCode,
    sync::{Arc, Weak},
};

use patchbay_core::Code;
use patchbay_repl::{FrontEnd, TerminalSettings};
use patchbay_session::Session;
use tokio::{sync::watch, time::timeout};

use crate::{
    CliError, FAILED, config,
    home::HomeDirs,
    progress_line::ProgressLine,
    signals::{self, EndSignal, GRACE, SETTLING},
};

pub(crate) fn run(
    runtime: &tokio::runtime::Runtime,
    home: &HomeDirs,
    session: Arc<Session>,
    plain: bool,
    progress: &ProgressLine,
) -> Result<ExitCode, CliError> {
    let settings = config::read(&home.paths.config)?.terminal;
    let settings = TerminalSettings { plain: plain || settings.plain, ..settings };
    let history = home.paths.state.join("history");
    let (shown, last_shown) = watch::channel(session.last_seq());
    let options = patchbay_repl::Options {
        history: &history,
        version: env!("CARGO_PKG_VERSION"),
        settings,
        compiling: &|| progress.hand_over(),
        shown: &shown,
    };
    // The front that draws handles the signals itself: SIGINT is Ctrl+C, the others leave.
    let draws = patchbay_repl::draws(settings);
    let signal = EndSignal::watch(!draws, GRACE);
    let ending = (!draws).then(|| runtime.spawn(end_on_signal(Arc::downgrade(&session), last_shown, signal.clone())));
    let ended = patchbay_repl::run(runtime.handle(), session, options);
    // Nothing more is shown.
    drop(shown);
    if let Some(ending) = ending.filter(|_| signal.is_received()) {
        // Ends the process.
        let _ = runtime.block_on(ending);
    }
    Ok(match ended.map_err(|error| CliError::new(Code::Internal, error.to_string()))? {
        FrontEnd::Left => ExitCode::SUCCESS,
        FrontEnd::LineFailed => ExitCode::from(FAILED),
        // `EndSignal` receives the signal as well, but perhaps later. A terminal can be closed without a signal.
        FrontEnd::Signalled => {
            // The timer needs the runtime from the start.
            let received = runtime.block_on(async { timeout(SETTLING, signal.received()).await });
            received.map_or(ExitCode::SUCCESS, ExitCode::from)
        }
    })
}

/// Waits for the signal, closes the session, which stores partial answers, waits until the front has shown them, and ends the
/// process. The front cannot do that while it waits for a line.
async fn end_on_signal(session: Weak<Session>, mut last_shown: watch::Receiver<u64>, signal: EndSignal) {
    let code = signal.received().await;
    if let Some(session) = session.upgrade() {
        session.stop_all();
        let settled = async {
            session.close().await;
            let last = session.last_seq();
            // An error means that the front has ended.
            drop(last_shown.wait_for(|shown| *shown >= last).await);
        };
        let _ = timeout(SETTLING, settled).await;
    }
    signals::end(code);
}

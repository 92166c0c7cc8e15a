//! `patchbay exec`, and `patchbay` when it does not draw: runs lines in a session and prints their results. `main` calls it.

mod last_turns;
mod later_lines;
mod line_source;
mod piped_input;
mod printer;
mod script;

use std::{future::pending, process::ExitCode, sync::Arc, time::Duration};

use patchbay_core::{Code, Outcome};
use patchbay_repl::{ProgramOptions, Programs};
use patchbay_session::Session;
use tokio::time::{Instant, sleep_until, timeout};

use crate::{
    CliError,
    args::Exec,
    out::note,
    signals::{EndSignal, SETTLING},
};
use script::ScriptRun;

const OUT_OF_TIME: u8 = 3;
/// The exit code that a shell reports for a program which writes to a closed pipe: 128 plus the number of SIGPIPE.
const READER_GONE: u8 = 128 + 13;

/// Why the lines ended early, other than by a signal or timeout.
enum EarlyEnd {
    Failure(CliError),
    /// The program that reads standard output closed it, as `head` does.
    ReaderGone,
}

impl<E: Into<CliError>> From<E> for EarlyEnd {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

/// A signal or timeout that stops the lines.
enum ExecStop {
    /// `--timeout` has passed; its value in seconds.
    OutOfTime(u64),
    /// A signal was received; the exit code for it.
    Signal(u8),
}

impl ExecStop {
    /// Waits for the signal or the timeout. `deadline` is the timeout in seconds and the instant at which it ends.
    async fn wait(signal: &EndSignal, deadline: Option<(u64, Instant)>) -> Self {
        let out_of_time = async {
            match deadline {
                Some((seconds, end)) => {
                    sleep_until(end).await;
                    seconds
                }
                None => pending().await,
            }
        };
        tokio::select! {
            code = signal.received() => Self::Signal(code),
            seconds = out_of_time => Self::OutOfTime(seconds),
        }
    }

    /// Returns the exit code, and prints an error for a timeout.
    fn report(self) -> ExitCode {
        match self {
            Self::OutOfTime(seconds) => {
                let outcome = Outcome::error(Code::Timeout, format_args!("timed out after {seconds} s (--timeout)."));
                note(&format!("{} [{}]", outcome.line(), outcome.code));
                ExitCode::from(OUT_OF_TIME)
            }
            Self::Signal(code) => ExitCode::from(code),
        }
    }
}

/// Runs the lines of `exec` in the session that `start` returns. The timeout includes `start`. With `programs`, models can run
/// programs.
pub(crate) async fn run(
    start: impl Future<Output = Result<Arc<Session>, CliError>>,
    exec: Exec,
    programs: Option<ProgramOptions>,
    signal: &EndSignal,
) -> Result<ExitCode, CliError> {
    let deadline = exec.timeout.map(|seconds| (seconds, Instant::now() + Duration::from_secs(seconds)));
    let session = tokio::select! {
        biased;
        stop = ExecStop::wait(signal, deadline) => return Ok(stop.report()),
        session = start => session?,
    };
    let mut script = ScriptRun::new(Arc::clone(&session), &exec);
    script.programs = programs.map(|options| Programs::offer(&session, options));
    let ended = tokio::select! {
        biased;
        stop = ExecStop::wait(signal, deadline) => Err(stop),
        ended = script.run(&exec) => Ok(ended),
    };
    if !matches!(ended, Ok(Ok(_))) {
        session.stop_all();
    }
    // Closing stops a line that still runs. Partial answers are stored and printed before the process exits.
    let _ = timeout(SETTLING, session.close()).await;
    if !matches!(ended, Ok(Ok(_))) {
        let _ = script.drain().await.and_then(|()| script.printer.end_line());
    }
    let code = match ended {
        Ok(Ok(code)) => code,
        Ok(Err(EarlyEnd::Failure(failure))) => return Err(failure),
        Ok(Err(EarlyEnd::ReaderGone)) => return Ok(ExitCode::from(READER_GONE)),
        Err(stop) => stop.report(),
    };
    if !exec.json && exec.session.session.is_none() && script.printer.has_conversation() {
        note(&format!("Session: {}", session.id()));
    }
    Ok(code)
}

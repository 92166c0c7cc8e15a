//! `patchbay exec`, the front for scripts: runs lines in a session and prints their results. `main` calls it.

mod last_turns;
mod line_source;
mod printer;
mod script;

use std::{process::ExitCode, sync::Arc, time::Duration};

use patchbay_core::{Code, Outcome};
use patchbay_session::Session;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{CliError, args::Exec};
use printer::note;
use script::ScriptRun;

const OUT_OF_TIME: u8 = 3;
/// The exit code that a shell reports for a program which writes to a closed pipe: 128 plus the number of SIGPIPE.
const READER_GONE: u8 = 128 + 13;
/// How long cancelled turns may take to store their partial answers.
const SETTLING: Duration = Duration::from_secs(2);

/// Why no further lines are run.
enum EarlyEnd {
    Failure(CliError),
    /// The reader of standard output closed it, such as `head`.
    ReaderGone,
}

impl<E: Into<CliError>> From<E> for EarlyEnd {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

/// Runs the lines of `exec` in the session that `start` returns. The time-out includes `start`.
pub(crate) async fn run(
    start: impl Future<Output = Result<Arc<Session>, CliError>>,
    exec: Exec,
) -> Result<ExitCode, CliError> {
    let deadline = exec.timeout.map(|seconds| (seconds, Instant::now() + Duration::from_secs(seconds)));
    let session = match deadline {
        None => start.await?,
        Some((seconds, deadline)) => match timeout_at(deadline, start).await {
            Ok(session) => session?,
            Err(_) => return Ok(out_of_time(seconds)),
        },
    };
    let mut script = ScriptRun::new(Arc::clone(&session), exec.json);
    let ended = match deadline {
        None => Ok(script.run(&exec).await),
        Some((seconds, deadline)) => timeout_at(deadline, script.run(&exec)).await.map_err(|_| seconds),
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
        Err(seconds) => out_of_time(seconds),
    };
    if !exec.json && exec.session.session.is_none() && script.printer.has_conversation() {
        note(&format!("Session: {}", session.id()));
    }
    Ok(code)
}

fn out_of_time(seconds: u64) -> ExitCode {
    let outcome = Outcome::error(Code::Timeout, format_args!("not done after {seconds} s (--timeout)."));
    note(&format!("{} [{}]", outcome.line(), outcome.code));
    ExitCode::from(OUT_OF_TIME)
}

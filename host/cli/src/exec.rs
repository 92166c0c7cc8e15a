//! `patchbay exec`, the front for scripts: runs lines in a session and prints their results. `main` calls it.

mod printer;

use std::{process::ExitCode, sync::Arc, time::Duration};

use patchbay_core::{Code, Outcome};
use patchbay_session::{Session, Subscription};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::{Instant, timeout, timeout_at},
};

use crate::{CliError, FAILED, args::Exec};
use printer::{Printer, note};

const OUT_OF_TIME: u8 = 3;
/// The exit code that a shell reports for a program which writes to a closed pipe: 128 plus the number of SIGPIPE.
const READER_GONE: u8 = 128 + 13;
/// How long a cancelled turn may take to store the partial answer.
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
    let mut events = session.subscribe(session.last_seq() + 1);
    let mut printer = Printer::new(exec.json);
    let lines = run_lines(&session, &exec, &mut events, &mut printer);
    let ended = match deadline {
        None => Ok(lines.await),
        Some((seconds, deadline)) => timeout_at(deadline, lines).await.map_err(|_| seconds),
    };
    // Closing stops a line that still runs. Its partial answer is stored and printed before the process exits.
    let _ = timeout(SETTLING, session.close()).await;
    if !matches!(ended, Ok(Ok(_))) {
        let _ = drain(&session, &mut events, &mut printer).await.and_then(|()| printer.end_line());
    }
    let code = match ended {
        Ok(Ok(code)) => code,
        Ok(Err(EarlyEnd::Failure(failure))) => return Err(failure),
        Ok(Err(EarlyEnd::ReaderGone)) => return Ok(ExitCode::from(READER_GONE)),
        Err(seconds) => out_of_time(seconds),
    };
    if !exec.json && exec.session.session.is_none() && printer.has_conversation() {
        note(&format!("Session: {}", session.id()));
    }
    Ok(code)
}

fn out_of_time(seconds: u64) -> ExitCode {
    let outcome = Outcome::error(Code::Timeout, format_args!("not done after {seconds} s (--timeout)."));
    note(&format!("{} [{}]", outcome.line(), outcome.code));
    ExitCode::from(OUT_OF_TIME)
}

async fn run_lines(
    session: &Arc<Session>,
    exec: &Exec,
    events: &mut Subscription,
    printer: &mut Printer,
) -> Result<ExitCode, EarlyEnd> {
    if exec.json {
        printer.print(&json!({"session": session.id().to_string()}).to_string())?;
    } else if let Some(exclusions) = session.exclusions() {
        note(&exclusions);
    }
    for notice in session.notices() {
        note(&format!("Note: {notice}"));
    }
    let mut lines = LineSource::new(exec);
    let mut code = ExitCode::SUCCESS;
    while let Some(line) = lines.next().await? {
        if line.trim().is_empty() {
            continue;
        }
        let outcome = submit(session, &line, events, printer).await?;
        printer.outcome(&line, &outcome)?;
        if outcome.code == Code::Quit {
            break;
        }
        if !outcome.is_ok() {
            code = ExitCode::from(FAILED);
            if !exec.keep_going {
                break;
            }
        }
    }
    Ok(code)
}

/// Runs one line and prints its events.
async fn submit(
    session: &Arc<Session>,
    line: &str,
    events: &mut Subscription,
    printer: &mut Printer,
) -> Result<Outcome, EarlyEnd> {
    let mut submitted = session.submit_ahead(line);
    let outcome = loop {
        tokio::select! {
            biased;
            received = events.next() => match received? {
                Some(received) => printer.event(received, session.last_seq())?,
                None => break submitted.await,
            },
            outcome = &mut submitted => break outcome,
        }
    };
    drain(session, events, printer).await?;
    Ok(outcome)
}

/// Prints the events that are available without waiting.
async fn drain(session: &Session, events: &mut Subscription, printer: &mut Printer) -> Result<(), EarlyEnd> {
    while let Some(received) = events.try_next().await? {
        printer.event(received, session.last_seq())?;
    }
    Ok(())
}

/// The source of lines: the command line, or standard input.
enum LineSource<'a> {
    Given(std::slice::Iter<'a, String>),
    Input(Box<BufReader<tokio::io::Stdin>>),
}

impl<'a> LineSource<'a> {
    fn new(exec: &'a Exec) -> Self {
        if exec.lines.is_empty() {
            Self::Input(Box::new(BufReader::new(tokio::io::stdin())))
        } else {
            Self::Given(exec.lines.iter())
        }
    }

    async fn next(&mut self) -> Result<Option<String>, CliError> {
        match self {
            Self::Given(lines) => Ok(lines.next().cloned()),
            Self::Input(input) => {
                let mut bytes = Vec::new();
                let read = input.read_until(b'\n', &mut bytes).await;
                let read = read.map_err(|error| {
                    CliError::new(Code::Internal, format!("standard input cannot be read: {error}."))
                })?;
                if read == 0 {
                    return Ok(None);
                }
                let line = String::from_utf8(bytes).map_err(|_| {
                    CliError::new(
                        Code::ParseError,
                        "a line of standard input is not UTF-8; it and what follows was not run.",
                    )
                })?;
                Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
            }
        }
    }
}

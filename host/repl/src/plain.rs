//! The front without a terminal: lines from standard input, results on standard output, errors on standard error.

use std::{
    io::{BufRead as _, ErrorKind, IsTerminal as _, Write as _},
    sync::Arc,
};

use patchbay_core::{Code, Outcome};
use patchbay_session::{Session, Subscription};
use tokio::{runtime::Handle, sync::watch};

use crate::{ReplError, events_from_here, notice_task::NoticeTask, pipe::PipeOutput, words};

/// What to do after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    /// Read the next line; this one failed.
    AfterError,
    Leave,
}

/// Runs every line of standard input, with a prompt in a terminal; returns whether all of them succeeded. At the end of piped lines, agents that work finish;
/// a user who leaves stops them. `shown` receives the number of each row that was shown.
pub(crate) fn run(
    runtime: &Handle,
    session: &Arc<Session>,
    typed: bool,
    shown: &watch::Sender<u64>,
) -> Result<bool, ReplError> {
    let new_output = || PipeOutput::new(session.view(), shown.clone());
    let mut lines = std::io::stdin().lock().lines();
    let mut events = events_from_here(session);
    let mut output = new_output();
    let mut all_ok = true;
    let prompts = typed && std::io::stdout().is_terminal();
    loop {
        if prompts {
            output.prompt(session.is_capturing())?;
        }
        let notice_task = NoticeTask::start(runtime, events, output);
        let text = lines.next().transpose()?;
        (events, output) = notice_task.end(runtime).unwrap_or_else(|| (events_from_here(session), new_output()));
        match &text {
            Some(_) => output.entered(),
            None => output.end()?,
        }
        let Some(text) = text else { break };
        match line(runtime, session, &mut events, &mut output, &text)? {
            Next::Line => {}
            Next::AfterError => all_ok = false,
            Next::Leave => return Ok(all_ok),
        }
    }
    if typed {
        stop_all(session);
    } else {
        finish(runtime, session, &mut events, &mut output)?;
    }
    Ok(all_ok)
}

/// Stops the agents that work, and says how many.
fn stop_all(session: &Session) {
    let stopped = session.stop_all();
    if stopped > 0 {
        // Standard error may be closed.
        drop(writeln!(std::io::stderr().lock(), "{}", words::stopped(stopped)));
    }
}

/// Shows what happens until no agent works. Write errors are ignored: no outcome follows.
fn finish(
    runtime: &Handle,
    session: &Arc<Session>,
    events: &mut Subscription,
    output: &mut PipeOutput,
) -> Result<(), ReplError> {
    runtime.block_on(async {
        let mut idle = std::pin::pin!(session.wait_idle());
        loop {
            tokio::select! {
                biased;
                received = events.next() => match received {
                    Ok(Some(received)) => drop(output.show(received)),
                    Ok(None) => return Ok(()),
                    Err(error) => return Err(ReplError::Store(error.to_string())),
                },
                () = &mut idle => {
                    while let Ok(Some(received)) = events.try_next().await {
                        drop(output.show(received));
                    }
                    drop(output.end());
                    return Ok(());
                }
            }
        }
    })
}

/// Runs one line, with the events that were not shown yet.
fn line(
    runtime: &Handle,
    session: &Arc<Session>,
    events: &mut Subscription,
    output: &mut PipeOutput,
    line: &str,
) -> Result<Next, ReplError> {
    if line.trim().is_empty() {
        return Ok(Next::Line);
    }
    output.begin(line);
    // Write errors of events are ignored: printing the outcome detects a closed pipe.
    let outcome = runtime.block_on(async {
        let mut submitted = session.submit_ahead(line);
        loop {
            tokio::select! {
                biased;
                received = events.next() => match received {
                    Ok(Some(received)) => drop(output.show(received)),
                    Ok(None) => return Ok(submitted.await),
                    Err(error) => return Err(ReplError::Store(error.to_string())),
                },
                outcome = &mut submitted => {
                    while let Ok(Some(received)) = events.try_next().await {
                        drop(output.show(received));
                    }
                    return Ok(outcome);
                }
            }
        }
    })?;
    match outcome.code {
        Code::Quit => stop_all(session),
        // A signal ends the process.
        Code::SessionClosed => return Ok(Next::Leave),
        _ => {}
    }
    match output.outcome(&outcome) {
        // A closed pipe ends the front.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Next::Leave),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(match outcome {
            Outcome { code: Code::Quit, .. } => Next::Leave,
            outcome if !outcome.is_ok() => Next::AfterError,
            _ => Next::Line,
        }),
    }
}

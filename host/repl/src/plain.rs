//! The front without a terminal: lines from standard input, results on standard output, errors on standard error.

use std::{
    io::{BufRead as _, ErrorKind, Write as _},
    sync::Arc,
};

use patchbay_core::{Code, Outcome};
use patchbay_session::{Session, Subscription};
use tokio::runtime::Handle;

use crate::{ReplError, events_from_here, notice_task::NoticeTask, pipe::PipeOutput};

/// What to do after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    /// Read the next line; this one failed.
    AfterError,
    Leave,
}

/// Runs every line of standard input; returns whether all of them succeeded.
pub(crate) fn run(runtime: &Handle, session: &Arc<Session>) -> Result<bool, ReplError> {
    let mut lines = std::io::stdin().lock().lines();
    let mut events = events_from_here(session);
    let mut all_ok = true;
    loop {
        // Write errors are ignored here: the next outcome detects a closed pipe.
        let notice_task =
            NoticeTask::start(runtime, events, |notice| drop(writeln!(std::io::stdout().lock(), "{notice}")));
        let text = lines.next().transpose()?;
        events = notice_task.end(runtime).unwrap_or_else(|| events_from_here(session));
        let Some(text) = text else { return Ok(all_ok) };
        match line(runtime, session, &mut events, &text)? {
            Next::Line => {}
            Next::AfterError => all_ok = false,
            Next::Leave => return Ok(all_ok),
        }
    }
}

/// Runs one line, with the events that were not shown yet.
fn line(runtime: &Handle, session: &Arc<Session>, events: &mut Subscription, line: &str) -> Result<Next, ReplError> {
    if line.trim().is_empty() {
        return Ok(Next::Line);
    }
    let mut output = PipeOutput::default();
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

//! The terminal front: a line editor with history and completion, or plain lines without a terminal. It has no logic of its
//! own; the session parses and runs each line. The binary calls [`run`].

mod complete;
mod editor;
mod hint;
mod interrupts;
mod notice_task;
mod plain;
mod prompt;
mod screen;

use std::{
    io::{ErrorKind, IsTerminal as _, Write as _},
    path::Path,
    sync::Arc,
};

use patchbay_core::{Code, Outcome};
use patchbay_session::{Session, Subscription};
use tokio::runtime::Handle;

use interrupts::Interrupts;
use screen::Screen;

/// Why the terminal ended early. Everything that was acknowledged is stored.
#[derive(Debug, thiserror::Error)]
pub enum ReplError {
    /// Standard input or output, or the terminal, failed.
    #[error("the terminal failed: {0}")]
    Io(#[from] std::io::Error),
    /// The session's events cannot be read from the store.
    #[error("{0}")]
    Store(String),
}

/// Runs lines until the user leaves. Returns false if a line of piped input failed. `history` is the history file, `version`
/// is shown in the greeting.
///
/// # Errors
/// [`ReplError`] if the terminal or the store fails.
pub fn run(runtime: &Handle, session: Arc<Session>, history: &Path, version: &str) -> Result<bool, ReplError> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let typed = std::io::stdin().is_terminal();
    if dumb || !typed || !std::io::stdout().is_terminal() {
        let all_ok = plain::run(runtime, &session)?;
        // A user has seen the errors; a script that pipes lines only has the exit code.
        return Ok(all_ok || typed);
    }
    greet(runtime, &session, version)?;
    editor::run(runtime, &session, history)?;
    Ok(true)
}

fn greet(runtime: &Handle, session: &Session, version: &str) -> Result<(), ReplError> {
    let skills = session.snapshot().skills().len();
    say(&format!("Patchbay {version} - session {}, {skills} skills", session.id().short()))?;
    if let Some(exclusions) = session.exclusions() {
        say(&exclusions)?;
    }
    for notice in session.notices() {
        say(&format!("Note: {notice}"))?;
    }
    say(&runtime.block_on(session.model_line()))?;
    say("/commands lists what works, Tab completes, /quit leaves.")?;
    for line in runtime.block_on(session.last_exchange()).map_err(|error| ReplError::Store(error.to_string()))? {
        say(&screen::faint(&line))?;
    }
    Ok(())
}

/// Subscribes to the events that follow.
fn events_from_here(session: &Session) -> Subscription {
    session.subscribe(session.last_seq() + 1)
}

/// What to do after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    /// Read the next line; this one failed.
    AfterError,
    Leave,
}

/// Runs one line on `screen`, with the events that were not shown yet.
fn line(
    runtime: &Handle,
    session: &Arc<Session>,
    events: &mut Subscription,
    line: &str,
    interrupts: &mut Interrupts,
    mut screen: Screen,
) -> Result<Next, ReplError> {
    if line.trim().is_empty() {
        return Ok(Next::Line);
    }
    let outcome = runtime.block_on(async {
        interrupts.forget().await;
        let mut submitted = session.submit_ahead(line);
        loop {
            tokio::select! {
                biased;
                received = events.next() => match received {
                    Ok(Some(received)) => show(&mut screen, received),
                    Ok(None) => return Ok(Some(submitted.await)),
                    Err(error) => return Err(ReplError::Store(error.to_string())),
                },
                outcome = &mut submitted => {
                    while let Ok(Some(received)) = events.try_next().await {
                        show(&mut screen, received);
                    }
                    return Ok(Some(outcome));
                }
                () = interrupts.next() => break,
            }
        }
        // The partial answer is committed before the next line.
        session.stop(submitted.id());
        submitted.await;
        Ok(None)
    })?;
    let shown = match &outcome {
        // The line feed follows the `^C` that the terminal echoes.
        None => screen.end().and_then(|()| writeln!(std::io::stdout().lock(), "\nCancelled.")),
        Some(outcome) => screen.outcome(outcome),
    };
    match shown {
        // A closed pipe ends the front.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Next::Leave),
        Err(error) => Err(error.into()),
        Ok(()) => match outcome {
            Some(Outcome { code: Code::Quit, .. }) => Ok(Next::Leave),
            Some(outcome) if !outcome.is_ok() => Ok(Next::AfterError),
            _ => Ok(Next::Line),
        },
    }
}

/// Prints a line. A closed pipe ends the front.
fn say(text: &str) -> Result<Next, ReplError> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Ok(()) => Ok(Next::Line),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Next::Leave),
        Err(error) => Err(error.into()),
    }
}

/// Shows an event. Write errors are ignored: printing the outcome detects a closed pipe.
fn show(screen: &mut Screen, received: patchbay_session::Received) {
    let _ = screen.show(received);
}

//! The terminal: a line editor with history and completion over a session, and plain lines where there is no terminal.
//! Holds no logic: what a line means is the session's affair.

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

/// Why the terminal ended early. What was acknowledged is stored.
#[derive(Debug, thiserror::Error)]
pub enum ReplError {
    /// The terminal cannot be read or written.
    #[error("the terminal failed: {0}")]
    Io(#[from] std::io::Error),
    /// Events cannot be read.
    #[error("{0}")]
    Store(String),
}

/// Takes lines until the person leaves; returns whether every line of a script that was piped in went well. `history` is the
/// file that keeps what was typed, `version` stands in the greeting.
///
/// # Errors
/// Where the terminal or the store fails.
pub fn run(runtime: &Handle, session: Arc<Session>, history: &Path, version: &str) -> Result<bool, ReplError> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let typed = std::io::stdin().is_terminal();
    if dumb || !typed || !std::io::stdout().is_terminal() {
        let all_ok = plain::run(runtime, &session)?;
        // A person has seen the errors; the script that called a pipe has only the exit code.
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

/// What happens in a session from now on.
fn events_from_here(session: &Session) -> Subscription {
    session.subscribe(session.last_seq() + 1)
}

/// Whether the person goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    /// The same, after a line that failed.
    AfterError,
    Leave,
}

/// Runs one line on `screen`. `events`: those that were not shown yet.
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
        let mut submitted = session.submit(line);
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
        // What came of a turn is kept before anything else is typed.
        session.stop(submitted.id());
        submitted.await;
        Ok(None)
    })?;
    let shown = match &outcome {
        // Behind the `^C` that the terminal shows.
        None => screen.end().and_then(|()| writeln!(std::io::stdout().lock(), "\nCancelled.")),
        Some(outcome) => screen.outcome(outcome),
    };
    match shown {
        // Where nobody reads any more there is nobody to go on for.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Next::Leave),
        Err(error) => Err(error.into()),
        Ok(()) => match outcome {
            Some(Outcome { code: Code::Quit, .. }) => Ok(Next::Leave),
            Some(outcome) if !outcome.is_ok() => Ok(Next::AfterError),
            _ => Ok(Next::Line),
        },
    }
}

/// Prints a line. Where nobody reads any more there is nobody to go on for.
fn say(text: &str) -> Result<Next, ReplError> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Ok(()) => Ok(Next::Line),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Next::Leave),
        Err(error) => Err(error.into()),
    }
}

/// Who has gone is noticed at the line's own outcome.
fn show(screen: &mut Screen, received: patchbay_session::Received) {
    let _ = screen.show(received);
}

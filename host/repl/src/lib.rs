//! The terminal: a line editor with history and completion over a session, and plain lines where there is no terminal.
//! Holds no logic: what a line means is the session's affair.

mod complete;
mod editor;
mod hint;
mod interrupts;
mod listen;
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

/// Takes lines until the person leaves. `history` is the file that keeps what was typed, `version` stands in the greeting.
///
/// # Errors
/// Where the terminal or the store fails.
pub fn run(runtime: &Handle, session: Arc<Session>, history: &Path, version: &str) -> Result<(), ReplError> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return plain::run(runtime, &session);
    }
    greet(runtime, &session, version)?;
    editor::run(runtime, &session, history)
}

fn greet(runtime: &Handle, session: &Session, version: &str) -> Result<(), ReplError> {
    let snapshot = session.snapshot();
    let (skills, problems) = (snapshot.skills().len(), snapshot.diagnostics().len());
    say(&format!("Patchbay {version} - session {}, {skills} skills", session.id().short()))?;
    if problems > 0 {
        say(&format!("{problems} kept out or limited; /skills says why."))?;
    }
    for notice in session.notices() {
        say(&format!("Note: {notice}"))?;
    }
    if let Some(notice) = runtime.block_on(session.model_notice()) {
        say(&notice)?;
    }
    say("/commands lists what works, Tab completes, /quit leaves.")?;
    Ok(())
}

/// What happens in a session from now on.
fn events_from_here(session: &Session) -> Subscription {
    session.subscribe(session.last_seq() + 1)
}

/// Whether the person goes on.
enum Next {
    Line,
    Leave,
}

/// Runs one line and prints what it comes to. `events`: those that nobody has shown yet.
fn line(
    runtime: &Handle,
    session: &Arc<Session>,
    events: &mut Subscription,
    line: &str,
    interrupts: &mut Interrupts,
) -> Result<Next, ReplError> {
    if line.trim().is_empty() {
        return Ok(Next::Line);
    }
    let mut screen = Screen::new(std::io::stdout().is_terminal());
    let outcome = runtime.block_on(async {
        interrupts.forget().await;
        let submitted = session.submit(line);
        tokio::pin!(submitted);
        loop {
            tokio::select! {
                biased;
                received = events.next() => match received {
                    Ok(Some(received)) => show(&mut screen, received),
                    Ok(None) => return Ok(Some(submitted.await)),
                    Err(error) => return Err(ReplError::Store(error.to_string())),
                },
                outcome = &mut submitted => {
                    while let Ok(Some(received)) = events.try_next() {
                        show(&mut screen, received);
                    }
                    return Ok(Some(outcome));
                }
                () = interrupts.next() => break,
            }
        }
        Ok(None)
    })?;
    if outcome.is_none() {
        // What came of a turn is kept before anything else is typed.
        runtime.block_on(session.idle());
    }
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

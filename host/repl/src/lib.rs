//! The terminal front: an interactive terminal with a composer below the conversation. The session parses and runs each line,
//! except for the terminal's own commands. The binary calls [`run`].

mod approver;
mod line_questions;
mod programs;
mod question_text;
mod settings;
mod terminal;
mod words;

use std::{io::IsTerminal as _, path::Path, sync::Arc};

pub use line_questions::LineQuestions;
use patchbay_session::{LastExchange, Session, Subscription};
pub use programs::{ProgramOptions, Programs};
pub use settings::{ColourUse, ProgramUse, ProseWrap, TerminalSettings, ThinkingDisplay};
pub use terminal::restore_modes;
use tokio::sync::watch;
pub use words::failure as tool_failure;

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

/// The options of the terminal front.
pub struct Options<'a> {
    /// The path of the history file.
    pub history: &'a Path,
    /// The version that the greeting shows.
    pub version: &'a str,
    /// The settings of the terminal's display.
    pub settings: TerminalSettings,
    /// Called when the front takes over the terminal. Returns the progress of compilation, which only the front may print from
    /// then on.
    pub compiling: &'a dyn Fn() -> watch::Receiver<Option<String>>,
    /// How programs are run that models or the user start.
    pub programs: ProgramOptions,
    /// A line that runs first, as if it was typed.
    pub first: Option<String>,
    /// A line at the end of the greeting.
    pub notice: Option<String>,
}

/// Returns whether [`run`] draws. It needs a terminal that can be drawn on, and must not draw if plain lines are set.
pub fn draws(settings: &TerminalSettings) -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !settings.plain && !dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The reason why [`run`] has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// The user has left the session.
    Left,
    /// SIGTERM or SIGHUP ended the front, or its terminal was closed.
    Signalled,
    /// The user continues in another session.
    Next(NextSession),
}

/// The session in which the user continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextSession {
    /// A new session in the same workspace.
    New,
    /// A stored session: its id, or a unique prefix of it.
    Resume(String),
}

/// Runs lines until the user leaves.
///
/// # Errors
/// [`ReplError`] if the terminal or the store fails.
pub async fn run(session: Arc<Session>, options: Options<'_>) -> Result<FrontEnd, ReplError> {
    let mut greeting = greeting(&session, options.version, !options.history.exists()).await?;
    greeting.lines.extend(options.notice.clone());
    terminal::run(session, options, greeting).await
}

/// The lines that the terminal prints first.
struct Welcome {
    lines: Vec<String>,
    /// The last exchange of a resumed session.
    exchange: Option<LastExchange>,
}

/// Returns the first lines. With `is_first`, which means that there is no history file yet, they include a short introduction.
async fn greeting(session: &Session, version: &str, is_first: bool) -> Result<Welcome, ReplError> {
    let skills = session.snapshot().skills().len();
    let mut lines = vec![format!("Patchbay {version} - session {}, {skills} skills", session.id().short())];
    lines.extend(session.exclusions());
    lines.extend(session.notices().into_iter().map(|notice| format!("Note: {notice}")));
    lines.extend(session.model_lines().await);
    if is_first {
        lines.push("/commands lists what works, Tab completes, /quit leaves.".to_owned());
        lines.push("? lists the keys, Esc stops the turn.".to_owned());
    }
    let exchange = session.last_exchange().await.map_err(|error| ReplError::Store(error.to_string()))?;
    Ok(Welcome { lines, exchange })
}

/// Subscribes to all events from now on.
fn events_from_here(session: &Session) -> Subscription {
    session.subscribe(session.last_seq() + 1)
}

//! `patchbay exec`: the front for scripts.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use patchbay_core::{Code, Outcome};
use patchbay_session::{Received, Session, Subscription};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{FAILED, Failure, args::Exec};

const OUT_OF_TIME: u8 = 3;
/// How long a turn that was cancelled may take to keep what came of it.
const SETTLING: Duration = Duration::from_secs(2);

pub(crate) async fn run(session: Arc<Session>, exec: Exec) -> Result<ExitCode, Failure> {
    let Some(seconds) = exec.timeout else { return run_lines(session, &exec).await };
    match tokio::time::timeout(Duration::from_secs(seconds), run_lines(Arc::clone(&session), &exec)).await {
        Ok(code) => code,
        Err(_) => {
            // What a turn has said is kept before the process ends.
            let _ = tokio::time::timeout(SETTLING, session.idle()).await;
            let outcome = Outcome::error(Code::Timeout, format_args!("not done after {seconds} s (--timeout)."));
            eprintln!("{} [{}]", outcome.message, outcome.code);
            Ok(ExitCode::from(OUT_OF_TIME))
        }
    }
}

async fn run_lines(session: Arc<Session>, exec: &Exec) -> Result<ExitCode, Failure> {
    let mut printer = Printer { json: exec.json };
    let mut events = session.subscribe(session.last_seq() + 1);
    if exec.json {
        printer.print(&json!({"session": session.id().to_string()}).to_string())?;
    }
    for notice in session.notices() {
        eprintln!("Note: {notice}");
    }
    let mut lines = Lines::new(exec);
    let mut code = ExitCode::SUCCESS;
    while let Some(line) = lines.next().await? {
        if line.trim().is_empty() {
            continue;
        }
        let outcome = submit(&session, &line, &mut events, &mut printer).await?;
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

/// Runs one line, printing what happens meanwhile.
async fn submit(
    session: &Arc<Session>,
    line: &str,
    events: &mut Subscription,
    printer: &mut Printer,
) -> Result<Outcome, Failure> {
    let submitted = session.submit(line);
    tokio::pin!(submitted);
    let outcome = loop {
        tokio::select! {
            biased;
            received = events.next() => match received? {
                Some(received) => printer.event(received)?,
                None => break submitted.await,
            },
            outcome = &mut submitted => break outcome,
        }
    };
    while let Some(received) = events.try_next()? {
        printer.event(received)?;
    }
    Ok(outcome)
}

/// The lines of the command line, or of standard input.
enum Lines<'a> {
    Given(std::slice::Iter<'a, String>),
    Input(Box<BufReader<tokio::io::Stdin>>),
}

impl<'a> Lines<'a> {
    fn new(exec: &'a Exec) -> Self {
        if exec.lines.is_empty() {
            Self::Input(Box::new(BufReader::new(tokio::io::stdin())))
        } else {
            Self::Given(exec.lines.iter())
        }
    }

    async fn next(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Self::Given(lines) => Ok(lines.next().cloned()),
            Self::Input(input) => {
                let mut bytes = Vec::new();
                let read = input.read_until(b'\n', &mut bytes).await;
                let read = read.map_err(|error| {
                    Failure::new(Code::Internal, format!("standard input cannot be read: {error}."))
                })?;
                if read == 0 {
                    return Ok(None);
                }
                let line = String::from_utf8(bytes).map_err(|_| {
                    Failure::new(
                        Code::ParseError,
                        "a line of standard input is not UTF-8; it and what follows was not run.",
                    )
                })?;
                Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
            }
        }
    }
}

struct Printer {
    json: bool,
}

impl Printer {
    /// Prints one line, or several, and has them out before the next line is run.
    fn print(&mut self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let printed = writeln!(out, "{text}").and_then(|()| out.flush());
        printed
            .map_err(|error| Failure::new(Code::FolderUnusable, format!("standard output cannot be written: {error}.")))
    }

    fn event(&mut self, received: Received) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let object = match received {
            Received::Lagged(missed) => return self.print(&json!({"event": "lagged", "missed": missed}).to_string()),
            Received::Event(event) => {
                let mut object = serde_json::to_value(&event.kind).unwrap_or_default();
                object["agent"] = event.agent.to_string().into();
                object["seq"] = event.seq.into();
                object
            }
        };
        self.print(&object.to_string())
    }

    fn outcome(&mut self, line: &str, outcome: &Outcome) -> Result<(), Failure> {
        if self.json {
            let mut object = serde_json::to_value(outcome).unwrap_or_default();
            object["line"] = line.into();
            return self.print(&object.to_string());
        }
        if outcome.is_ok() {
            // A model may have nothing to say.
            return if outcome.code == Code::Answered && outcome.message.is_empty() {
                Ok(())
            } else {
                self.print(&outcome.message)
            };
        }
        eprintln!("{}", outcome.message);
        Ok(())
    }
}

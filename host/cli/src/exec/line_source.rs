//! The lines of `exec`, from the command line or else from standard input.

use std::time::Instant;

use patchbay_core::Code;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    sync::mpsc,
};

use crate::{CliError, args::Exec};

/// How many lines a user may type ahead. They are read as they arrive, because the time of arrival matters.
const TYPED_AHEAD: usize = 1_000;

pub(super) enum LineSource {
    Given(std::vec::IntoIter<String>),
    /// Lines from standard input, which a separate task reads.
    Input(mpsc::Receiver<Result<TimedLine, CliError>>),
}

/// A line and the time when it was read.
pub(super) struct TimedLine {
    pub(super) line: String,
    pub(super) at: Instant,
}

impl LineSource {
    /// Must be called within a runtime.
    pub(super) fn new(exec: &Exec) -> Self {
        if exec.lines.is_empty() {
            let (sender, lines) = mpsc::channel(if exec.typed { TYPED_AHEAD } else { 1 });
            tokio::spawn(read_input(sender));
            Self::Input(lines)
        } else {
            Self::Given(exec.lines.clone().into_iter())
        }
    }

    /// Returns the next line; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<TimedLine>, CliError> {
        match self {
            Self::Given(lines) => Ok(lines.next().map(|line| TimedLine { line, at: Instant::now() })),
            Self::Input(lines) => lines.recv().await.transpose(),
        }
    }
}

async fn read_input(lines: mpsc::Sender<Result<TimedLine, CliError>>) {
    let mut input = BufReader::new(tokio::io::stdin());
    loop {
        // Reads nothing until there is room for another line.
        let Ok(place) = lines.reserve().await else { return };
        let mut bytes = Vec::new();
        let line = match input.read_until(b'\n', &mut bytes).await {
            Ok(0) => return,
            Ok(_) => String::from_utf8(bytes).map_err(|_| {
                let message = "a line of standard input is not UTF-8; neither it nor any later line was run.";
                CliError::new(Code::ParseError, message)
            }),
            Err(error) => Err(CliError::new(Code::Internal, format!("cannot read standard input: {error}."))),
        };
        let failed = line.is_err();
        let at = Instant::now();
        place.send(line.map(|line| TimedLine { line: line.trim_end_matches(['\n', '\r']).to_owned(), at }));
        if failed {
            return;
        }
    }
}

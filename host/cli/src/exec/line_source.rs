//! The lines of `exec`: those of the command line, else those of standard input.

use patchbay_core::Code;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    sync::mpsc,
};

use crate::{CliError, args::Exec};

pub(super) enum LineSource {
    Given(std::vec::IntoIter<String>),
    /// Read by a task of its own, one line ahead.
    Input(mpsc::Receiver<Result<String, CliError>>),
}

impl LineSource {
    /// Must be called within a runtime.
    pub(super) fn new(exec: &Exec) -> Self {
        if exec.lines.is_empty() {
            let (sender, lines) = mpsc::channel(1);
            tokio::spawn(read_input(sender));
            Self::Input(lines)
        } else {
            Self::Given(exec.lines.clone().into_iter())
        }
    }

    /// Returns the next line; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<String>, CliError> {
        match self {
            Self::Given(lines) => Ok(lines.next()),
            Self::Input(lines) => lines.recv().await.transpose(),
        }
    }
}

async fn read_input(lines: mpsc::Sender<Result<String, CliError>>) {
    let mut input = BufReader::new(tokio::io::stdin());
    loop {
        // The next line is read when the one before was taken, or one ahead of it.
        let Ok(place) = lines.reserve().await else { return };
        let mut bytes = Vec::new();
        let line = match input.read_until(b'\n', &mut bytes).await {
            Ok(0) => return,
            Ok(_) => String::from_utf8(bytes).map_err(|_| {
                let message = "a line of standard input is not UTF-8; it and what follows was not run.";
                CliError::new(Code::ParseError, message)
            }),
            Err(error) => Err(CliError::new(Code::Internal, format!("standard input cannot be read: {error}."))),
        };
        let failed = line.is_err();
        place.send(line.map(|line| line.trim_end_matches(['\n', '\r']).to_owned()));
        if failed {
            return;
        }
    }
}

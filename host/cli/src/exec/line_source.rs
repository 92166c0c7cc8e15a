//! The lines of `exec`: those of the command line, else those of standard input.

use patchbay_core::Code;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{CliError, args::Exec};

pub(super) enum LineSource<'a> {
    Given(std::slice::Iter<'a, String>),
    Input(Box<BufReader<tokio::io::Stdin>>),
}

impl<'a> LineSource<'a> {
    pub(super) fn new(exec: &'a Exec) -> Self {
        if exec.lines.is_empty() {
            Self::Input(Box::new(BufReader::new(tokio::io::stdin())))
        } else {
            Self::Given(exec.lines.iter())
        }
    }

    /// Returns the next line; `None` at the end. The future is not cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<String>, CliError> {
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

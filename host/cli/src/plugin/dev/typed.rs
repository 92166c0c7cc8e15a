//! Lines that the author types in `plugin dev`.

use std::io::{self, BufRead as _, Read as _};

use tokio::sync::mpsc;

use crate::plugin::call::INPUT_BYTES;

/// Reads standard input on its own thread, because a runtime would wait for a blocked read when it shuts down. The channel is
/// closed at the end of the input.
pub(super) fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match (&mut stdin).take(INPUT_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if sender.blocking_send(String::from_utf8_lossy(&line).trim().to_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

/// A parsed line that the author typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DevLine<'a> {
    /// Run the last call live.
    Again,
    Call(&'a str, Option<&'a str>),
    Keep(Option<&'a str>),
    Help,
    Quit,
}

impl<'a> DevLine<'a> {
    /// Parses a line. A tool with the name of a command, such as `help`, can be called by its full name.
    pub(super) fn parse(line: &'a str) -> Self {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
        match (word, rest) {
            ("", _) => Self::Again,
            ("fixture", _) => Self::Keep(rest),
            ("help" | "?", None) => Self::Help,
            ("quit" | "exit", None) => Self::Quit,
            (tool, input) => Self::Call(tool, input),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_word_decides() {
        assert_eq!(DevLine::parse(""), DevLine::Again);
        assert_eq!(DevLine::parse("hello  {\"name\": \"Ada\"}"), DevLine::Call("hello", Some("{\"name\": \"Ada\"}")));
        assert_eq!(DevLine::parse("hello"), DevLine::Call("hello", None));
        assert_eq!(DevLine::parse("fixture ada"), DevLine::Keep(Some("ada")));
        assert_eq!(DevLine::parse("quit"), DevLine::Quit);
    }
}

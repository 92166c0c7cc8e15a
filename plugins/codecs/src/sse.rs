//! Parser of server-sent events by the rules of WHATWG:
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>. [`Stream`](crate::stream::Stream) uses it.
//!
//! No library is used, because adapters are passed chunks of bytes and have no async runtime. There are two differences from a
//! browser: invalid UTF-8 is an error, because the data is JSON, and [`Parser::finish`] also returns a last event that no blank
//! line follows.

use std::fmt;

/// Maximum number of bytes of one event. It fits a whole image in base64, which Gemini sends as one event.
pub const MAX_EVENT: usize = 16 << 20;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Why a body is not a valid stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// An event, or one line of it, is longer than [`MAX_EVENT`].
    TooLong,
    /// A line of the stream is not UTF-8.
    BadUtf8,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "an event of the response is longer than {} MiB", MAX_EVENT >> 20),
            Self::BadUtf8 => f.write_str("an event of the response is not UTF-8"),
        }
    }
}

impl std::error::Error for Error {}

/// Splits bytes into events. Each byte is processed a fixed number of times, however the body is chunked.
#[derive(Debug)]
pub struct Parser {
    line: Vec<u8>,
    /// True if the last byte was a CR; a following LF belongs to it.
    after_cr: bool,
    /// True until the first line has ended; it may begin with a byte order mark.
    first_line: bool,
    name: String,
    /// The lines of `data`; `None` differs from one empty line.
    data: Option<String>,
    limit: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Creates a parser for a new body.
    pub fn new() -> Self {
        Self::with_limit(MAX_EVENT)
    }

    fn with_limit(limit: usize) -> Self {
        Self { line: Vec::new(), after_cr: false, first_line: true, name: String::new(), data: None, limit }
    }

    /// Parses the next bytes of a body and passes each complete event to `each`: its name (`message` if it has none)
    /// and its data. After an error the parser must not be used again; earlier events were passed on.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str, &str)) -> Result<(), Error> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.extend(bytes);
            };
            self.extend(&bytes[..end])?;
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let mut line = std::mem::take(&mut self.line);
            self.end_line(&line, &mut each)?;
            // Reuse its memory for the next line.
            line.clear();
            self.line = line;
        }
        Ok(())
    }

    /// Ends the body. Passes a last event that no blank line follows to `each`. The standard drops
    /// such an event, but some servers omit the blank line.
    pub fn finish(&mut self, each: impl FnOnce(&str, &str)) {
        self.dispatch(each);
        *self = Self::with_limit(self.limit);
    }

    fn extend(&mut self, more: &[u8]) -> Result<(), Error> {
        let buffered = self.line.len() + self.name.len() + self.data.as_ref().map_or(0, String::len);
        if buffered + more.len() > self.limit {
            return Err(Error::TooLong);
        }
        self.line.extend_from_slice(more);
        Ok(())
    }

    fn end_line(&mut self, mut line: &[u8], each: impl FnOnce(&str, &str)) -> Result<(), Error> {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        let line = str::from_utf8(line).map_err(|_| Error::BadUtf8)?;
        if line.is_empty() {
            self.dispatch(each);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // A comment has an empty field name; `id` and `retry` are only for reconnecting.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, each: impl FnOnce(&str, &str)) {
        let name = std::mem::take(&mut self.name);
        if let Some(data) = self.data.take() {
            each(if name.is_empty() { "message" } else { &name }, &data);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Events = Vec<(String, String)>;

    /// Returns the events of a body in pieces, without calling `finish`.
    fn parse(pieces: &[&[u8]]) -> Result<Events, Error> {
        let mut parser = Parser::new();
        let mut events = Events::new();
        for piece in pieces {
            parser.push(piece, |name, data| events.push((name.to_owned(), data.to_owned())))?;
        }
        Ok(events)
    }

    fn events(list: &[(&str, &str)]) -> Result<Events, Error> {
        Ok(list.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect())
    }

    #[test]
    fn rules_of_the_standard_apply() {
        for (body, expected) in [
            ("", &[][..]),
            ("data: a\n\n", &[("message", "a")]),
            ("data:a\n\n", &[("message", "a")]),
            ("data:  a \n\n", &[("message", " a ")]),
            ("data: a: b\n\n", &[("message", "a: b")]),
            ("event: x\ndata: a\n\ndata: b\n\n", &[("x", "a"), ("message", "b")]),
            ("data: b\nevent: x\nevent: y\n\n", &[("y", "b")]),
            ("data: YHOO\ndata: +2\ndata: 10\n\n", &[("message", "YHOO\n+2\n10")]),
            ("data\n\ndata\ndata\n\ndata:", &[("message", ""), ("message", "\n")]),
            ("event: lost\n\ndata: a\n\n", &[("message", "a")]),
            (": comment\ndata: a\nid: 7\nretry: 9\nfoo\n:\n\n\n\n", &[("message", "a")]),
            ("data: a\rdata: b\r\rdata: c\r\n\r\n", &[("message", "a\nb"), ("message", "c")]),
            ("data: a\n\rdata: b\n\r\n", &[("message", "a"), ("message", "b")]),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("message", "a")]),
            ("\u{feff}\u{feff}data: a\n\n", &[]),
            (" data: a\n\nData: b\n\n", &[]),
            ("data: unfinished\n", &[]),
            ("data: 😀\u{2028}\u{85}é\n\n", &[("message", "😀\u{2028}\u{85}é")]),
        ] {
            assert_eq!(parse(&[body.as_bytes()]), events(expected), "{body:?}");
        }
    }

    #[test]
    fn finish_returns_an_event_without_blank_line() {
        for (body, expected) in [
            ("event: x\ndata: a\ndata: b\n", Some(("x", "a\nb"))),
            ("data: a\r", Some(("message", "a"))),
            ("data: a\ndata: {\"cut", Some(("message", "a"))),
            ("data: {\"cut", None),
            ("event: x\n", None),
            ("data: a\n\n", None),
        ] {
            let mut parser = Parser::new();
            parser.push(body.as_bytes(), |_, _| {}).expect("events");
            let mut last = None;
            parser.finish(|name, data| last = Some((name.to_owned(), data.to_owned())));
            assert_eq!(last.as_ref().map(|(name, data)| (&**name, &**data)), expected, "{body:?}");
        }
    }

    #[test]
    fn invalid_utf8_is_an_error_after_earlier_events() {
        let mut seen = 0;
        let error = Parser::new().push(b"data: a\n\ndata: \xff\n\ndata: b\n\n", |_, _| seen += 1);
        assert_eq!((error, seen), (Err(Error::BadUtf8), 1));
        assert_eq!(parse(&[b": \xc3\n"]), Err(Error::BadUtf8));
        assert_eq!(parse(&[b"data: \xc3", b"\xa9\n\n"]), events(&[("message", "é")]));
    }

    #[test]
    fn too_long_events_are_an_error() {
        let limited = |body: &str| Parser::with_limit(16).push(body.as_bytes(), |_, _| {});
        assert_eq!(limited("data: 0123456789\n\ndata: 0123456789\n\n"), Ok(()));
        assert_eq!(limited("data: 01234567890\n\n"), Err(Error::TooLong));
        assert_eq!(limited("data: 01234567890"), Err(Error::TooLong));
        // Many short lines of one event. Lines without fields are not an event.
        assert_eq!(limited(&"data\n".repeat(20)), Err(Error::TooLong));
        assert_eq!(limited("event: 0123\ndata: 0123\ndata: 0123\n"), Err(Error::TooLong));
        assert_eq!(limited(&": 0123456789\n".repeat(20)), Ok(()));
    }

    #[test]
    fn long_event_in_single_bytes_is_fast() {
        // A parser that scans its buffer again for each byte would take hours.
        let body = format!("data: {}\n\n", "x".repeat(4 << 20));
        let mut parser = Parser::new();
        let mut length = 0;
        for byte in body.as_bytes() {
            parser.push(&[*byte], |_, data| length = data.len()).expect("events");
        }
        assert_eq!(length, 4 << 20);
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_the_events(
            body in "(data: ?|event: ?|: |id|\u{feff}|é|😀|a|b|\n|\n\n|\r|\r\n|\r\n\r\n){0,60}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = body.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for to in at.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..to]);
                from = to;
            }
            let whole = parse(&[bytes]);
            prop_assert_eq!(parse(&pieces), whole.clone());
            prop_assert_eq!(parse(&bytes.chunks(1).collect::<Vec<_>>()), whole);
        }
    }
}

//! Reads lines of bounded length. A longer one is skipped, so that the connection goes on behind it. `connection` calls it.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Memory that is kept for the next line.
const KEPT: usize = 64 << 10;
/// Length of a line, in bytes, from which on it may become very long.
const LONG: usize = 1 << 20;

/// Lines of a stream.
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    limit: usize,
    line: Vec<u8>,
    /// Length of the part of the line that was read, if it is longer than the limit.
    skipped: usize,
}

/// One line, without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReceivedLine {
    Line(Vec<u8>),
    /// A line over the limit, of this length in bytes.
    TooLong(usize),
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Returns a reader of lines of at most `limit` bytes.
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self { input: BufReader::with_capacity(KEPT, input), limit, line: Vec::new(), skipped: 0 }
    }

    /// Returns the next line that is not blank; `None` at the end. A last line without a line feed is incomplete and not returned.
    /// The future is cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<ReceivedLine>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let (piece, used, ends) = match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&bytes[..end], end + 1, true),
                None => (bytes, bytes.len(), false),
            };
            if self.skipped > 0 || self.line.len() + piece.len() > self.limit {
                self.skipped += std::mem::take(&mut self.line).len() + piece.len();
            } else {
                // A long line gets all its room at once: doubling would hold its beginning several times. Room that is not used
                // takes no memory.
                if self.line.len() > LONG && self.line.capacity() - self.line.len() < piece.len() {
                    self.line.reserve_exact(self.limit - self.line.len());
                }
                self.line.extend_from_slice(piece);
            }
            self.input.consume(used);
            if !ends {
                continue;
            }
            match std::mem::take(&mut self.skipped) {
                0 if self.line.trim_ascii().is_empty() => self.line.clear(),
                0 => return Ok(Some(ReceivedLine::Line(std::mem::take(&mut self.line)))),
                length => return Ok(Some(ReceivedLine::TooLong(length))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], limit: usize) -> Vec<ReceivedLine> {
        let mut reader = LineReader::new(input, limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        lines
    }

    fn line(text: &str) -> ReceivedLine {
        ReceivedLine::Line(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_are_split_and_blank_ones_skipped() {
        assert_eq!(lines(b"one\n\n  \r\ntwo\r\nthree", 100).await, [line("one"), line("two\r")]);
        assert_eq!(lines(b"", 100).await, []);
        assert_eq!(lines(b"half a line", 100).await, []);
    }

    #[tokio::test]
    async fn line_over_the_limit_is_skipped_and_the_next_one_is_read() {
        assert_eq!(lines(b"12345\n123456\nok\n", 5).await, [line("12345"), ReceivedLine::TooLong(6), line("ok")]);
        let mut input = vec![b'x'; 1 << 20];
        input.extend_from_slice(b"\nok\n");
        assert_eq!(lines(&input, 1000).await, [ReceivedLine::TooLong(1 << 20), line("ok")]);
        // A skipped line takes no memory.
        let mut reader = LineReader::new(&input[..], 1000);
        reader.next().await.unwrap();
        assert!(reader.line.capacity() <= 1000);
    }
}

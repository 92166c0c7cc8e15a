//! Reads lines of a bounded length. A line that exceeds the limit is reported before its end arrives, and the rest of
//! it is skipped.

use tokio::io::{self, AsyncBufReadExt as _, AsyncRead, BufReader};

/// Size of the buffer that is kept for the next line, in bytes.
const KEPT: usize = 64 << 10;
/// A line that is longer than this, in bytes, gets a buffer of the full limit.
const LONG: usize = 1 << 20;

/// Reads lines that end with a newline.
pub struct BoundedLines<R> {
    input: BufReader<R>,
    /// The beginning of a line that has not ended yet.
    line: Vec<u8>,
    limit: usize,
    /// Whether the rest of a line is being skipped.
    skipping: bool,
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadLine {
    /// A complete line, without its line end.
    Line(Vec<u8>),
    /// A line that was longer than the limit.
    TooLong,
    /// The end of the input. A last line without a newline is dropped: it may be incomplete.
    End,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    /// Returns a reader of lines of at most `limit` bytes.
    pub fn new(input: R, limit: usize) -> Self {
        Self { input: BufReader::with_capacity(KEPT, input), line: Vec::new(), limit, skipping: false }
    }

    /// Reads the next line. Cancel safe: the next call continues where a dropped call stopped.
    ///
    /// # Errors
    /// The input could not be read.
    pub async fn next(&mut self) -> io::Result<ReadLine> {
        loop {
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(ReadLine::End);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let is_too_long = !self.skipping && self.line.len() + part.len() > self.limit;
            if is_too_long {
                self.line = Vec::new();
                self.skipping = true;
            } else if !self.skipping {
                // A long line gets a buffer of the full limit, because each doubling would briefly hold a second copy of it. Unused
                // pages of the buffer take no memory.
                if self.line.len() > LONG && self.line.capacity() - self.line.len() < part.len() {
                    self.line.reserve_exact(self.limit - self.line.len());
                }
                self.line.extend_from_slice(part);
            }
            let (consumed, is_end) = (part.len() + usize::from(end.is_some()), end.is_some());
            self.input.consume(consumed);
            let was_skipping = self.skipping;
            if is_end {
                self.skipping = false;
            }
            if is_too_long {
                return Ok(ReadLine::TooLong);
            }
            if is_end && !was_skipping {
                return Ok(ReadLine::Line(std::mem::take(&mut self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], limit: usize, buffer: usize) -> Vec<ReadLine> {
        let mut lines = BoundedLines::new(input, limit);
        lines.input = BufReader::with_capacity(buffer, input);
        let mut all = Vec::new();
        while let line = lines.next().await.unwrap()
            && line != ReadLine::End
        {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_over_the_limit_are_skipped() {
        let line = |text: &str| ReadLine::Line(text.into());
        for buffer in [1, 3, 64] {
            let read = all(b"abcd\n\nabcdef\nx\nhalf", 4, buffer).await;
            assert_eq!(read, [line("abcd"), line(""), ReadLine::TooLong, line("x")], "{buffer}");
        }
    }

    #[tokio::test]
    async fn long_line_takes_no_memory() {
        let input = std::iter::repeat_n(b'x', 1 << 20).chain(*b"\nend\n").collect::<Vec<_>>();
        let mut lines = BoundedLines::new(&input[..], 1000);
        assert_eq!(lines.next().await.unwrap(), ReadLine::TooLong);
        assert!(lines.line.capacity() <= 1000, "{}", lines.line.capacity());
        assert_eq!(lines.next().await.unwrap(), ReadLine::Line(b"end".into()));
    }

    #[tokio::test]
    async fn long_line_is_reported_before_its_end() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut lines = BoundedLines::new(server, 10);
        tokio::io::AsyncWriteExt::write_all(&mut client, b"a line without an end").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), ReadLine::TooLong);
        tokio::io::AsyncWriteExt::write_all(&mut client, b"\nnext\n").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), ReadLine::Line(b"next".into()));
    }

    #[tokio::test]
    async fn dropped_read_loses_nothing() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut lines = BoundedLines::new(server, 100);
        tokio::io::AsyncWriteExt::write_all(&mut client, b"half").await.unwrap();
        let dropped = tokio::time::timeout(std::time::Duration::from_millis(20), lines.next()).await;
        assert!(dropped.is_err());
        tokio::io::AsyncWriteExt::write_all(&mut client, b" and half\n").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), ReadLine::Line(b"half and half".into()));
    }
}

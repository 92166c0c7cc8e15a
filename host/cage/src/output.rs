//! The last few megabytes of a program's output, which can be read in pages.

use std::collections::VecDeque;

/// Bytes of a program's output that are kept. Earlier output is discarded.
const KEPT: usize = 4 << 20;

/// The output of a program.
#[derive(Debug, Default)]
pub struct ProgramOutput {
    kept: VecDeque<u8>,
    /// Number of bytes so far, including the discarded ones.
    total: u64,
}

/// A part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPage {
    /// The text. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The position of its first byte in the whole output.
    pub start: u64,
    /// The position after its last byte.
    pub end: u64,
    /// Number of bytes of the whole output so far.
    pub total: u64,
}

impl ProgramOutput {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (self.kept.len() + bytes.len()).saturating_sub(KEPT);
        self.kept.drain(..excess);
        self.kept.extend(bytes);
    }

    /// Returns up to `limit` bytes from the position `offset`, or from the first byte that is kept.
    pub fn page(&self, offset: u64, limit: usize) -> OutputPage {
        let first = self.total - self.kept.len() as u64;
        let start = offset.clamp(first, self.total);
        let skipped = usize::try_from(start - first).unwrap_or(usize::MAX);
        self.cut(skipped, skipped.saturating_add(limit))
    }

    /// Returns the last `limit` bytes.
    pub fn tail(&self, limit: usize) -> OutputPage {
        self.cut(self.kept.len().saturating_sub(limit), self.kept.len())
    }

    /// Returns the kept bytes from `start` to `end`. A character that is cut at the end belongs to the next page. At the start, the
    /// rest of a cut character is left out; this happens where earlier output was discarded, or at the limit of a tail.
    fn cut(&self, start: usize, end: usize) -> OutputPage {
        let is_inside_character = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
        let first = self.total - self.kept.len() as u64;
        let mut bytes: Vec<u8> = self.kept.iter().copied().take(end).skip(start).collect();
        let cut = bytes.iter().take(3).take_while(|byte| is_inside_character(byte)).count();
        bytes.drain(..cut);
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
            && start + cut + bytes.len() < self.kept.len()
            && error.valid_up_to() > 0
        {
            bytes.truncate(error.valid_up_to());
        }
        let start = first + (start + cut) as u64;
        OutputPage {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            start,
            end: start + bytes.len() as u64,
            total: self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read_in_pages_without_a_cut_character() {
        let mut output = ProgramOutput::default();
        output.push("aä€".as_bytes());
        output.push("b".as_bytes());
        let page = output.page(0, 2);
        assert_eq!((&*page.text, page.start, page.end, page.total), ("a", 0, 1, 7));
        let page = output.page(page.end, 4);
        assert_eq!((&*page.text, page.end), ("ä", 3));
        let page = output.page(page.end, 100);
        assert_eq!((&*page.text, page.end), ("€b", 7));
        assert_eq!(output.page(7, 100).text, "");
        assert_eq!(output.page(900, 100).text, "");
        assert_eq!(output.tail(3).text, "b");
    }

    #[test]
    fn only_the_end_of_a_long_output_is_kept() {
        let mut output = ProgramOutput::default();
        for _ in 0..100 {
            output.push(&vec![b'x'; 1 << 20]);
        }
        output.push(b"end");
        assert_eq!(output.kept.len(), KEPT);
        let page = output.page(0, 10);
        assert_eq!((page.start, page.total), ((100 << 20) + 3 - KEPT as u64, (100 << 20) + 3));
        assert_eq!(output.tail(4).text, "xend");
    }
}

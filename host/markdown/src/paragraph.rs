//! A paragraph that is still growing. Rows leave it as soon as no later text can change them.
//!
//! Its source is parsed again whenever it has grown by a certain amount, which depends only on the characters so far,
//! never on how they were split into chunks. Because this amount is proportional to the open text, the total cost is
//! linear.

use crate::{
    clean::BREAK,
    inline,
    options::RenderOptions,
    settled::{MAX_OPEN, settled_end},
    style::{TextSpan, TextStyle, append},
    wrap::wrap,
};

/// How many of the last rows of an unfinished paragraph are held back. Printing them together makes the fewest visible changes.
const OPEN_ROWS: usize = 2;

/// The smallest growth between two parses of the source, in bytes.
const STEP: usize = 64;

#[derive(Clone, Default)]
pub(crate) struct Paragraph {
    style: TextStyle,
    /// Rendered text that is not committed.
    ready: Vec<TextSpan>,
    /// The source after `ready`, which later text may still affect.
    source: String,
    /// A last line that may become the head of a table; the next line decides.
    held: Option<String>,
    /// How the last line ended, which matters if another line follows.
    line_end: Option<LineEnd>,
    /// The length of `source` at which it is parsed next.
    look_at: usize,
    has_rows_out: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum LineEnd {
    Soft,
    Hard,
}

impl Paragraph {
    pub(crate) fn new() -> Self {
        Self { look_at: STEP, ..Self::default() }
    }

    /// Whether an underline could still turn it into a heading.
    pub(crate) fn is_whole(&self) -> bool {
        !self.has_rows_out && self.ready.is_empty()
    }

    /// Whether rows of it were committed.
    pub(crate) fn has_rows_out(&self) -> bool {
        self.has_rows_out
    }

    pub(crate) fn make_bold(&mut self) {
        self.style.bold = true;
    }

    /// Begins a line with `text`.
    pub(crate) fn begin_line(&mut self, text: &str) {
        self.release();
        match self.line_end.take() {
            Some(LineEnd::Hard) => self.source.extend([' ', BREAK, ' ']),
            Some(LineEnd::Soft) => self.source.push(' '),
            None => {}
        }
        self.source.push_str(text);
    }

    pub(crate) fn push(&mut self, c: char) {
        self.source.push(c);
    }

    pub(crate) fn end_line(&mut self) {
        let text = self.source.trim_end_matches([' ', '\t']);
        let blanks = self.source.len() - text.len();
        let slashes = text.len() - text.trim_end_matches('\\').len();
        let is_escape = blanks == 0 && slashes % 2 == 1;
        self.source.truncate(text.len() - usize::from(is_escape));
        self.line_end = Some(if is_escape || blanks >= 2 { LineEnd::Hard } else { LineEnd::Soft });
    }

    /// Holds a complete line that may be the head of a table.
    pub(crate) fn hold(&mut self, line: &str) {
        self.release();
        self.held = Some(line.to_owned());
    }

    pub(crate) fn held(&self) -> Option<&str> {
        self.held.as_deref()
    }

    pub(crate) fn take_held(&mut self) -> Option<String> {
        self.held.take()
    }

    /// Adds the held line to the paragraph as ordinary text.
    pub(crate) fn release(&mut self) {
        if let Some(line) = self.held.take() {
            self.begin_line(&line);
            self.end_line();
        }
    }

    /// Whether [`Paragraph::look`] is due.
    pub(crate) fn is_due(&self) -> bool {
        self.source.len() >= self.look_at
    }

    /// Returns the rows that no later text can change, except for the last [`OPEN_ROWS`].
    pub(crate) fn look(&mut self, columns: usize, options: &RenderOptions) -> Vec<Vec<TextSpan>> {
        self.settle(options);
        let mut rows = wrap(&self.ready, columns);
        let stay = rows.len().saturating_sub(OPEN_ROWS);
        if let Some(first) = rows.get(stay).filter(|_| stay > 0) {
            drop_front(&mut self.ready, first.start);
            self.has_rows_out = true;
        }
        rows.truncate(stay);
        let open: usize = self.ready.iter().map(|span| span.text.len()).sum::<usize>() + self.source.len();
        self.look_at = self.source.len() + STEP + open / 4;
        rows.into_iter().map(|row| row.spans).collect()
    }

    /// Returns all remaining rows.
    pub(crate) fn finish(mut self, columns: usize, options: &RenderOptions) -> Vec<Vec<TextSpan>> {
        self.release();
        while self.source.len() > MAX_OPEN {
            let before = self.source.len();
            self.settle(options);
            if self.source.len() == before {
                break;
            }
        }
        let source = std::mem::take(&mut self.source);
        self.ready.extend(inline::render(source.trim_end(), self.style, options));
        if self.style.bold {
            self.ready.iter_mut().for_each(|span| span.style.bold = true);
        }
        wrap(&self.ready, columns).into_iter().map(|row| row.spans).collect()
    }

    fn settle(&mut self, options: &RenderOptions) {
        let end = settled_end(&self.source);
        if end > 0 {
            let settled: String = self.source.drain(..end).collect();
            // The parser drops blanks at the end of a paragraph, but more words follow here.
            let text = settled.trim_end_matches(' ');
            let blanks = TextSpan::plain(" ".repeat(settled.len() - text.len()));
            for span in inline::render(text, self.style, options).into_iter().chain([blanks]) {
                append(&mut self.ready, span);
            }
        }
    }
}

/// Removes the first `bytes` bytes of the joined text.
fn drop_front(spans: &mut Vec<TextSpan>, mut bytes: usize) {
    let mut whole = 0;
    for span in spans.iter_mut() {
        if span.text.len() > bytes {
            span.text.drain(..bytes);
            break;
        }
        bytes -= span.text.len();
        whole += 1;
    }
    spans.drain(..whole);
}

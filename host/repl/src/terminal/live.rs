//! The live area: the rows below the last finished line, and the only rows that are ever redrawn. The loop in `terminal`
//! passes finished lines and a [`LiveView`]; this module returns the bytes for the terminal.
//!
//! Rules that its tests check: a finished line is printed once and never touched; nothing clears the screen or the
//! scrollback, sets a scroll region or requests the cursor's position; a frame is one write.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// One row of the live area. It is narrower than the terminal and contains no newline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The text with its SGR (style) sequences, which are reset before the row ends.
    pub(crate) text: String,
    /// Width of the text in columns.
    pub(crate) width: usize,
}

impl Row {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { width: text.width(), text }
    }

    /// Returns a row whose whole text has the style of the SGR sequence `on`.
    pub(crate) fn styled(on: &str, text: &str) -> Self {
        Self { width: text.width(), text: format!("{on}{text}\x1b[0m") }
    }
}

/// The contents of the live area: at least one row, and the cursor's row and column in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveView {
    pub(crate) rows: Vec<Row>,
    pub(crate) cursor: (usize, usize),
}

/// The live area as it was last drawn.
#[derive(Debug)]
pub(crate) struct LiveArea {
    drawn: LiveView,
    /// The terminal's width when the area was drawn.
    columns: usize,
    /// Whether the terminal rewraps long lines when it is resized, as nearly all terminals do.
    rewraps: bool,
    /// An escape sequence that the next frame writes after the finished lines.
    mark: String,
}

/// If the unchanged start of a row has fewer bytes than this, it is written again, because moving the cursor past it
/// would take as many bytes.
const SHORT: usize = 8;
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

impl LiveArea {
    /// Returns an area that is not drawn yet. The cursor must be at the start of an empty line.
    pub(crate) fn new(rewraps: bool) -> Self {
        Self { drawn: LiveView::default(), columns: 0, rewraps, mark: String::new() }
    }

    /// Makes the next frame write `sequence`, which must not move the cursor, after its finished lines.
    pub(crate) fn mark(&mut self, sequence: &str) {
        self.mark.push_str(sequence);
    }

    /// Returns the bytes that print `finished` above the area and draw `view` in a terminal of `columns`; empty if nothing
    /// changed. Each finished line may be wider than the terminal, which then wraps it.
    pub(crate) fn frame(&mut self, columns: usize, finished: &[String], view: LiveView) -> String {
        let only_rows = finished.is_empty() && self.mark.is_empty() && columns == self.columns;
        if only_rows && view == self.drawn {
            return String::new();
        }
        let mut out = String::from(BEGIN);
        if only_rows && !self.drawn.rows.is_empty() {
            self.redraw_changed(&mut out, &view);
        } else {
            self.finish(&mut out, columns, finished);
            for (index, row) in view.rows.iter().enumerate() {
                if index > 0 {
                    out.push_str("\r\n");
                }
                out.push_str(&row.text);
            }
            move_to(&mut out, view.rows.len().saturating_sub(1), view.cursor);
        }
        out.push_str(END);
        self.drawn = view;
        self.columns = columns;
        out
    }

    /// Returns the bytes that print `finished` and remove the area. The cursor is then at the start of an empty line.
    pub(crate) fn leave(&mut self, columns: usize, finished: &[String]) -> String {
        let mut out = String::from(BEGIN);
        self.finish(&mut out, columns, finished);
        out.push_str(END);
        self.drawn = LiveView::default();
        out
    }

    /// Replaces the area with `finished`, followed by the mark.
    fn finish(&mut self, out: &mut String, columns: usize, finished: &[String]) {
        self.erase(out, columns);
        for line in finished {
            out.push_str(line);
            out.push_str("\r\n");
        }
        out.push_str(&std::mem::take(&mut self.mark));
    }

    /// Makes the next frame draw all rows.
    pub(crate) fn invalidate(&mut self) {
        self.columns = 0;
    }

    /// Forgets the last frame, because another program has used the terminal. The cursor must be at the start of an empty line.
    pub(crate) fn forget(&mut self) {
        self.drawn = LiveView::default();
    }

    /// Writes the rows that differ. All rows keep their place.
    fn redraw_changed(&self, out: &mut String, view: &LiveView) {
        let (old, new) = (&self.drawn.rows, &view.rows);
        let mut at = self.drawn.cursor.0;
        for (index, row) in new.iter().enumerate() {
            match old.get(index) {
                Some(same) if same == row => continue,
                Some(before) => {
                    vertical(out, at, index);
                    out.push_str(&changed_end(&before.text, &row.text));
                    if row.width < before.width {
                        out.push_str("\x1b[K");
                    }
                }
                None => {
                    vertical(out, at, index - 1);
                    out.push_str("\r\n");
                    out.push_str(&row.text);
                }
            }
            at = index;
        }
        if new.len() < old.len() {
            vertical(out, at, new.len());
            out.push_str("\r\x1b[J");
            at = new.len();
        }
        move_to(out, at, view.cursor);
    }

    /// Moves to the first row of the area and erases from there.
    fn erase(&self, out: &mut String, columns: usize) {
        vertical(out, self.rows_above_cursor(columns), 0);
        out.push_str("\r\x1b[J");
    }

    /// Returns how many rows the terminal now shows between the top of the area and the cursor, possibly after a resize. In
    /// doubt the number is too small, because a row that is drawn twice is better than a finished line that is erased.
    fn rows_above_cursor(&self, columns: usize) -> usize {
        let (row, column) = self.drawn.cursor;
        if !self.rewraps || columns == self.columns || columns == 0 {
            return row;
        }
        let above: usize = self.drawn.rows.iter().take(row).map(|row| row.width.max(1).div_ceil(columns)).sum();
        // Some terminals keep a cursor that is right past the edge on its row.
        above + column.saturating_sub(1) / columns
    }
}

/// Returns the bytes that turn the row `before` into `after`. An answer that grows is not written again for each word.
fn changed_end(before: &str, after: &str) -> String {
    let same = before.graphemes(true).zip(after.graphemes(true)).take_while(|(before, after)| before == after);
    let kept: usize = same.map(|(_, after)| after.len()).sum();
    let (kept, changed) = after.split_at(kept);
    // After a sequence, the style may not be the default, so the whole row is written.
    if kept.len() < SHORT || kept.contains('\x1b') {
        return format!("\r{after}");
    }
    format!("\x1b[{}G{changed}", kept.width() + 1)
}

/// Moves the cursor from row `from` to row `to`.
fn vertical(out: &mut String, from: usize, to: usize) {
    let _ = match from.cmp(&to) {
        std::cmp::Ordering::Greater => write!(out, "\x1b[{}A", from - to),
        std::cmp::Ordering::Less => write!(out, "\x1b[{}B", to - from),
        std::cmp::Ordering::Equal => Ok(()),
    };
}

/// Moves the cursor from row `from` to `cursor`.
fn move_to(out: &mut String, from: usize, (row, column): (usize, usize)) {
    vertical(out, from, row);
    let _ = write!(out, "\x1b[{}G", column + 1);
}

#[cfg(test)]
mod tests;

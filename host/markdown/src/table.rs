//! Tables: columns aligned by display width, without boxes, because users copy tables as plain text.

use crate::{
    inline,
    options::RenderOptions,
    style::{TextSpan, TextStyle, width},
    wrap::wrap,
};

/// Blanks between two columns.
const GAP: usize = 2;

/// A column that must wrap is at least this wide. If there is no room for that, rows become `name: value` lines.
const MIN_WIDTH: usize = 8;

/// A table with more columns is shown as text.
const MAX_COLUMNS: usize = 64;

/// How many source bytes of rows are buffered to find the column widths. A longer table keeps the widths of its
/// beginning.
const MAX_HELD: usize = 32 * 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ColumnAlign {
    Left,
    Centre,
    Right,
}

#[derive(Clone)]
enum TableLayout {
    /// The rows are aligned to columns of these widths.
    Aligned(Vec<usize>),
    /// One `name: value` line for each cell, with these names. A name is truncated to one line, because it is repeated for each row
    /// of the table.
    Pairs(Vec<TableCell>),
}

type TableCell = Vec<TextSpan>;

#[derive(Clone)]
pub(crate) struct MarkdownTable {
    aligns: Vec<ColumnAlign>,
    head: Vec<TableCell>,
    rows: Vec<Vec<TableCell>>,
    held: usize,
    /// Fixed when the first row is committed.
    layout: Option<TableLayout>,
}

impl MarkdownTable {
    /// Begins a table if `delimiter` is a row of dashes with as many cells as `head`.
    pub(crate) fn begin(head: &str, delimiter: &str, options: &RenderOptions) -> Option<Self> {
        let aligns = delimiter_row(delimiter)?;
        let cells = split_cells(head);
        if cells.len() != aligns.len() {
            return None;
        }
        let bold = TextStyle { bold: true, ..TextStyle::default() };
        let head = cells.iter().map(|cell| inline::render(cell, bold, options)).collect();
        Some(Self { aligns, head, rows: Vec::new(), held: 0, layout: None })
    }

    /// Adds a row. Surplus cells are joined to the last one to keep their text; missing cells are not added.
    pub(crate) fn add(&mut self, line: &str, options: &RenderOptions) {
        let mut cells = split_cells(line);
        let columns = self.aligns.len();
        if cells.len() > columns {
            let rest = cells.split_off(columns - 1).join(" | ");
            cells.push(rest);
        }
        self.rows.push(cells.iter().map(|cell| inline::render(cell, TextStyle::default(), options)).collect());
        self.held += line.len();
    }

    /// Whether [`MarkdownTable::lines`] is due, to bound the buffer.
    pub(crate) fn is_due(&self) -> bool {
        self.held > MAX_HELD || (self.layout.is_some() && !self.rows.is_empty())
    }

    /// Returns the lines that are not committed yet.
    pub(crate) fn lines(&mut self, columns: usize) -> Vec<Vec<TextSpan>> {
        let is_first = self.layout.is_none();
        let layout = self.layout.take().unwrap_or_else(|| self.layout(columns));
        let mut lines = Vec::new();
        let rows = std::mem::take(&mut self.rows);
        self.held = 0;
        match &layout {
            TableLayout::Aligned(widths) => {
                if is_first {
                    self.aligned(&self.head, widths, &mut lines);
                    let total = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
                    lines.push(vec![TextSpan::plain("-".repeat(total))]);
                }
                rows.iter().for_each(|row| self.aligned(row, widths, &mut lines));
            }
            TableLayout::Pairs(names) => {
                for (index, row) in rows.iter().enumerate() {
                    if index > 0 || !is_first {
                        lines.push(Vec::new());
                    }
                    pairs(names, row, columns, &mut lines);
                }
                if is_first && rows.is_empty() {
                    let head = self.head.iter().flat_map(|cell| wrap(cell, columns));
                    lines.extend(head.map(|row| row.spans));
                }
            }
        }
        self.layout = Some(layout);
        lines
    }

    fn layout(&self, columns: usize) -> TableLayout {
        let count = self.aligns.len();
        let mut natural = vec![1; count];
        let mut least = vec![1; count];
        for row in std::iter::once(&self.head).chain(&self.rows) {
            for (index, cell) in row.iter().enumerate() {
                natural[index] = natural[index].max(width(cell));
                let words = wrap(cell, 1).into_iter().map(|word| width(&word.spans)).max();
                least[index] = least[index].max(words.unwrap_or(0));
            }
        }
        let available = columns.saturating_sub(GAP * (count - 1));
        if natural.iter().sum::<usize>() <= available {
            return TableLayout::Aligned(natural);
        }
        let mut widths: Vec<usize> =
            natural.iter().zip(&least).map(|(natural, least)| (*natural).min((*least).max(MIN_WIDTH))).collect();
        let used: usize = widths.iter().sum();
        if used > available {
            return TableLayout::Pairs(self.head.iter().map(|name| first_row(name, columns)).collect());
        }
        // Spare width goes, one terminal column at a time, to the table column that lacks the most. Both numbers are
        // small.
        for _ in used..available {
            let needs = widths.iter().zip(&natural).map(|(width, natural)| natural - width).enumerate();
            if let Some((index, _)) = needs.max_by_key(|(index, need)| (*need, usize::MAX - index)) {
                widths[index] += 1;
            }
        }
        TableLayout::Aligned(widths)
    }

    fn aligned(&self, row: &[TableCell], widths: &[usize], lines: &mut Vec<Vec<TextSpan>>) {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for part in 0..height {
            let mut line = Vec::new();
            for (index, (columns, align)) in widths.iter().zip(&self.aligns).enumerate() {
                let row = cells.get(index).and_then(|cell| cell.get(part));
                let spans = row.map(|row| row.spans.as_slice()).unwrap_or_default();
                let spare = columns.saturating_sub(width(spans));
                let left = match align {
                    ColumnAlign::Left => 0,
                    ColumnAlign::Centre => spare / 2,
                    ColumnAlign::Right => spare,
                };
                line.push(TextSpan::plain(" ".repeat(left)));
                line.extend_from_slice(spans);
                line.push(TextSpan::plain(" ".repeat(spare - left + GAP)));
            }
            lines.push(line);
        }
    }
}

fn pairs(names: &[TableCell], row: &[TableCell], columns: usize, lines: &mut Vec<Vec<TextSpan>>) {
    for (name, value) in names.iter().zip(row) {
        let mut line = name.clone();
        if !name.is_empty() {
            line.push(TextSpan::plain(": "));
        }
        line.extend_from_slice(value);
        lines.extend(wrap(&line, columns).into_iter().map(|row| row.spans));
    }
}

/// Returns the part of `cell` that fits into one row, with an ellipsis if more follows.
fn first_row(cell: &TableCell, columns: usize) -> TableCell {
    let mut rows = wrap(cell, columns).into_iter();
    let mut first = rows.next().map(|row| row.spans).unwrap_or_default();
    if rows.next().is_some() {
        first.push(TextSpan::plain("\u{2026}"));
    }
    first
}

/// Whether `line` has a `|` that separates cells.
pub(crate) fn has_cells(line: &str) -> bool {
    let mut is_escaped = false;
    line.bytes().any(|byte| {
        let separates = byte == b'|' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        separates
    })
}

/// Returns the alignments if `line` is the row between head and body, such as `| --- | :-: |`.
fn delimiter_row(line: &str) -> Option<Vec<ColumnAlign>> {
    if !line.contains('|') || !line.bytes().all(|byte| b"|:- \t".contains(&byte)) {
        return None;
    }
    let cells = split_cells(line);
    if cells.is_empty() || cells.len() > MAX_COLUMNS {
        return None;
    }
    cells.iter().map(|cell| column_align(cell)).collect()
}

fn column_align(cell: &str) -> Option<ColumnAlign> {
    let (left, rest) = cell.strip_prefix(':').map_or((false, cell), |rest| (true, rest));
    let (right, dashes) = rest.strip_suffix(':').map_or((false, rest), |rest| (true, rest));
    if dashes.is_empty() || dashes.bytes().any(|byte| byte != b'-') {
        return None;
    }
    Some(match (left, right) {
        (true, true) => ColumnAlign::Centre,
        (false, true) => ColumnAlign::Right,
        _ => ColumnAlign::Left,
    })
}

/// Returns the cells of a row, trimmed. `\|` is a `|` in a cell.
fn split_cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'|') => cell.extend(chars.next()),
            '\\' => {
                cell.push(c);
                cell.extend(chars.next());
            }
            '|' => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            c => cell.push(c),
        }
    }
    let last = cell.trim();
    if !last.is_empty() || !line.ends_with('|') {
        cells.push(last.to_owned());
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_split_at_bars() {
        assert_eq!(split_cells("| a | b |"), ["a", "b"]);
        assert_eq!(split_cells("a|b \\| c"), ["a", "b | c"]);
        assert_eq!(split_cells("| a | |"), ["a", ""]);
    }

    #[test]
    fn delimiters_decide_the_alignment() {
        use ColumnAlign::{Centre, Left, Right};
        assert_eq!(delimiter_row("|---|:-:|--:|:--|"), Some(vec![Left, Centre, Right, Left]));
        assert_eq!(delimiter_row("| a | b |"), None);
        assert_eq!(delimiter_row("---"), None);
    }
}

//! Converts tables: data tables to Markdown tables, layout tables to text.

use crate::html::flow::{Flow, Gap};

/// The most columns. Further cells are added to the last column.
const MAX_COLUMNS: usize = 50;
/// The number of rows that are buffered to decide the kind of table; later rows are written directly.
const MAX_KEPT: usize = 200;
/// The most bytes and lines of a cell in a data table. Longer cells mean layout.
const MAX_CELL: usize = 400;
const MAX_LINES: usize = 4;

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its position among the open elements.
    pub(crate) place: u32,
    rows: Vec<Vec<String>>,
    /// True if it contains another table.
    pub(crate) has_table: bool,
    is_data: Option<bool>,
    has_head: bool,
}

impl Table {
    pub(crate) fn new(place: u32) -> Self {
        Self { place, rows: Vec::new(), has_table: false, is_data: None, has_head: false }
    }

    /// Begins a row. Writes the buffered rows first if there are enough.
    pub(crate) fn row(&mut self, flow: &mut Flow) {
        if self.rows.last().is_some_and(Vec::is_empty) {
            return;
        }
        if self.rows.len() >= MAX_KEPT || self.is_data.is_some() {
            self.write(flow);
        }
        self.rows.push(Vec::new());
    }

    /// Adds a cell that spans `span` columns.
    pub(crate) fn cell(&mut self, text: String, span: usize) {
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
        let Some(row) = self.rows.last_mut() else { return };
        let text = text.trim().to_owned();
        if row.len() < MAX_COLUMNS {
            row.push(text);
            let more = span.saturating_sub(1).min(MAX_COLUMNS - row.len());
            row.resize(row.len() + more, String::new());
        } else if let Some(last) = row.last_mut().filter(|last| last.len() <= MAX_CELL) {
            // The last cell grows until it is longer than MAX_CELL; further cells of the row are dropped. Among the first MAX_KEPT
            // rows, such a cell makes the table a layout table.
            last.push(' ');
            last.push_str(&text);
        }
    }

    /// Writes the remaining rows.
    pub(crate) fn finish(mut self, flow: &mut Flow) {
        self.write(flow);
        flow.gap(Gap::Blank);
    }

    fn write(&mut self, flow: &mut Flow) {
        self.rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
        let is_data = *self.is_data.get_or_insert_with(|| {
            let fits =
                |cell: &String| cell.len() <= MAX_CELL && cell.lines().count() <= MAX_LINES && !cell.contains("```");
            let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
            !self.has_table && self.rows.len() > 1 && columns > 1 && self.rows.iter().flatten().all(fits)
        });
        for row in std::mem::take(&mut self.rows) {
            if is_data {
                self.data(row, flow);
            } else {
                layout(row, flow);
            }
        }
    }

    fn data(&mut self, row: Vec<String>, flow: &mut Flow) {
        let columns = row.len();
        let cells = row.iter().map(|cell| {
            let line = cell.split_whitespace().collect::<Vec<_>>().join(" ");
            format!(" {} |", line.replace('|', "\\|"))
        });
        let line: String = cells.collect();
        if self.has_head {
            flow.raw_line(&format!("|{line}"));
        } else {
            flow.gap(Gap::Blank);
            flow.raw_line(&format!("|{line}"));
            flow.raw_line(&format!("|{}", " --- |".repeat(columns)));
            self.has_head = true;
        }
    }
}

/// Writes a layout row: on one line if no cell has a line break, otherwise each cell as a block. Empty cells are left out.
fn layout(row: Vec<String>, flow: &mut Flow) {
    let cells: Vec<&str> = row.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
    if cells.iter().all(|cell| !cell.contains('\n')) {
        flow.gap(Gap::Line);
        flow.raw_line(&cells.join(" "));
    } else {
        cells.into_iter().for_each(|cell| flow.raw_block(cell));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[&[&str]]) -> String {
        let mut flow = Flow::new();
        let mut table = Table::new(1);
        for row in rows {
            table.row(&mut flow);
            row.iter().for_each(|cell| table.cell((*cell).to_owned(), 1));
        }
        table.finish(&mut flow);
        flow.finish()
    }

    #[test]
    fn data_table_becomes_a_table() {
        assert_eq!(written(&[&["a", "b"], &[" 1|2 \n", ""], &["", ""]]), "| a | b |\n| --- | --- |\n| 1\\|2 |  |");
    }

    #[test]
    fn layout_table_becomes_text() {
        assert_eq!(written(&[&["1.", "", "Title"]]), "1. Title");
        assert_eq!(written(&[&["a"], &["b"]]), "a\nb");
        let long = "x".repeat(MAX_CELL + 1);
        assert_eq!(written(&[&["a", &long], &["b", "c"]]), format!("a {long}\nb c"));
        assert_eq!(written(&[&["a", "1\n\n2\n3\n4"], &["b", "c"]]), "a\n\n1\n\n2\n3\n4\n\nb c");
        assert_eq!(written(&[]), "");
    }

    #[test]
    fn many_rows_and_columns_are_written_directly() {
        let row: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        let row: Vec<&str> = row.iter().map(String::as_str).collect();
        let text = written(&vec![&row[..]; 1_000]);
        assert_eq!(text.lines().count(), 1_001);
        assert!(text.lines().all(|line| line.matches('|').count() == MAX_COLUMNS + 1));
        assert!(text.ends_with("| 48 | 49 50 51 52 53 54 55 56 57 58 59 |"));
        let mut flow = Flow::new();
        let mut table = Table::new(1);
        for _ in 0..100_000 {
            table.row(&mut flow);
            table.cell("x".to_owned(), 9);
            assert!(table.rows.len() <= MAX_KEPT);
        }
    }
}

//! A terminal emulator for tests. Like most terminals, it rewraps its text when it is resized. It supports only the
//! escape sequences that the live area writes, and panics on any other.

use unicode_width::UnicodeWidthChar as _;

/// The contents of the terminal with its scrollback.
pub(crate) struct FakeTerminal {
    rows: Vec<FakeRow>,
    /// Height of the window, in rows. The window shows the end of `rows`; the rest is scrollback.
    height: usize,
    /// Width of the window, in columns.
    columns: usize,
    /// Row and column of the cursor. The row is an index into `rows`, not into the window.
    cursor: (usize, usize),
}

#[derive(Clone, Default)]
struct FakeRow {
    text: Vec<char>,
    /// Whether the line continues in the next row.
    wraps: bool,
}

fn width(text: &[char]) -> usize {
    text.iter().map(|character| character.width().unwrap_or(0)).sum()
}

impl FakeTerminal {
    pub(crate) fn new(columns: usize, height: usize) -> Self {
        Self { rows: vec![FakeRow::default()], height, columns, cursor: (0, 0) }
    }

    /// Returns all lines: wrapped rows are joined, and trailing blanks and trailing empty lines are dropped.
    pub(crate) fn text(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        for row in &self.rows {
            lines.last_mut().unwrap().extend(&row.text);
            if !row.wraps {
                lines.push(String::new());
            }
        }
        let mut lines: Vec<String> = lines.into_iter().map(|line| line.trim_end().to_owned()).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// Changes the width of the window and rewraps all lines.
    pub(crate) fn resize(&mut self, columns: usize) {
        // The cursor keeps its line and its offset in that line, counted in columns.
        let (row, column) = self.cursor;
        let first = (0..row).rev().take_while(|index| self.rows[*index].wraps).last().unwrap_or(row);
        let line = (0..first).filter(|index| !self.rows[*index].wraps).count();
        let offset = (first..row).map(|index| width(&self.rows[index].text)).sum::<usize>() + column;
        let mut joined: Vec<Vec<char>> = vec![Vec::new()];
        for row in &self.rows {
            joined.last_mut().unwrap().extend(&row.text);
            if !row.wraps {
                joined.push(Vec::new());
            }
        }
        // The last row ended its line, so the loop has begun one line too many.
        joined.pop();
        self.columns = columns;
        self.rows.clear();
        for (index, text) in joined.into_iter().enumerate() {
            let start = self.rows.len();
            let mut row = FakeRow::default();
            for character in text {
                if width(&row.text) + character.width().unwrap_or(0) > columns {
                    self.rows.push(FakeRow { wraps: true, ..std::mem::take(&mut row) });
                }
                row.text.push(character);
            }
            self.rows.push(row);
            if index == line {
                let row = (start + offset / columns).min(self.rows.len() - 1);
                self.cursor = (row, offset % columns);
            }
        }
    }

    pub(crate) fn write(&mut self, output: &str) {
        let mut rest = output.chars();
        while let Some(character) = rest.next() {
            match character {
                '\r' => self.cursor.1 = 0,
                '\n' => self.down(),
                '\x1b' => {
                    assert_eq!(rest.next(), Some('['), "unexpected escape sequence in {output:?}");
                    let mut parameter = String::new();
                    let command = loop {
                        match rest.next().unwrap() {
                            part @ ('0'..='9' | '?' | ';') => parameter.push(part),
                            command => break command,
                        }
                    };
                    self.control(&parameter, command);
                }
                character => self.put(character),
            }
        }
    }

    /// Runs the sequence `CSI parameter command`. Colours and synchronised updates (`?2026`) have no effect here.
    fn control(&mut self, parameter: &str, command: char) {
        let count = || parameter.parse::<usize>().unwrap();
        let (row, column) = self.cursor;
        match (parameter, command) {
            ("?2026", 'h' | 'l') | (_, 'm') => {}
            (_, 'A') => {
                let top = self.rows.len().saturating_sub(self.height);
                self.cursor.0 = row.saturating_sub(count()).max(top);
            }
            (_, 'B') => self.cursor.0 = (row + count()).min(self.rows.len() - 1),
            (_, 'G') => self.cursor.1 = count() - 1,
            ("", 'K') => self.truncate(row, column),
            ("", 'J') => {
                self.truncate(row, column);
                self.rows.truncate(row + 1);
            }
            _ => panic!("unexpected sequence CSI {parameter}{command}"),
        }
    }

    /// Erases a row from `column` on. If that is the whole row, the line above no longer continues in it.
    fn truncate(&mut self, row: usize, column: usize) {
        if let Some(above) = row.checked_sub(1).filter(|_| column == 0) {
            self.rows[above].wraps = false;
        }
        let row = &mut self.rows[row];
        while width(&row.text) > column {
            row.text.pop();
        }
        row.wraps = false;
    }

    fn down(&mut self) {
        self.cursor.0 += 1;
        if self.cursor.0 == self.rows.len() {
            self.rows.push(FakeRow::default());
        }
    }

    fn put(&mut self, character: char) {
        let columns = character.width().unwrap_or(0);
        if self.cursor.1 + columns > self.columns {
            self.rows[self.cursor.0].wraps = true;
            self.down();
            self.cursor.1 = 0;
        }
        let (row, column) = self.cursor;
        // Overwrite the text in these columns, and any wide character that is only partly covered.
        let old = std::mem::take(&mut self.rows[row].text);
        let (mut before, mut at, mut after) = (Vec::new(), 0, Vec::new());
        for kept in old {
            let kept_columns = kept.width().unwrap_or(0);
            if at + kept_columns <= column {
                before.push(kept);
            } else if at >= column + columns {
                after.push(kept);
            }
            at += kept_columns;
        }
        while width(&before) < column {
            before.push(' ');
        }
        before.push(character);
        before.extend(after);
        self.rows[row].text = before;
        self.cursor.1 += columns;
    }
}

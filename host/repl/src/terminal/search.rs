//! The search in the history with Ctrl+R: a term and a list of the newest matches.

use super::{history::InputHistory, live::Row, style, wrap::cut};

const LISTED: usize = 6;

#[derive(Debug, Default)]
pub(crate) struct HistorySearch {
    term: String,
    chosen: usize,
}

impl HistorySearch {
    pub(crate) fn insert(&mut self, character: char) {
        self.term.push(character);
        self.chosen = 0;
    }

    pub(crate) fn backspace(&mut self) {
        self.term.pop();
        self.chosen = 0;
    }

    /// Chooses the next older match.
    pub(crate) fn older(&mut self, history: &InputHistory) {
        let matches = history.matching(&self.term, LISTED).len();
        self.chosen = (self.chosen + 1).min(matches.saturating_sub(1));
    }

    /// Chooses the next newer match.
    pub(crate) fn newer(&mut self) {
        self.chosen = self.chosen.saturating_sub(1);
    }

    pub(crate) fn chosen(&self, history: &InputHistory) -> Option<String> {
        history.matching(&self.term, LISTED).get(self.chosen).map(|line| (*line).to_owned())
    }

    /// Returns the row with the term, which replaces the composer, and the cursor's column.
    pub(crate) fn input(&self, columns: usize) -> (Row, usize) {
        let row = Row::plain(cut(&format!("search: {}", self.term), columns.saturating_sub(1)));
        let column = row.width;
        (row, column)
    }

    /// Returns the matches, the newest first.
    pub(crate) fn rows(&self, history: &InputHistory, columns: usize) -> Vec<Row> {
        let limit = columns.saturating_sub(1);
        let matches = history.matching(&self.term, LISTED);
        if matches.is_empty() {
            return vec![Row::styled(style::FAINT, &cut("nothing found", limit))];
        }
        let row = |(index, line): (usize, &&str)| {
            let lines = line.lines().count();
            let first = line.lines().next().unwrap_or_default().replace('\t', " ");
            let more = match lines {
                0 | 1 => String::new(),
                2 => " … 1 more line".to_owned(),
                _ => format!(" … {} more lines", lines - 1),
            };
            let text = cut(&format!("{first}{more}"), limit);
            if index == self.chosen { Row::styled(style::REVERSE, &text) } else { Row::plain(text) }
        };
        matches.iter().enumerate().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_listed_and_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = InputHistory::open(&folder.path().join("history"), "/w").unwrap();
        ["/calc 1", "hello\nthere", "/calc 2"].iter().for_each(|line| history.add(line));
        let mut search = HistorySearch::default();
        assert_eq!(search.chosen(&history).as_deref(), Some("/calc 2"));
        "calc".chars().for_each(|character| search.insert(character));
        search.older(&history);
        search.older(&history);
        assert_eq!(search.chosen(&history).as_deref(), Some("/calc 1"));
        let rows: Vec<String> = search.rows(&history, 40).into_iter().map(|row| row.text).collect();
        assert_eq!(rows, ["/calc 2", "\x1b[7m/calc 1\x1b[0m"]);
        search.backspace();
        assert_eq!(search.input(40), (Row::plain("search: cal"), 11));
    }

    #[test]
    fn lines_of_several_rows_are_folded() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = InputHistory::open(&folder.path().join("history"), "/w").unwrap();
        history.add("hello\nthere");
        assert_eq!(HistorySearch::default().rows(&history, 40)[0].text, "\x1b[7mhello … 1 more line\x1b[0m");
    }
}

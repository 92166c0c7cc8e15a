//! The menu of completions below the typed text. It opens while a command is typed and is filtered by the session's own
//! completion. The loop in `terminal` passes suggestions and keys.

use patchbay_session::Suggestion;
use unicode_width::UnicodeWidthStr as _;

use super::{live::Row, style, wrap::cut};

/// Rows of the menu.
const ROWS: usize = 8;

/// An open menu.
#[derive(Debug)]
pub(crate) struct Menu {
    items: Vec<Suggestion>,
    /// The chosen item; `None` until the user goes into the menu.
    chosen: Option<usize>,
    /// The first item that is shown.
    first: usize,
}

impl Menu {
    /// Returns a menu of `items`; `None` if there are none.
    pub(crate) fn of(items: Vec<Suggestion>) -> Option<Self> {
        (!items.is_empty()).then_some(Self { items, chosen: None, first: 0 })
    }

    pub(crate) fn chosen(&self) -> Option<&Suggestion> {
        self.items.get(self.chosen?)
    }

    /// Goes to the next item, or to the first one.
    pub(crate) fn next(&mut self) {
        self.choose(self.chosen.map_or(0, |chosen| (chosen + 1) % self.items.len()));
    }

    /// Goes to the previous item, or to the last one.
    pub(crate) fn previous(&mut self) {
        let last = self.items.len() - 1;
        self.choose(self.chosen.map_or(last, |chosen| chosen.checked_sub(1).unwrap_or(last)));
    }

    fn choose(&mut self, index: usize) {
        self.chosen = Some(index);
        self.first = self.first.clamp((index + 1).saturating_sub(ROWS), index);
    }

    /// Returns the only item, if there is one alone.
    pub(crate) fn only(&self) -> Option<&Suggestion> {
        match self.items.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns the text that all items begin with, and the offset where it belongs.
    pub(crate) fn common_prefix(&self) -> (usize, String) {
        let first = &self.items[0];
        let mut prefix = first.text.as_str();
        for item in &self.items[1..] {
            let same = prefix.chars().zip(item.text.chars()).take_while(|(left, right)| left == right);
            prefix = &prefix[..same.map(|(character, _)| character.len_utf8()).sum()];
        }
        (first.start, prefix.to_owned())
    }

    /// Returns at most `height` rows.
    pub(crate) fn rows(&self, columns: usize, height: usize) -> Vec<Row> {
        let limit = columns.saturating_sub(1);
        let shown = self.items.iter().enumerate().skip(self.first).take(ROWS.min(height));
        let names = shown.clone().map(|(_, item)| item.text.width()).max().unwrap_or(0).min(limit / 2);
        let mut rows: Vec<Row> = shown
            .map(|(index, item)| {
                let name = cut(&item.text, limit);
                let blanks = " ".repeat(names.saturating_sub(name.width()) + 2);
                let summary = cut(&item.summary, limit.saturating_sub(name.width().max(names) + 2));
                let plain = if summary.is_empty() { name.clone() } else { format!("{name}{blanks}{summary}") };
                let text = match self.chosen == Some(index) {
                    true => style::styled(style::REVERSE, &plain),
                    false if summary.is_empty() => name,
                    false => format!("{name}{blanks}{}", style::faint(&summary)),
                };
                Row { width: plain.width(), text }
            })
            .collect();
        let more = self.items.len().saturating_sub(self.first + rows.len());
        if more > 0 && rows.len() < height {
            rows.push(Row::styled(style::FAINT, &cut(&format!("… {more} more"), limit)));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(names: &[&str]) -> Menu {
        let item = |name: &&str| Suggestion {
            text: (*name).to_owned(),
            start: 0,
            summary: format!("does {name}"),
            takes_argument: false,
        };
        Menu::of(names.iter().map(item).collect()).unwrap()
    }

    fn texts(menu: &Menu, columns: usize) -> Vec<String> {
        menu.rows(columns, 20).into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn items_have_their_summaries_in_a_column() {
        let mut menu = menu(&["/skills", "/skill"]);
        assert_eq!(texts(&menu, 80), ["/skills  \x1b[2mdoes /skills\x1b[0m", "/skill   \x1b[2mdoes /skill\x1b[0m"]);
        menu.next();
        assert_eq!(texts(&menu, 80)[0], "\x1b[7m/skills  does /skills\x1b[0m");
        assert_eq!(menu.chosen().unwrap().text, "/skills");
    }

    #[test]
    fn going_on_wraps_around_and_scrolls() {
        let names: Vec<String> = (0..20).map(|number| format!("/c{number}")).collect();
        let mut menu = menu(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(texts(&menu, 80).last().unwrap(), "\x1b[2m… 12 more\x1b[0m");
        menu.previous();
        assert_eq!(menu.chosen().unwrap().text, "/c19");
        assert_eq!(texts(&menu, 80).len(), 8);
        menu.next();
        assert_eq!(menu.chosen().unwrap().text, "/c0");
    }

    #[test]
    fn common_prefix_is_what_all_items_begin_with() {
        assert_eq!(menu(&["/skills", "/skill"]).common_prefix(), (0, "/skill".to_owned()));
        assert_eq!(menu(&["/a", "/b"]).common_prefix(), (0, "/".to_owned()));
    }

    #[test]
    fn rows_fit_into_narrow_windows() {
        for row in menu(&["/a-rather-long-command-name", "/short"]).rows(16, 20) {
            assert!(row.width <= 15, "{row:?}");
        }
    }
}

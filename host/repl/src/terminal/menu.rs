//! The menu of completions below the typed text. It opens while a command is typed and is filtered by the session's own
//! completion. The loop in `terminal` passes suggestions and keys.

use patchbay_session::Suggestion;
use unicode_width::UnicodeWidthStr as _;

use super::{live::Row, style, wrap::cut};

/// How many items the menu shows at a time.
const ROWS: usize = 8;

#[derive(Debug)]
pub(crate) struct Menu {
    items: Vec<Suggestion>,
    /// The chosen item; `None` until the user moves into the menu.
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

    /// Chooses the next item, or the first if none is chosen.
    pub(crate) fn next(&mut self) {
        self.choose(self.chosen.map_or(0, |chosen| (chosen + 1) % self.items.len()));
    }

    /// Chooses the previous item, or the last if none is chosen.
    pub(crate) fn previous(&mut self) {
        let last = self.items.len() - 1;
        self.choose(self.chosen.map_or(last, |chosen| chosen.checked_sub(1).unwrap_or(last)));
    }

    fn choose(&mut self, index: usize) {
        self.chosen = Some(index);
        self.first = self.first.clamp((index + 1).saturating_sub(ROWS), index);
    }

    /// Returns the only item, if there is exactly one.
    pub(crate) fn only(&self) -> Option<&Suggestion> {
        match self.items.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns the chosen item, or else the first.
    pub(crate) fn best(&self) -> &Suggestion {
        self.chosen().unwrap_or(&self.items[0])
    }

    /// Returns the text that all items begin with.
    pub(crate) fn common_prefix(&self) -> String {
        let mut prefix = self.items[0].text.as_str();
        for item in &self.items[1..] {
            let same = prefix.chars().zip(item.text.chars()).take_while(|(left, right)| left == right);
            prefix = &prefix[..same.map(|(character, _)| character.len_utf8()).sum()];
        }
        prefix.to_owned()
    }

    /// Returns at most `height` rows: the items, with a heading above each group.
    pub(crate) fn rows(&self, columns: usize, height: usize) -> Vec<Row> {
        let limit = columns.saturating_sub(1);
        let (first, count) = self.shown(height);
        let shown = &self.items[first..first + count];
        let names = shown.iter().map(|item| item.text.width()).max().unwrap_or(0).min(limit / 2);
        let mut rows = Vec::new();
        let mut group = None;
        for (index, item) in shown.iter().enumerate() {
            let heading = item.group.as_deref().filter(|_| has_headings(height));
            if let Some(heading) = heading.filter(|_| heading != group) {
                rows.push(Row::styled(style::FAINT, &cut(heading, limit)));
            }
            group = heading;
            let name = cut(&item.text, limit);
            let blanks = " ".repeat(names.saturating_sub(name.width()) + 2);
            let summary = cut(&item.summary, limit.saturating_sub(name.width().max(names) + 2));
            let plain = if summary.is_empty() { name.clone() } else { format!("{name}{blanks}{summary}") };
            let text = match self.chosen == Some(first + index) {
                true => style::styled(style::REVERSE, &plain),
                false if item.is_unready => style::faint(&plain),
                false if summary.is_empty() => name,
                false => format!("{name}{blanks}{}", style::faint(&summary)),
            };
            rows.push(Row { width: plain.width(), text });
        }
        let more = self.items.len().saturating_sub(first + count);
        if more > 0 && rows.len() < height {
            rows.push(Row::styled(style::FAINT, &cut(&format!("… {more} more"), limit)));
        }
        rows
    }

    /// Returns the index of the first item that is shown in `height` rows, and the number of shown items. They include the
    /// chosen item.
    fn shown(&self, height: usize) -> (usize, usize) {
        let mut first = self.first;
        loop {
            let count = self.fitting(first, height);
            match self.chosen {
                Some(chosen) if chosen >= first + count && first < chosen => first += 1,
                _ => return (first, count),
            }
        }
    }

    /// Returns how many items from `first` on fit into `height` rows with their headings.
    fn fitting(&self, first: usize, height: usize) -> usize {
        let (mut used, mut group) = (0, None);
        for (count, item) in self.items.iter().skip(first).take(ROWS).enumerate() {
            let heading = item.group.as_deref().filter(|_| has_headings(height));
            used += 1 + usize::from(heading.is_some() && heading != group);
            if used > height {
                return count;
            }
            group = heading;
        }
        ROWS.min(self.items.len().saturating_sub(first))
    }
}

/// Whether there is room for headings.
fn has_headings(height: usize) -> bool {
    height >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(names: &[&str]) -> Menu {
        let item = |name: &&str| {
            let (text, summary) = ((*name).to_owned(), format!("does {name}"));
            Suggestion { text, summary, ..Suggestion::default() }
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
        assert_eq!(menu(&["/skills", "/skill"]).common_prefix(), "/skill");
        assert_eq!(menu(&["/a", "/b"]).common_prefix(), "/");
    }

    fn models(groups: &[(&str, usize)]) -> Menu {
        let item = |group: &str, number| Suggestion {
            text: format!("{group}-{number}"),
            summary: if number == 1 { "in use".to_owned() } else { String::new() },
            group: Some(if group == "zed" { "zed · needs key".to_owned() } else { group.to_owned() }),
            is_unready: group == "zed",
            ..Suggestion::default()
        };
        let items = groups.iter().flat_map(|(group, count)| (0..*count).map(move |number| item(group, number)));
        Menu::of(items.collect()).unwrap()
    }

    #[test]
    fn groups_have_headings_and_unready_items_are_faint() {
        let expected = [
            "\x1b[2mdemo\x1b[0m",
            "demo-0",
            "demo-1  \x1b[2min use\x1b[0m",
            "\x1b[2mzed · needs key\x1b[0m",
            "\x1b[2mzed-0\x1b[0m",
        ];
        assert_eq!(texts(&models(&[("demo", 2), ("zed", 1)]), 80), expected);
    }

    #[test]
    fn chosen_item_is_shown_below_headings_in_low_windows() {
        let mut menu = models(&[("a", 2), ("b", 1), ("c", 3), ("zed", 9)]);
        for height in 1..20 {
            for _ in 0..menu.items.len() {
                menu.next();
                let rows = menu.rows(80, height);
                assert!(
                    rows.len() <= height && rows.iter().any(|row| row.text.starts_with(style::REVERSE)),
                    "{rows:?}"
                );
            }
        }
    }

    #[test]
    fn rows_fit_into_narrow_windows() {
        for row in menu(&["/a-rather-long-command-name", "/short"]).rows(16, 20) {
            assert!(row.width <= 15, "{row:?}");
        }
    }
}

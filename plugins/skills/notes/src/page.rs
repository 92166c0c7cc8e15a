//! Formats a page of notes: one line per note, and how to continue.

/// Maximum number of characters of a note's first line in a list: one line of a terminal.
const WIDTH: usize = 72;

/// The kind of caller. The page's advice on how to continue depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// A program, which can pass `after`.
    Tool,
    /// A user, who types a line.
    Person,
}

/// A page of notes, in order.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) notes: Vec<(u64, String)>,
    /// True if there are notes after these.
    pub(crate) more: bool,
    /// The last note that a search read.
    pub(crate) searched: u64,
}

impl Page {
    pub(crate) fn list(&self, after: Option<u64>, caller: Caller) -> String {
        let Some((end, _)) = self.notes.last() else {
            return after.map_or_else(|| "No notes.".to_owned(), |after| format!("No notes after {after}."));
        };
        self.lines().chain(self.more(caller, "list", *end, "")).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn matches(&self, query: &str, caller: Caller) -> String {
        let more = self.more(caller, "search", self.searched, query);
        let lines: Vec<String> = match self.notes.as_slice() {
            [] if self.more => vec![format!("No notes up to {} match '{query}'.", self.searched)],
            [] => vec![format!("No notes match '{query}'.")],
            // This is the only way to read a whole note.
            [(number, text)] => vec![format!("{number}. {text}")],
            _ => self.lines().collect(),
        };
        lines.into_iter().chain(more).collect::<Vec<_>>().join("\n")
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.notes.iter().map(|(number, text)| format!("{number}. {}", first_line(text)))
    }

    fn more(&self, caller: Caller, word: &str, end: u64, query: &str) -> Option<String> {
        self.more.then(|| match caller {
            Caller::Tool => format!("More notes: {word} after {end}."),
            Caller::Person => format!("More notes: /note {word} >{end} {query}").trim_end().to_owned(),
        })
    }
}

/// Returns the first line of a note, with `…` if it was cut.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    match line.char_indices().nth(WIDTH) {
        Some((cut, _)) => format!("{}…", line[..cut].trim_end()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_first_line_is_cut() {
        assert_eq!(first_line("a\nb"), "a");
        assert_eq!(first_line("a \r\nb"), "a");
        assert_eq!(first_line(""), "");
        assert_eq!(first_line(&"é".repeat(WIDTH)), "é".repeat(WIDTH));
        assert_eq!(first_line(&"é".repeat(WIDTH + 1)), format!("{}…", "é".repeat(WIDTH)));
        assert_eq!(first_line(&format!("{} x", "é".repeat(WIDTH - 1))), format!("{}…", "é".repeat(WIDTH - 1)));
    }
}

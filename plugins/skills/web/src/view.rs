//! Shows a part of a text with its title and URL, and how to continue.

use patchbay_sdk::{Failure, Result};
use serde_json::Value;
use url::Url;

#[derive(Clone, Debug)]
pub(crate) struct View {
    url: String,
    title: Option<String>,
    text: String,
    notes: Vec<String>,
}

impl View {
    pub(crate) fn new(url: &Url) -> Self {
        Self { url: url.to_string(), title: None, text: String::new(), notes: Vec::new() }
    }

    pub(crate) fn with_title(self, title: Option<String>) -> Self {
        Self { title, ..self }
    }

    pub(crate) fn with_text(self, text: String) -> Self {
        Self { text, ..self }
    }

    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.notes.push(note.to_owned());
        self
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the title, the URL, at most `most` characters of the text after the first `from`, and how to continue.
    pub(crate) fn page(&self, from: usize, most: usize) -> Result<String> {
        let total = self.text.chars().count();
        if from > 0 && from >= total {
            return Err(Failure::invalid(format!("the text has {total} characters, so none are left after {from}")));
        }
        let start = offset(&self.text, from);
        let rest = &self.text[start..];
        let page = &rest[..offset(rest, most)];
        // Prefer to end at a newline, if that shortens the page by less than a quarter.
        let page = match page.rfind('\n').filter(|end| page.len() < rest.len() && *end > page.len() / 4 * 3) {
            Some(end) => &page[..=end],
            None => page,
        };
        let end = from + page.chars().count();
        let title = self.title.as_deref().map(|title| format!("Title: {title}\n")).unwrap_or_default();
        let mut shown = format!("{title}URL: {}\n", self.url);
        let body = page.trim_matches('\n');
        if !body.is_empty() {
            shown.push_str(&format!("\n{body}\n"));
        }
        let mut notes = self.notes.clone();
        if from > 0 || end < total {
            notes.push(format!("Characters {} to {end} of {total}.", from + 1));
        }
        if end < total {
            // The query of a URL may contain backslashes.
            notes.push(format!("To continue: {{\"url\": {}, \"from\": {end}}}", Value::from(self.url.as_str())));
        }
        if !notes.is_empty() {
            shown.push_str(&format!("\n[{}]", notes.join(" ")));
        }
        Ok(shown.trim_end().to_owned())
    }
}

/// Returns the offset of the character with the index `count`.
fn offset(text: &str, count: usize) -> usize {
    text.char_indices().nth(count).map_or(text.len(), |(offset, _)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> View {
        View::new(&"https://example.com/a".parse().expect("an address")).with_text(text.to_owned())
    }

    #[test]
    fn short_text_is_shown_completely() {
        let shown = view("é\n\nb\n").with_title(Some("T".to_owned())).page(0, 9);
        assert_eq!(shown.as_deref(), Ok("Title: T\nURL: https://example.com/a\n\né\n\nb"));
        assert_eq!(view("").with_note("N.").page(0, 9).as_deref(), Ok("URL: https://example.com/a\n\n[N.]"));
        assert_eq!(view("").page(0, 9).as_deref(), Ok("URL: https://example.com/a"));
    }

    #[test]
    fn parts_continue_to_the_end() {
        let text = "é".repeat(25);
        let first = view(&text).page(0, 10).expect("a page");
        let go_on = "To continue: {\"url\": \"https://example.com/a\", \"from\": 10}";
        assert_eq!(
            first,
            format!("URL: https://example.com/a\n\n{}\n\n[Characters 1 to 10 of 25. {go_on}]", "é".repeat(10))
        );
        let last = view(&text).page(20, 10).expect("a page");
        assert!(last.ends_with("\n\nééééé\n\n[Characters 21 to 25 of 25.]"), "{last}");
        let failure = view(&text).page(25, 10).expect_err("the end");
        assert_eq!(failure.message(), "the text has 25 characters, so none are left after 25");
    }

    #[test]
    fn way_to_continue_is_json() {
        let view = View::new(&"https://example.com/?a=\\d".parse().expect("an address")).with_text("éa".to_owned());
        let page = view.page(0, 1).expect("a page");
        assert!(page.ends_with("To continue: {\"url\": \"https://example.com/?a=\\\\d\", \"from\": 1}]"), "{page}");
    }

    #[test]
    fn part_ends_at_a_line_end_if_possible() {
        let page = view("12345678\n01234567890").page(0, 10).expect("a page");
        assert!(page.contains("\n\n12345678\n\n[Characters 1 to 9 of 20."), "{page}");
        let page = view("1\n2345678901234567890").page(0, 10).expect("a page");
        assert!(page.contains("\n\n1\n23456789\n\n[Characters 1 to 10 of 21."), "{page}");
    }
}

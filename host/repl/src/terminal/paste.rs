//! Placeholders for long pasted texts. The composer shows `[paste 1: 50 lines]` and sends the whole text.

use std::ops::Range;

/// A text with more lines is shown as a placeholder.
const LINES: usize = 10;
/// A text with more characters is shown as a placeholder.
const CHARACTERS: usize = 1_000;

/// The pasted texts of the line that is being typed.
#[derive(Debug, Default)]
pub(crate) struct Pastes(Vec<Paste>);

#[derive(Debug)]
struct Paste {
    placeholder: String,
    text: String,
}

impl Pastes {
    /// Returns the text to insert for `pasted`. If `before`, the text up to the cursor, ends with the placeholder of the same text,
    /// returns the placeholder's length in bytes as an error: the caller replaces the placeholder with `pasted`.
    pub(crate) fn add(&mut self, before: &str, pasted: &str) -> Result<String, usize> {
        let lines = pasted.lines().count();
        let characters = pasted.chars().count();
        if lines <= LINES && characters <= CHARACTERS {
            return Ok(pasted.to_owned());
        }
        if let Some(same) = self.0.iter().find(|paste| paste.text == pasted && before.ends_with(&paste.placeholder)) {
            return Err(same.placeholder.len());
        }
        let number = self.0.len() + 1;
        let placeholder = match lines {
            0 | 1 => format!("[paste {number}: {characters} characters]"),
            _ => format!("[paste {number}: {lines} lines]"),
        };
        self.0.push(Paste { placeholder: placeholder.clone(), text: pasted.to_owned() });
        Ok(placeholder)
    }

    /// Returns `text` with the first occurrence of each intact placeholder replaced by the pasted text.
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut found: Vec<(usize, &Paste)> =
            self.0.iter().filter_map(|paste| Some((text.find(&paste.placeholder)?, paste))).collect();
        found.sort_by_key(|(start, _)| *start);
        let (mut out, mut end) = (String::new(), 0);
        for (start, paste) in found {
            out.push_str(&text[end..start]);
            out.push_str(&paste.text);
            end = start + paste.placeholder.len();
        }
        out.push_str(&text[end..]);
        out
    }

    /// Returns the placeholder of `text` at byte `cursor`, as its range and the pasted text. A cursor right after a placeholder
    /// also counts if the text ends there, because the key Right, which expands the placeholder, has no other use there.
    pub(crate) fn at(&self, text: &str, cursor: usize) -> Option<(Range<usize>, &str)> {
        self.0.iter().find_map(|paste| {
            let start = text.find(&paste.placeholder)?;
            let end = start + paste.placeholder.len();
            let is_on = (start..end).contains(&cursor) || cursor == end && end == text.len();
            is_on.then_some((start..end, &*paste.text))
        })
    }

    /// Forgets all texts, because the line was sent.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifty() -> String {
        (1..=50).map(|number| format!("line {number}\n")).collect()
    }

    #[test]
    fn short_paste_is_inserted_as_it_is() {
        assert_eq!(Pastes::default().add("", "two\nlines"), Ok("two\nlines".to_owned()));
    }

    #[test]
    fn long_paste_is_a_placeholder_until_it_is_sent() {
        let mut pastes = Pastes::default();
        assert_eq!(pastes.add("", &fifty()), Ok("[paste 1: 50 lines]".to_owned()));
        let long = "x".repeat(1_001);
        assert_eq!(pastes.add("", &long), Ok("[paste 2: 1001 characters]".to_owned()));
        let sent = pastes.expand("[paste 2: 1001 characters] and [paste 1: 50 lines]!");
        assert_eq!(sent, format!("{long} and {}!", fifty()));
    }

    #[test]
    fn second_paste_of_the_same_text_expands_the_placeholder() {
        let mut pastes = Pastes::default();
        let placeholder = pastes.add("", &fifty()).unwrap();
        assert_eq!(pastes.add(&format!("see {placeholder}"), &fifty()), Err(placeholder.len()));
    }

    #[test]
    fn placeholder_is_found_at_the_cursor() {
        let mut pastes = Pastes::default();
        let placeholder = pastes.add("", &fifty()).unwrap();
        let found = |text: &str, cursor| pastes.at(text, cursor).map(|(range, text)| (range, text.len()));
        let (text, end) = (format!("see {placeholder}"), 4 + placeholder.len());
        let expected = Some((4..end, fifty().len()));
        assert_eq!(
            [3, 4, 7, end].map(|cursor| found(&text, cursor)),
            [None, expected.clone(), expected.clone(), expected]
        );
        assert_eq!(found(&format!("{text}!"), end), None);
        assert_eq!(found("[paste 1: 50 line]", 3), None);
    }

    #[test]
    fn edited_placeholder_is_sent_as_typed() {
        let mut pastes = Pastes::default();
        pastes.add("", &fifty()).unwrap();
        assert_eq!(pastes.expand("[paste 1: 50 line]"), "[paste 1: 50 line]");
        // Pasted text that looks like a placeholder is not expanded.
        let tricky = format!("[paste 1: 50 lines]\n{}", "x\n".repeat(20));
        let placeholder = pastes.add("", &tricky).unwrap();
        assert_eq!(pastes.expand(&placeholder), tricky);
    }
}

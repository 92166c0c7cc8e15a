//! The words such as `@docs/a.png` in the typed text that attach a file. Only words that the user typed or chose from
//! the menu attach files, also in a recalled line of this process. A pasted word attaches nothing, because foreign text
//! must not send files. The composer reports each edit.

use std::{collections::BTreeSet, ops::Range};

/// Length limit of a typed `@PATH` that is remembered, in bytes.
const WORD: usize = 512;
/// Limit of the remembered words, including every prefix typed on the way. Further words attach nothing.
const WORDS: usize = 20_000;
/// Limit of the words that attach nothing but are looked up, to tell the user which of them are files.
const OTHERS: usize = 20;
/// Characters that may follow a path in a sentence.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '}', '\'', '"'];

/// The words that were typed or chosen since the last line was sent.
#[derive(Debug, Default)]
pub(crate) struct TypedPaths(BTreeSet<String>);

impl TypedPaths {
    /// Notes that a key has changed the text. `cursor` is the byte offset of the cursor after the change.
    pub(crate) fn edited(&mut self, before: &str, after: &str, cursor: usize) {
        if before == after || self.0.len() >= WORDS {
            return;
        }
        let start = common(before.chars(), after.chars());
        let end = common(before[start..].chars().rev(), after[start..].chars().rev());
        let (removed, inserted) = (&before[start..before.len() - end], &after[start..after.len() - end]);
        // Other edits, such as an undo, may bring back pasted text.
        let is_small = inserted.chars().count() <= 1 && (removed.is_empty() || inserted.is_empty());
        if !is_small || removed.contains(char::is_whitespace) {
            return;
        }
        let Some(word) = word_at(after, cursor) else { return };
        let is_typed = word == "@" && inserted == "@" || word_at(before, start).is_some_and(|was| self.0.contains(was));
        if is_typed && word.len() <= WORD {
            self.0.insert(word.to_owned());
        }
    }

    /// Notes a word that the user chose.
    pub(crate) fn choose(&mut self, word: &str) {
        if word.starts_with('@') && word.len() <= WORD {
            self.0.insert(word.to_owned());
        }
    }

    /// Returns the paths of the words in `text` that may attach a file, each once, in order.
    pub(crate) fn paths(&self, text: &str) -> Vec<PathInText> {
        paths(text, |word| self.0.contains(word))
    }

    /// Returns the paths of the other words, at most [`OTHERS`].
    pub(crate) fn other_paths(&self, text: &str) -> Vec<PathInText> {
        let mut others = paths(text, |word| !self.0.contains(word) && word.len() <= WORD);
        others.truncate(OTHERS);
        others
    }

    /// Returns the words in `text` that may attach a file.
    pub(crate) fn words(&self, text: &str) -> Vec<String> {
        words(text)
            .into_iter()
            .map(|range| &text[range])
            .filter(|word| self.0.contains(*word))
            .map(str::to_owned)
            .collect()
    }

    /// Forgets all words, because the line was sent.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathInText {
    /// The word without `@` and quotation marks.
    pub(crate) whole: String,
    /// The word without the punctuation at its end, if there is any.
    pub(crate) shorter: Option<String>,
}

/// Returns the paths of the words in `text` for which `is_meant` returns true, each once, in order.
fn paths(text: &str, is_meant: impl Fn(&str) -> bool) -> Vec<PathInText> {
    let mut paths: Vec<PathInText> = Vec::new();
    for word in words(text).into_iter().map(|range| &text[range]).filter(|word| is_meant(word)) {
        let whole = unquoted(word).to_owned();
        let trimmed = whole.trim_end_matches(PUNCTUATION);
        let shorter = (trimmed.len() < whole.len() && !trimmed.is_empty()).then(|| trimmed.to_owned());
        let path = PathInText { whole, shorter };
        if !path.whole.is_empty() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Returns the word for a path, quoted if the path contains white space.
pub(crate) fn word_of(path: &str) -> String {
    if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") }
}

fn unquoted(word: &str) -> &str {
    let path = word.strip_prefix('@').unwrap_or(word);
    path.strip_prefix('"').and_then(|path| path.strip_suffix('"')).unwrap_or(path)
}

/// Returns the ranges of the words with `@` at the start of the text or after white space. A quoted path may contain white space.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('@').map(|at| from + at) {
        from = at + 1;
        if text[..at].chars().next_back().is_some_and(|before| !before.is_whitespace()) {
            continue;
        }
        let rest = &text[from..];
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.find(['"', '\n'])).filter(|end| {
            // The quotation mark must be closed on the same line.
            rest[1 + end..].starts_with('"')
        });
        let length = match quoted {
            Some(end) => end + 2,
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        from += length;
        found.push(at..from);
    }
    found
}

/// Returns the word that the cursor is in, or right after.
fn word_at(text: &str, cursor: usize) -> Option<&str> {
    words(text).into_iter().find(|range| range.start < cursor && cursor <= range.end).map(|range| &text[range])
}

/// Returns how many bytes two sequences of characters share at their beginning.
fn common(one: impl Iterator<Item = char>, two: impl Iterator<Item = char>) -> usize {
    one.zip(two).take_while(|(one, two)| one == two).map(|(one, _)| one.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that is edited like the composer's, with the cursor at its end.
    #[derive(Default)]
    struct Draft {
        paths: TypedPaths,
        text: String,
    }

    impl Draft {
        fn typed(mut self, keys: &str) -> Self {
            for key in keys.chars() {
                let before = self.text.clone();
                match key {
                    '\u{8}' => drop(self.text.pop()),
                    key => self.text.push(key),
                }
                self.paths.edited(&before, &self.text, self.text.len());
            }
            self
        }

        fn pasted(mut self, text: &str) -> Self {
            self.text.push_str(text);
            self
        }

        fn found(&self) -> Vec<String> {
            self.paths.paths(&self.text).into_iter().map(|path| path.whole).collect()
        }
    }

    #[test]
    fn typed_words_are_found() {
        for (keys, expected) in [
            ("look at @a.png and @docs/b.pdf", &["a.png", "docs/b.pdf"][..]),
            ("@a.png\n@a.png", &["a.png"]),
            ("@a.pngg\u{8}", &["a.png"]),
            ("x@\u{8}\u{8}@a", &["a"]),
            ("me@example.com", &[]),
            ("@ a", &[]),
            ("@ä", &["ä"]),
        ] {
            assert_eq!(Draft::default().typed(keys).found(), expected, "{keys}");
        }
        let paths = Draft::default().typed("(see @a.png).").paths.paths("@a.png).");
        assert_eq!(paths, [PathInText { whole: "a.png).".to_owned(), shorter: Some("a.png".to_owned()) }]);
    }

    #[test]
    fn pasted_words_are_not_found() {
        let draft = Draft::default().pasted("@secret @other ").typed("and @a.png");
        assert_eq!(draft.found(), ["a.png"]);
        assert_eq!(Draft::default().pasted("@sec").typed("ret").found(), [""; 0]);
        assert_eq!(Draft::default().typed("@a ").pasted("@b").found(), ["a"]);
        // A blank between a typed and a pasted word is removed.
        let mut draft = Draft::default().typed("@a ").pasted("b");
        draft.paths.edited("@a b", "@ab", 2);
        "@ab".clone_into(&mut draft.text);
        assert_eq!(draft.found(), [""; 0]);
        // Moving to a pasted word, and an undo that brings one back.
        let mut draft = Draft::default().typed("@a ").pasted("@b");
        draft.paths.edited("@a @b", "@a @b", 5);
        assert_eq!(draft.found(), ["a"]);
        draft.paths.edited("@a", "@a @b", 5);
        assert_eq!(draft.found(), ["a"]);
    }

    #[test]
    fn chosen_words_are_found_until_the_line_is_sent() {
        let mut draft = Draft::default().pasted("see ").typed("@my");
        draft.text = format!("see {} now", word_of("my file.png"));
        draft.paths.choose(&word_of("my file.png"));
        assert_eq!((&*draft.text, draft.found()), ("see @\"my file.png\" now", vec!["my file.png".to_owned()]));
        draft.paths.clear();
        assert_eq!(draft.found(), [""; 0]);
        assert_eq!(Draft::default().pasted("@\"a b").found(), [""; 0]);
    }

    #[test]
    fn pasted_words_are_the_others() {
        let draft = Draft::default().pasted("see @pasted, ").typed("and @a.png");
        let others: Vec<_> = draft.paths.other_paths(&draft.text).into_iter().map(|path| path.whole).collect();
        assert_eq!(others, ["pasted,"]);
        assert_eq!(draft.paths.words(&draft.text), ["@a.png"]);
        let many =
            Draft::default().pasted(&"@x ".repeat(3)).pasted(&(0..99).map(|n| format!("@{n} ")).collect::<String>());
        assert_eq!(many.paths.other_paths(&many.text).len(), OTHERS);
    }

    #[test]
    fn typing_goes_on_inside_a_word() {
        let mut draft = Draft::default().typed("@a.png");
        draft.paths.edited("@a.png", "@ab.png", 3);
        assert_eq!(draft.paths.paths("@ab.png").len(), 1);
        draft.paths.edited("@ab.png", "@b.png", 1);
        assert_eq!(draft.paths.paths("@b.png").len(), 1);
    }
}

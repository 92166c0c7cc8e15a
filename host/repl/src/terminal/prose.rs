//! Wraps the host's messages: prose is wrapped between words, and a command in a message gets a line of its own, which
//! is never wrapped. Pure. Called by `transcript` and `questions`.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::words::COMMAND;

/// Returns the lines of `text`, with each command alone on its line. Lines are not wrapped.
pub(crate) fn commands_apart(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        match line.find(COMMAND) {
            Some(at) => {
                let (before, command) = line.split_at(at + 1);
                lines.extend([before, command.trim_start()]);
            }
            None => lines.push(line),
        }
    }
    lines
}

/// Returns `text` as lines for a window of `columns`. Prose is wrapped at words, and commands are not.
pub(crate) fn lines(text: &str, columns: usize) -> Vec<String> {
    let limit = columns.saturating_sub(1).max(1);
    let is_command = |line: &str| line.starts_with(COMMAND.trim_start_matches([':', ' ']));
    let mut lines = Vec::new();
    for line in commands_apart(text) {
        match is_command(line) {
            true => lines.push(line.to_owned()),
            false => lines.extend(wrapped(line, limit)),
        }
    }
    lines
}

/// Returns one line of text as rows of at most `limit` columns. A word that is wider is split.
pub(crate) fn rows(line: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(2);
    let mut rows = Vec::new();
    for row in wrapped(line, limit) {
        let mut rest = &*row;
        while rest.width() > limit {
            let mut width = 0;
            let end = rest.grapheme_indices(true).find(|(at, grapheme)| {
                width += grapheme.width();
                width > limit && *at > 0
            });
            let (head, tail) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
            rows.push(head.to_owned());
            rest = tail;
        }
        rows.push(rest.to_owned());
    }
    rows
}

/// Wraps one line at words. A word that is wider than `limit` stays whole.
fn wrapped(line: &str, limit: usize) -> Vec<String> {
    let text = line.trim_start_matches(' ');
    let mut rows = Vec::new();
    // The indentation stays.
    let mut row = line[..line.len() - text.len()].to_owned();
    for (index, word) in text.split(' ').enumerate() {
        if index == 0 || row.is_empty() {
            row.push_str(word);
        } else if row.width() + 1 + word.width() <= limit {
            row.push(' ');
            row.push_str(word);
        } else {
            rows.push(std::mem::replace(&mut row, word.to_owned()));
        }
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_stands_alone_and_whole() {
        let text =
            "Error: skill 'x' may not use 'kv': it is not granted. To grant it: patchbay grant add x kv\n  printed: a";
        let apart = [
            "Error: skill 'x' may not use 'kv': it is not granted. To grant it:",
            "patchbay grant add x kv",
            "  printed: a",
        ];
        assert_eq!(commands_apart(text), apart);
        let broken = lines("May not be used. To allow it: patchbay provider allow local", 20);
        assert_eq!(broken, ["May not be used. To", "allow it:", "patchbay provider allow local"]);
    }

    #[test]
    fn prose_is_broken_at_words() {
        assert_eq!(lines("one two three", 9), ["one two", "three"]);
        assert_eq!(lines("one two", 8), ["one two"]);
        assert_eq!(lines("  one two", 6), ["  one", "two"]);
        assert_eq!(lines("a\n\nb", 80), ["a", "", "b"]);
        // A long word is kept whole because the user may want to copy a path.
        assert_eq!(lines("in /a/very/long/path now", 10), ["in", "/a/very/long/path", "now"]);
        assert_eq!(lines("世界 世界", 6), ["世界", "世界"]);
    }

    #[test]
    fn rows_are_never_wider_than_their_limit() {
        assert_eq!(rows("in /a/very/long/path now", 9), ["in", "/a/very/l", "ong/path", "now"]);
        assert_eq!(rows("世界世界", 5), ["世界", "世界"]);
        assert_eq!(rows("❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}", 5), ["❤\u{fe0f}❤\u{fe0f}", "❤\u{fe0f}"]);
        assert_eq!(rows("", 9), [""]);
    }
}

//! Breaks styled text into rows by display width.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    clean::BREAK,
    style::{TextSpan, append},
};

/// A word of more than this many columns is broken; a shorter one stays whole even if the row gets too long, because it may be an
/// address.
const MAX_WORD: usize = 1_000;

pub(crate) struct WrappedRow {
    /// The text of the row, without the blanks at which it was broken.
    pub(crate) spans: Vec<TextSpan>,
    /// Byte offset of the row in the joined text of all spans.
    pub(crate) start: usize,
}

/// A piece that is not broken: a word or a wide character.
struct Word {
    start: usize,
    end: usize,
    width: usize,
    /// Columns of the blanks after it.
    blank: usize,
    /// Whether a hard line break follows.
    is_last: bool,
}

/// Breaks `spans` into rows of at most `columns` columns, except where one word is wider.
pub(crate) fn wrap(spans: &[TextSpan], columns: usize) -> Vec<WrappedRow> {
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    let mut rows: Vec<(usize, usize)> = Vec::new();
    let mut width = 0;
    let mut row: Option<(usize, usize)> = None;
    for word in words(&text) {
        row = match row {
            Some((start, _)) if width + word.width <= columns => Some((start, word.end)),
            full => {
                rows.extend(full);
                width = 0;
                Some((word.start, word.end))
            }
        };
        width += word.width + word.blank;
        if word.is_last {
            rows.extend(row.take());
            width = 0;
        }
    }
    rows.extend(row);
    slice(spans, &rows)
}

/// Returns the spans of each row. Because rows are in order, one pass over the spans is enough.
fn slice(spans: &[TextSpan], rows: &[(usize, usize)]) -> Vec<WrappedRow> {
    let mut first = 0;
    let mut offset = 0;
    let mut wrapped = Vec::with_capacity(rows.len());
    for &(start, end) in rows {
        while spans.get(first).is_some_and(|span| offset + span.text.len() <= start) {
            offset += spans[first].text.len();
            first += 1;
        }
        let mut row = Vec::new();
        let mut at = offset;
        for span in &spans[first..] {
            if at >= end {
                break;
            }
            let from = start.max(at) - at;
            let to = end.min(at + span.text.len()) - at;
            if from < to {
                append(&mut row, TextSpan { text: span.text[from..to].to_owned(), ..span.clone() });
            }
            at += span.text.len();
        }
        wrapped.push(WrappedRow { spans: row, start });
    }
    wrapped
}

fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    // Whether the next character may not be joined to the last word.
    let mut is_apart = true;
    let mut previous = "";
    for (at, cluster) in text.grapheme_indices(true) {
        if cluster.chars().all(|c| c == ' ') {
            if let Some(word) = words.last_mut() {
                word.blank += cluster.len();
            }
            is_apart = true;
        } else if cluster.starts_with(BREAK) {
            match words.last_mut() {
                Some(word) if !word.is_last => word.is_last = true,
                _ => words.push(Word { start: at, end: at, width: 0, blank: 0, is_last: true }),
            }
            is_apart = true;
        } else {
            let width = cluster.width();
            match words.last_mut() {
                Some(word) if !is_apart && word.width < MAX_WORD && !breaks(previous, cluster) => {
                    word.end = at + cluster.len();
                    word.width += width;
                }
                _ => words.push(Word { start: at, end: at + cluster.len(), width, blank: 0, is_last: false }),
            }
            is_apart = false;
        }
        previous = cluster;
    }
    words
}

/// Whether a row may end between two characters: next to wide ones, but neither before closing nor after opening marks.
fn breaks(left: &str, right: &str) -> bool {
    const CLOSING: &str = "、。，．：；？！）」』】》〉〕ー々…)]}.,:;!?%\"'";
    const OPENING: &str = "（「『【《〈〔([{\"'";
    (left.width() == 2 || right.width() == 2) && !CLOSING.contains(right) && !OPENING.contains(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, columns: usize) -> Vec<String> {
        let rows = wrap(&[TextSpan::plain(text)], columns);
        rows.into_iter().map(|row| row.spans.into_iter().map(|span| span.text).collect()).collect()
    }

    #[test]
    fn breaks_between_words() {
        assert_eq!(rows("one two three", 7), ["one two", "three"]);
        assert_eq!(rows("one two three", 13), ["one two three"]);
        assert_eq!(rows("", 7), Vec::<String>::new());
        assert_eq!(rows("  one  two ", 9), ["one  two"]);
    }

    #[test]
    fn long_words_stay_whole() {
        let address = "https://example.org/a/long/path";
        assert_eq!(rows(&format!("see ({address}) now"), 10), ["see", &format!("({address})"), "now"]);
        assert_eq!(rows(&"x".repeat(2_500), 10).iter().map(String::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    }

    #[test]
    fn counts_columns_not_characters() {
        assert_eq!(rows("日本語です。", 6), ["日本語", "です。"]);
        assert_eq!(rows("日本語です。", 8), ["日本語で", "す。"]);
        assert_eq!(rows("e\u{301}e\u{301} e\u{301}", 4), ["e\u{301}e\u{301} e\u{301}"]);
        assert_eq!(rows("🙂 🙂 🙂", 5), ["🙂 🙂", "🙂"]);
    }

    #[test]
    fn hard_breaks_end_rows() {
        assert_eq!(rows("a \u{FFFF} b", 20), ["a", "b"]);
        assert_eq!(rows("a \u{FFFF} \u{FFFF} b", 20), ["a", "", "b"]);
    }

    #[test]
    fn styles_survive_breaks() {
        let bold = crate::TextStyle { bold: true, ..Default::default() };
        let spans = [TextSpan::plain("a "), TextSpan { text: "b c".into(), style: bold, link: None }];
        let rows = wrap(&spans, 3);
        assert_eq!(rows[0].spans.len(), 2);
        assert_eq!((rows[1].start, rows[1].spans[0].style.bold), (4, true));
    }
}

//! Rows of the typed text: wrapped at the window's edge, with a prompt, a mark for the command and a hint. Also cuts rows
//! to the window. Pure; `composer` and the loop call it.

use patchbay_core::text::with_visible_blanks;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::live::Row;

/// How the command at the beginning of the text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// No command, or its name is not complete yet.
    None,
    /// An existing command of this many bytes: bold.
    Known(usize),
    /// An unknown command of this many bytes: underlined.
    Unknown(usize),
}

/// The prompt, the prompt while lines are captured, and the indentation of the other rows of the text.
pub(crate) const PROMPT: &str = "> ";
pub(crate) const CAPTURING: &str = "(capturing) > ";
const INDENT: &str = "  ";

/// Rows and the cursor's place in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrapped {
    pub(crate) rows: Vec<Row>,
    pub(crate) cursor: (usize, usize),
}

/// Returns the rows of `prompt` and `text` in a window of `columns`, at most `height` rows around
/// the `cursor`, which is a byte offset.
pub(crate) fn input(
    prompt: &str,
    text: &str,
    cursor: usize,
    columns: usize,
    height: usize,
    mark: Mark,
    hint: Option<&str>,
) -> Wrapped {
    // A narrow window has no room for a long prompt.
    let prompt = if columns > 2 * prompt.len() { prompt } else { PROMPT };
    let limit = columns.saturating_sub(1).max(PROMPT.len() + 2);
    let mut rows = vec![Row::plain(prompt)];
    let mut place = (0, prompt.len());
    let (marked, style) = match mark {
        Mark::None => (0, ""),
        Mark::Known(end) => (end, "\x1b[1m"),
        Mark::Unknown(end) => (end, "\x1b[4m"),
    };
    let mut styled = false;
    for (at, grapheme) in text.grapheme_indices(true) {
        if at == cursor {
            place = (rows.len() - 1, rows[rows.len() - 1].width);
        }
        if grapheme == "\n" {
            rows.push(Row::plain(INDENT));
            continue;
        }
        let shown = if grapheme == "\t" { INDENT.into() } else { with_visible_blanks(grapheme) };
        if rows[rows.len() - 1].width + shown.width() > limit {
            if styled {
                rows.last_mut().into_iter().for_each(|row| row.text.push_str("\x1b[0m"));
                styled = false;
            }
            rows.push(Row::plain(INDENT));
            if at == cursor {
                place = (rows.len() - 1, INDENT.len());
            }
        }
        let Some(row) = rows.last_mut() else { continue };
        if (at < marked) != styled {
            row.text.push_str(if styled { "\x1b[0m" } else { style });
            styled = !styled;
        }
        row.text.push_str(&shown);
        row.width += shown.width();
    }
    if let Some(row) = rows.last_mut() {
        if styled {
            row.text.push_str("\x1b[0m");
        }
        let width = row.width;
        if let Some(hint) = hint {
            let hint = cut(hint, limit.saturating_sub(width));
            if !hint.is_empty() {
                row.text.push_str(&format!("\x1b[2m{hint}\x1b[0m"));
                row.width += hint.width();
            }
        }
        if cursor >= text.len() {
            // After a full row, the cursor stays at its end; the next character begins a new row.
            place = (rows.len() - 1, width);
        }
    }
    window(rows, place, height.max(1))
}

/// Keeps `height` rows around the cursor.
fn window(mut rows: Vec<Row>, (row, column): (usize, usize), height: usize) -> Wrapped {
    let first = (row + 1).saturating_sub(height);
    rows.drain(..first);
    rows.truncate(height);
    Wrapped { rows, cursor: (row - first, column) }
}

/// Returns the beginning of `text`, at most `columns` wide, with `…` where it was cut.
/// Unusual white space is made visible.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let text = with_visible_blanks(text);
    if text.width() <= columns {
        return text.into_owned();
    }
    let mut kept = String::new();
    let mut width = 0;
    for grapheme in text.graphemes(true) {
        if width + grapheme.width() + 1 > columns {
            break;
        }
        kept.push_str(grapheme);
        width += grapheme.width();
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// Returns the end of `text`, at most `columns` wide, with `…` where it was cut. Unusual white space is made visible.
pub(crate) fn cut_front(text: &str, columns: usize) -> String {
    let text = with_visible_blanks(text);
    // A long text is not measured as a whole, because this runs for each frame. A grapheme rarely has 16 bytes per column.
    if text.len() <= columns * 16 && text.width() <= columns {
        return text.into_owned();
    }
    let mut start = text.len();
    let mut width = 1;
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        if width + grapheme.width() > columns {
            break;
        }
        width += grapheme.width();
        start = at;
    }
    if columns == 0 { String::new() } else { format!("…{}", &text[start..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(wrapped: &Wrapped) -> Vec<&str> {
        wrapped.rows.iter().map(|row| row.text.as_str()).collect()
    }

    #[test]
    fn long_text_continues_on_indented_rows() {
        let wrapped = input(PROMPT, "abcdefgh", 8, 8, 9, Mark::None, None);
        assert_eq!(texts(&wrapped), ["> abcde", "  fgh"]);
        assert_eq!(wrapped.cursor, (1, 5));
    }

    #[test]
    fn wide_characters_are_never_split() {
        let wrapped = input(PROMPT, "世界世界", 3, 8, 9, Mark::None, None);
        assert_eq!(texts(&wrapped), ["> 世界", "  世界"]);
        assert_eq!(wrapped.cursor, (0, 4));
    }

    #[test]
    fn cursor_at_a_break_stands_on_the_next_row() {
        assert_eq!(input(PROMPT, "abcdefgh", 5, 8, 9, Mark::None, None).cursor, (1, 2));
        assert_eq!(input(PROMPT, "a\nb", 2, 8, 9, Mark::None, None).cursor, (1, 2));
        assert_eq!(input(PROMPT, "a\n", 2, 8, 9, Mark::None, None).cursor, (1, 2));
    }

    #[test]
    fn command_is_marked_by_attributes() {
        assert_eq!(texts(&input(PROMPT, "/calc 1", 7, 40, 9, Mark::Known(5), None)), ["> \x1b[1m/calc\x1b[0m 1"]);
        assert_eq!(texts(&input(PROMPT, "/nope", 5, 40, 9, Mark::Unknown(5), None)), ["> \x1b[4m/nope\x1b[0m"]);
    }

    #[test]
    fn hint_is_faint_and_cut() {
        let wrapped = input(PROMPT, "/calc ", 6, 16, 9, Mark::None, Some("expression"));
        assert_eq!(texts(&wrapped), ["> /calc \x1b[2mexpres…\x1b[0m"]);
        assert_eq!((wrapped.rows[0].width, wrapped.cursor), (15, (0, 8)));
    }

    #[test]
    fn long_prompt_needs_room() {
        let wrapped = input(CAPTURING, "abc", 3, 40, 9, Mark::None, None);
        assert_eq!((texts(&wrapped), wrapped.cursor), (vec!["(capturing) > abc"], (0, 17)));
        assert_eq!(texts(&input(CAPTURING, "abc", 3, 20, 9, Mark::None, None)), ["> abc"]);
    }

    #[test]
    fn rows_around_the_cursor_are_shown() {
        let wrapped = input(PROMPT, "a\nb\nc\nd", 3, 40, 2, Mark::None, None);
        assert_eq!(texts(&wrapped), ["> a", "  b"]);
        let wrapped = input(PROMPT, "a\nb\nc\nd", 7, 40, 2, Mark::None, None);
        assert_eq!(texts(&wrapped), ["  c", "  d"]);
        assert_eq!(wrapped.cursor, (1, 3));
    }

    #[test]
    fn blanks_that_are_no_spaces_are_shown() {
        let wrapped = input(PROMPT, "a\u{2800}\u{2800}b \u{1d159}c", 0, 40, 9, Mark::None, None);
        assert_eq!((texts(&wrapped), wrapped.rows[0].width), (vec!["> a␣␣b ␣c"], 9));
        assert_eq!(cut("a\u{2800}b", 9), "a␣b");
        assert_eq!(cut(&format!("a{}b", "\u{2800}".repeat(90)), 5), "a␣␣␣…");
        assert_eq!(cut_front("a\u{2800}\u{2800}b", 3), "…␣b");
    }

    #[test]
    fn cut_text_says_so() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("世界世", 4), "世…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(cut_front("abcdef", 4), "…def");
        assert_eq!(cut_front("世界世", 4), "…世");
    }
}

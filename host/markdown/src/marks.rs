//! The marks that a line may begin with: headings, fences, rules, list items. Pure functions on one line.

use std::borrow::Cow;

/// Columns between two tab stops in Markdown.
const TAB: usize = 4;

/// Columns of indentation that turn a line into code.
pub(crate) const CODE_INDENT: usize = 4;

/// The remainder of a line, with the column at which it begins.
#[derive(Clone)]
pub(crate) struct LineRest<'l> {
    pub(crate) text: Cow<'l, str>,
    column: usize,
}

impl<'l> LineRest<'l> {
    pub(crate) fn new(line: &'l str) -> Self {
        Self { text: Cow::Borrowed(line), column: 0 }
    }

    /// Columns of leading blanks.
    pub(crate) fn indent(&self) -> usize {
        let mut column = self.column;
        for byte in self.text.bytes() {
            match byte {
                b' ' => column += 1,
                b'\t' => column = next_stop(column),
                _ => break,
            }
        }
        column - self.column
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.text.bytes().all(|byte| byte == b' ' || byte == b'\t')
    }

    /// The text without leading blanks.
    pub(crate) fn trimmed(&self) -> &str {
        self.text.trim_start_matches([' ', '\t'])
    }

    /// Removes up to `columns` columns of leading blanks. The rest of a partly removed tab becomes blanks.
    pub(crate) fn strip(&mut self, columns: usize) {
        let goal = self.column + columns;
        let mut bytes = 0;
        for byte in self.text.bytes() {
            if self.column >= goal {
                break;
            }
            match byte {
                b' ' => self.column += 1,
                b'\t' => self.column = next_stop(self.column),
                _ => break,
            }
            bytes += 1;
        }
        let over = self.column.saturating_sub(goal);
        self.column -= over;
        self.remove(bytes);
        if over > 0 {
            self.text = Cow::Owned(format!("{}{}", " ".repeat(over), self.text));
        }
    }

    /// Removes a mark of `bytes` ASCII bytes after the leading blanks.
    pub(crate) fn strip_mark(&mut self, bytes: usize) {
        self.strip(self.indent());
        self.column += bytes;
        self.remove(bytes);
    }

    fn remove(&mut self, bytes: usize) {
        match &mut self.text {
            Cow::Borrowed(text) => *text = text.get(bytes..).unwrap_or_default(),
            Cow::Owned(text) => {
                text.drain(..bytes.min(text.len()));
            }
        }
    }
}

fn next_stop(column: usize) -> usize {
    (column / TAB + 1) * TAB
}

/// The marker of a list item.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ItemMark {
    /// The last character: `-`, `*` or `+`, or after a number `.` or `)`.
    pub(crate) delimiter: u8,
    pub(crate) number: Option<u32>,
    pub(crate) bytes: usize,
}

/// Reads the marker that `text` begins with.
pub(crate) fn item(text: &str) -> Option<ItemMark> {
    let bytes = text.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let delimiter = *bytes.get(digits)?;
    let (known, number) = match digits {
        0 => (b"-*+".contains(&delimiter), None),
        1..=9 => (b".)".contains(&delimiter), text[..digits].parse().ok()),
        _ => (false, None),
    };
    let ends = bytes.get(digits + 1).is_none_or(|next| *next == b' ' || *next == b'\t');
    (known && ends).then_some(ItemMark { delimiter, number, bytes: digits + 1 })
}

/// Whether `text` is a rule such as `---` or `* * *`.
pub(crate) fn is_rule(text: &str) -> bool {
    let marks = || text.bytes().filter(|byte| *byte != b' ' && *byte != b'\t');
    let Some(first) = marks().next() else { return false };
    b"-*_".contains(&first) && marks().all(|byte| byte == first) && marks().count() >= 3
}

/// Returns the text of a heading such as `## Text ##`.
pub(crate) fn heading(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('#');
    if !(1..=6).contains(&(text.len() - rest.len())) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let rest = rest.trim();
    let closed = rest.trim_end_matches('#');
    Some(if closed.is_empty() || closed.ends_with([' ', '\t']) { closed.trim_end() } else { rest })
}

/// Whether `text` underlines the paragraph before it, which makes it a heading.
pub(crate) fn is_underline(text: &str) -> bool {
    let text = text.trim_end();
    !text.is_empty() && (text.bytes().all(|byte| byte == b'=') || text.bytes().all(|byte| byte == b'-'))
}

/// The line that begins fenced code.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct FenceMark<'l> {
    pub(crate) mark: u8,
    pub(crate) length: usize,
    pub(crate) info: &'l str,
}

/// Reads the fence that `text` begins with.
pub(crate) fn fence(text: &str) -> Option<FenceMark<'_>> {
    let mark = *text.as_bytes().first().filter(|byte| b"`~".contains(byte))?;
    let length = text.bytes().take_while(|byte| *byte == mark).count();
    let info = text[length..].trim();
    (length >= 3 && !(mark == b'`' && info.contains('`'))).then_some(FenceMark { mark, length, info })
}

/// Whether `text` is a line that contains only HTML, which is shown unchanged. An address in `<…>` does not count.
pub(crate) fn is_html(text: &str) -> bool {
    let Some(tag) = text.strip_prefix('<') else { return false };
    let name = tag.trim_start_matches(['/', '!', '?']);
    let first = name.split([' ', '>']).next().unwrap_or_default();
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) || tag.starts_with("!--"))
        && text.trim_end().ends_with('>')
        && !first.contains("://")
        && !first.contains('@')
        && !first.starts_with("mailto:")
}

/// Whether the beginning of an unfinished line cannot be anything but a paragraph's text, whatever follows.
pub(crate) fn is_surely_text(line: &str) -> bool {
    let mut rest = line;
    loop {
        let text = rest.trim_start_matches(' ');
        if rest.len() - text.len() >= CODE_INDENT || text.starts_with('\t') {
            return false;
        }
        match item(text) {
            _ if text.starts_with('>') => rest = &text[1..],
            Some(mark) if mark.bytes < text.len() => rest = &text[mark.bytes..],
            _ => {
                let may_be_mark = text.is_empty() || text.starts_with(['#', '<', '|']) || fence_begins(text);
                let may_be_rule = text.bytes().all(|byte| b"-*_= \t".contains(&byte));
                return !may_be_mark && !may_be_rule && !line.contains('|');
            }
        }
    }
}

fn fence_begins(text: &str) -> bool {
    text.starts_with("```") || text.starts_with("~~~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_need_a_blank() {
        assert_eq!(item("- a"), Some(ItemMark { delimiter: b'-', number: None, bytes: 1 }));
        assert_eq!(item("12) a"), Some(ItemMark { delimiter: b')', number: Some(12), bytes: 3 }));
        assert_eq!((item("-a"), item("1234567890. a"), item("a")), (None, None, None));
    }

    #[test]
    fn headings_lose_their_marks() {
        assert_eq!(heading("## A b ##"), Some("A b"));
        assert_eq!(heading("# C#"), Some("C#"));
        assert_eq!((heading("#tag"), heading("####### a")), (None, None));
        assert_eq!(heading("#"), Some(""));
    }

    #[test]
    fn fences_have_three_marks() {
        assert_eq!(fence("```rust x"), Some(FenceMark { mark: b'`', length: 3, info: "rust x" }));
        assert_eq!((fence("``"), fence("``` a`b")), (None, None));
    }

    #[test]
    fn rules_and_underlines() {
        assert!(is_rule("---") && is_rule("* * *") && !is_rule("--") && !is_rule("-*-"));
        assert!(is_underline("==  ") && is_underline("-") && !is_underline("= ="));
    }

    #[test]
    fn tabs_reach_the_next_stop() {
        let mut rest = LineRest::new("\ta");
        rest.strip(2);
        assert_eq!((rest.text.as_ref(), rest.indent()), ("  a", 2));
    }

    #[test]
    fn html_is_told_from_addresses() {
        assert!(is_html("<div class=\"a\">") && is_html("<!-- a -->") && is_html("</p>"));
        assert!(!is_html("<https://a.example>") && !is_html("<a@b.example>") && !is_html("<b> a"));
    }

    #[test]
    fn unfinished_lines_are_text_if_nothing_can_change_it() {
        assert!(is_surely_text("plain words") && is_surely_text("> - 1. words"));
        for line in ["# a", "- - -", "```", "<b", "a | b", "    a", "> ", "==="] {
            assert!(!is_surely_text(line), "{line}");
        }
    }
}

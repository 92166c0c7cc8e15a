//! A finished line and its bytes for a terminal.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::style::{TextSpan, TextStyle, append};

/// Columns between two tab stops of a terminal.
const TAB: usize = 8;

/// One line of output, without its line end. It has no trailing blanks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledLine {
    spans: Vec<TextSpan>,
}

impl StyledLine {
    /// Joins neighbouring spans that look the same, and removes trailing blanks.
    pub(crate) fn new(spans: impl IntoIterator<Item = TextSpan>) -> Self {
        let mut joined = Vec::new();
        for span in spans {
            append(&mut joined, span);
        }
        while let Some(last) = joined.last_mut() {
            last.text.truncate(last.text.trim_end_matches([' ', '\t']).len());
            if !last.text.is_empty() {
                break;
            }
            joined.pop();
        }
        Self { spans: joined }
    }

    /// Returns the pieces of the line, left to right.
    pub fn spans(&self) -> &[TextSpan] {
        &self.spans
    }

    /// Returns the text without styles.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Returns the number of columns that the line takes on a terminal. A tab advances to the next multiple of 8.
    pub fn width(&self) -> usize {
        let text = self.text();
        let mut columns = 0;
        for (index, part) in text.split('\t').enumerate() {
            if index > 0 {
                columns = (columns / TAB + 1) * TAB;
            }
            columns += part.width();
        }
        columns
    }

    /// Returns the line truncated to `columns` columns, for rows that must not wrap. Tabs become spaces.
    pub fn cut(&self, columns: usize) -> Self {
        let text = self.text();
        let mut rest = self.spans.iter();
        let mut cut: Vec<TextSpan> = Vec::new();
        // The column, and where the last span of `cut` ends in `text`.
        let (mut at, mut end) = (0, 0);
        for (offset, grapheme) in text.grapheme_indices(true) {
            let wide = if grapheme == "\t" { TAB - at % TAB } else { grapheme.width() };
            if at + wide > columns {
                break;
            }
            at += wide;
            while offset >= end {
                let Some(span) = rest.next() else { break };
                end += span.text.len();
                cut.push(TextSpan { text: String::new(), ..span.clone() });
            }
            let Some(last) = cut.last_mut() else { break };
            if grapheme == "\t" {
                last.text.extend(std::iter::repeat_n(' ', wide));
            } else {
                last.text.push_str(grapheme);
            }
        }
        Self::new(cut)
    }

    /// Returns the line with SGR attributes and OSC 8 links. Each style ends where its span ends, and lines can
    /// therefore be written in any order. The renderer's options have already decided on colours and links.
    pub fn to_ansi(&self) -> String {
        let mut out = String::new();
        for span in &self.spans {
            if let Some(address) = &span.link {
                let _ = write!(out, "\x1b]8;;{address}\x1b\\");
            }
            let parameters = parameters(span.style);
            if parameters.is_empty() {
                out.push_str(&span.text);
            } else {
                let _ = write!(out, "\x1b[{parameters}m{}\x1b[0m", span.text);
            }
            if span.link.is_some() {
                out.push_str("\x1b]8;;\x1b\\");
            }
        }
        out
    }
}

fn parameters(style: TextStyle) -> String {
    let TextStyle { bold, faint, italic, underline, strike, colour } = style;
    let attributes = [(bold, 1), (faint, 2), (italic, 3), (underline, 4), (strike, 9)];
    let on = attributes.into_iter().filter_map(|(on, parameter)| on.then_some(parameter));
    let all: Vec<String> = on.chain(colour.map(|colour| colour.parameter())).map(|number| number.to_string()).collect();
    all.join(";")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::TerminalColour;

    fn span(text: &str, style: TextStyle) -> TextSpan {
        TextSpan { text: text.to_owned(), style, link: None }
    }

    #[test]
    fn writes_attributes_colours_and_links() {
        let bold = TextStyle { bold: true, colour: Some(TerminalColour::Cyan), ..TextStyle::default() };
        let bright = TextStyle { colour: Some(TerminalColour::BrightBlack), ..TextStyle::default() };
        let link = TextSpan { link: Some(Arc::from("https://a.example")), ..TextSpan::plain("a") };
        let line = StyledLine::new([span("x", bold), span("y", bright), link, TextSpan::plain("  ")]);
        let expected = "\x1b[1;36mx\x1b[0m\x1b[90my\x1b[0m\x1b]8;;https://a.example\x1b\\a\x1b]8;;\x1b\\";
        assert_eq!(line.to_ansi(), expected);
        assert_eq!(line.text(), "xya");
    }

    #[test]
    fn width_counts_columns() {
        assert_eq!(StyledLine::new([TextSpan::plain("日本 e\u{301} 🙂")]).width(), 4 + 1 + 1 + 1 + 2);
        assert_eq!(StyledLine::new([TextSpan::plain("a\tb")]).width(), 9);
    }

    #[test]
    fn cut_never_exceeds_the_columns() {
        let line = StyledLine::new([TextSpan::plain("日本\tx")]);
        assert_eq!(line.cut(3).text(), "日");
        assert_eq!(line.cut(9).text(), "日本    x");
        let (family, heart) = ("👩\u{200d}👩\u{200d}👧\u{200d}👦", "❤\u{fe0f}");
        let bold = TextStyle { bold: true, ..TextStyle::default() };
        let line = StyledLine::new([TextSpan::plain(family), span(heart, bold), TextSpan::plain("x")]);
        assert_eq!((line.width(), line.cut(5)), (5, line.clone()));
        assert_eq!((line.cut(4).text(), line.cut(3).text()), (format!("{family}{heart}"), family.to_owned()));
        // A grapheme that two spans share is not split.
        let line = StyledLine::new([TextSpan::plain("❤"), span("\u{fe0f}x", bold)]);
        assert_eq!(
            (line.cut(1).text(), line.cut(2).text(), line.cut(3).text()),
            ("".into(), heart.into(), format!("{heart}x"))
        );
    }
}

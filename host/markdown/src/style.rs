//! Styles and styled pieces of text, which the renderer produces instead of escape sequences.

use std::sync::Arc;

/// One of the terminal's 16 colours. The terminal's theme decides how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TerminalColour {
    Black,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    White,
    BrightBlack,
    BrightRed,
    BrightGreen,
    BrightYellow,
    BrightBlue,
    BrightMagenta,
    BrightCyan,
    BrightWhite,
}

impl TerminalColour {
    /// Returns the SGR parameter that selects this colour for text.
    pub(crate) fn parameter(self) -> u8 {
        let index = self as u8;
        if index < 8 { 30 + index } else { 82 + index }
    }
}

/// Attributes and colour of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TextStyle {
    /// Bold: headings, strong emphasis, the head of a table.
    pub bold: bool,
    /// Faint: comments in code, the remainder of a fence's info string.
    pub faint: bool,
    /// Whether the text is italic, for emphasis.
    pub italic: bool,
    /// Whether the text is underlined, for links.
    pub underline: bool,
    /// Whether the text is struck through.
    pub strike: bool,
    /// The terminal's own text colour if `None`.
    pub colour: Option<TerminalColour>,
}

/// A piece of a line in one style. Its text has no control characters, except for tabs in code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSpan {
    /// The text, never empty in a finished line.
    pub text: String,
    /// The style in which the text is shown.
    pub style: TextStyle,
    /// An http(s) address in printable ASCII that the text links to.
    pub link: Option<Arc<str>>,
}

impl TextSpan {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Appends `span`, joining it with the last one if they look the same.
pub(crate) fn append(spans: &mut Vec<TextSpan>, span: TextSpan) {
    match spans.last_mut() {
        _ if span.text.is_empty() => {}
        Some(last) if last.style == span.style && last.link == span.link => last.text.push_str(&span.text),
        _ => spans.push(span),
    }
}

/// Returns the display width of `spans` in columns.
pub(crate) fn width(spans: &[TextSpan]) -> usize {
    spans.iter().map(|span| unicode_width::UnicodeWidthStr::width(span.text.as_str())).sum()
}

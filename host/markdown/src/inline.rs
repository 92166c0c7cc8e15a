//! Renders the inside of a block: emphasis, code, links. Paragraphs, headings and table cells call it.

use std::sync::Arc;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::{
    clean::visible,
    links,
    options::{Palette, RenderOptions},
    style::{TerminalColour, TextSpan, TextStyle},
};

/// Source with more bytes is shown unparsed, to bound the parser's cost on hostile text.
pub(crate) const MAX_INLINE: usize = 16 * 1024;

/// Limit of the link targets of all spans of a text together, in bytes. If it is exceeded, no span is a link.
const MAX_TARGETS: usize = 64 * 1024;

/// Inserted before the parsed text to prevent it from being parsed as a block. It is a punctuation character, because
/// emphasis can begin after punctuation.
const GUARD: &str = ".";

/// Returns a parser for `guarded`, which is one line that begins with [`GUARD`].
pub(crate) fn parser(guarded: &str) -> Parser<'_> {
    Parser::new_ext(guarded, Options::ENABLE_STRIKETHROUGH)
}

/// Returns `source` in the form for [`parser`].
pub(crate) fn guarded(source: &str) -> String {
    format!("{GUARD}{}", source.replace(['\n', '\t'], " "))
}

/// Renders `source` in the style `base`.
pub(crate) fn render(source: &str, base: TextStyle, options: &RenderOptions) -> Vec<TextSpan> {
    let mut writer = SpanWriter { base, options, ..SpanWriter::new(options) };
    if source.len() > MAX_INLINE {
        writer.text(source);
        return writer.finish();
    }
    let guarded = guarded(source);
    let mut is_first = true;
    for event in parser(&guarded) {
        match event {
            Event::Text(text) if std::mem::take(&mut is_first) => {
                writer.text(text.strip_prefix(GUARD).unwrap_or(&text));
            }
            event => writer.event(event),
        }
    }
    writer.finish()
}

/// A link or image that is open.
struct OpenLink {
    address: String,
    is_image: bool,
    is_email: bool,
    /// Number of finished spans when it was opened.
    begin: usize,
}

struct SpanWriter<'o> {
    options: &'o RenderOptions,
    base: TextStyle,
    bold: usize,
    italic: usize,
    strike: usize,
    open: Vec<OpenLink>,
    /// Text in one style that is not in `spans` yet. It is searched for bare addresses when it is complete.
    pending: String,
    spans: Vec<TextSpan>,
}

impl<'o> SpanWriter<'o> {
    fn new(options: &'o RenderOptions) -> Self {
        Self {
            options,
            base: TextStyle::default(),
            bold: 0,
            italic: 0,
            strike: 0,
            open: Vec::new(),
            pending: String::new(),
            spans: Vec::new(),
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::Strong) => self.change(|writer| writer.bold += 1),
            Event::End(TagEnd::Strong) => self.change(|writer| writer.bold = writer.bold.saturating_sub(1)),
            Event::Start(Tag::Emphasis) => self.change(|writer| writer.italic += 1),
            Event::End(TagEnd::Emphasis) => self.change(|writer| writer.italic = writer.italic.saturating_sub(1)),
            Event::Start(Tag::Strikethrough) => self.change(|writer| writer.strike += 1),
            Event::End(TagEnd::Strikethrough) => self.change(|writer| writer.strike = writer.strike.saturating_sub(1)),
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                self.open(&dest_url, false, link_type == LinkType::Email);
            }
            Event::Start(Tag::Image { dest_url, .. }) => self.open(&dest_url, true, false),
            Event::End(TagEnd::Link | TagEnd::Image) => self.close(),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => self.code(&text),
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.pending.push_str(&visible(text));
    }

    fn change(&mut self, apply: impl FnOnce(&mut Self)) {
        self.flush();
        apply(self);
    }

    fn style(&self) -> TextStyle {
        let mut style = self.base;
        style.bold |= self.bold > 0;
        style.italic |= self.italic > 0;
        style.strike |= self.strike > 0;
        if self.open.iter().any(|open| !open.is_image) {
            style = links::style(style, self.options);
        }
        style
    }

    /// Returns the target of the innermost open link, if its address can be a target.
    fn link(&self) -> Option<Arc<str>> {
        let open = self.open.iter().rev().find(|open| !open.is_image)?;
        links::target(&open.address, self.options)
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.pending);
        let style = self.style();
        if self.open.is_empty() {
            links::split(&text, style, self.options, &mut self.spans);
        } else {
            let link = self.link();
            self.push(text, style, link);
        }
    }

    /// Adds a span without joining it to the previous one, which keeps `OpenLink::begin` exact.
    fn push(&mut self, text: String, style: TextStyle, link: Option<Arc<str>>) {
        if !text.is_empty() {
            self.spans.push(TextSpan { text, style, link });
        }
    }

    fn code(&mut self, text: &str) {
        self.flush();
        let mut style = self.style();
        let mut text = visible(text);
        match self.options.palette {
            Palette::Colour => style.colour = Some(TerminalColour::Cyan),
            Palette::NoColour if text.contains('`') => text = format!("`` {text} ``"),
            Palette::NoColour => text = format!("`{text}`"),
        }
        let link = self.link();
        self.push(text, style, link);
    }

    fn open(&mut self, address: &str, is_image: bool, is_email: bool) {
        self.flush();
        let address = visible(address).replace(crate::clean::BREAK, "");
        self.open.push(OpenLink { address, is_image, is_email, begin: self.spans.len() });
    }

    /// Writes the address after the text, unless they are equal. This makes the target visible, and users can copy it.
    fn close(&mut self) {
        self.flush();
        let Some(open) = self.open.pop() else { return };
        let text: String = self.spans.iter().skip(open.begin).map(|span| span.text.as_str()).collect();
        let address = open.address.trim();
        if address.is_empty() || text == address || open.is_email {
            return;
        }
        let style = self.style();
        let space = if text.is_empty() { "" } else { " " };
        let link = self.link();
        self.push(format!("{space}({address})"), style, link);
    }

    fn finish(mut self) -> Vec<TextSpan> {
        self.flush();
        // Each span of a link repeats its target, which can multiply a long address. Dropping the targets loses
        // nothing, because addresses are also written after the text.
        let targets: usize = self.spans.iter().filter_map(|span| span.link.as_ref()).map(|link| link.len()).sum();
        if targets > MAX_TARGETS {
            self.spans.iter_mut().for_each(|span| span.link = None);
        }
        self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: &str) -> String {
        let options = RenderOptions { palette: Palette::NoColour, ..RenderOptions::default() };
        render(source, TextStyle::default(), &options).into_iter().map(|span| span.text).collect()
    }

    fn styles(source: &str) -> Vec<(String, String)> {
        let spans = render(source, TextStyle::default(), &RenderOptions::default());
        let letters = |style: TextStyle| {
            let on = [(style.bold, 'b'), (style.italic, 'i'), (style.strike, 's'), (style.underline, 'u')];
            let on: String = on.into_iter().filter_map(|(on, letter)| on.then_some(letter)).collect();
            format!("{on}{}", style.colour.map(|colour| format!("{colour:?}")).unwrap_or_default())
        };
        spans.into_iter().map(|span| (span.text, letters(span.style))).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(text, style)| ((*text).to_owned(), (*style).to_owned())).collect()
    }

    #[test]
    fn emphasis_becomes_attributes() {
        let expected = pairs(&[("a ", ""), ("b ", "b"), ("c", "bi"), (" d ", ""), ("e", "s")]);
        assert_eq!(styles("a **b *c*** d ~~e~~"), expected);
        assert_eq!(styles("_a_ b_c_d 2 * 3"), pairs(&[("a", "i"), (" b_c_d 2 * 3", "")]));
    }

    #[test]
    fn code_is_coloured_or_keeps_backticks() {
        assert_eq!(styles("run `a*b*`"), pairs(&[("run ", ""), ("a*b*", "Cyan")]));
        assert_eq!(text("run `a*b*` or `` ` ``"), "run `a*b*` or `` ` ``");
    }

    #[test]
    fn addresses_are_written_out() {
        assert_eq!(text("[docs](https://a.example)"), "docs (https://a.example)");
        assert_eq!(text("[https://a.example](https://a.example)"), "https://a.example");
        assert_eq!(text("<https://a.example> <a@b.example>"), "https://a.example a@b.example");
        assert_eq!(text("![cat](c.png) [file](src/lib.rs)"), "cat (c.png) file (src/lib.rs)");
        assert_eq!(text("[![a](b)](c)"), "a (b) (c)");
    }

    #[test]
    fn targets_of_one_text_are_bounded() {
        let targets = |styled: usize| -> usize {
            let source = format!("[{}](https://a.example/{})", "a*b*".repeat(styled), "x".repeat(1_900));
            let spans = render(&source, TextStyle::default(), &RenderOptions::default());
            spans.iter().filter_map(|span| span.link.as_ref()).map(|link| link.len()).sum()
        };
        assert!((1_900 * 20..MAX_TARGETS).contains(&targets(10)));
        assert_eq!(targets(3_000), 0);
    }

    #[test]
    fn unknown_references_footnotes_and_html_stay() {
        assert_eq!(text("[a][b] [^1] [^1]: x <b>bold</b> <br>"), "[a][b] [^1] [^1]: x <b>bold</b> <br>");
    }

    #[test]
    fn nothing_is_read_as_a_block() {
        for source in ["# a", "- a", "1. a", "> a", "    a", "---", "[a]: b", ".a", "| a |", "<div>"] {
            assert_eq!(text(source), source);
        }
    }

    #[test]
    fn entities_cannot_bring_hidden_characters() {
        assert_eq!(text("&amp;&#27;[31m&#x202E;&#8203;x"), "&[31mx");
        let spans = render("[a](https://a.example/&#27;é)", TextStyle::default(), &RenderOptions::default());
        assert_eq!(spans[0].link.as_deref(), Some("https://a.example/%C3%A9"));
    }
}

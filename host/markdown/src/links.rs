//! Decides which addresses become link targets, and finds bare addresses in text.

use std::{fmt::Write as _, sync::Arc};

use crate::{
    options::{Palette, RenderOptions},
    style::{TerminalColour, TextSpan, TextStyle, append},
};

/// Addresses with more bytes are shown but do not become targets, because terminals ignore them.
const MAX_ADDRESS: usize = 2_000;

/// Returns `style` for the text of a link.
pub(crate) fn style(mut style: TextStyle, options: &RenderOptions) -> TextStyle {
    style.underline = true;
    if options.palette == Palette::Colour {
        style.colour = Some(TerminalColour::Blue);
    }
    style
}

/// Returns the target for `address` if it is http(s) and links are enabled. Everything but printable ASCII is
/// percent-encoded, because no character may end the escape sequence of the link.
pub(crate) fn target(address: &str, options: &RenderOptions) -> Option<Arc<str>> {
    if !options.links || address.len() > MAX_ADDRESS || !is_web(address) {
        return None;
    }
    let mut target = String::with_capacity(address.len());
    for byte in address.bytes() {
        match byte {
            b'!'..=b'~' => target.push(char::from(byte)),
            _ => {
                let _ = write!(target, "%{byte:02X}");
            }
        }
    }
    Some(target.into())
}

/// Appends `text` to `spans`, with bare http(s) addresses as links.
pub(crate) fn split(text: &str, plain: TextStyle, options: &RenderOptions, spans: &mut Vec<TextSpan>) {
    let mut rest = text;
    let mut word_begins = true;
    let mut done = 0;
    for (at, c) in text.char_indices() {
        if at >= done && word_begins && is_web(&text[at..]) {
            let end = at + address_length(&text[at..]);
            append(spans, TextSpan { text: text[done..at].to_owned(), style: plain, link: None });
            let address = &text[at..end];
            let link = target(address, options);
            append(spans, TextSpan { text: address.to_owned(), style: style(plain, options), link });
            done = end;
            rest = &text[end..];
        }
        word_begins = !c.is_alphanumeric();
    }
    append(spans, TextSpan { text: rest.to_owned(), style: plain, link: None });
}

fn is_web(text: &str) -> bool {
    ["http://", "https://"].into_iter().any(|scheme| {
        let head = text.as_bytes().get(..scheme.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(scheme.as_bytes())) && text.len() > scheme.len()
    })
}

/// Returns the length of the address that `text` begins with, without the punctuation of the sentence around it.
fn address_length(text: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | crate::clean::BREAK);
    let mut address = &text[..text.find(ends).unwrap_or(text.len())];
    loop {
        let closes = [('(', ')'), ('[', ']')].into_iter().any(|(open, close)| {
            address.ends_with(close) && address.matches(close).count() > address.matches(open).count()
        });
        match address.chars().next_back() {
            Some(last) if closes || matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_') => {
                address = &address[..address.len() - last.len_utf8()];
                // A long tail of brackets must not be counted again and again.
                if address.len() > MAX_ADDRESS && closes {
                    return address.len();
                }
            }
            _ => return address.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_addresses_are_found_without_punctuation() {
        let mut spans = Vec::new();
        let text = "See https://a.example/x_(y), (https://b.example). xhttps://c";
        split(text, TextStyle::default(), &RenderOptions::default(), &mut spans);
        let links: Vec<&str> = spans.iter().filter_map(|span| span.link.as_deref()).collect();
        assert_eq!(links, ["https://a.example/x_(y)", "https://b.example"]);
        assert_eq!(spans.iter().map(|span| span.text.as_str()).collect::<String>(), text);
    }

    #[test]
    fn only_http_is_a_target() {
        let options = RenderOptions::default();
        assert_eq!(target("javascript:alert(1)", &options), None);
        assert_eq!(target("file:///etc/passwd", &options), None);
        assert_eq!(target("https://a b", &options).as_deref(), Some("https://a%20b"));
        assert_eq!(target("https://a", &RenderOptions { links: false, ..options }), None);
    }
}

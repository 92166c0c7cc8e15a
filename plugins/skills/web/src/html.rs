//! Makes readable text of HTML.
//!
//! A page comes from anybody, and may be made to be hard to read: a hundred thousand elements inside each other, or a
//! tag of that many attributes. So each byte and each tag is looked at once, and costs the same wherever it stands:
//!
//! * the crate `html5gum` cuts the page into tags and text,
//! * `tag` and `attributes` tell which of them matter,
//! * `open` knows which elements are open,
//! * `document` makes blocks and marks of them, `table` tables, `link` absolute links; `parts` tells which of it is the page,
//! * `flow` writes it all down as Markdown.

mod attributes;
mod document;
mod flow;
mod link;
mod open;
mod parts;
mod table;
mod tag;

use html5gum::{
    Span, Tokenizer,
    emitters::callback::{CallbackEmitter, CallbackEvent},
};
use url::Url;

use attributes::Attributes;
use document::Document;
pub(crate) use document::Page;
use tag::Tag;

/// Bytes of a page that are looked at. A byte alone, whatever it is, costs up to 450 instructions.
const MAX_BYTES: usize = 3 << 20;
/// Work that one page may be, in bytes of plain text: some 200 to 400 instructions each, which keeps a page inside a
/// call's budget. Common pages of two megabytes fit.
const MAX_WORK: usize = 4_500_000;
/// What the beginning of an element, an attribute, an end, and a link count beside the bytes that they are long.
const START: usize = 20;
const ATTRIBUTE: usize = 6;
const END: usize = 8;
const LINK: usize = 20;

/// The text of a page that was found at `url`.
pub(crate) fn read(html: &str, url: &Url) -> Page {
    let mut document = Document::new(url);
    let mut reader = Reader { document: &mut document, tag: None, attributes: Attributes::default(), work: 0 };
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| reader.take(event));
    emitter.naively_switch_states(true);
    let begin = &html[..html.floor_char_boundary(MAX_BYTES)];
    // The only thing that it gives is that there was too much.
    let is_cut = Tokenizer::new_with_emitter(begin, emitter).next().is_some();
    document.finish(is_cut || begin.len() < html.len())
}

struct Reader<'a, 'b> {
    document: &'a mut Document<'b>,
    /// The start tag whose attributes come now.
    tag: Option<Tag>,
    attributes: Attributes,
    work: usize,
}

/// The page is too much.
struct Enough;

impl Reader<'_, '_> {
    fn take(&mut self, event: CallbackEvent<'_>) -> Option<Enough> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.work += name.len() + START;
                self.tag = Some(Tag::of(name));
                self.attributes = Attributes::default();
            }
            CallbackEvent::AttributeName { name } if self.tag.is_some() => {
                self.work += name.len() + ATTRIBUTE;
                self.attributes.name(name);
            }
            CallbackEvent::AttributeValue { value } if self.tag.is_some() => {
                self.work += value.len();
                self.attributes.value(value);
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                if let Some(tag) = self.tag.take() {
                    self.work += if tag == Tag::A { LINK } else { 0 };
                    self.document.start(tag, &self.attributes, self_closing);
                }
            }
            CallbackEvent::EndTag { name } => {
                self.work += name.len() + END;
                self.document.end(Tag::of(name));
            }
            CallbackEvent::String { value } => {
                self.work += value.len();
                self.document.text(&String::from_utf8_lossy(value));
            }
            CallbackEvent::Comment { value } => self.work += value.len(),
            // An error takes a byte's time.
            _ => self.work += 1,
        }
        (self.work > MAX_WORK || self.document.is_full()).then_some(Enough)
    }
}

#[cfg(test)]
mod tests;

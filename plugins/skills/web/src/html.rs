//! Converts HTML to Markdown.
//!
//! Pages are not trusted: one may nest a hundred thousand elements or have a tag with that many attributes. So no tree
//! is built, and each byte and each tag is processed once, at the same cost at any depth:
//!
//! * the crate `html5gum` splits the page into tags and text,
//! * `tag` and `attributes` select the elements and attributes that matter,
//! * `open` keeps the open elements,
//! * `document` creates blocks and marks, `table` tables, `link` absolute links; `parts` finds the main part of the
//!   page,
//! * `flow` writes the Markdown.

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

/// Maximum number of bytes of a page that are read. Each byte costs up to 450 instructions.
const MAX_BYTES: usize = 3 << 20;
/// The most work for one page, in bytes of plain text: 200 to 400 instructions each, which keeps a page within the
/// budget of a call. Common pages of two megabytes fit.
const MAX_WORK: usize = 4_500_000;
/// The work of a start tag, an attribute, an end tag and a link, in addition to their bytes.
const START: usize = 20;
const ATTRIBUTE: usize = 6;
const END: usize = 8;
const LINK: usize = 20;

/// Converts a page that was fetched from `url`.
pub(crate) fn read(html: &str, url: &Url) -> Page {
    let mut document = Document::new(url);
    let mut reader = Reader { document: &mut document, tag: None, attributes: Attributes::default(), work: 0 };
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| reader.take(event));
    emitter.naively_switch_states(true);
    let begin = &html[..html.floor_char_boundary(MAX_BYTES)];
    // The only error is that the page is too large.
    let is_cut = Tokenizer::new_with_emitter(begin, emitter).next().is_some();
    document.finish(is_cut || begin.len() < html.len())
}

struct Reader<'a, 'b> {
    document: &'a mut Document<'b>,
    /// The start tag whose attributes are being read.
    tag: Option<Tag>,
    attributes: Attributes,
    work: usize,
}

/// The page exceeds the limit of work.
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
            // A parse error costs as much as one byte.
            _ => self.work += 1,
        }
        (self.work > MAX_WORK || self.document.is_full()).then_some(Enough)
    }
}

#[cfg(test)]
mod tests;

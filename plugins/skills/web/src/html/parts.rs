//! Finds the actual contents of a page: the main part, or the only article.

use std::ops::Range;

use crate::html::{attributes::Attributes, tag::Tag};

/// The smallest size in bytes of a part that is used instead of the whole page.
const MIN_PART: usize = 200;

/// The parts of a page. Offsets refer to its text.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    main: Part,
    article: Part,
    articles: usize,
}

#[derive(Debug, Default)]
struct Part {
    /// The position of the open element, and the offset where its text begins.
    open: Option<(u32, usize)>,
    range: Option<Range<usize>>,
}

impl Parts {
    /// Records the start of an element. An element without an offset is in a cell and cannot be a part.
    pub(crate) fn open(&mut self, tag: Tag, attributes: &Attributes, place: u32, offset: Option<usize>) {
        if tag == Tag::Main || attributes.is_main() {
            self.main.open(place, offset);
        }
        if tag == Tag::Article {
            self.articles += 1;
            self.article.open(place, offset);
        }
    }

    /// Records the end of an element.
    pub(crate) fn close(&mut self, place: u32, offset: usize) {
        self.main.close(place, offset);
        self.article.close(place, offset);
    }

    /// Returns the contents from the text of the page. Several articles are a list, so an article is only
    /// used if it is the only one and most of the text.
    pub(crate) fn of<'a>(&self, text: &'a str) -> &'a str {
        let article = self.article.of(text).filter(|article| self.articles == 1 && article.len() > text.len() / 2);
        self.main.of(text).or(article).unwrap_or(text).trim()
    }
}

impl Part {
    fn open(&mut self, place: u32, offset: Option<usize>) {
        if self.open.is_none() && self.range.is_none() {
            self.open = offset.map(|offset| (place, offset));
        }
    }

    fn close(&mut self, place: u32, offset: usize) {
        if let Some((_, start)) = self.open.take_if(|(open, _)| *open == place) {
            self.range = Some(start..offset);
        }
    }

    fn of<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.get(self.range.clone()?).map(str::trim).filter(|part| part.len() >= MIN_PART)
    }
}

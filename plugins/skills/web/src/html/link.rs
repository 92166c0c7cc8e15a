//! Resolves the links of a page.

use url::Url;

/// Maximum number of bytes of a link. Longer links contain data, not an address.
const MAX_LINK: usize = 1000;

/// The base URL of a page's links.
#[derive(Debug)]
pub(crate) struct Links<'a> {
    page: &'a Url,
    base: Url,
}

impl<'a> Links<'a> {
    pub(crate) fn new(page: &'a Url) -> Self {
        Self { page, base: page.clone() }
    }

    /// Sets the base from the page's `base` element.
    pub(crate) fn set_base(&mut self, href: &str) {
        if let Ok(base) = self.page.join(href.trim()) {
            self.base = base;
        }
    }

    /// Returns the absolute address of a link, if it leads to another page and can be fetched.
    pub(crate) fn follow(&self, href: &str) -> Option<String> {
        let mut url = self.base.join(href.trim()).ok()?;
        if !matches!(url.scheme(), "http" | "https" | "mailto" | "ftp" | "tel") {
            return None;
        }
        if url.fragment().is_some() {
            let fragment = url.fragment().map(str::to_owned);
            url.set_fragment(None);
            if url == *self.page {
                return None;
            }
            url.set_fragment(fragment.as_deref());
        }
        Some(String::from(url)).filter(|url| url.len() <= MAX_LINK)
    }
}

//! Where links lead.

use url::Url;

/// Bytes of a link. Longer ones carry data, not an address.
const MAX_LINK: usize = 1000;

/// What links are relative to.
#[derive(Debug)]
pub(crate) struct Links<'a> {
    page: &'a Url,
    base: Url,
}

impl<'a> Links<'a> {
    pub(crate) fn new(page: &'a Url) -> Self {
        Self { page, base: page.clone() }
    }

    /// What a page says that its links are relative to.
    pub(crate) fn set_base(&mut self, href: &str) {
        if let Ok(base) = self.page.join(href.trim()) {
            self.base = base;
        }
    }

    /// An absolute address, if it leads elsewhere and somebody could follow it.
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

//! Pages of the web as readable text.
//!
//! What comes from a server may be made to do harm: each part of it is bounded, and read in time that grows with its
//! length alone. The way of a page:
//!
//! * `address` reads the URL, `fetch` asks the host for it and for where it redirects to; `host` is what that needs,
//! * `media` tells what came, and decodes it,
//! * `html` makes Markdown of a page, `json` lays JSON out,
//! * `view` shows a part of it, with title and URL.
//!
//! Not here: running scripts, forms and other requests than GET, signing in, pictures, PDF.
#![deny(missing_docs)]

mod address;
mod fetch;
mod host;
mod html;
mod json;
mod media;
mod view;

use patchbay_sdk::{Failure, Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;

use host::Host;

/// Characters of one answer unless the caller says otherwise, some 5,000 tokens; and at most.
const USUAL: usize = 20_000;
const MAX_CHARS: usize = 100_000;

/// The input of [`fetch`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// The address, such as `https://example.com/page`; without a scheme it is https.
    url: String,
    /// How many characters of the text to show, at most 100000. Unless given, 20000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100000))]
    max_chars: Option<usize>,
    /// How many characters to pass over, to go on where the last answer ended.
    #[serde(default)]
    from: usize,
}

skill! {
    /// Fetches a page of the web and shows it as Markdown: title, final URL, headings, lists, links with absolute URLs,
    /// code and tables, without scripts and navigation. Plain text and XML come as they are, JSON laid out on lines. A
    /// long text comes in parts; the last line, in brackets, says how to go on.
    fn fetch(input: Fetch) -> Result<String> {
        let most = input.max_chars.unwrap_or(USUAL);
        if most == 0 || most > MAX_CHARS {
            return Err(Failure::invalid(format!("'max_chars' goes from 1 to {MAX_CHARS}; this is {most}")));
        }
        fetch::fetch(&mut Host, &input.url, input.from, most)
    }
}

#[cfg(test)]
mod tests;

//! The skill `web`: fetches web pages as readable text.
//!
//! Responses are not trusted: each part is limited and processed in time linear in its length. The steps of a call:
//!
//! 1. `address` parses the URL. `fetch` requests it through `host` and follows redirects.
//! 2. `media` detects the type of the response and decodes its text.
//! 3. `html` converts a page to Markdown; `json` formats JSON.
//! 4. `view` shows a part of the text with title and URL.
//!
//! `lol_html` was measured on 2026-11-22 in place of the tokenizer `html5gum`: it is linear on hostile pages as well, but
//! adds 220 KB to the component, does not decode character references and reports no end tags without a start. Like
//! `html5gum` it leaves implied end tags, tables and Markdown to `html`, so it would save no code.
//!
//! Not supported: scripts, forms and requests other than GET, signing in, pictures, PDF.
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

/// The default number of characters of one answer, about 5,000 tokens, and the maximum.
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
    #[extra("kind" = "fetch")]
    fn fetch(input: Fetch) -> Result<String> {
        let most = input.max_chars.unwrap_or(USUAL);
        if most == 0 || most > MAX_CHARS {
            return Err(Failure::invalid(format!("'max_chars' goes from 1 to {MAX_CHARS}; this is {most}")));
        }
        fetch::fetch(&input.url, input.from, most)
    }
}

#[cfg(test)]
mod tests;

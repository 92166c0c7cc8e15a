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
    /// Such as `https://example.com/page`. Without a scheme, https.
    url: String,
    /// Characters to show. Default 20000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100000))]
    max_chars: Option<usize>,
    /// Characters to skip, to continue where the last answer ended.
    #[serde(default)]
    from: usize,
}

skill! {
    /// Fetches a web page as Markdown, with its title and final URL, without scripts and navigation. Plain text and XML come
    /// unchanged, JSON formatted. A long text comes in parts; the last line, in brackets, says how to continue.
    #[extra("kind" = "fetch")]
    fn fetch(input: Fetch) -> Result<String> {
        let most = input.max_chars.unwrap_or(USUAL);
        if most == 0 || most > MAX_CHARS {
            return Err(Failure::invalid(format!("'max_chars' must be from 1 to {MAX_CHARS}; this is {most}")));
        }
        fetch::fetch(&input.url, input.from, most)
    }
}

#[cfg(test)]
mod tests;

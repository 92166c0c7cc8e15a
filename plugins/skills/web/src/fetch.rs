//! Fetches a page: follows redirects and converts the response to text.

use patchbay_sdk::{
    Failure, Result,
    http::{Error, Response},
};
use url::Url;

use crate::{
    address, host, html, json,
    media::{self, ContentType, Media},
    view::View,
};

/// The most redirects. Each is a separate request, and the host checks it against the grants.
pub(crate) const MAX_REDIRECTS: usize = 5;
/// Maximum number of characters of a server's text in an error.
const MOST_OF_REFUSAL: usize = 500;
/// Maximum number of bytes of JSON that is formatted, and of other text that is not HTML.
const MAX_TEXT: usize = 8 << 20;

/// Fetches the page at an address and returns its view.
pub(crate) fn fetch(written: &str, from: usize, most: usize) -> Result<String> {
    let mut url = address::read(written)?;
    let mut redirects = 0;
    loop {
        let response = host::get(url.as_str()).map_err(|error| failed(&url, redirects, error))?;
        let Some(location) = location(&response) else { return answer(&url, response)?.page(from, most) };
        let next = address::redirected(&url, location)?;
        redirects += 1;
        if redirects > MAX_REDIRECTS {
            return Err(Failure::new(
                "too-many-redirects",
                format!(
                    "{written} redirects more than {MAX_REDIRECTS} times, at last to {next}; fetch that if it is what you want"
                ),
            ));
        }
        url = next;
    }
}

/// Converts an error of the host and adds the redirect that it is about.
fn failed(url: &Url, redirects: usize, error: Error) -> Failure {
    match redirects {
        0 => error.into(),
        _ => Failure::new(error.kind, format!("redirected to {url}: {}", error.message)),
    }
}

fn location(response: &Response) -> Option<&str> {
    [301, 302, 303, 307, 308].contains(&response.status).then(|| header(response, "location")).flatten()
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value.as_str())
}

fn answer(url: &Url, response: Response) -> Result<View> {
    let content_type = ContentType::parse(header(&response, "content-type"));
    let media = content_type.media(&response.body);
    let (status, bytes) = (response.status, response.body.len());
    let is_ok = (200..300).contains(&status);
    let view = if bytes == 0 {
        View::new(url).with_note("The response is empty.")
    } else if media == Media::Other {
        let kind = if content_type.essence.is_empty() { "no text" } else { &content_type.essence };
        View::new(url).with_note(&format!("This is {kind}, {bytes} bytes, which cannot be shown as text."))
    } else {
        match media::text(response.body, &content_type, media) {
            Ok(text) => render(url, text, media),
            // The status is more helpful than an error about the charset.
            Err(_) if !is_ok => View::new(url),
            Err(failure) => return Err(failure),
        }
    };
    match is_ok {
        true => Ok(view),
        false => {
            let begin: String = view.text().chars().take(MOST_OF_REFUSAL).collect();
            let begin = begin.split_whitespace().collect::<Vec<_>>().join(" ");
            let said = if begin.is_empty() { String::new() } else { format!(": {begin}") };
            Err(Failure::new("http-status", format!("{url} responded with {status}{}{said}", reason(status))))
        }
    }
}

fn render(url: &Url, mut text: String, media: Media) -> View {
    match media {
        Media::Html => {
            let page = html::read(&text, url);
            drop(text);
            let mut view = View::new(url).with_title(page.title);
            if page.text.is_empty() {
                if let Some(description) = page.description {
                    view = view.with_text(description);
                }
                view = view.with_note("The page has no text of its own; it may need a browser that runs its scripts.");
            } else {
                view = view.with_text(page.text);
            }
            match page.is_cut {
                true => view.with_note("The page is so large that its end was left out."),
                false => view,
            }
        }
        Media::Json => View::new(url).with_text(json::pretty(&text, MAX_TEXT)),
        Media::Text | Media::Other => {
            let is_cut = text.len() > MAX_TEXT;
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            let view = View::new(url).with_text(text);
            if is_cut { view.with_note("The text is so large that its end was left out.") } else { view }
        }
    }
}

/// Returns the meaning of a status, if it helps.
fn reason(status: u16) -> &'static str {
    match status {
        400 => " (bad request)",
        401 => " (sign in first)",
        403 => " (forbidden)",
        404 => " (not found)",
        405 => " (method not allowed)",
        410 => " (gone)",
        429 => " (too many requests; wait before the next)",
        451 => " (withheld for legal reasons)",
        500..=599 => " (the server failed; try again later)",
        _ => "",
    }
}

#[cfg(test)]
mod tests;

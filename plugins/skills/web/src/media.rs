//! Detects the type of a response and decodes its text.

use encoding_rs::Encoding;
use patchbay_sdk::{Failure, Result};

/// The number of bytes at the beginning that are searched for a charset, and for a NUL byte, which marks a binary body.
const PROBE: usize = 1024;
/// Maximum number of characters of a server's text in a message.
const MOST: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Html,
    Json,
    Text,
    Other,
}

/// The media type from the server, in lower case without parameters, and its charset if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentType {
    pub(crate) essence: String,
    charset: Option<String>,
}

impl ContentType {
    pub(crate) fn parse(header: Option<&str>) -> Self {
        let mut parts = header.unwrap_or_default().split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| unquoted(value).to_owned())
        });
        Self { essence, charset }
    }

    /// Returns the kind of a body of this type. Without a type it is detected from the body.
    pub(crate) fn media(&self, body: &[u8]) -> Media {
        let (kind, name) = self.essence.split_once('/').unwrap_or((&self.essence, ""));
        match (kind, name) {
            ("text", "html") | ("application", "xhtml+xml") => Media::Html,
            (_, name) if name == "json" || name.ends_with("+json") => Media::Json,
            ("application", "xml" | "javascript" | "ecmascript" | "yaml" | "x-yaml" | "toml" | "sql" | "x-sh") => {
                Media::Text
            }
            ("application", "x-ndjson" | "jsonl" | "x-javascript" | "rtf") => Media::Text,
            ("text", _) => Media::Text,
            (_, name) if name.ends_with("+xml") && kind != "image" => Media::Text,
            ("", _) | ("application", "octet-stream" | "") => sniffed(body),
            _ => Media::Other,
        }
    }
}

fn sniffed(body: &[u8]) -> Media {
    let start = &body[..body.len().min(PROBE)];
    // A character may be cut at the end of the searched bytes.
    let is_utf8 = str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |_| true);
    if Encoding::for_bom(body).is_none() && (start.contains(&0) || !is_utf8) {
        return Media::Other;
    }
    let begin = String::from_utf8_lossy(start).to_ascii_lowercase();
    let begin = begin.trim_start_matches('\u{feff}').trim_start();
    match begin.starts_with("<!doctype html") || begin.starts_with("<html") {
        true => Media::Html,
        false => Media::Text,
    }
}

/// Decodes a body. The charset is, in this order: the byte order mark, the server's charset, the page's charset, UTF-8
/// if the body is valid, the default of browsers.
///
/// # Errors
/// An unknown charset, for a text that is not UTF-8.
pub(crate) fn text(body: Vec<u8>, content_type: &ContentType, media: Media) -> Result<String> {
    if let Some((encoding, _)) = Encoding::for_bom(&body) {
        return Ok(encoding.decode(&body).0.into_owned());
    }
    let by_page = || named_in(&body).filter(|_| media == Media::Html);
    let Some(label) = content_type.charset.clone().or_else(by_page) else {
        return Ok(String::from_utf8(body).unwrap_or_else(|error| {
            encoding_rs::WINDOWS_1252.decode_without_bom_handling(error.as_bytes()).0.into_owned()
        }));
    };
    match Encoding::for_label(label.as_bytes()) {
        None => String::from_utf8(body).map_err(|_| unknown(&label)),
        Some(encoding) if encoding == encoding_rs::REPLACEMENT => String::from_utf8(body).map_err(|_| unknown(&label)),
        // A page whose `meta` is readable as ASCII is not UTF-16.
        Some(encoding) if content_type.charset.is_none() && !encoding.is_ascii_compatible() => {
            Ok(String::from_utf8_lossy(&body).into_owned())
        }
        Some(encoding) => Ok(encoding.decode_without_bom_handling(&body).0.into_owned()),
    }
}

fn unknown(label: &str) -> Failure {
    let label: String = label.chars().take(MOST).collect();
    Failure::new("not-text", format!("the page is in the charset '{label}', which cannot be read, and it is not UTF-8"))
}

/// Returns the charset from a `meta` element near the beginning of a page.
fn named_in(body: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&body[..body.len().min(PROBE)]).to_ascii_lowercase();
    start.split("<meta").skip(1).find_map(|meta| {
        let meta = &meta[..meta.find('>')?];
        let (_, value) = meta.split_once("charset")?;
        let value = value.trim_start().strip_prefix('=')?.trim_start();
        let value = value.trim_start_matches(['"', '\'']);
        let end = value.find(|char: char| char.is_whitespace() || "\"';/".contains(char)).unwrap_or(value.len());
        Some(value[..end].to_owned()).filter(|label| !label.is_empty())
    })
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches('"').trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(header: &str, body: &[u8]) -> String {
        let content_type = ContentType::parse(Some(header));
        let media = content_type.media(body);
        text(body.to_vec(), &content_type, media).unwrap_or_else(|failure| failure.to_string())
    }

    #[test]
    fn media_types_have_their_kind() {
        let media = |header: &str| ContentType::parse(Some(header)).media(b"x");
        for (header, expected) in [
            ("text/html; charset=utf-8", Media::Html),
            ("Application/XHTML+xml", Media::Html),
            ("text/plain", Media::Text),
            ("text/markdown", Media::Text),
            ("application/json;charset=utf-8", Media::Json),
            ("application/ld+json", Media::Json),
            ("application/rss+xml", Media::Text),
            ("application/xml", Media::Text),
            ("image/svg+xml", Media::Other),
            ("image/png", Media::Other),
            ("application/pdf", Media::Other),
        ] {
            assert_eq!(media(header), expected, "{header}");
        }
    }

    #[test]
    fn missing_type_is_detected_from_the_body() {
        let media = |body: &[u8]| ContentType::parse(None).media(body);
        assert_eq!(media(b"  <!DOCTYPE HTML><p>"), Media::Html);
        assert_eq!(media(b"\xef\xbb\xbf<html>"), Media::Html);
        assert_eq!(media(b"text \xc3\xa9"), Media::Text);
        assert_eq!(media(b""), Media::Text);
        assert_eq!(media(&[b"x".repeat(PROBE - 1), "é".into()].concat()), Media::Text);
        assert_eq!(media(b"a\0b"), Media::Other);
        assert_eq!(media(b"\x89PNG"), Media::Other);
        assert_eq!(ContentType::parse(Some("application/octet-stream")).media(b"x"), Media::Text);
    }

    #[test]
    fn charsets_are_decoded() {
        assert_eq!(decoded("text/plain", "é€".as_bytes()), "é€");
        assert_eq!(decoded("text/plain; charset=\"ISO-8859-1\"", b"\xe9\x80"), "é€");
        assert_eq!(decoded("text/plain; a=b; CHARSET=shift_jis", b"\x93\xfa\x96\x7b"), "日本");
        assert_eq!(decoded("text/plain; charset=utf-16le", b"a\0b\0"), "ab");
        assert_eq!(decoded("text/plain", b"\xff\xfea\0"), "a");
        assert_eq!(decoded("text/plain; charset=latin1", b"\xef\xbb\xbf\xc3\xa9"), "é");
        assert_eq!(decoded("text/html", b"<meta charset=koi8-r><p>\xc1"), "<meta charset=koi8-r><p>а");
        let old = b"<META http-equiv='Content-Type' content='text/html; charset=windows-1251'>\xe0";
        assert!(decoded("text/html", old).ends_with("'>а"));
        // Only HTML can name its own charset.
        assert_eq!(decoded("text/plain", "<meta charset=koi8-r>é".as_bytes()), "<meta charset=koi8-r>é");
        assert_eq!(decoded("text/html", b"<meta charset=utf-16>x\xe9"), "<meta charset=utf-16>x\u{fffd}");
        assert_eq!(decoded("text/plain", b"caf\xe9"), "café");
        assert_eq!(decoded("text/plain; charset=utf-8", b"caf\xe9"), "caf\u{fffd}");
    }

    #[test]
    fn unknown_charset_is_an_error_only_if_it_matters() {
        assert_eq!(decoded("text/plain; charset=none", "é".as_bytes()), "é");
        let words = "the page is in the charset 'x-none', which cannot be read, and it is not UTF-8";
        assert_eq!(decoded("text/plain; charset=x-none", b"\xe9"), words);
        assert!(decoded("text/plain; charset=iso-2022-kr", b"\xe9").contains("'iso-2022-kr', which cannot be read"));
    }
}

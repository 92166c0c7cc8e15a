//! Media types of files by their content. Names of files are not trusted.

/// Returns the media type of an image or a PDF by its first bytes; `None` for any other content.
pub fn image_or_pdf(content: &[u8]) -> Option<&'static str> {
    match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ => None,
    }
}

/// Returns the content as text if it is UTF-8 without NULs; `None` if it is binary.
pub fn as_text(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_follows_from_the_content() {
        for (content, expected) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0rest", Some("image/jpeg")),
            (b"GIF89arest", Some("image/gif")),
            (b"RIFF\x01\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"%PDF-1.7\n", Some("application/pdf")),
            (b"RIFF\xff\0\0\0WAVE", None),
            (b"<svg/>", None),
            (b"", None),
        ] {
            assert_eq!(image_or_pdf(content), expected);
        }
        assert_eq!(as_text(b"caf\xc3\xa9"), Some("caf\u{e9}"));
        assert_eq!((as_text(b"a\0b"), as_text(b"\xff")), (None, None));
    }
}

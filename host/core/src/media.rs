//! Detects the media types of files from their content. File names are not trusted.

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

/// Returns the media type of a binary file by its first bytes, `application/octet-stream` if it is not known. Only for use in
/// messages, because the rest of the content is not checked.
pub fn of_binary(content: &[u8]) -> &'static str {
    match content {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => "application/zip",
        [0x1f, 0x8b, ..] => "application/gzip",
        [0, b'a', b's', b'm', ..] => "application/wasm",
        [b'w', b'O', b'F', b'F', ..] => "font/woff",
        [b'w', b'O', b'F', b'2', ..] => "font/woff2",
        // The number of tables follows; it is below 256.
        [0, 1, 0, 0, 0, ..] | [b't', b'r', b'u', b'e', 0, ..] => "font/ttf",
        [b'O', b'T', b'T', b'O', ..] => "font/otf",
        _ => image_or_pdf(content).unwrap_or("application/octet-stream"),
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
        for (content, expected) in [
            (&b"PK\x03\x04\x14\0"[..], "application/zip"),
            (b"PK\x05\x06\0\0", "application/zip"),
            (b"\x1f\x8b\x08\0", "application/gzip"),
            (b"\0asm\x0d\0\x01\0", "application/wasm"),
            (b"wOFF\0\x01\0\0", "font/woff"),
            (b"wOF2\0\x01\0\0", "font/woff2"),
            (b"\0\x01\0\0\0\x0c", "font/ttf"),
            (b"true\0\x0c", "font/ttf"),
            (b"OTTO\0\x0c", "font/otf"),
            (b"%PDF-1.7\n", "application/pdf"),
            (b"\0\x01\0\0\xff", "application/octet-stream"),
            (b"PK", "application/octet-stream"),
            (b"", "application/octet-stream"),
        ] {
            assert_eq!(of_binary(content), expected);
        }
        assert_eq!(as_text(b"caf\xc3\xa9"), Some("caf\u{e9}"));
        assert_eq!((as_text(b"a\0b"), as_text(b"\xff")), (None, None));
    }
}

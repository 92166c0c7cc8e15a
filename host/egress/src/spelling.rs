use std::sync::LazyLock;

/// How each ASCII character may be written, itself first. Letters stand in lower case: upper and lower are one.
static SPELLINGS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| (0..128).map(spell).collect());

fn spell(byte: u8) -> Vec<Vec<u8>> {
    let byte = byte.to_ascii_lowercase();
    // A letter may be either, and its codes differ.
    let mut codes = vec![byte, byte.to_ascii_uppercase()];
    codes.dedup();
    let mut spellings = vec![vec![byte]];
    for code in codes {
        spellings.extend(
            [
                // URLs, and URLs within URLs.
                format!("%{code:02x}"),
                format!("%25{code:02x}"),
                // JSON, JavaScript, C.
                format!("\\u{code:04x}"),
                format!("\\x{code:02x}"),
                // HTML and XML.
                format!("&#{code};"),
                format!("&#{code:03};"),
                format!("&#x{code:x};"),
                format!("&#x{code:04x};"),
            ]
            .map(String::into_bytes),
        );
    }
    let named: &[&str] = match byte {
        b' ' => &["+"],
        b'"' => &["\\\"", "&quot;"],
        b'\'' => &["\\'", "&apos;"],
        b'/' => &["\\/"],
        b'\\' => &["\\\\"],
        b'&' => &["&amp;"],
        b'<' => &["&lt;"],
        b'>' => &["&gt;"],
        _ => &[],
    };
    spellings.extend(named.iter().map(|name| name.as_bytes().to_vec()));
    spellings.sort();
    spellings.dedup();
    spellings
}

/// Every way of writing `byte`.
fn spellings(byte: u8) -> &'static [Vec<u8>] {
    SPELLINGS.get(usize::from(byte)).map_or(&[], Vec::as_slice)
}

/// The two bytes by which some way of writing `text`, of two characters or more, begins.
pub(crate) fn leads(text: &[u8]) -> impl Iterator<Item = [u8; 2]> {
    let nth = |at: usize| text.get(at).map_or(&[][..], |byte| spellings(*byte));
    nth(0).iter().flat_map(move |first| {
        let next = nth(1).iter().filter(|_| first.len() == 1);
        let next = first.get(1).into_iter().chain(next.filter_map(|second| second.first()));
        next.filter_map(|next| Some([*first.first()?, *next]))
    })
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Not the text, whatever follows.
    No,
    /// More bytes must be seen to tell.
    More,
    /// The text, as this many bytes.
    Here(usize),
}

/// Whether `bytes` begins with `text`, each character of it in any spelling. `end`: whether nothing follows `bytes`.
/// Where spellings can be read in more than one way, the longest reading counts.
pub(crate) fn begins(bytes: &[u8], text: &[u8], end: bool) -> Found {
    // The places to which what was read so far can lead. There is hardly ever more than one.
    let mut places = vec![0];
    let mut next = Vec::new();
    let mut more = false;
    for byte in text {
        for rest in places.drain(..).filter_map(|place| bytes.get(place..)) {
            let place = bytes.len() - rest.len();
            for spelling in spellings(*byte) {
                let (seen, unseen) = spelling.split_at(spelling.len().min(rest.len()));
                let equal = rest.get(..seen.len()).is_some_and(|rest| rest.eq_ignore_ascii_case(seen));
                if equal && !unseen.is_empty() {
                    more = !end;
                } else if equal && !next.contains(&(place + seen.len())) {
                    next.push(place + seen.len());
                }
            }
        }
        if next.is_empty() {
            break;
        }
        std::mem::swap(&mut places, &mut next);
    }
    match places.into_iter().max() {
        _ if more => Found::More,
        Some(length) => Found::Here(length),
        None => Found::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_spelling_is_the_text() {
        for (bytes, text, found) in [
            ("abc", "abc", Found::Here(3)),
            ("ABCd", "abc", Found::Here(3)),
            ("a%62c", "aBc", Found::Here(5)),
            ("%61\\u0042&#99;", "abc", Found::Here(14)),
            ("a%2522", "a\"", Found::Here(6)),
            ("\\\"&quot;&#X22;", "\"\"\"", Found::Here(14)),
            ("a+b", "a b", Found::Here(3)),
            ("a%2fb", "a/b", Found::Here(5)),
            ("a\\/b", "a/b", Found::Here(4)),
            // A percent sign that is spelled, or that spells.
            ("%25", "%25", Found::Here(3)),
            ("%2525", "%25", Found::Here(5)),
            ("%25", "%", Found::Here(3)),
            ("abd", "abc", Found::No),
            ("", "a", Found::No),
            ("ab", "abc", Found::No),
        ] {
            assert_eq!(begins(bytes.as_bytes(), text.as_bytes(), true), found, "{bytes} for {text}");
        }
    }

    #[test]
    fn two_bytes_tell_how_a_text_can_begin() {
        let found: Vec<String> = leads(b"/A").map(|pair| String::from_utf8_lossy(&pair).into_owned()).collect();
        let mut sorted = found.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted, ["%2", "&#", "/%", "/&", "/\\", "/a", "\\/", "\\u", "\\x"]);
    }

    #[test]
    fn what_is_not_seen_yet_may_still_come() {
        for (bytes, text, found) in [
            ("", "abc", Found::More),
            ("ab", "abc", Found::More),
            ("ab%", "abc", Found::More),
            ("ab\\u00", "abc", Found::More),
            ("abd", "abc", Found::No),
            ("abc", "abc", Found::Here(3)),
            // The percent sign itself, or the beginning of a longer spelling.
            ("%", "%", Found::More),
            ("%x", "%", Found::Here(1)),
        ] {
            assert_eq!(begins(bytes.as_bytes(), text.as_bytes(), false), found, "{bytes} for {text}");
        }
    }
}

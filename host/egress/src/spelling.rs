//! The ways in which an encoder may write one ASCII character: unchanged, percent-encoded, escaped for JSON or HTML.

use std::sync::LazyLock;

/// Length of a character's longest spelling, `&#x0041;`, in bytes.
pub(crate) const LONGEST: usize = 8;

/// All spellings of each ASCII character; the first one is the character itself. Letters are in lower
/// case, because case is ignored.
static SPELLINGS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| (0..128).map(spell).collect());

fn spell(byte: u8) -> Vec<Vec<u8>> {
    let byte = byte.to_ascii_lowercase();
    // An upper-case letter and its lower-case form have different codes.
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
        b'\n' => &["\\n"],
        b'\r' => &["\\r"],
        b'\t' => &["\\t"],
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

/// Returns all spellings of `byte`.
pub(crate) fn spellings(byte: u8) -> &'static [Vec<u8>] {
    SPELLINGS.get(usize::from(byte.to_ascii_lowercase())).map_or(&[], Vec::as_slice)
}

/// Returns the first two bytes of each spelling of `first` followed by a character of `next`.
pub(crate) fn leads(first: u8, next: &[u8]) -> impl Iterator<Item = [u8; 2]> {
    spellings(first).iter().flat_map(move |first| {
        let after = next.iter().filter(|_| first.len() == 1).flat_map(|next| spellings(*next));
        let seconds = first.get(1).into_iter().chain(after.filter_map(|spelling| spelling.first()));
        seconds.filter_map(|second| Some([*first.first()?, *second]))
    })
}

/// Whether a spelling of more than one byte may begin with `byte`.
pub(crate) fn is_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&')
}

/// Returns the character that `bytes` as a whole spells, in lower case, or none. `+` returns two, because it may also
/// mean a space.
pub(crate) fn read(bytes: &[u8]) -> [Option<u8>; 2] {
    let found = match bytes {
        [b'+'] => return [Some(b'+'), Some(b' ')],
        [byte] => Some(*byte),
        [b'\\', byte] => match byte.to_ascii_lowercase() {
            b'n' => Some(b'\n'),
            b'r' => Some(b'\r'),
            b't' => Some(b'\t'),
            byte @ (b'"' | b'\'' | b'/' | b'\\') => Some(byte),
            _ => None,
        },
        [b'%', hex @ ..] if hex.len() == 2 => number(hex, 16),
        [b'%', b'2', b'5', hex @ ..] if hex.len() == 2 => number(hex, 16),
        [b'\\', b'u' | b'U', hex @ ..] if hex.len() == 4 => number(hex, 16),
        [b'\\', b'x' | b'X', hex @ ..] if hex.len() == 2 => number(hex, 16),
        [b'&', b'#', b'x' | b'X', hex @ .., b';'] => number(hex, 16),
        [b'&', b'#', decimal @ .., b';'] => number(decimal, 10),
        [b'&', name @ .., b';'] => entity(name),
        _ => None,
    };
    [found.filter(u8::is_ascii).map(|byte| byte.to_ascii_lowercase()), None]
}

fn entity(name: &[u8]) -> Option<u8> {
    ENTITIES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, byte)| *byte)
}

const ENTITIES: &[(&[u8], u8)] = &[(b"amp", b'&'), (b"lt", b'<'), (b"gt", b'>'), (b"quot", b'"'), (b"apos", b'\'')];

fn number(digits: &[u8], radix: u32) -> Option<u8> {
    let add = |sum: u32, digit: &u8| Some(sum * radix + char::from(*digit).to_digit(radix)?);
    if digits.is_empty() || digits.len() > 4 {
        return None;
    }
    digits.iter().try_fold(0, add).and_then(|sum| u8::try_from(sum).ok())
}

/// Whether `bytes` is the beginning of a longer spelling.
pub(crate) fn is_partial(bytes: &[u8]) -> bool {
    let [escape, rest @ ..] = bytes else { return false };
    let hex = |rest: &[u8]| rest.iter().all(u8::is_ascii_hexdigit);
    match (escape, rest) {
        (b'%' | b'\\' | b'&', []) => true,
        (b'%', [_]) => hex(rest),
        (b'%', [b'2', b'5', rest @ ..]) => rest.len() < 2 && hex(rest),
        (b'\\', [b'u' | b'U', rest @ ..]) => rest.len() < 4 && hex(rest),
        (b'\\', [b'x' | b'X', rest @ ..]) => rest.len() < 2 && hex(rest),
        (b'&', [b'#']) => true,
        (b'&', [b'#', b'x' | b'X', rest @ ..]) => rest.len() <= 4 && hex(rest),
        (b'&', [b'#', rest @ ..]) => rest.len() <= 3 && rest.iter().all(u8::is_ascii_digit),
        (b'&', rest) => ENTITIES.iter().any(|(name, _)| {
            rest.len() <= name.len() && name.get(..rest.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(rest))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_read_and_their_prefixes_are_partial() {
        for byte in 0..128_u8 {
            for spelling in spellings(byte) {
                assert!(spelling.len() <= LONGEST, "{spelling:?}");
                for case in [spelling.to_ascii_lowercase(), spelling.to_ascii_uppercase()] {
                    let lower = byte.to_ascii_lowercase();
                    assert!(read(&case).contains(&Some(lower)), "{case:?} is not read as {byte}");
                    for length in 1..case.len() {
                        assert!(is_partial(&case[..length]), "{:?} of {case:?}", &case[..length]);
                    }
                }
            }
        }
    }

    #[test]
    fn other_bytes_are_no_spelling() {
        for bytes in ["", "%4", "%zz", "\\q", "&nope;", "&#;", "&#x;", "&#300;", "ab", "%2", "\\u00e9", "&#233;"] {
            assert_eq!(read(bytes.as_bytes()), [None, None], "{bytes}");
        }
        assert_eq!(read(&[0xe9]), [None, None]);
        for bytes in ["", "a", "%z", "% ", "\\q", "& ", "&nope", "&#z", "\\u00e9", "50%4z"] {
            assert!(!is_partial(bytes.as_bytes()), "{bytes}");
        }
    }

    #[test]
    fn leads_are_the_possible_first_two_bytes() {
        let found: Vec<String> = leads(b'/', b"A").map(|pair| String::from_utf8_lossy(&pair).into_owned()).collect();
        let mut sorted = found.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted, ["%2", "&#", "/%", "/&", "/\\", "/a", "\\/", "\\u", "\\x"]);
    }
}

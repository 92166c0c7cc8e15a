use std::sync::Arc;

use base64::{Engine, engine::general_purpose};

use crate::{
    Secret,
    spelling::{self, Found},
};

/// What stands where a secret stood.
const PLACEHOLDER: &[u8] = b"[secret]";

/// Takes secrets out of bytes: as they are, in any case, percent-encoded (once or twice), escaped for JSON or HTML, in
/// base64 and in hexadecimal, these two escaped or not, and all of it mixed.
///
/// It undoes an echo. A server that was given a secret and wants to pass it on in a form of its own making cannot be
/// kept from that; which server is given a secret is the operator's word.
#[derive(Clone)]
pub struct Scrub(Arc<Texts>);

struct Texts {
    texts: Vec<Vec<u8>>,
    /// Whether any text can begin with these bytes. Nearly all of any body is passed over by this alone.
    leads: Pairs,
}

impl Scrub {
    /// Takes these secrets out.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut texts: Vec<Vec<u8>> = secrets.into_iter().flat_map(forms).collect();
        texts.sort();
        texts.dedup();
        let mut leads = Pairs::default();
        for text in &texts {
            spelling::leads(text).for_each(|pair| leads.insert(pair));
        }
        Self(Arc::new(Texts { texts, leads }))
    }

    /// `bytes` without the secrets.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut scrubber = self.stream();
        let mut clean = scrubber.push(bytes);
        clean.extend(scrubber.finish());
        clean
    }

    /// `text` without the secrets.
    pub fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    /// The same for bytes that come in pieces, wherever they are cut.
    pub fn stream(&self) -> Scrubber {
        Scrubber { scrub: self.clone(), held: Vec::new() }
    }

    /// The longest of the texts at the beginning of `bytes`; more must be seen if that could change the answer.
    fn begins(&self, bytes: &[u8], end: bool) -> Found {
        let mut found = Found::No;
        for text in &self.0.texts {
            match (spelling::begins(bytes, text, end), found) {
                (Found::More, _) => return Found::More,
                (Found::Here(length), Found::Here(longest)) if length <= longest => {}
                (Found::Here(length), _) => found = Found::Here(length),
                (Found::No, _) => {}
            }
        }
        found
    }
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrub([secret])")
    }
}

/// A [`Scrub`] over pieces. Whatever the pieces, what comes out is what [`Scrub::bytes`] makes of the whole; held back
/// is only what could be the beginning of a secret.
#[derive(Debug)]
pub struct Scrubber {
    scrub: Scrub,
    held: Vec<u8>,
}

impl Scrubber {
    /// The next piece; gives what can be shown by now, which may be nothing.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        self.release(false)
    }

    /// Nothing follows; gives the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release(true)
    }

    fn release(&mut self, end: bool) -> Vec<u8> {
        let mut clean = Vec::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        loop {
            // What can begin no text is passed on in one go. The last byte alone is not enough to tell.
            let leads = &self.scrub.0.leads;
            let suspect = rest.array_windows().position(|pair| leads.contains(*pair));
            let all = if end { rest.len() } else { rest.len().saturating_sub(1) };
            let (innocents, suspects) = rest.split_at(suspect.unwrap_or(all));
            clean.extend_from_slice(innocents);
            rest = suspects;
            let Some(first) = rest.first() else { break };
            match self.scrub.begins(rest, end) {
                Found::More => break,
                Found::Here(length) => {
                    clean.extend_from_slice(PLACEHOLDER);
                    rest = rest.get(length..).unwrap_or_default();
                }
                Found::No => {
                    clean.push(*first);
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
        }
        self.held = rest.to_vec();
        clean
    }
}

/// A set of two bytes each, in which upper and lower case are one: a bit for every two.
struct Pairs(Vec<u64>);

impl Default for Pairs {
    fn default() -> Self {
        Self(vec![0; (1 << 16) / 64])
    }
}

impl Pairs {
    fn place([one, two]: [u8; 2]) -> (usize, u64) {
        let pair = u16::from_be_bytes([one.to_ascii_lowercase(), two.to_ascii_lowercase()]);
        (usize::from(pair / 64), 1 << (pair % 64))
    }

    fn insert(&mut self, pair: [u8; 2]) {
        let (word, bit) = Self::place(pair);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    fn contains(&self, pair: [u8; 2]) -> bool {
        let (word, bit) = Self::place(pair);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// The texts by which a secret gives itself away, each of which may be spelled in many ways.
fn forms(secret: &Secret) -> Vec<Vec<u8>> {
    let secret = secret.expose().as_bytes();
    let mut forms = vec![secret.to_vec(), hex::encode(secret).into_bytes()];
    for engine in [general_purpose::STANDARD_NO_PAD, general_purpose::URL_SAFE_NO_PAD] {
        // In base64 three bytes are four characters, so that a secret looks different at each of three offsets. The
        // characters at its ends that also tell of its neighbours are not part of it.
        for (offset, shared) in [(0, 0), (1, 2), (2, 3)] {
            let mut shifted = vec![0; offset];
            shifted.extend_from_slice(secret);
            let own = shifted.len() * 8 / 6;
            forms.extend(engine.encode(&shifted).into_bytes().get(shared..own).map(<[u8]>::to_vec));
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// With every kind of character that an encoder treats in its own way.
    const SENTINEL: &str = "sk-Test/9+Q=~_.a\"b'c<d>&e\\f g%";

    fn scrub(secrets: &[&str]) -> Scrub {
        Scrub::new(&secrets.iter().map(|text| Secret::new(text).unwrap()).collect::<Vec<_>>())
    }

    fn percent(keep: impl Fn(u8) -> bool, upper: bool) -> String {
        let encode = |b: u8| match (keep(b), upper) {
            (true, _) => char::from(b).to_string(),
            (_, true) => format!("%{b:02X}"),
            (_, false) => format!("%{b:02x}"),
        };
        SENTINEL.bytes().map(encode).collect()
    }

    #[test]
    fn every_form_of_an_echo_goes() {
        // A string of JSON without its quotes.
        let json = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let html: String = SENTINEL
            .chars()
            .map(|c| match c {
                '&' => "&amp;".to_owned(),
                '<' => "&lt;".to_owned(),
                '>' => "&gt;".to_owned(),
                '"' => "&quot;".to_owned(),
                '\'' => "&#39;".to_owned(),
                c => c.to_string(),
            })
            .collect();
        let mut echoes = vec![
            SENTINEL.to_owned(),
            SENTINEL.to_uppercase(),
            SENTINEL.to_lowercase(),
            percent(|_| false, true),
            percent(|_| false, false),
            percent(|b| b.is_ascii_alphanumeric(), true),
            percent(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b), false),
            percent(|b| b.is_ascii_alphanumeric() || b"-_.!~*'()/".contains(&b), true),
            percent(|b| b.is_ascii_alphanumeric(), true).replace("%20", "+"),
            percent(|b| b.is_ascii_alphanumeric(), true).replace('%', "%25"),
            json(SENTINEL),
            json(SENTINEL).replace('/', "\\/"),
            json(SENTINEL).replace('<', "\\u003c").replace('>', "\\u003E").replace('&', "\\u0026"),
            SENTINEL.bytes().map(|b| format!("\\u{b:04x}")).collect(),
            html.clone(),
            html.replace("&#39;", "&#x27;").replace('+', "&#43;"),
            html.replace("&#39;", "&apos;").replace('/', "&#x2F;"),
            SENTINEL.bytes().map(|b| format!("&#{b};")).collect(),
            SENTINEL.bytes().map(|b| format!("&#x{b:X};")).collect(),
            hex::encode(SENTINEL),
            hex::encode_upper(SENTINEL),
        ];
        for engine in [general_purpose::STANDARD, general_purpose::URL_SAFE] {
            echoes.push(engine.encode(SENTINEL).trim_end_matches('=').to_owned());
            echoes.push(json(&engine.encode(SENTINEL)).replace('/', "\\/").trim_end_matches('=').to_owned());
        }
        let scrub = scrub(&[SENTINEL]);
        for echo in echoes {
            let text = format!("before:{echo}:after {echo}{echo}");
            // In base64 a last character can tell of the neighbour, too: two bits are no secret.
            let clean = scrub.text(&text);
            assert!(clean.starts_with("before:[secret]"), "{echo} gives {clean}");
            assert!(clean.matches("[secret]").count() == 3 && clean.len() < 60, "{echo} gives {clean}");
        }
    }

    #[test]
    fn base64_of_something_around_it_goes() {
        let scrub = scrub(&["sentinel-0123456789"]);
        for before in ["", "u", "us", "use", "user:", "Bearer "] {
            for after in ["", "\n", ":x", " and more"] {
                for engine in [general_purpose::STANDARD, general_purpose::URL_SAFE_NO_PAD] {
                    let clean = scrub.text(&engine.encode(format!("{before}sentinel-0123456789{after}")));
                    assert!(clean.contains("[secret]"), "{before}…{after} gives {clean}");
                    // What is left on either side decodes to no part of it that is worth the name.
                    assert!(!clean.contains(&general_purpose::STANDARD_NO_PAD.encode("012345")), "{clean}");
                }
            }
        }
    }

    #[test]
    fn innocent_text_stays() {
        let scrub = scrub(&["sentinel-0123456789"]);
        for text in ["", "sentinel-012345678", "entinel-0123456789", "sk-0", "%73%", "\\u0073", "s", "日本語 & <b>"]
        {
            assert_eq!(scrub.text(text), text);
        }
        assert_eq!(scrub.bytes(&[0xff, 0, b's', 0xfe]), [0xff, 0, b's', 0xfe]);
        assert_eq!(Scrub::new(&[]).text("sentinel-0123456789"), "sentinel-0123456789");
        assert_eq!(format!("{scrub:?} {:?}", scrub.stream()).matches("sentinel").count(), 0);
    }

    #[test]
    fn the_longest_of_several_goes() {
        let scrub = scrub(&["token-abcdef", "token-abcdef-long", "cdef-long-tail"]);
        assert_eq!(
            scrub.text("token-abcdef token-abcdef-long token-abcdef-long-tail"),
            "[secret] [secret] [secret]-tail"
        );
    }

    #[test]
    fn only_what_could_be_a_secret_is_held_back() {
        let mut stream = scrub(&["sentinel-0123456789"]).stream();
        assert_eq!(stream.push(b"data: hello\n\n"), b"data: hello\n\n");
        assert_eq!(stream.push(b"data: sentinel-01"), b"data: ");
        assert_eq!(stream.push(b"2345678"), b"");
        assert_eq!(stream.push(b"9\n"), b"[secret]\n");
        assert_eq!(stream.push(b"sentinel-"), b"");
        assert_eq!(stream.finish(), b"sentinel-");
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(
            parts in vec(
                prop_oneof![
                    Just("sk-te%st0%"), Just("SK-TE%ST0%"), Just("sk-te%25st0%25"), Just("%73k-te%st"), Just("0%"), Just("sk-te"),
                    Just("sk-te%st0%sk-te%st1"), Just("736b2d7465257374302"), Just("c2stdGUlc3QwJQ"), Just("%2"), Just("5"),
                    Just("\\u0073\\u006"), Just("b"), Just("&#115;k-te%"), Just("st0"), Just("&"), Just("x"), Just("s"),
                ],
                0..12,
            ),
            cuts in vec(1usize..9, 0..40),
        ) {
            let whole = parts.concat();
            let scrub = scrub(&["sk-te%st0%", "sk-te%st0%sk-te%st1", "0%sk-te%s"]);
            let mut stream = scrub.stream();
            let (mut clean, mut rest) = (Vec::new(), whole.as_bytes());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                clean.extend(stream.push(piece));
                rest = after;
            }
            clean.extend(stream.push(rest));
            clean.extend(stream.finish());
            prop_assert_eq!(clean, scrub.bytes(whole.as_bytes()));
        }

        #[test]
        fn a_secret_is_gone_wherever_it_stands(before in "\\PC{0,20}", after in "\\PC{0,20}", secret in "[!-~]{8,40}") {
            let clean = Scrub::new(&[Secret::new(&secret).unwrap()]).text(&format!("{before}{secret}{after}"));
            prop_assert!(clean.contains("[secret]"));
            prop_assert!(!clean.contains(&secret), "{}", clean);
        }
    }
}

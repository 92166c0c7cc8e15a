//! Tests of scrubbing: spellings, pieces and hostile texts.

use base64::{Engine, engine::general_purpose};
use proptest::{collection::vec, prelude::*};

use super::*;

/// A secret with every kind of character that encoders change.
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
fn every_encoding_of_a_secret_is_removed() {
    // A JSON string without its quotes.
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
        // The last character of base64 may also depend on the next byte and remains. Its two bits do not reveal the
        // secret.
        let clean = scrub.text(&text);
        assert!(clean.starts_with("before:[secret]"), "{echo} gives {clean}");
        assert!(clean.matches("[secret]").count() == 3 && clean.len() < 60, "{echo} gives {clean}");
        assert!(scrub.is_in_any([&b"nothing"[..], text.as_bytes()]), "{echo}");
    }
}

#[test]
fn base64_of_surrounded_secret_is_removed() {
    let scrub = scrub(&["sentinel-0123456789"]);
    for before in ["", "u", "us", "use", "user:", "Bearer "] {
        for after in ["", "\n", ":x", " and more"] {
            for engine in [general_purpose::STANDARD, general_purpose::URL_SAFE_NO_PAD] {
                let clean = scrub.text(&engine.encode(format!("{before}sentinel-0123456789{after}")));
                assert!(clean.contains("[secret]"), "{before}…{after} gives {clean}");
                // The remains on either side do not decode to a useful part of the secret.
                assert!(!clean.contains(&general_purpose::STANDARD_NO_PAD.encode("012345")), "{clean}");
            }
        }
    }
}

/// Inserts `separator` after every `width` characters of `text`.
fn broken(text: &str, width: usize, separator: &str) -> String {
    let parts: Vec<_> = text.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
    parts.join(separator)
}

/// A key as long as a signed token.
const LONG: &str =
    "sentinel-eyJhbGciOiJIUzI1NiJ9.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-tail_x";

#[test]
fn base64_in_lines_is_removed() {
    let scrub = scrub(&[LONG]);
    for before in ["", "u", "user:"] {
        for engine in [general_purpose::STANDARD, general_purpose::URL_SAFE_NO_PAD] {
            let code = engine.encode(format!("{before}{LONG}:after"));
            for separator in ["\n", "\r\n", "\n    ", "\\n", "\\r\\n", "%0D%0A", "&#10;", "\n\t"] {
                for width in [76, 64, 60, 10, 1] {
                    let text = broken(&code, width, separator);
                    let clean = scrub.text(&format!("before {text} after"));
                    assert_eq!(clean.matches("[secret]").count(), 1, "{separator:?} {width}: {clean}");
                    // Only characters that also encode neighbouring bytes remain.
                    assert!(clean.len() < 50 + 12 * (1 + separator.len()), "{separator:?} {width}: {clean}");
                }
            }
        }
    }
}

#[test]
fn hexadecimal_in_groups_is_removed() {
    let scrub = scrub(&[LONG, "sk-12345"]);
    for secret in [LONG, "sk-12345"] {
        for code in [hex::encode(secret), hex::encode_upper(secret)] {
            for separator in [":", " ", "-", "\n", " \n ", "%3A", "%20", "+"] {
                for width in [2, 4, 32] {
                    let clean = scrub.text(&format!("before|{}|after", broken(&code, width, separator)));
                    assert_eq!(clean, "before|[secret]|after", "{separator:?} {width}");
                }
            }
        }
    }
}

#[test]
fn plain_secret_and_long_gaps_are_not_joined() {
    let scrub = scrub(&["sentinel-0123456789"]);
    let code = general_purpose::STANDARD.encode("sentinel-0123456789");
    for text in ["sentinel-\n0123456789".to_owned(), broken(&code, 4, &"\n".repeat(9))] {
        assert_eq!(scrub.text(&text), text);
    }
}

/// Near-matches at every byte: a matcher with backtracking would take quadratic time.
#[test]
fn flood_of_near_matches_takes_linear_time() {
    let secret = "a".repeat(4000);
    let scrub = scrub(&[&secret, &"aab".repeat(300)]);
    let flood = format!("{}b", "a".repeat(3999)).repeat(20);
    let began = std::time::Instant::now();
    assert_eq!(scrub.text(&flood), flood);
    let small = self::scrub(&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]);
    let flood = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab".repeat(5_000);
    assert_eq!(small.text(&flood), flood);
    // An unoptimised build takes a hundredth of this.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

#[test]
fn withheld_bytes_do_not_depend_on_the_secret() {
    let code = general_purpose::STANDARD.encode(LONG);
    let hex = hex::encode(LONG);
    let guesses = [LONG, &code, &hex, "x", "data: ", "%", "&#", "Zq", "zebra zebra"];
    for text in guesses {
        for length in 1..=text.len() * 3 / 4 {
            for end in ["", "\n", "\r\n", "}\n\n", "\"}", "ü", "\0"] {
                let piece = format!("event\0{}{end}", &text[..length]);
                let told: Vec<usize> = [LONG, "zebra zebra zebra", "q!w2e3r4"]
                    .into_iter()
                    .map(|secret| scrub(&[secret]).blind_stream().push(piece.as_bytes()).len())
                    .collect();
                assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{piece:?}: {told:?}");
            }
        }
    }
    let mut stream = scrub(&[LONG]).blind_stream();
    assert_eq!(stream.push(b"data: {\"delta\":\"hello\"}\n\n"), b"data: {\"delta\":\"hello\"}\n\n");
    assert_eq!(stream.push(b"data: {"), b"");
    assert_eq!(stream.push(b"}\n\n"), b"data: {}\n\n");
}

#[test]
fn text_without_secrets_is_unchanged() {
    let scrub = scrub(&["sentinel-0123456789"]);
    for text in ["", "sentinel-012345678", "entinel-0123456789", "sk-0", "%73%", "\\u0073", "s", "日本語 & <b>"] {
        assert_eq!(scrub.text(text), text);
        assert!(!scrub.is_in_any([text.as_bytes(), text.as_bytes()]));
    }
    assert_eq!(scrub.bytes(&[0xff, 0, b's', 0xfe]), [0xff, 0, b's', 0xfe]);
    assert_eq!(Scrub::default().text("sentinel-0123456789"), "sentinel-0123456789");
    assert_eq!(format!("{scrub:?} {:?}", scrub.stream()).matches("sentinel").count(), 0);
}

#[test]
fn secrets_are_not_joined_over_texts() {
    let scrub = scrub(&["sentinel-0123456789"]);
    assert!(!scrub.is_in_any([&b"sentinel-"[..], b"0123456789", b"sentinel-\\u003", b"0123456789"]));
    assert!(scrub.is_in_any([&b"sentinel-"[..], b"sentinel-\\u00301\\u003", b"sentinel-0123456789"]));
    assert!(!Scrub::default().is_in_any([&b"sentinel-0123456789"[..]]));
}

#[test]
fn overlapping_secrets_are_removed_together() {
    let scrub = scrub(&["token-abcdef", "token-abcdef-long", "cdef-long-tail"]);
    assert_eq!(scrub.text("token-abcdef token-abcdef-long token-abcdef-long-tail"), "[secret] [secret] [secret]");
}

#[test]
fn stream_withholds_only_possible_secrets() {
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
    fn streamed_pieces_equal_the_whole(
        parts in vec(
            prop_oneof![
                Just("sk-te%st0%"), Just("SK-TE%ST0%"), Just("sk-te%25st0%25"), Just("%73k-te%st"), Just("0%"), Just("sk-te"),
                Just("sk-te%st0%sk-te%st1"), Just("736b2d7465257374302"), Just("c2stdGUlc3QwJQ"), Just("%2"), Just("5"),
                Just("736b\n2d 74:65257374302"), Just("c2st\r\ndGUlc3\\nQwJQ"), Just("\n"), Just("}"),
                Just("\\u0073\\u006"), Just("b"), Just("&#115;k-te%"), Just("st0"), Just("&"), Just("x"), Just("s"),
            ],
            0..12,
        ),
        cuts in vec(1usize..9, 0..40),
    ) {
        let whole = parts.concat();
        let scrub = scrub(&["sk-te%st0%", "sk-te%st0%sk-te%st1", "0%sk-te%s"]);
        for mut stream in [scrub.stream(), scrub.blind_stream()] {
            let (mut clean, mut rest) = (Vec::new(), whole.as_bytes());
            for cut in &cuts {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                clean.extend(stream.push(piece));
                rest = after;
            }
            clean.extend(stream.push(rest));
            clean.extend(stream.finish());
            prop_assert_eq!(clean, scrub.bytes(whole.as_bytes()));
        }
    }

    #[test]
    fn secret_is_removed_at_any_position(before in "\\PC{0,20}", after in "\\PC{0,20}", secret in "[!-~]{8,40}") {
        let clean = Scrub::new(&[Secret::new(&secret).unwrap()]).text(&format!("{before}{secret}{after}"));
        prop_assert!(clean.contains("[secret]"));
        prop_assert!(!clean.contains(&secret), "{}", clean);
    }
}

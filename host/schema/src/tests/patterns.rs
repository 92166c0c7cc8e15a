//! Tests patterns: ECMA-262 examples, syntax that is accepted in addition, and random patterns compared with another engine.

use proptest::prelude::*;
use serde_json::json;

use super::{accepts, compile, property};

fn matches(pattern: &str, text: &str) -> bool {
    let schema = property(&json!({"pattern": pattern}));
    accepts(&compile(&schema).unwrap_or_else(|error| panic!("{error}")), &json!({"x": text}))
}

#[test]
fn patterns_match_as_documented() {
    for (pattern, good, bad) in [
        ("b", vec!["abc"], vec!["", "ac"]),
        ("^a|b$", vec!["ax", "xb"], vec!["xax", "bx"]),
        ("^(?:a|b)*c$", vec!["c", "abbac"], vec!["abd", "ca"]),
        ("^a{2,3}$", vec!["aa", "aaa"], vec!["a", "aaaa"]),
        ("^a{2}$", vec!["aa"], vec!["a"]),
        ("^a{2,}?$", vec!["aa", "aaaaa"], vec!["a"]),
        ("^x{a}$", vec!["x{a}"], vec!["xa"]),
        ("^[a-z_]+$", vec!["a_z"], vec!["A", "-"]),
        ("^[^a-z]$", vec!["A", "é", "\n"], vec!["a", "AA"]),
        (r"^[\w-]+$", vec!["a-9_"], vec!["é", " "]),
        (r"^[\]\-\\/]$", vec!["]", "-", "\\", "/"], vec!["a"]),
        (r"^\d\D\w\W\s\S$", vec!["1a_é\u{a0}x"], vec!["٣a_é x"]),
        (r"^\/\-\.$", vec!["/-."], vec!["/-x"]),
        (r"^\u0041\x42\u{1F642}\uD83D\uDE42\cJ\0$", vec!["AB🙂🙂\n\0"], vec!["AB"]),
        (r"\bfoo\b", vec!["a foo b", "foo"], vec!["food", "afoo"]),
        (r"^\Bx", vec![], vec!["x"]),
        (".", vec!["a", "🙂"], vec!["\n", "\u{2028}", ""]),
        ("^.$", vec!["é"], vec!["ab"]),
        ("a$", vec!["ba"], vec!["a\n"]),
        (r"^\p{Lu}\p{Script=Greek}\P{L}\pN$", vec!["Éα-1"], vec!["éα-1"]),
        (r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$", vec!["🙂", "👍🏽"], vec!["a"]),
        ("^(?=.*[0-9])(?=.*[a-z])[a-z0-9]{4,}$", vec!["abc1"], vec!["abcd", "1234", "ab1"]),
        ("^(?!con$|nul$)[a-z]+$", vec!["cons", "a"], vec!["con", "nul"]),
        ("(?<=€)[0-9]+", vec!["€5"], vec!["$5"]),
        ("(?<![0-9]{2})x$", vec!["x", "1x"], vec!["12x"]),
        ("(?<=^(?:ab|c))d", vec!["abd", "cd"], vec!["bd", "xcd"]),
        ("(?i)^straße[K-M]$", vec!["STRAßEl", "straßeK", "straße\u{212a}"], vec!["straßeN"]),
        ("(?m)^b$", vec!["a\nb\nc"], vec!["ab"]),
        ("(?s)a.b", vec!["a\nb"], vec!["ab"]),
        ("^(?P<year>[0-9]{4})(?<month>[0-9]{2})$", vec!["202601"], vec!["20261"]),
        (r"\Aa\z", vec!["a"], vec!["ab"]),
        ("[]", vec![], vec!["", "a", "]"]),
        ("^[^]$", vec!["a", "\n"], vec![""]),
        ("^[[]$", vec!["["], vec!["]"]),
        ("", vec!["", "a"], vec![]),
        ("a||b", vec!["", "c"], vec![]),
        // The pattern that zod generates for an e-mail address.
        (
            r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
            vec!["ada@example.com", "a.b+c@x-y.example.org"],
            vec!["ada", ".a@example.com", "a..b@example.com", "a@b"],
        ),
    ] {
        for (texts, expected) in [(good, true), (bad, false)] {
            for text in texts {
                assert_eq!(matches(pattern, text), expected, "{pattern} {text:?}");
            }
        }
    }
}

#[test]
fn invalid_patterns_name_the_reason() {
    for (pattern, why) in [
        ("(a", "unclosed '('"),
        ("a)", "unmatched ')'"),
        ("[a", "unclosed '['"),
        ("*a", "there is nothing for '*' to repeat"),
        ("a**", "there is nothing for '*' to repeat"),
        ("a{3,2}", "in '{3,…}' the maximum is below the minimum"),
        ("{2}", "there is nothing for '{' to repeat"),
        ("a{,5}", "'{,5}' is ambiguous; write '{0,5}'"),
        ("a{99999999999}", "'99999999999' is too large"),
        (r"(a)\1", r"the back-reference '\1' is not supported"),
        (r"(?<n>a)\k<n>", r"back-references ('\k') are not supported"),
        ("(?>a)", "atomic groups '(?>' are not supported"),
        ("[z-a]", "a range of characters ends before it begins"),
        (r"\p{Nonsense}", r"unknown '\p{Nonsense}'"),
        (r"\p{}", r"unknown '\p{}'"),
        (r"\q", r"the escape '\q' is not supported"),
        (r"\u12", r"an escape with '\x' or '\u' is incomplete or out of range"),
        (r"\u{110000}", r"an escape with '\x' or '\u' is incomplete or out of range"),
        ("\\", r"it ends with a '\'"),
        ("[[:alpha:]]", "'[:' is not supported; write the characters, such as a-z"),
        ("(?x)a", "'(?x' is not supported"),
        ("(a{1000}){1000}", "its repetition counts expand it to more than 20000 states"),
        ("(?=(?=(?=a)))", "look-arounds are nested more than 2 deep"),
    ] {
        let error = compile(&property(&json!({"pattern": pattern}))).unwrap_err();
        let expected = format!("The schema of tool 'x' has the pattern '{pattern}', which cannot be used: {why}.");
        assert_eq!(error, expected);
    }
    let nested = format!("{}{}", "(".repeat(51), ")".repeat(51));
    let error = compile(&property(&json!({"pattern": nested}))).unwrap_err();
    assert!(error.ends_with("groups are nested more than 50 deep."), "{error}");
}

/// Returns random patterns over a small alphabet, which makes matches likely.
fn pattern() -> impl Strategy<Value = String> {
    let leaf =
        prop::sample::select(vec!["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\d", "^", "$", "(?=a)", "(?!b)", r"\."]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (inner.clone(), prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "*?"]))
                .prop_map(|(part, count)| format!("(?:{part}){count}")),
            inner.clone().prop_map(|part| format!("({part})")),
            (inner, prop::sample::select(vec!["(?=", "(?!"])).prop_map(|(part, look)| format!("{look}{part})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn random_patterns_match_like_another_engine(pattern in pattern(), texts in prop::collection::vec("[abc1.]{0,6}", 4)) {
        let schema = property(&json!({"pattern": pattern}));
        // Three levels of look-around are not supported.
        let Ok(compiled) = compile(&schema) else { return Ok(()) };
        // The other engine refuses a repeated look-around.
        let Ok(other) = jsonschema::options().build(&schema) else { return Ok(()) };
        for text in texts {
            let input = json!({"x": text});
            prop_assert_eq!(accepts(&compiled, &input), other.is_valid(&input), "{} {:?}", pattern, text);
        }
    }

    #[test]
    fn no_pattern_panics(pattern in any::<String>(), pieces in prop::collection::vec(prop::sample::select(vec![
        "(", ")", "[", "]", "{", "}", "?", "*", "+", "|", "\\", "^", "-", "1", ",", "<", "=", "!", ":", "p", "u", "L", "é", "i",
    ]), 0..12)) {
        for pattern in [pattern, pieces.concat()] {
            if let Ok(schema) = compile(&property(&json!({"pattern": pattern}))) {
                let _ = schema.check(&json!({"x": "aé1("}));
            }
        }
    }
}

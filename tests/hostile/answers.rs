//! Results that violate the contract, or would deceive a reader.

use patchbay_core::Code;
use patchbay_sandbox::{Content, Failure};
use patchbay_tests::guest::{ECHO, Guest};
use serde_json::json;

use crate::support::{Harness, data, failure, one_piece, pieces, small_limits, text};

#[tokio::test]
async fn result_that_violates_the_abi_is_invalid() {
    let harness = Harness::new(small_limits());
    let bad = |bytes: &[u8]| {
        Guest::calling(&text("(i32.const 131072)", &format!("(i32.const {})", bytes.len()))).with(&data(131_072, bytes))
    };
    let answers = [
        // Half a character, a surrogate, an overlong encoding, and bytes that are not UTF-8 at all.
        (bad(b"ab\xe2\x82"), "incomplete utf-8 byte sequence from index 2"),
        (bad(b"\xed\xa0\x80"), "invalid utf-8 sequence of 1 bytes from index 0"),
        (bad(b"\xc0\x80"), "invalid utf-8 sequence of 1 bytes from index 0"),
        (bad(b"abc\xff"), "invalid utf-8 sequence of 1 bytes from index 3"),
        // A text that ends outside of the memory, one that begins outside, and one whose end overflows.
        (
            Guest::calling(&text("(i32.const 262140)", "(i32.const 100)")),
            "string pointer/length out of bounds of memory",
        ),
        (Guest::calling(&text("(i32.const -1)", "(i32.const 1)")), "string pointer/length out of bounds of memory"),
        (Guest::calling(&text("(i32.const -1)", "(i32.const -1)")), "string pointer/length out of bounds of memory"),
        // A list that ends outside of the memory, one whose end overflows, and one that is misaligned.
        (Guest::calling(&pieces("(i32.const 262140)", "(i32.const 2)")), "list pointer/length out of bounds of memory"),
        (
            Guest::calling(&pieces("(i32.const 131072)", "(i32.const -1)")),
            "list pointer/length out of bounds of memory",
        ),
        (Guest::calling(&pieces("(i32.const 131073)", "(i32.const 1)")), "list pointer is not aligned"),
        // The result itself is outside of the memory, or misaligned.
        (Guest::calling("(i32.const 262144)"), "pointer out of bounds of memory"),
        (Guest::calling("(i32.const -4)"), "pointer out of bounds of memory"),
        (Guest::calling("(i32.const 2)"), "return pointer not aligned"),
        // Neither ok nor err, and an unknown kind of content.
        (Guest::calling("(i32.store8 (i32.const 0) (i32.const 2)) (i32.const 0)"), "invalid expected discriminant"),
        (Guest::calling(&one_piece(5, "")), "unexpected discriminant: 5"),
        (Guest::calling(&one_piece(255, "")), "unexpected discriminant: 255"),
    ];
    for (guest, words) in answers {
        let failure = harness.assert_call_fails(&guest).await;
        assert_eq!(failure, Failure::InvalidOutput(words.into()));
        assert_eq!(failure.code(), Code::InvalidOutput);
        assert_eq!(failure.to_string(), format!("the component returned an invalid result: {words}"));
    }
}

/// `cabi_realloc` returns bad addresses for the input.
#[tokio::test]
async fn input_is_never_written_outside_guest_memory() {
    let harness = Harness::new(small_limits());
    for (place, words) in
        [("-8", "realloc return: beyond end of memory"), ("262143", "realloc return: beyond end of memory")]
    {
        let guest = Guest { before_realloc: format!("(return (i32.const {place}))"), ..Guest::default() };
        assert_eq!(harness.assert_call_fails(&guest).await, Failure::InvalidOutput(words.into()), "{place}");
    }
}

#[tokio::test]
async fn json_content_must_be_valid_json() {
    let harness = Harness::new(small_limits());
    let json = |text: &str| {
        let stores = format!(
            "(i32.store (i32.const 68) (i32.const 131072)) (i32.store (i32.const 72) (i32.const {}))",
            text.len()
        );
        Guest::calling(&one_piece(1, &stores)).with(&data(131_072, text))
    };
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    for (text, words) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{\"a\":", "EOF while parsing a value at line 1 column 5"),
        ("{} {}", "trailing characters at line 1 column 4"),
        ("NaN", "expected value at line 1 column 1"),
        ("1e999", "number out of range at line 1 column 5"),
        ("\"\\ud800\"", "unexpected end of hex escape at line 1 column 8"),
        (deep.as_str(), "recursion limit exceeded at line 1 column 128"),
    ] {
        let failure = harness.assert_call_fails(&json(text)).await;
        assert_eq!(failure, Failure::InvalidOutput(format!("content marked as json is not valid JSON: {words}")));
    }
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    harness.call(&json(&nested)).await.unwrap();
    // Strings and keys are cleaned like text after parsing: hidden characters are removed, literal or escaped, and newlines stay.
    let deceit = "{\"k\u{202e}ey\": [\"a\u{9b}31mb\", \"c\\u202ed\\u001b[2Je\", \"line\\nline\"]}";
    let output = harness.call(&json(deceit)).await.unwrap();
    assert_eq!(output.content, [Content::Json(json!({"key": ["a31mb", "cd[2Je", "line\nline"]}))]);
}

/// Terminal escapes, right-to-left overrides, invisible text and tags for a model.
const DECEIT: &str =
    "red\u{1b}[31m \u{202e}desrever\u{2066} z\u{200b}ero\u{feff} t\u{e0041}ag \u{9b}2J\u{7} end \u{200d}☕\u{fe0f}";
const CLEANED: &str = "red[31m desrever zero tag 2J end ☕\u{fe0f}";

#[tokio::test]
async fn displayed_content_is_cleaned() {
    let harness = Harness::new(small_limits());
    let len = DECEIT.len();
    let store = |at: u32| {
        format!("(i32.store (i32.const {at}) (i32.const 131072)) (i32.store (i32.const {}) (i32.const {len}))", at + 4)
    };
    let (one, two) = (store(68), store(68) + &store(76));
    let cleaned = || CLEANED.to_owned();
    for (case, stores, expected) in [
        (0, &one, Content::Text(cleaned())),
        (2, &two, Content::Blob { media_type: cleaned(), data: DECEIT.into() }),
        (3, &two, Content::Link { path: cleaned(), media_type: cleaned() }),
        (4, &two, Content::Other { name: cleaned(), value: cleaned() }),
    ] {
        let guest = Guest::calling(&one_piece(case, stores)).with(&data(131_072, DECEIT));
        assert_eq!(harness.call(&guest).await.unwrap().content, [expected]);
    }
    let failing = Guest::calling(&failure((131_072, len), (131_072, len))).with(&data(131_072, DECEIT));
    let failure = harness.assert_call_fails(&failing).await;
    assert_eq!(failure, Failure::Failed { kind: cleaned(), message: cleaned() });
    assert_eq!(failure.code(), Code::ToolFailed);
}

#[tokio::test]
async fn failure_kind_is_a_short_word() {
    let guest = Guest::calling(&failure((131_072, 5000), (131_072, 5000))).with(&data(131_072, [b'k'; 5000]));
    let Failure::Failed { kind, message } = Harness::new(small_limits()).assert_call_fails(&guest).await else {
        panic!("not a failure that the tool returned")
    };
    assert_eq!(kind, format!("{}…", "k".repeat(64)));
    assert_eq!(message.len(), 5000);
}

#[tokio::test]
async fn empty_content_is_a_valid_result() {
    let harness = Harness::new(small_limits());
    assert_eq!(harness.call(&Guest::calling(&pieces("(i32.const 0)", "(i32.const 0)"))).await.unwrap().content, []);
    assert_eq!(harness.text(&Guest::calling(&text("(i32.const 0)", "(i32.const 0)"))).await, "");
    assert_eq!(harness.text(&Guest::calling(ECHO)).await, "{}");
}

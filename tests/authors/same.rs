//! The same skill in every language: equal inputs give equal bytes. The sources are in `same/`; skill.rs documents each tool.
//!
//! Floats are left out, because each language prints them by its own rules.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::author::{Author, runs_in_all};

/// A call of a tool, and the result in every language.
struct Case {
    tool: &'static str,
    input: Value,
    /// `code`, and the `content` of a result or the `kind` of a failure.
    data: Value,
    /// The message of a failure.
    message: Option<String>,
}

fn result(tool: &'static str, input: Value, content: Value) -> Case {
    Case { tool, input, data: json!({"code": "tool_result", "content": content, "kind": null}), message: None }
}

fn failure(tool: &'static str, input: Value, kind: &str, message: &str) -> Case {
    let data = json!({"code": "tool_failed", "content": null, "kind": kind});
    Case { tool, input, data, message: Some(format!("Error: {message}")) }
}

/// The host's own error, before the tool runs.
fn refused(tool: &'static str, input: Value, problem: &str) -> Case {
    let data = json!({"code": "invalid_input", "content": null, "kind": null});
    Case { tool, input, data, message: Some(format!("Error: input for 'same__{tool}' is invalid: {problem}.")) }
}

/// Texts with their bytes, their code points and their hash, which is FNV-1a.
fn texts() -> Vec<(String, usize, usize, u32)> {
    let texts = [
        "",
        " ",
        "plain",
        // The same letter twice: as one code point, and as a base letter with a combining accent.
        "é e\u{301}",
        // Outside of the basic plane, with a joiner and a variation selector.
        "👩\u{200d}🔬 ❤\u{fe0f} 𝕊",
        "العربية עברית 漢字 ภาษา",
        "quotes \" ' \\ / and `",
        "line\nline\r\ntab\tend\n",
        "<script>&amp;</script> {{x}} %s %.*s ${x}",
        "\u{1}\u{1f}\u{7f}\u{85}\u{2028}\u{fffd}\u{ffff}\u{10ffff}",
        "a\0b",
        "__proto__",
        "constructor",
    ];
    let large = format!("{}é", "0123456789abcdef".repeat(62_500));
    texts.into_iter().map(str::to_owned).chain([large]).map(measured).collect()
}

fn measured(text: String) -> (String, usize, usize, u32) {
    let mut hash = 2_166_136_261_u32;
    for byte in text.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    }
    let (bytes, points) = (text.len(), text.chars().count());
    (text, bytes, points, hash)
}

fn cases() -> Vec<Case> {
    const SAFE: i64 = (1 << 53) - 1;
    let mut cases = Vec::new();
    for (text, bytes, points, hash) in texts() {
        // A million steps of an interpreter need more fuel than a call has.
        if bytes < 100_000 {
            let measure = json!([{"type": "json", "json": {"bytes": bytes, "hash": hash, "points": points}}]);
            cases.push(result("measure", json!({"text": text}), measure));
        }
        // The host removes control characters from the output, whatever the language.
        let shown = patchbay_core::text::clean(&text);
        cases.push(result("echo", json!({"text": text}), json!([{"type": "text", "text": shown}])));
        let list = json!([null, true, false, [], {}, "", shown]);
        let wrapped = json!({"list": list, "text": {&*shown: "key"}});
        cases.push(result("wrap", json!({"text": text}), json!([{"type": "json", "json": wrapped}])));
        let pieces = json!([
            {"type": "text", "text": shown},
            {"type": "json", "json": shown},
            {"type": "blob", "media_type": "text/x-same", "size": bytes},
            {"type": "link", "path": "a/b.txt", "media_type": "text/plain"},
        ]);
        cases.push(result("pieces", json!({"text": text}), pieces));
    }
    for (a, b) in [(0, 0), (-1, 1), (SAFE, 0), (-SAFE, 0), (SAFE, -SAFE), (SAFE - 1, 1), (1 << 31, 1 << 32)] {
        cases.push(result("add", json!({"a": a, "b": b}), json!([{"type": "json", "json": {"sum": a + b}}])));
    }
    // JSON Schema accepts these numbers as integers.
    cases.push(result("add", json!({"a": 1.0, "b": -0.0}), json!([{"type": "json", "json": {"sum": 1}}])));
    cases.push(result(
        "add",
        json!({"a": 1e15, "b": 1}),
        json!([{"type": "json", "json": {"sum": 1_000_000_000_000_001_i64}}]),
    ));
    let too_large = "the sum is too large";
    for (a, b) in [(SAFE, 1), (-SAFE, -1), (SAFE, SAFE)] {
        cases.push(failure("add", json!({"a": a, "b": b}), "overflow", too_large));
    }
    let above = "at /a: 9007199254740992 is greater than the maximum of 9007199254740991";
    cases.push(refused("add", json!({"a": SAFE + 1, "b": 0}), above));
    cases.push(refused("add", json!({"a": 0.5, "b": 0}), "at /a: 0.5 is not of type \"integer\""));
    cases.push(refused("add", json!({"a": "1", "b": 0}), "at /a: \"1\" is not of type \"integer\""));
    cases.push(refused("echo", json!({}), "\"text\" is a required property"));
    for (a, b, sum) in [
        ("9223372036854775807", "0", "9223372036854775807"),
        ("-9223372036854775808", "0", "-9223372036854775808"),
        ("9223372036854775807", "-9223372036854775808", "-1"),
        ("9007199254740993", "9007199254740993", "18014398509481986"),
        ("-0", "007", "7"),
    ] {
        cases.push(result("add64", json!({"a": a, "b": b}), json!([{"type": "text", "text": sum}])));
    }
    cases.push(failure("add64", json!({"a": "9223372036854775807", "b": "1"}), "overflow", too_large));
    cases.push(failure("add64", json!({"a": "-9223372036854775808", "b": "-1"}), "overflow", too_large));
    let wide = "9223372036854775808 has more than 64 bits";
    cases.push(failure("add64", json!({"a": "9223372036854775808", "b": "0"}), "overflow", wide));
    for kind in ["invalid-input", "unknown-tool", "unavailable", "failed", "not_found", "Frozen solid"] {
        let input = json!({"kind": kind, "message": "état: 100% {\"a\"} 😀"});
        cases.push(failure("fail", input, kind, "état: 100% {\"a\"} 😀"));
    }
    cases
}

/// Builds the skill in a language, and calls its tools in one session.
fn same(language: &str, file: &str) {
    let author = Author::of(language);
    author.succeed("", &["plugin", "new", "same", "--lang", language]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("authors/same");
    let (folder, extension) = (author.work().join("same"), file.rsplit('.').next().unwrap());
    fs::copy(source.join("SKILL.md"), folder.join("SKILL.md")).unwrap();
    fs::copy(source.join(format!("skill.{extension}")), folder.join(file)).unwrap();
    fs::remove_file(folder.join("fixtures/hello.json")).unwrap();
    author.succeed("same", &["plugin", "build"]);
    author.succeed("", &["plugin", "add", "same", "--yes"]);

    let cases = cases();
    let lines: Vec<String> = cases.iter().map(|case| format!("/tool same__{} {}", case.tool, case.input)).collect();
    let ran = author.run_with_input(&["exec", "--keep-going", "--json"], &lines.join("\n"));
    let outcomes = ran.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let outcomes: Vec<Value> = outcomes.filter(|outcome| outcome["line"].is_string()).collect();
    assert_eq!(outcomes.len(), cases.len(), "{}", ran.err);
    let mut different = Vec::new();
    for (outcome, case) in outcomes.iter().zip(&cases) {
        let data = &outcome["data"];
        let found = json!({"code": outcome["code"], "content": data["content"], "kind": data["kind"]});
        let message = outcome["message"].as_str().unwrap_or_default();
        let is_same = case.message.as_ref().is_none_or(|expected| expected == message);
        if found.to_string() != case.data.to_string() || !is_same {
            let short = |text: String| text.chars().take(300).collect::<String>();
            let (call, found) = (short(format!("{} {}", case.tool, case.input)), short(found.to_string()));
            different.push(format!(
                "{call}\n  {found} {}\n  expected {}",
                short(message.to_owned()),
                short(case.data.to_string())
            ));
        }
    }
    assert!(different.is_empty(), "{language}: {} differ:\n{}", different.len(), different.join("\n"));
}

#[test]
fn same_bytes_in_rust() {
    same("rust", "src/lib.rs");
}

#[test]
fn same_bytes_in_javascript() {
    same("js", "skill.js");
}

#[test]
fn same_bytes_in_typescript() {
    if runs_in_all("ts") {
        same("ts", "skill.ts");
    }
}

#[test]
fn same_bytes_in_python() {
    // Compiling another component of 18 MB takes half a minute.
    if runs_in_all("same-python") {
        same("python", "skill.py");
    }
}

#[test]
fn same_bytes_in_c() {
    same("c", "skill.c");
}

//! Tools that call tools: through the ordinary call path, with their own grants, within the remaining budget of the caller.

use patchbay_tests::{binary::Patchbay, calls::relaying, guest::Guest};

#[test]
fn error_of_a_nested_tool_reaches_the_caller() {
    let patchbay = Patchbay::new();
    patchbay.add_relay("missing", "no__such", "{}");
    patchbay.add_relay("wrong", "calc__eval", "{}");
    patchbay.add_relay("text", "calc__eval", "six times seven");
    patchbay.add_relay("fails", "calc__eval", r#"{"expression":"1 MB + 1 s"}"#);
    let answers = patchbay.answers(&["/missing", "/wrong", "/text", "/fails"]);
    let told: Vec<_> =
        answers.iter().map(|answer| (answer.data()["kind"].as_str().unwrap(), answer.message())).collect();
    assert_eq!(told[0], ("not-found", "Error: tool 'no__such' not found in snapshot."));
    assert_eq!(
        told[1],
        ("invalid", r#"Error: input for 'calc__eval' is invalid: "expression" is a required property."#)
    );
    assert!(told[2].1.starts_with("Error: the input for 'calc__eval' is not valid JSON: "), "{}", told[2].1);
    assert_eq!(told[3].0, "unit-mismatch");
}

#[test]
fn nested_call_needs_a_grant() {
    let patchbay = Patchbay::new();
    patchbay.add_command("ask", &relaying("calc__eval", "{}"), "capabilities: [{name: tools}]\n");
    let words = "Error: skill 'ask' may not use 'tools': it is not granted. To grant it: patchbay grant add ask tools";
    assert_eq!(patchbay.line("/ask"), words);
}

/// Grants of the caller do not extend to the called tool, nor the reverse.
#[test]
fn each_tool_has_its_own_grants() {
    let patchbay = Patchbay::new();
    patchbay.add_relay("ask", "keeper__run", "{}");
    let get = Guest::calling(
        "(call $get (i32.const 2) (i32.const 1024) (i32.const 3) (i32.const 512))
         (i32.store8 (i32.const 0) (i32.const 1))
         (i32.store (i32.const 4) (i32.load (i32.const 520))) (i32.store (i32.const 8) (i32.load (i32.const 524)))
         (i32.store (i32.const 12) (i32.load (i32.const 528))) (i32.store (i32.const 16) (i32.load (i32.const 532)))
         (i32.const 0)",
    );
    let get = get.with("\n(import \"patchbay:host/kv@0.1.0\" \"get\" (func $get (param i32 i32 i32 i32)))\n");
    patchbay.add_command("keeper", &get, "capabilities: [{name: kv}]\n");
    let answer = &patchbay.answers(&["/ask"])[0];
    assert_eq!((answer.code(), answer.data()["kind"].as_str()), ("tool_failed", Some("denied")));
    let words = "Error: skill 'keeper' may not use 'kv': it is not granted. To grant it: patchbay grant add keeper kv";
    assert_eq!(answer.message(), words);
}

#[test]
fn circular_calls_end_at_the_depth_limit() {
    let patchbay = Patchbay::new();
    patchbay.add_relay("ping", "pong__run", "{}");
    patchbay.add_relay("pong", "ping__run", "{}");
    patchbay.add_relay("self", "self__run", "{}");
    let answers = patchbay.answers(&["/ping", "/self", "/calc 1 + 1"]);
    for answer in &answers[..2] {
        assert_eq!((answer.code(), answer.data()["kind"].as_str()), ("tool_failed", Some("too-deep")));
        assert_eq!(answer.message(), "Error: tools can call tools at most 4 deep; this call would be one deeper");
    }
    assert_eq!(answers[2].message(), "2");
}

#[test]
fn nested_tool_uses_its_callers_fuel() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 3000000\n");
    patchbay.add_command("spin", &Guest::spinning(), "");
    patchbay.add_relay("ask", "spin__run", "{}");
    let answers = patchbay.answers(&["/ask", "/calc 1 + 1"]);
    // The caller has no fuel left to return a message.
    assert_eq!(answers[0].code(), "limit_fuel");
    assert!(
        answers[0].message().starts_with("Error: tool 'ask__run' was stopped: the call used up its fuel of 3000000")
    );
    assert_eq!(answers[1].message(), "2");
}

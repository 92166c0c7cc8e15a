//! A skill that asks a model: of the agent that runs it, within its own ceiling and the session's.

use patchbay_tests::{binary::Patchbay, calls::SAY, guest::Guest};

/// A guest that asks a model `say Yes.` and answers with what it says.
fn asking() -> Guest {
    Guest::calling(
        r#"
    (call $complete (i32.const 300) (i32.const 10) (i32.const 310) (i32.const 8) (i32.const 128))
    (if (i32.load8_u (i32.const 128)) (then (return (call $fail (i32.const 132)))))
    (call $say (i32.load (i32.const 132)) (i32.load (i32.const 136)))"#,
    )
    .with(
        r#"
(import "patchbay:host/inference@0.1.0" "complete" (func $complete (param i32 i32 i32 i32 i32)))
(func $fail (param $error i32) (result i32)
  (i32.store8 (i32.const 0) (i32.const 1))
  (i32.store (i32.const 4) (i32.load (local.get $error)))
  (i32.store (i32.const 8) (i32.load offset=4 (local.get $error)))
  (i32.store (i32.const 12) (i32.load offset=8 (local.get $error)))
  (i32.store (i32.const 16) (i32.load offset=12 (local.get $error)))
  (i32.const 0))
(data (i32.const 300) "Be helpful")
(data (i32.const 310) "say Yes.")"#,
    )
    .with(SAY)
}

const SKILL_MD: &str = "---\nsummary: Asks\ninvocation_mode: tool_dispatch\ncommand: ask\ncommand_tool: run\n\
                        capabilities: [{name: inference}]\n---\n";

fn with(config: &str) -> Patchbay {
    let patchbay = Patchbay::new();
    let demo = "[providers.demo]\noptions = { delay-ms = \"0\" }\n";
    patchbay.write("home/config/config.toml", format!("{demo}{config}"));
    patchbay.write("home/config/skills/asker.wasm", asking().packaged(SKILL_MD));
    patchbay
}

fn grant(patchbay: &Patchbay) {
    let granted = patchbay.run(&["grant", "add", "asker", "inference"]);
    assert_eq!(granted.code, Some(0), "{granted:?}");
}

#[test]
fn skill_uses_the_model_of_its_agent() {
    let patchbay = with("");
    let denied = &patchbay.answers(&["/ask"])[0];
    assert_eq!(denied.code(), "denied");
    grant(&patchbay);
    let answers = patchbay.answers(&["/ask", "call asker__run {}"]);
    assert_eq!((answers[0].code(), answers[0].message()), ("tool_result", "Yes."));
    assert_eq!(answers[1].message(), r#"asker__run said: {"tool_success":true,"result":"Yes."}"#);
}

#[test]
fn skill_inference_counts_against_call_and_session_limits() {
    // The request has four words, the answer one; by its bytes it is estimated at six.
    let patchbay = with("[limits]\nsession_tokens = 8\n");
    grant(&patchbay);
    let answers = patchbay.answers(&["/ask", "/ask", "hello", "hello"]);
    assert_eq!(answers[0].code(), "tool_result");
    assert_eq!((answers[1].code(), answers[1].data()["kind"].as_str()), ("tool_failed", Some("quota")));
    let words = "the prompt has about 6 tokens, and this session may use 3 more of its 8 (limits.session_tokens)";
    assert!(answers[1].message().contains(words), "{}", answers[1].message());
    assert_eq!((answers[2].code(), answers[3].code()), ("answered", "limit_tokens"));
    // It is the session's, and it stays.
    let session = patchbay.last_session();
    assert_eq!(patchbay.answers_in(&["--session", &session], &["hello"])[0].code(), "limit_tokens");
    assert_eq!(patchbay.answers(&["/ask"])[0].code(), "tool_result");
    let small = with("[limits]\ninference_tokens = 0\n");
    grant(&small);
    let quota = &small.answers(&["/ask"])[0];
    assert_eq!((quota.code(), quota.data()["kind"].as_str()), ("tool_failed", Some("quota")));
    assert!(quota.message().contains("limits.inference_tokens"), "{}", quota.message());
}

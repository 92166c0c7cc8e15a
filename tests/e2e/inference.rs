//! Skills that use their agent's model, within the limits of the call and the session.

use patchbay_tests::{binary::Patchbay, calls::completing};

const SKILL_MD: &str = "---\nsummary: Asks\ninvocation_mode: tool_dispatch\ncommand: ask\ncommand_tool: run\n\
                        capabilities: [{name: inference}]\n---\n";

fn with(config: &str) -> Patchbay {
    let patchbay = Patchbay::new();
    let demo = "[providers.demo]\noptions = { delay-ms = \"0\" }\n";
    patchbay.write("home/config/config.toml", format!("{demo}{config}"));
    patchbay.write("home/config/skills/asker.wasm", completing("Be helpful", "say Yes.").packaged(SKILL_MD));
    patchbay
}

#[test]
fn skill_uses_the_model_of_its_agent() {
    let patchbay = with("");
    let denied = &patchbay.answers(&["/ask"])[0];
    assert_eq!(denied.code(), "denied");
    patchbay.grant("asker", &["inference"]);
    let answers = patchbay.answers(&["/ask", "call asker__run {}"]);
    assert_eq!((answers[0].code(), answers[0].message()), ("tool_result", "Yes."));
    assert_eq!(answers[1].message(), r#"asker__run said: {"tool_success":true,"result":"Yes."}"#);
}

#[test]
fn skill_inference_counts_against_call_and_session_limits() {
    // The request has four tokens and the answer one. By its bytes, the request is estimated at six.
    let patchbay = with("[limits]\nsession_tokens = 8\n");
    patchbay.grant("asker", &["inference"]);
    let answers = patchbay.answers(&["/ask", "/ask", "hello", "hello"]);
    assert_eq!(answers[0].code(), "tool_result");
    assert_eq!((answers[1].code(), answers[1].data()["kind"].as_str()), ("tool_failed", Some("quota")));
    let words =
        "the prompt has about 6 tokens, but this session has only 3 of its 8 tokens left (limits.session_tokens)";
    assert!(answers[1].message().contains(words), "{}", answers[1].message());
    assert_eq!((answers[2].code(), answers[3].code()), ("answered", "limit_tokens"));
    // The limit belongs to the session, and stays exhausted when the session is resumed.
    let session = patchbay.last_session();
    assert_eq!(patchbay.answers_in(&["--session", &session], &["hello"])[0].code(), "limit_tokens");
    assert_eq!(patchbay.answers(&["/ask"])[0].code(), "tool_result");
    let small = with("[limits]\ninference_tokens = 0\n");
    small.grant("asker", &["inference"]);
    let quota = &small.answers(&["/ask"])[0];
    assert_eq!((quota.code(), quota.data()["kind"].as_str()), ("tool_failed", Some("quota")));
    assert!(quota.message().contains("limits.inference_tokens"), "{}", quota.message());
}

/// An answer may have 100 tokens, each of which costs a cent.
#[test]
fn skill_inference_counts_against_the_budget() {
    let priced =
        "models = [{ id = \"demo-1\", max_output_tokens = 100, price = { input = \"0\", output = \"10000\" } }]\n";
    let patchbay = with(&format!("{priced}[budget]\nsession = \"1.00\"\n"));
    patchbay.grant("asker", &["inference"]);
    let answers = patchbay.answers(&["/ask", "/ask", "hello", "/usage"]);
    assert_eq!(answers[0].message(), "Yes.");
    assert_eq!((answers[1].code(), answers[1].data()["kind"].as_str()), ("tool_failed", Some("quota")));
    let words =
        "the request could cost 1.00 USD, but only 0.99 USD is left of 1.00 USD (session in [budget] of config.toml)";
    assert!(answers[1].message().contains(words), "{}", answers[1].message());
    assert_eq!(answers[2].code(), "limit_budget");
    let usage = answers[3].message();
    assert!(usage.contains(", asker__run, demo/demo-1: 1 request, 0.01 USD spent"), "{usage}");
}

//! Model names: which names `/model` accepts, the errors for others, and which model is used.

use patchbay_tests::binary::Patchbay;

const RULE: &str = "a model name has 1 to 128 visible ASCII characters and no white space.";

#[test]
fn invalid_model_name_is_rejected_without_change() {
    let patchbay = Patchbay::new();
    let lines = ["/model demo-big", "/model gpt-4o/none   # no thinking", "/model gpt-\u{1b}]0;pwned\u{7}"];
    let answers = patchbay.answers(&lines);
    for (answer, shown, why) in [
        (&answers[1], "gpt-4o/none # no thinking", "it contains white space"),
        (&answers[2], "gpt-]0;pwned", "it contains invisible characters"),
    ] {
        assert_eq!(answer.code(), "invalid_args");
        assert_eq!(answer.message(), format!("Error: '{shown}' is not a model name: {why}; {RULE}"));
    }
    let session = patchbay.last_session();
    let shown = patchbay.run(&["exec", "--session", &session, "/providers"]).out;
    assert!(shown.contains("\n  in use    demo:demo-big\n"), "{shown}");
}

#[test]
fn bare_prefixes_and_invalid_levels_are_shown_verbatim() {
    let level = |level: &str| format!("Invalid thinking level: {level}\nValid levels: none, low, med, high");
    let expected = [
        ("/model claude-", "unknown_model", "Unknown model: claude-\n".to_owned()),
        ("/model gpt-", "unknown_model", "Unknown model: gpt-\n".to_owned()),
        ("/model gemini-/high", "unknown_model", "Unknown model: gemini-\n".to_owned()),
        ("/model gpt-4o/m\u{e9}dium", "invalid_thinking_level", level("m\u{e9}dium")),
        ("/model nothing-1/Med", "invalid_thinking_level", level("Med")),
    ];
    let answers = Patchbay::new().answers(&expected.each_ref().map(|(line, ..)| *line));
    for ((line, code, begins), answer) in expected.iter().zip(&answers) {
        assert_eq!(answer.code(), *code, "{line}");
        let message = answer.message();
        // The list of models follows the name.
        assert!(message == begins || begins.ends_with('\n') && message.starts_with(begins), "{line}: {message}");
    }
}

/// Model names of OpenRouter, vLLM and LM Studio contain a `/`.
#[test]
fn unlisted_model_with_a_slash_is_a_name_after_its_provider() {
    let patchbay = Patchbay::new();
    let config = "[providers.local]\nadapter = \"openai-compatible\"\norigin = \"http://127.0.0.1:9/v1\"\n";
    patchbay.write("home/config/config.toml", config);
    let lines = [
        "/model local:anthropic/claude-opus-5.5",
        "/model local:qwen/qwen3-coder:free/high",
        "/model anthropic/claude-opus-5.5",
    ];
    let answers = patchbay.answers(&lines);
    for (answer, name) in answers.iter().zip(["anthropic/claude-opus-5.5", "qwen/qwen3-coder:free"]) {
        assert_eq!(answer.code(), "model_set");
        assert!(answer.message().starts_with(&format!("✓ Switched to local {name}\n")), "{}", answer.message());
    }
    assert_eq!(answers[2].code(), "invalid_thinking_level");
}

/// Older builds stored any text after a prefix.
#[test]
fn invalid_stored_model_name_does_not_break_the_session() {
    let patchbay = Patchbay::quick();
    patchbay.answers(&["/model demo-1", "hello"]);
    let session = patchbay.last_session();
    let database = patchbay.database("patchbay.db");
    database.execute("UPDATE agents SET model = ?", ["demo-1 \u{1b}[31mmed"]).unwrap();
    let lines = ["/providers", "one", "/model demo-1", "two"];
    let answers = patchbay.answers_in(&["--session", &session], &lines);
    assert_eq!(answers[0].code(), "providers_listed");
    assert_eq!(answers[1].code(), "invalid_args");
    let words = format!("Error: 'demo-1 [31mmed' is not a model name: it contains white space; {RULE}");
    assert_eq!(answers[1].message(), words);
    assert_eq!(answers[2].code(), "model_set");
    assert_eq!(answers[3].message(), "You said: one\ntwo");
}

#[test]
fn a_default_model_that_cannot_be_used_is_an_error() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "default_model = \"nope\"\n");
    let words = "Error: default_model of config.toml, 'nope', cannot be used: Unknown model: nope\n";
    let ran = patchbay.run(&["exec", "hello"]);
    assert!(ran.code == Some(1) && ran.err.starts_with(words), "{ran:?}");
}

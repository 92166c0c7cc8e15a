//! Invocation of skills: text input for tools, tools by their full name, instructions for the conversation.

use patchbay_provider::Settings;
use patchbay_tests::{binary::Patchbay, guest::Guest, host::host};
use serde_json::json;

/// Installs a skill `probe` whose command returns the input of its tool; `schema` is the input schema.
fn add_probe(patchbay: &Patchbay, schema: &str) {
    let mut guest = Guest::default();
    guest.tools[0].2 = schema.into();
    patchbay.add_command("probe", &guest, "");
}

const ONE_STRING: &str = r#"{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["text"],"additionalProperties":false}"#;

#[test]
fn text_input_is_parsed_as_object_or_single_string() {
    let patchbay = Patchbay::new();
    add_probe(&patchbay, ONE_STRING);
    let expected = [
        ("/probe {\"text\": \"a\", \"n\": 1}", json!({"text": "a", "n": 1})),
        ("/probe plain  words ", json!({"text": "plain  words"})),
        ("/probe \"quoted\"", json!({"text": "\"quoted\""})),
        ("/probe 42", json!({"text": "42"})),
        ("/probe {\"n\": 1", json!({"text": "{\"n\": 1"})),
        ("/probe [1, 2]", json!({"text": "[1, 2]"})),
        ("/skill probe words", json!({"text": "words"})),
        ("/skill probe\tby tab", json!({"text": "by tab"})),
        ("/probe two\nlines", json!({"text": "two\nlines"})),
    ];
    for ((line, input), answer) in expected.iter().zip(patchbay.answers(&expected.each_ref().map(|(line, _)| *line))) {
        assert_eq!(answer.code(), "tool_result", "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(answer.message()).unwrap(), *input, "{line}");
    }
    // An object that violates the schema is not used as text.
    let schema = r#"{"additionalProperties":false,"properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["text"],"type":"object"}"#;
    let refused = [
        ("/probe", format!("/probe expects {schema}.")),
        ("/skill probe", format!("/skill probe expects {schema}.")),
        ("/probe {\"n\": 1}", r#"input for /probe is invalid: "text" is a required property."#.to_owned()),
        ("/probe {\"text\": 5}", r#"input for /probe is invalid: at /text: 5 is not of type "string"."#.to_owned()),
    ];
    for ((line, words), answer) in refused.iter().zip(patchbay.answers(&refused.each_ref().map(|(line, _)| *line))) {
        assert_eq!((answer.code(), answer.message()), ("invalid_input", &*format!("Error: {words}")), "{line}");
    }
}

#[test]
fn missing_input_is_an_empty_object_if_valid() {
    let patchbay = Patchbay::new();
    add_probe(&patchbay, r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#);
    let answers = patchbay.answers(&["/probe", "/probe {\"n\":1}", "/probe words"]);
    assert_eq!(answers[0].message(), "{}");
    assert_eq!(answers[1].message(), "{\"n\":1}");
    // No property is required, so none of them receives the text.
    assert_eq!(
        answers[2].message(),
        "Error: /probe expects {\"properties\":{\"n\":{\"type\":\"integer\"}},\"type\":\"object\"}: write a JSON object. Other text \
         works only for a tool that requires one string and nothing else."
    );
}

#[test]
fn missing_input_shows_the_skill_hint_and_a_failure_its_message() {
    let answers = Patchbay::new().answers(&["/web", "/skill web", "/json", "/calc 1 MB + 1 s", "/json a"]);
    for (answer, message) in answers.iter().zip([
        "Error: /web requires URL.",
        "Error: /skill web requires URL.",
        "Error: /json requires EXPRESSION DOCUMENT.",
    ]) {
        assert_eq!((answer.code(), answer.message()), ("invalid_input", message));
        assert_eq!(answer.data()["schema"]["type"], "object");
    }
    assert_eq!(answers[3].code(), "tool_failed");
    assert_eq!(answers[3].message(), "Error: column 6: cannot add time to data; give both the same kind of unit");
    assert_eq!(answers[3].data(), &json!({"tool": "calc__eval", "kind": "unit-mismatch"}));
    assert_eq!(answers[4].data()["kind"], "invalid-input");
}

/// `/tool` follows the same path as every command that calls a tool: schema, capabilities, attachments, journal.
#[test]
fn tools_are_called_by_their_full_name() {
    let patchbay = Patchbay::new();
    add_probe(&patchbay, r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#);
    patchbay.skill("bare", "command: bare", "Do it.");
    patchbay.write("home/config/skills/sub.wasm", Guest::default().packaged("---\nname: sub\n---\n"));
    let expected = [
        ("/tool sub__run {\"a\": [1]}", "tool_result", "{\"a\":[1]}"),
        ("/tool\tprobe__run", "tool_result", "{}"),
        (
            "/tool probe__run {\"n\": \"x\"}",
            "invalid_input",
            "Error: input for 'probe__run' is invalid: at /n: \"x\" is not of type \"integer\".",
        ),
        (
            "/tool probe__run words",
            "invalid_input",
            "Error: input for 'probe__run' is not JSON (expected value at line 1 column 1): write a JSON object, such as \
             {\"name\": \"Ada\"}.",
        ),
        (
            "/tool probe__walk",
            "tool_not_found",
            "Error: tool 'probe__walk' not found in snapshot. Tools of 'probe': probe__run.",
        ),
        ("/tool bare__x", "tool_not_found", "Error: tool 'bare__x' not found in snapshot. Skill 'bare' has no tools."),
        (
            "/tool nope__x",
            "tool_not_found",
            "Error: tool 'nope__x' not found in snapshot. There is no skill 'nope' in it.",
        ),
        (
            "/tool mail_send {}",
            "tool_not_found",
            "Error: tool 'mail_send' not found in snapshot. A tool's full name is SKILL__TOOL or mcp__SERVER__TOOL.",
        ),
    ];
    let answers = patchbay.answers(&expected.map(|(line, ..)| line));
    for ((line, code, message), answer) in expected.iter().zip(&answers) {
        assert_eq!((answer.code(), answer.message()), (*code, *message), "{line}");
        assert_eq!(answer.rows(), [("command", *line)], "{line}");
    }
    assert_eq!(answers[0].data()["tool"], "sub__run");
    let journal = patchbay.run(&["journal", "--json"]).out;
    let called = patchbay_tests::answers::json_lines(&journal);
    let called: Vec<_> = called.iter().map(|row| (row["skill"].as_str(), row["outcome"].as_str())).collect();
    let [sub, probe] = ["sub", "probe"].map(Some);
    assert_eq!(called, [(sub, Some("ok")), (probe, Some("ok")), (probe, Some("invalid_input"))]);
    patchbay.write("workspace/a.txt", "text");
    patchbay.write("home/config/skills/sub.wasm", Guest::returning_attachments().packaged("---\nname: sub\n---\n"));
    let attached = patchbay.run(&["exec", "--attach", "a.txt", "/tool sub__run"]);
    assert_eq!(attached.out, "text/plain\ntext\n", "{attached:?}");
}

#[tokio::test]
async fn completion_offers_tools_by_their_full_name() {
    let patchbay = Patchbay::new();
    for (name, invocable) in [("shown", true), ("hidden", false)] {
        let skill_md = format!("---\nname: {name}\nuser-invocable: {invocable}\n---\n");
        patchbay.write(&format!("home/config/skills/{name}.wasm"), Guest::default().packaged(&skill_md));
    }
    let session = host(&patchbay, Settings::default()).new_session(&patchbay.workspace()).await.unwrap();
    let found = session.complete("/tool ").await;
    let found: Vec<_> = found.iter().map(|found| (&*found.text, &*found.summary, found.takes_argument)).collect();
    assert_eq!(found, [("shown__run", "Echoes its input", true)]);
}

#[test]
fn stopped_tool_is_named_and_session_continues() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 50000000\n");
    patchbay.add_command("bomb", &Guest::trapping(), "");
    patchbay.add_command("spin", &Guest::spinning(), "");
    let answers = patchbay.answers(&["/bomb", "/spin", "/calc 1 + 1"]);
    assert_eq!((answers[0].code(), answers[1].code(), answers[2].message()), ("trap", "limit_fuel", "2"));
    assert!(answers[0].message().starts_with("Error: tool 'bomb__run' was stopped: the component trapped: "));
    assert_eq!(
        answers[1].message(),
        "Error: tool 'spin__run' was stopped: the call used up its fuel of 50000000 units (limits.fuel): it does too much work for one call, or it loops."
    );
}

#[test]
fn instructions_without_input_are_added_to_the_conversation() {
    let patchbay = Patchbay::new();
    patchbay.skill("guide", "command: guide", "Do this.\n\nThen that: $INPUT!");
    let answer = &patchbay.answers(&["/guide"])[0];
    assert_eq!(answer.code(), "skill_added");
    assert_eq!(answer.message(), "Skill 'guide' is in the conversation. Your next message is its input.");
    assert_eq!(answer.rows(), [("skill", "Do this.\n\nThen that: !"), ("command", "/guide")]);
    assert_eq!(answer.data(), &json!({"skill": "guide"}));
}

#[test]
fn all_input_placeholders_are_replaced() {
    let patchbay = Patchbay::new();
    patchbay.skill("guide", "command: guide", "First $INPUT, then $INPUT.");
    let answer = &patchbay.answers(&["/guide tea  and $INPUT"])[0];
    assert_eq!((answer.code(), &answer.data()["skill"]), ("answered", &json!("guide")));
    let instructions = "First tea  and $INPUT, then tea  and $INPUT.";
    let said = format!("You said: {instructions}");
    let rows = [("skill", instructions), ("assistant", &*said), ("command", "/guide tea  and $INPUT")];
    assert_eq!(answer.rows(), rows);
}

#[test]
fn input_is_appended_to_instructions_without_a_placeholder() {
    let patchbay = Patchbay::new();
    patchbay.skill("guide", "", "Do this.");
    let answer = &patchbay.answers(&["/skill guide now"])[0];
    let said = ("assistant", "You said: Do this.\n\nARGUMENTS: now");
    assert_eq!(answer.rows(), [("skill", "Do this.\n\nARGUMENTS: now"), said, ("command", "/skill guide now")]);
}

#[test]
fn words_of_the_input_have_numbers() {
    let patchbay = Patchbay::new();
    patchbay.skill("move", "command: go\nargument-hint: FROM TO", "From $0 to $ARGUMENTS[1], $2.");
    let answers = patchbay.answers(&["/go here 'over there'", "/commands"]);
    assert_eq!(answers[0].rows()[0], ("skill", "From here to over there, $2."));
    assert!(answers[1].message().contains("/go FROM TO"), "{}", answers[1].message());
}

#[test]
fn plan_compiler_receives_the_goal() {
    let answers = Patchbay::quick().answers(&["/plan paint the shed", "/skill plan_compiler paint the shed", "/plan"]);
    let [(kind, given), ..] = answers[0].rows()[..] else { panic!("no rows") };
    assert_eq!(kind, "skill");
    assert!(given.contains("\n<goal>\npaint the shed\n</goal>\n"), "{given}");
    assert_eq!(answers[1].rows()[0], answers[0].rows()[0]);
    assert!(answers[2].rows()[0].1.contains("\n<goal>\n\n</goal>\n"));
    assert_eq!(answers[2].code(), "skill_added");
}

#[test]
fn a_skill_may_dispatch_to_another_skills_tool() {
    let patchbay = Patchbay::new();
    let frontmatter =
        "command: sum\ninvocation_mode: tool_dispatch\ncommand_tool: calc__eval\nrequires_tools: [calc__eval]";
    patchbay.skill("sum", frontmatter, "");
    let answer = &patchbay.answers(&["/sum 1 + 1"])[0];
    assert_eq!((answer.message(), &answer.data()["tool"]), ("2", &json!("calc__eval")));
}

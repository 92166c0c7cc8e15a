//! Tests of recorded answers, of the fields of requests, and of a conversation with three turns.

use patchbay_provider_sdk::{
    Action, Auth, BlobRef, Block, BlockKind, BodyPiece, CompletionRequest, Event, HttpRequest, Message, Pair, Part,
    Piece, Placement, Retry, Role, Tool, ToolCall, ToolChoice, ToolResult,
};
use serde_json::{Value, json};

use super::*;
use crate::context_window;
use crate::{failure::header, recording, stream::Stream};

mod errors;
mod rules;

const DIALECT: Dialect<'_> = Dialect { credential: "google", thinking: None, signed_calls: false };

fn completion_of(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest {
        model: "gemini-2.5-pro".to_owned(),
        system: Vec::new(),
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        options: Vec::new(),
    }
}

fn part(block: Block) -> Part {
    Part { block, opaque: None }
}

fn text(text: &str) -> Part {
    part(Block::Text(text.to_owned()))
}

fn call(id: &str) -> Part {
    let call = ToolCall { id: id.to_owned(), name: "calc__eval".to_owned(), input: r#"{"line": "1+1"}"#.to_owned() };
    part(Block::ToolCall(call))
}

fn result(id: &str, content: Vec<Piece>, is_error: bool) -> Part {
    let name = "calc__eval".to_owned();
    part(Block::ToolResult(ToolResult { call_id: id.to_owned(), name, content, is_error }))
}

fn image(id: u32, name: Option<&str>) -> BlobRef {
    BlobRef { id, media_type: "image/png".to_owned(), name: name.map(str::to_owned), size: 9 }
}

fn user(parts: Vec<Part>) -> Message {
    Message { role: Role::User, parts }
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, parts }
}

/// Returns the body as a server receives it, with `<ID>` for each blob.
fn sent(sent: &HttpRequest) -> Value {
    let mut body = Vec::new();
    for piece in &sent.body {
        match piece {
            BodyPiece::Bytes(bytes) => body.extend_from_slice(bytes),
            BodyPiece::BlobBase64(id) => body.extend(format!("<{id}>").bytes()),
        }
    }
    serde_json::from_slice(&body).expect("JSON")
}

fn body(completion: &CompletionRequest, dialect: Dialect<'_>) -> Value {
    sent(&request(completion, dialect).expect("valid options"))
}

/// Returns the parts of the only message.
fn parts(message: Message) -> Value {
    body(&completion_of(vec![message]), DIALECT)["contents"][0]["parts"].clone()
}

fn stream(completion: &CompletionRequest) -> Stream<Gemini> {
    Stream::begin_or_fail(Gemini::new(completion), request(completion, DIALECT)).0
}

/// Returns the actions for these events.
fn answer(completion: &CompletionRequest, events: &[Value]) -> Vec<Action> {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    recording::play(&mut stream(completion), &[body.into_bytes()], &[])
}

fn response(parts: Value, reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]})
}

/// Returns the message that the host stores for an answer.
fn kept(actions: &[Action]) -> Message {
    let mut parts: Vec<Part> = Vec::new();
    for action in actions {
        match action {
            Action::Emit(Event::BlockStart(start)) => parts.push(part(match &start.kind {
                BlockKind::Text => Block::Text(String::new()),
                BlockKind::Thinking => Block::Thinking(String::new()),
                BlockKind::ToolCall(head) => {
                    Block::ToolCall(ToolCall { id: head.id.clone(), name: head.name.clone(), input: String::new() })
                }
                BlockKind::Opaque(data) => Block::Opaque(data.clone()),
            })),
            Action::Emit(Event::BlockDelta(delta)) => match &mut parts[delta.index as usize].block {
                Block::Text(text) | Block::Thinking(text) => text.push_str(&delta.text),
                Block::ToolCall(call) => call.input.push_str(&delta.text),
                other => panic!("a delta of {other:?}"),
            },
            Action::Emit(Event::BlockEnd(end)) => parts[end.index as usize].opaque.clone_from(&end.opaque),
            _ => {}
        }
    }
    assistant(parts)
}

fn ids(message: &Message) -> Vec<&str> {
    let calls = message.parts.iter().filter_map(|part| match &part.block {
        Block::ToolCall(call) => Some(call.id.as_str()),
        _ => None,
    });
    calls.collect()
}

/// Returns the parts of a recording as the API sent them, without empty ones.
fn recorded_parts(name: &str) -> Vec<Value> {
    let bytes = recording::parts("gemini", name).concat();
    let events = std::str::from_utf8(&bytes).expect("UTF-8").lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.map(|event| serde_json::from_str::<Value>(event).expect("JSON"));
    let parts = events.flat_map(|event| event["candidates"][0]["content"]["parts"].as_array().cloned());
    parts.flatten().filter(|part| *part != json!({"text": ""})).collect()
}

#[test]
fn recordings_give_the_same_result_for_any_chunks() {
    recording::check_all("gemini", || stream(&completion_of(Vec::new())));
}

#[test]
fn minimal_request() {
    let completion = completion_of(vec![user(vec![text("Hello")])]);
    let sent_request = request(&completion, DIALECT).expect("valid options");
    assert_eq!(sent_request.method, "POST");
    assert_eq!(sent_request.path_and_query, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert_eq!(header(&sent_request.headers, "content-type"), Some("application/json"));
    let placement = Placement::Header(Pair { name: "x-goog-api-key".to_owned(), value: String::new() });
    assert_eq!(sent_request.auth, [Auth { credential: "google".to_owned(), placement }]);
    assert_eq!(sent(&sent_request), json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}));
}

#[test]
fn model_name_is_one_path_segment() {
    for (model, path) in [
        ("gemini-3.1-pro_x~", "gemini-3.1-pro_x~"),
        ("../../a?key=b#c", "..%2F..%2Fa%3Fkey%3Db%23c"),
        ("é:countTokens", "%C3%A9%3AcountTokens"),
    ] {
        let completion = CompletionRequest { model: model.to_owned(), ..completion_of(Vec::new()) };
        let expected = format!("/v1beta/models/{path}:streamGenerateContent?alt=sse");
        assert_eq!(request(&completion, DIALECT).expect("valid options").path_and_query, expected);
    }
}

#[test]
fn system_tools_and_limits() {
    let schema = r#"{"type": "object", "properties": {"line": {"type": "string"}}, "additionalProperties": false}"#;
    let tool =
        |name: &str| Tool { name: name.to_owned(), description: "Reckons".to_owned(), input_schema: schema.to_owned() };
    let mut completion = CompletionRequest {
        system: vec!["Be kind.".to_owned(), String::new(), "Be short.".to_owned()],
        tools: vec![tool("calc__eval"), tool("b")],
        max_output_tokens: Some(100),
        ..completion_of(Vec::new())
    };
    let thinking = |thinking| Dialect { thinking: Some(thinking), ..DIALECT };
    let declaration = |name: &str| {
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        json!({"name": name, "description": "Reckons", "parametersJsonSchema": schema})
    };
    let expected = json!({
        "contents": [],
        "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Be short."}]},
        "tools": [{"functionDeclarations": [declaration("calc__eval"), declaration("b")]}],
        "generationConfig": {
            "maxOutputTokens": 100,
            "thinkingConfig": {"thinkingBudget": 8192, "includeThoughts": true},
        },
    });
    assert_eq!(body(&completion, thinking(Thinking::Budget(8192))), expected);
    let config = |thinking_is| body(&completion, thinking(thinking_is))["generationConfig"]["thinkingConfig"].clone();
    assert_eq!(config(Thinking::Budget(0)), json!({"thinkingBudget": 0}));
    assert_eq!(config(Thinking::Level("LOW")), json!({"thinkingLevel": "LOW", "includeThoughts": true}));

    for (choice, config) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!({"functionCallingConfig": {"mode": "NONE"}})),
        (ToolChoice::Required, json!({"functionCallingConfig": {"mode": "ANY"}})),
        (
            ToolChoice::Named("b".to_owned()),
            json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["b"]}}),
        ),
    ] {
        completion.tool_choice = choice;
        assert_eq!(body(&completion, DIALECT)["toolConfig"], config);
    }
    completion.tools.clear();
    let without = body(&completion, DIALECT);
    assert_eq!((&without["tools"], &without["toolConfig"]), (&Value::Null, &Value::Null));
}

#[test]
fn parts_of_the_user() {
    let blob = part(Block::Blob(image(3, Some("a.png"))));
    let data = |id: u32| json!({"inlineData": {"mimeType": "image/png", "data": format!("<{id}>")}});
    assert_eq!(parts(user(vec![text("Look:"), blob, text("")])), json!([{"text": "Look:"}, data(3)]));

    // Results come first and together, followed by their files.
    let words = |words: &str| Piece::Text(words.to_owned());
    let message = user(vec![
        result("call_1", vec![words("two"), Piece::Blob(image(4, Some("b.png"))), words("lines")], false),
        text("Go on."),
        result("gp737npz", vec![words("no"), Piece::Blob(image(5, None))], true),
        result("call_x", Vec::new(), false),
    ]);
    let response = |response: Value| json!({"functionResponse": {"name": "calc__eval", "response": response}});
    let mut known = response(json!({"error": "no\n[image/png attached]"}));
    known["functionResponse"]["id"] = "gp737npz".into();
    let mut empty = response(json!({"result": ""}));
    empty["functionResponse"]["id"] = "call_x".into();
    let expected = json!([
        response(json!({"result": "two\n[b.png attached]\nlines"})),
        known,
        empty,
        data(4),
        {"text": "Go on."},
        data(5),
    ]);
    assert_eq!(parts(message), expected);
}

/// The user may add a message with files while tools run.
#[test]
fn message_that_joins_a_turn_follows_the_results() {
    let one = vec![Piece::Text("one".to_owned())];
    let said = vec![
        result("call_1", one.clone(), false),
        result("call_2", one, false),
        part(Block::Blob(image(3, None))),
        text("Faster."),
    ];
    let conversation = vec![user(vec![text("Begin.")]), assistant(vec![call("call_1"), call("call_2")]), user(said)];
    let contents = body(&completion_of(conversation), DIALECT)["contents"].take();
    let response = json!({"functionResponse": {"name": "calc__eval", "response": {"result": "one"}}});
    let data = json!({"inlineData": {"mimeType": "image/png", "data": "<3>"}});
    assert_eq!(contents[2], json!({"role": "user", "parts": [response, response, data, {"text": "Faster."}]}));
    assert_eq!(contents.as_array().expect("a list").len(), 3);
}

#[test]
fn parts_of_the_model() {
    let signed = |block: Block| Part { block, opaque: Some("c2ln".to_owned()) };
    let message = assistant(vec![
        part(Block::Thinking("unsigned".to_owned())),
        signed(Block::Thinking("hm".to_owned())),
        text(""),
        signed(Block::Text("one".to_owned())),
        text("two"),
        part(Block::Opaque(r#"{"text": "", "thoughtSignature": "ZW5k"}"#.to_owned())),
        part(Block::Opaque("no part of ours".to_owned())),
        signed(call("call_1").block),
        call("gp737npz"),
    ]);
    let expected = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "c2ln"},
        {"text": "one", "thoughtSignature": "c2ln"},
        {"text": "two"},
        {"text": "", "thoughtSignature": "ZW5k"},
        {"functionCall": {"name": "calc__eval", "args": {"line": "1+1"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "calc__eval", "args": {"line": "1+1"}, "id": "gp737npz"}},
    ]);
    assert_eq!(parts(message), expected);
}

#[test]
fn empty_messages_are_left_out() {
    let thought = assistant(vec![part(Block::Thinking("hm".to_owned()))]);
    let completion = completion_of(vec![user(vec![text("a")]), thought, user(vec![text("b")])]);
    let user = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    assert_eq!(body(&completion, DIALECT)["contents"], json!([user("a"), user("b")]));
}

#[test]
fn first_call_of_another_model_has_the_documented_signature() {
    let dialect = Dialect { signed_calls: true, ..DIALECT };
    let signatures = |parts: Vec<Part>| {
        let contents = body(&completion_of(vec![assistant(parts)]), dialect);
        let parts = contents["contents"][0]["parts"].as_array().expect("parts").clone();
        parts.iter().map(|part| part["thoughtSignature"].clone()).collect::<Vec<_>>()
    };
    let unsigned = vec![text("a"), call("toolu_1"), call("toolu_2")];
    assert_eq!(signatures(unsigned), [Value::Null, json!("skip_thought_signature_validator"), Value::Null]);
    let signed = Part { opaque: Some("c2ln".to_owned()), ..call("call_1") };
    assert_eq!(signatures(vec![signed, call("call_2")]), [json!("c2ln"), Value::Null]);
}

#[test]
fn signatures_are_sent_back_with_their_parts() {
    let mut completion = completion_of(vec![user(vec![text("What is 2^64, what 3^40?")])]);
    let mut expected = vec![json!({"role": "user", "parts": [{"text": "What is 2^64, what 3^40?"}]})];
    for (turn, name) in ["parallel_calls", "signed_texts", "calls_with_ids"].into_iter().enumerate() {
        let actions = recording::play(&mut stream(&completion), &recording::parts("gemini", name), &[]);
        let message = kept(&actions);
        let results = ids(&message).into_iter().map(|id| result(id, vec![Piece::Text("1".to_owned())], false));
        let reply = user(results.chain([text("Go on.")]).collect());
        completion.messages.extend([message, reply]);

        // The sent parts have only two differences: adjacent texts without signatures are joined, and calls always have input.
        let mut parts: Vec<Value> = Vec::new();
        for mut part in recorded_parts(name) {
            if let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) {
                call.entry("args").or_insert(json!({}));
            }
            match (parts.last_mut(), part["text"].as_str()) {
                (Some(last), Some(more)) if is_plain(last) && is_plain(&part) => {
                    last["text"] = format!("{}{more}", last["text"].as_str().expect("text")).into();
                }
                _ => parts.push(part),
            }
        }
        expected.push(json!({"role": "model", "parts": parts}));
        let contents = body(&completion, DIALECT)["contents"].as_array().expect("messages").clone();
        // Ignore the user's message after it.
        assert_eq!(contents[..contents.len() - 1], expected, "turn {turn}");
        expected.push(contents[contents.len() - 1].clone());
    }
    let signatures = body(&completion, DIALECT).to_string().matches("thoughtSignature").count();
    assert_eq!(signatures, 1 + 3 + 1);
}

fn is_plain(part: &Value) -> bool {
    part["text"].is_string() && part.as_object().is_some_and(|part| part.len() == 1)
}

#[test]
fn signed_part_is_a_block_of_its_own() {
    let actions =
        recording::play(&mut stream(&completion_of(Vec::new())), &recording::parts("gemini", "signed_texts"), &[]);
    let blocks = kept(&actions).parts.into_iter().map(|part| match part.block {
        Block::Text(text) => (text, part.opaque.is_some()),
        Block::Thinking(thought) => (format!("({thought})"), part.opaque.is_some()),
        Block::Opaque(data) => (serde_json::from_str::<Value>(&data).expect("JSON")["text"].to_string(), true),
        other => panic!("{other:?}"),
    });
    let expected = [
        ("One two", false),
        (" three", true),
        (" four", false),
        ("( five)", true),
        (" six seven", false),
        ("\"\"", true),
    ];
    let blocks: Vec<_> = blocks.collect();
    assert_eq!(blocks, expected.map(|(text, signed)| (text.to_owned(), signed)));
}

#[test]
fn missing_and_repeated_ids_are_replaced() {
    let call_of = |id: Option<&str>| json!({"functionCall": {"id": id, "name": "a", "args": {}}});
    let asked_before = |ids: &[&str]| completion_of(vec![assistant(ids.iter().map(|id| call(id)).collect())]);
    for (before, given, expected) in [
        (&[][..], &[None, None][..], &["call_1", "call_2"][..]),
        (&["call_1", "call_2"], &[None], &["call_3"]),
        // The beginning of the conversation is missing.
        (&["call_2"], &[None, None], &["call_3", "call_4"]),
        (&["toolu_1", "call_3"], &[None, Some("")], &["call_4", "call_5"]),
        (&["x"], &[Some("x"), Some("y"), Some("y")], &["call_2", "y", "call_3"]),
        (&[], &[Some("call_1"), None], &["call_1", "call_2"]),
    ] {
        let parts: Vec<_> = given.iter().map(|id| call_of(*id)).collect();
        let actions = answer(&asked_before(before), &[response(parts.into(), "STOP")]);
        assert_eq!(ids(&kept(&actions)), expected, "{before:?} {given:?}");
    }
}

#[test]
fn finish_reasons_are_mapped() {
    let texts = json!([{"text": "a"}]);
    let calls = json!([{"functionCall": {"name": "a"}}]);
    for (parts, reason, stop) in [
        (&texts, "STOP", "end-turn"),
        (&texts, "FUNCTION_CALL", "end-turn"),
        (&texts, "MAX_TOKENS", "max-tokens"),
        (&texts, "SAFETY", "content-filter"),
        (&texts, "RECITATION", "content-filter"),
        (&texts, "PROHIBITED_CONTENT", "content-filter"),
        (&texts, "LANGUAGE", "other"),
        (&texts, "SOMETHING_NEW", "other"),
        (&calls, "STOP", "tool-use"),
        (&calls, "FUNCTION_CALL", "tool-use"),
        (&calls, "MAX_TOKENS", "tool-use"),
        (&calls, "SOMETHING_NEW", "tool-use"),
        (&calls, "MALFORMED_FUNCTION_CALL", "tool-use"),
        (&calls, "SAFETY", "content-filter"),
    ] {
        let actions = answer(&completion_of(Vec::new()), &[response(parts.clone(), reason)]);
        let Some(Action::Finish(finish)) = actions.last() else { panic!("{reason}: {actions:?}") };
        assert_eq!((finish.stop.as_str(), finish.raw.as_str()), (stop, reason));
    }
}

#[test]
fn end_without_an_answer_is_a_failure() {
    for (parts, reason, kind, retry) in [
        (json!([]), "MALFORMED_FUNCTION_CALL", "server", Retry::Backoff),
        (json!([{"text": "a"}]), "UNEXPECTED_TOOL_CALL", "server", Retry::Backoff),
        (json!([]), "OTHER", "server", Retry::Backoff),
        (json!([{"functionCall": {"name": "a"}}]), "MISSING_THOUGHT_SIGNATURE", "invalid-request", Retry::Never),
        (json!([]), "PUP_LIMITED_DISABLED", "authentication", Retry::Never),
    ] {
        let mut response = response(parts, reason);
        response["candidates"][0]["finishMessage"] = "Because.".into();
        let actions = answer(&completion_of(Vec::new()), &[response]);
        let Some(Action::Fail(failure)) = actions.last() else { panic!("{reason}: {actions:?}") };
        assert_eq!((failure.kind.as_str(), failure.code.as_deref(), &failure.retry), (kind, Some(reason), &retry));
        assert!(failure.message.ends_with(": Because."), "{}", failure.message);
    }
}

#[test]
fn thoughts_at_the_end_are_not_sent() {
    let thought = Part { opaque: Some("c2ln".to_owned()), ..part(Block::Thinking("hm".to_owned())) };
    let contents = |parts: Vec<Part>| {
        let messages = vec![user(vec![text("a")]), assistant(parts), user(vec![text("b")])];
        body(&completion_of(messages), DIALECT)["contents"].clone()
    };
    assert_eq!(contents(vec![thought.clone()]).as_array().map(Vec::len), Some(2));
    let parts = &contents(vec![thought.clone(), text("Yes."), thought])[1]["parts"];
    assert_eq!(*parts, json!([{"text": "hm", "thought": true, "thoughtSignature": "c2ln"}, {"text": "Yes."}]));
}

#[test]
fn usage_after_the_finish_reason_is_counted() {
    let usage =
        json!({"usageMetadata": {"promptTokenCount": 3, "toolUsePromptTokenCount": 4, "candidatesTokenCount": 5}});
    let actions = answer(&completion_of(Vec::new()), &[response(json!([{"text": "a"}]), "STOP"), usage.clone(), usage]);
    let used: Vec<_> = actions.iter().filter(|action| matches!(action, Action::Emit(Event::Usage(_)))).collect();
    let [Action::Emit(Event::Usage(used))] = used.as_slice() else { panic!("one usage, not {used:?}") };
    assert_eq!((used.input_tokens, used.output_tokens), (7, 5));
    assert!(matches!(actions.last(), Some(Action::Finish(_))));
}

#[test]
fn unknown_parts_are_skipped_unless_signed() {
    let parts = json!([
        {"executableCode": {"code": "1"}},
        {"text": "a"},
        {"executableCode": {"code": "2"}, "thoughtSignature": "c2ln"},
        {},
    ]);
    let message = kept(&answer(&completion_of(Vec::new()), &[response(parts, "STOP")]));
    let raw = r#"{"executableCode":{"code":"2"},"thoughtSignature":"c2ln"}"#;
    assert_eq!(message.parts, [text("a"), part(Block::Opaque(raw.to_owned()))]);
}

#[test]
fn input_of_calls_is_unchanged() {
    let body = br#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":{"z": 1.00, "a": 123456789012345678901234567890}}}]},"finishReason":"STOP"}]}"#;
    let completion = completion_of(Vec::new());
    let actions = recording::play(&mut stream(&completion), &[[&body[..], b"\n\n"].concat()], &[]);
    let Block::ToolCall(call) = &kept(&actions).parts[0].block else { panic!("a call") };
    assert_eq!(call.input, r#"{"z": 1.00, "a": 123456789012345678901234567890}"#);
}

#[test]
fn unknown_events_are_failures() {
    for event in [json!("a"), json!({"candidates": 1}), response(json!([{"functionCall": {}}]), "STOP"), json!([[]])] {
        let actions = answer(&completion_of(Vec::new()), std::slice::from_ref(&event));
        let Some(Action::Fail(failed)) = actions.last() else { panic!("{event}: {actions:?}") };
        assert_eq!((failed.kind.as_str(), &failed.retry), ("server", &Retry::Backoff), "{event}");
    }
}

#[test]
fn extra_body_and_headers_are_in_the_request() {
    let option = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    let mut completion = completion_of(vec![user(vec![text("hi")])]);
    completion.max_output_tokens = Some(5);
    completion.options = vec![
        option("extra-body", r#"{"generationConfig": {"topK": 3}, "safetySettings": []}"#),
        option("extra-headers", r#"{"x-goog-user-project": "p"}"#),
    ];
    let request = request(&completion, DIALECT).expect("valid options");
    assert_eq!(sent(&request)["generationConfig"], json!({"maxOutputTokens": 5, "topK": 3}));
    assert_eq!(sent(&request)["safetySettings"], json!([]));
    assert_eq!(header(&request.headers, "x-goog-user-project"), Some("p"));
    completion.options = vec![option("extra-body", "null")];
    let failure = super::request(&completion, DIALECT).expect_err("an option that is no object");
    assert_eq!(failure.kind, "invalid-request");
}

#[test]
fn conversation_that_is_too_long_has_its_code() {
    let too_long = |code: &str| ("invalid-request".to_owned(), Some(code.to_owned()));
    let message = "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).";
    let body = json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}});
    let stream = stream(&completion_of(Vec::new()));
    assert_eq!(context_window::refused(stream, 400, &body), too_long("context_window"));
}

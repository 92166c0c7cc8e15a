//! Tests of the codec of OpenAI Responses: recorded answers and the fields of requests.

mod rules;

use patchbay_provider_sdk::{Block, Event, HttpRequest, Placement, Role, Tool, ToolChoice};
use serde_json::json;

use super::*;
use crate::context_window;
use crate::openai::fixtures::*;
use crate::recording::{check_all, parts, play, summary};

const REASONING: Reasoning = Reasoning { effort: Some("medium"), encrypted: true, summary: true };

fn stream() -> Stream<Responses> {
    begin(&completion(Vec::new()), REASONING).0
}

fn sent(request: &CompletionRequest, reasoning: Reasoning) -> HttpRequest {
    match begin(request, reasoning).1.as_slice() {
        [Action::Send(request)] => request.clone(),
        actions => panic!("{actions:?}"),
    }
}

/// Returns the `input` of a request.
fn input(messages: Vec<patchbay_provider_sdk::Message>) -> Value {
    body(&sent(&completion(messages), REASONING))["input"].take()
}

/// Creates a body of events, each with its type as its name.
fn events(list: &[Value]) -> String {
    list.iter().map(|event| format!("event: {}\ndata: {event}\n\n", text(event, "type"))).collect()
}

#[test]
fn recordings_give_the_same_result_for_any_chunks() {
    check_all("responses", stream);
    check_all("services/responses", stream);
}

#[test]
fn damaged_answers_keep_the_contract() {
    check_damaged("responses", &["thinking", "parallel-tool-calls", "refusal", "error"], |request| {
        begin(request, REASONING)
    });
}

#[test]
fn request_has_the_fields_of_the_api() {
    let mut request = completion(vec![user(vec![text_block("Hello")])]);
    request.model = "o3".to_owned();
    request.system = vec!["Be kind.".to_owned(), "Be short.".to_owned()];
    request.tools = vec![tool("calc__eval", r#"{"type":"object","required":["z","a"],"properties":{"z":{},"a":{}}}"#)];
    request.max_output_tokens = Some(4096);
    let request = sent(&request, REASONING);
    assert_eq!((request.method.as_str(), request.path_and_query.as_str()), ("POST", "/responses"));
    let headers: Vec<_> = request.headers.iter().map(|pair| (pair.name.as_str(), pair.value.as_str())).collect();
    assert_eq!(headers, [("content-type", "application/json"), ("accept", "text/event-stream")]);
    assert_eq!(request.auth.len(), 1);
    assert_eq!(request.auth[0].credential, "api-key");
    let Placement::Header(header) = &request.auth[0].placement else { panic!("{:?}", request.auth) };
    assert_eq!((header.name.as_str(), header.value.as_str()), ("authorization", "Bearer "));
    assert_eq!(
        body(&request),
        json!({
            "model": "o3",
            "instructions": "Be kind.\n\nBe short.",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}],
            "tools": [{
                "type": "function",
                "name": "calc__eval",
                "description": "Does calc__eval.",
                "parameters": {"type": "object", "required": ["z", "a"], "properties": {"z": {}, "a": {}}},
                "strict": false,
            }],
            "tool_choice": "auto",
            "reasoning": {"effort": "medium", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": false,
            "max_output_tokens": 4096,
            "stream": true,
        })
    );
    assert!(body_text(&request).contains(r#""properties":{"z":{},"a":{}}"#), "a schema keeps its order");
}

#[test]
fn unset_options_are_not_sent() {
    let request = body(&sent(&completion(Vec::new()), Reasoning::default()));
    assert_eq!(request, json!({"model": "model-1", "input": [], "store": false, "stream": true}));
    let mut limited = completion(Vec::new());
    limited.max_output_tokens = Some(1);
    assert_eq!(body(&sent(&limited, REASONING))["max_output_tokens"], 16, "the least that the API takes");
}

#[test]
fn tool_choices_have_their_api_values() {
    for (choice, expected) in [
        (ToolChoice::Auto, json!("auto")),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Named("a".to_owned()), json!({"type": "function", "name": "a"})),
    ] {
        let mut request = completion(Vec::new());
        request.tool_choice = choice;
        assert_eq!(body(&sent(&request, REASONING)).get("tool_choice"), None, "there are no tools");
        request.tools = vec![Tool { name: "a".to_owned(), description: String::new(), input_schema: "no".to_owned() }];
        let body = body(&sent(&request, REASONING));
        assert_eq!(body["tool_choice"], expected);
        assert_eq!(body["tools"][0]["parameters"], json!({}));
    }
}

/// The user may add a message with files while tools run.
#[test]
fn message_that_joins_a_turn_follows_the_results() {
    let items = input(vec![
        user(vec![text_block("Begin.")]),
        assistant(vec![(called("c1", "a", "{}"), None), (called("c2", "a", "{}"), None)]),
        user(vec![
            answered("c1", vec![piece("one")]),
            answered("c2", vec![piece("two")]),
            Block::Blob(blob(3, "image/png", None)),
            text_block("Faster."),
        ]),
    ]);
    let output = |id: &str, said: &str| json!({"type": "function_call_output", "call_id": id, "output": said});
    let content = json!([
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,<3>"},
        {"type": "input_text", "text": "Faster."},
    ]);
    let message = json!({"type": "message", "role": "user", "content": content});
    assert_eq!(items.as_array().expect("a list")[3..], [output("c1", "one"), output("c2", "two"), message]);
}

#[test]
fn blobs_are_sent_as_data_urls() {
    let image = blob(3, "image/png", Some("a.png"));
    let blocks = vec![
        text_block("Look:"),
        Block::Blob(image.clone()),
        Block::Blob(blob(4, "application/pdf", Some("b.pdf"))),
        Block::Blob(blob(5, "application/pdf", None)),
        Block::Blob(blob(6, "audio/wav", Some("c.wav"))),
    ];
    let words = "[c.wav: audio/wav, 9 bytes, which this API does not accept]";
    assert_eq!(
        input(vec![user(blocks)]),
        json!([{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Look:"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,<3>"},
            {"type": "input_file", "filename": "b.pdf", "file_data": "data:application/pdf;base64,<4>"},
            {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,<5>"},
            {"type": "input_text", "text": words},
        ]}])
    );
    let results = vec![
        answered("c1", vec![piece("one"), piece("two")]),
        answered("c2", vec![]),
        answered("c3", vec![piece("shot"), patchbay_provider_sdk::Piece::Blob(image)]),
        text_block("And now?"),
    ];
    assert_eq!(
        input(vec![user(results)]),
        json!([
            {"type": "function_call_output", "call_id": "c1", "output": "one\ntwo"},
            {"type": "function_call_output", "call_id": "c2", "output": ""},
            {"type": "function_call_output", "call_id": "c3", "output": [
                {"type": "input_text", "text": "shot"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,<3>"},
            ]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
        ])
    );
}

/// Returns the unchanged reasoning item of a recording.
fn item_of(name: &str) -> String {
    let body = String::from_utf8(parts("responses", name).concat()).expect("UTF-8");
    let done = body.lines().find(|line| line.contains("output_item.done\"") && line.contains("\"reasoning\""));
    let (_, item) = done.expect("a reasoning item").split_once("\"item\":").expect("an item");
    item[..item.len() - 1].to_owned()
}

#[test]
fn encrypted_reasoning_is_sent_back_unchanged() {
    let mut messages = vec![user(vec![text_block("How many?")])];
    let mut places = Vec::new();
    for (name, results) in [
        ("thinking-hidden", vec!["call_Jk3rQ9"]),
        ("parallel-tool-calls", vec!["call_one", "call_two", "call_three"]),
        ("thinking", vec![]),
    ] {
        places.push(item_of(name));
        let answer = kept(&play(&mut stream(), &parts("responses", name), &[]));
        messages.push(answer);
        let mut blocks: Vec<_> = results.into_iter().map(|id| answered(id, vec![piece("done")])).collect();
        blocks.push(text_block("Go on."));
        messages.push(user(blocks));
        let text = body_text(&sent(&completion(messages.clone()), REASONING));
        for item in &places {
            assert_eq!(text.matches(item.as_str()).count(), 1, "{item} in {text}");
        }
    }
    let kinds: Vec<_> = input(messages)
        .as_array()
        .expect("items")
        .iter()
        .map(|item| match text(item, "type") {
            "message" => {
                let said = item["content"].as_str().unwrap_or_else(|| text(&item["content"][0], "text"));
                format!("{} {said}", text(item, "role"))
            }
            "function_call" => format!("call {} {}", text(item, "call_id"), text(item, "arguments")),
            "function_call_output" => format!("output {}", text(item, "call_id")),
            kind => format!("{kind} {}", text(item, "id")),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "user How many?",
            "reasoning rs_2c39e5",
            r#"call call_Jk3rQ9 {"city":"Oslo"}"#,
            "output call_Jk3rQ9",
            "user Go on.",
            "reasoning rs_4e51a7",
            "assistant I'll look them up.",
            r#"call call_one {"city":"Bern"}"#,
            r#"call call_two {"city":"Rome","unit":"C"}"#,
            "call call_three {}",
            "output call_one",
            "output call_two",
            "output call_three",
            "user Go on.",
            "reasoning rs_1b28d4",
            "assistant There are three.",
            "user Go on.",
        ]
    );
}

#[test]
fn model_messages_are_sent_back_with_their_data() {
    let message = kept(&play(&mut stream(), &parts("responses", "refusal"), &[]));
    assert_eq!(
        input(vec![message]),
        json!([{"type": "message", "role": "assistant", "content": "I'm sorry, but I can't help with that."}])
    );
    let message = kept(&play(&mut stream(), &parts("responses", "parallel-tool-calls"), &[]));
    assert_eq!(
        input(vec![message])[1],
        json!({"type": "message", "role": "assistant", "phase": "commentary", "content": "I'll look them up."})
    );
    // An answer from another adapter has blocks without data.
    let foreign = assistant(vec![(thought("hm"), None), (text_block("Yes."), None), (called("c", "t", "{}"), None)]);
    assert_eq!(
        input(vec![foreign]),
        json!([
            {"type": "message", "role": "assistant", "content": "Yes."},
            {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"},
        ])
    );
}

#[test]
fn reasoning_of_interrupted_answers_is_not_sent() {
    let item = r#"{"id":"rs_1","type":"reasoning","encrypted_content":"x","summary":[]}"#;
    // Interrupted reasoning never ended. Reasoning at the end would be refused by the API.
    for blocks in [
        vec![(thought("hm"), None), (text_block("Yes."), None)],
        vec![(text_block("Yes."), None), (thought(""), Some(item))],
        vec![(thought(""), Some("no JSON")), (text_block("Yes."), None)],
        vec![(text_block("Yes."), None), (thought(""), Some(item)), (text_block(""), None)],
    ] {
        let items = input(vec![assistant(blocks), user(vec![text_block("Go on.")])]);
        let kinds: Vec<_> = items.as_array().expect("items").iter().map(|item| text(item, "type")).collect();
        assert_eq!(kinds, ["message", "message"], "{items}");
    }
    let two = vec![(thought(""), Some(item)), (thought(""), Some(item)), (text_block("Yes."), None)];
    assert_eq!(input(vec![assistant(two)]).as_array().map(Vec::len), Some(3));
}

#[test]
fn reasoning_without_a_summary_is_a_block() {
    let actions = play(&mut stream(), &parts("responses", "thinking-hidden"), &[]);
    let message = kept(&actions);
    assert_eq!(message.role, Role::Assistant);
    assert_eq!(message.parts[0].block, thought(""));
    assert_eq!(message.parts[0].opaque, Some(item_of("thinking-hidden")));
    assert_eq!(message.parts[1].block, called("call_Jk3rQ9", "weather__now", r#"{"city":"Oslo"}"#));
    let started: Vec<_> = actions.iter().filter(|action| matches!(action, Action::Emit(Event::Started(_)))).collect();
    assert_eq!(started, [&Action::Emit(Event::Started("o4-mini-2025-04-16".to_owned()))]);
}

#[test]
fn contents_only_at_the_end_of_an_item_are_emitted() {
    let body = events(&[
        json!({"type": "response.output_item.done", "output_index": 0, "item": {
            "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": {
            "type": "message", "content": [{"type": "output_text", "text": "One."}, {"type": "output_text", "text": "Two."}]}}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": {
            "type": "function_call", "call_id": "c1", "name": "t", "arguments": "{\"a\":1}"}}),
        json!({"type": "response.output_item.added", "output_index": 3, "item": {"type": "function_call", "call_id": "c2", "name": "t"}}),
        json!({"type": "response.output_item.done", "output_index": 3, "item": {"type": "function_call", "call_id": "c2", "name": "t", "arguments": ""}}),
        json!({"type": "response.completed", "response": {"model": "grok-9"}}),
    ]);
    let actions = answer(stream(), &body);
    assert_eq!(
        summary(&actions),
        json!({"thinking": "a\n\nb", "text": "One.Two.", "stop": "tool-use", "raw": "completed", "tool_calls": [
            {"id": "c1", "name": "t", "input": {"a": 1}}, {"id": "c2", "name": "t", "input": {}}]})
    );
    assert!(actions.contains(&Action::Emit(Event::Started("grok-9".to_owned()))));
    let message = kept(&actions);
    assert_eq!(message.parts[0].opaque, None, "without encrypted content the server could not know it again");
    assert_eq!((&message.parts[1].block, &message.parts[2].block), (&text_block("One."), &text_block("Two.")));
}

#[test]
fn unencrypted_thoughts_are_thinking() {
    let body = events(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "Let me"}),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": " see."}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": [],
            "content": [{"type": "reasoning_text", "text": "Let me see."}]}}),
        json!({"type": "response.completed", "response": {}}),
    ]);
    assert_eq!(summary(&answer(stream(), &body))["thinking"], "Let me see.");
}

#[test]
fn end_reasons_are_mapped() {
    let refusal = json!({"type": "response.refusal.delta", "output_index": 0, "content_index": 1, "delta": "No."});
    let speech = json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Well."});
    let call = json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "call_id": "c", "name": "t"}});
    let rest = json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}"});
    let completed = json!({"type": "response.completed", "response": {"usage": null}});
    let incomplete = |reason: Value| json!({"type": "response.incomplete", "response": {"incomplete_details": reason}});
    for (list, stop, raw) in [
        (vec![completed.clone()], "end-turn", "completed"),
        (vec![refusal.clone(), completed.clone()], "refusal", "completed"),
        (vec![speech.clone(), refusal.clone(), completed.clone()], "end-turn", "completed"),
        (vec![refusal.clone(), call.clone(), rest.clone(), completed.clone()], "tool-use", "completed"),
        (vec![call, rest, incomplete(json!({"reason": "max_output_tokens"}))], "max-tokens", "max_output_tokens"),
        (vec![speech, incomplete(json!({"reason": "content_filter"}))], "content-filter", "content_filter"),
        (vec![incomplete(json!({"reason": "new"}))], "other", "new"),
        (vec![incomplete(Value::Null)], "other", "incomplete"),
    ] {
        let end = summary(&answer(stream(), &events(&list)));
        assert_eq!((text(&end, "stop"), text(&end, "raw")), (stop, raw), "{list:?}");
    }
}

#[test]
fn incomplete_call_is_not_completed() {
    let body = events(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "call_id": "c", "name": "t"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "function_call", "call_id": "c", "name": "t", "arguments": "", "status": "incomplete"}}),
        json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}),
    ]);
    assert_eq!(kept(&answer(stream(), &body)).parts[0].block, called("c", "t", ""));
}

#[test]
fn unknown_events_are_skipped_and_malformed_ones_fail() {
    let unknown = events(&[
        json!({"type": "response.new_thing.delta", "delta": {"deep": true}, "output_index": "x"}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "web_search_call", "id": "ws"}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "web_search_call", "id": "ws"}}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "Hi."}),
        json!(7),
        json!({"type": "response.completed", "response": {}}),
    ]);
    let done = format!("{unknown}data: [DONE]\n\n");
    for body in [&unknown, &done, &format!("data: [DONE]\n\n{unknown}")] {
        assert_eq!(summary(&answer(stream(), body)), json!({"text": "Hi.", "stop": "end-turn", "raw": "completed"}));
    }
    let failed = summary(&answer(stream(), "data: {\"type\":\n\n"));
    assert_eq!(failed, json!({"failure": {"kind": "server"}}));
}

#[test]
fn errors_within_an_answer_have_their_kind() {
    for (event, kind, code) in [
        (json!({"type": "error", "code": "server_error", "message": "m"}), "server", "server_error"),
        (
            json!({"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "m"}}),
            "invalid-request",
            "context_length_exceeded",
        ),
        (
            json!({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "m"}}),
            "rate-limit",
            "insufficient_quota",
        ),
        (
            json!({"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "m"}}}),
            "invalid-request",
            "invalid_prompt",
        ),
    ] {
        let failed = summary(&answer(stream(), &events(&[event])));
        assert_eq!(failed, json!({"failure": {"kind": kind, "code": code}}));
    }
}

/// Returns the actions for a refusal of the first request.
fn refused_first(reasoning: Reasoning, status: u16, param: &str) -> Vec<Action> {
    use patchbay_provider_sdk::{Input, ResponseHead};
    let (mut stream, first) = begin(&with_extra(completion(vec![user(vec![text_block("hi")])])), reasoning);
    assert!(matches!(first.as_slice(), [Action::Send(_)]), "{first:?}");
    let error = json!({"error": {"message": "no", "type": "invalid_request_error", "param": param, "code": "unsupported_value"}});
    let head = ResponseHead { status, headers: Vec::new() };
    let mut actions = stream.resume(Input::ResponseHead(head.clone()));
    actions.extend(stream.resume(Input::BodyChunk(error.to_string().into_bytes())));
    actions.extend(stream.resume(Input::BodyEnd));
    if matches!(actions.as_slice(), [Action::Send(_)]) {
        // The same field is left out only once.
        actions.extend(stream.resume(Input::ResponseHead(head)));
        actions.extend(stream.resume(Input::BodyChunk(error.to_string().into_bytes())));
        actions.extend(stream.resume(Input::BodyEnd));
    }
    actions
}

#[test]
fn refused_summary_is_left_out() {
    let actions = refused_first(REASONING, 400, "reasoning.summary");
    let [Action::Send(again), Action::Fail(_)] = actions.as_slice() else { panic!("{actions:?}") };
    let first = sent(&with_extra(completion(vec![user(vec![text_block("hi")])])), REASONING);
    assert_extra(&first);
    assert_extra(again);
    let mut first = body(&first);
    first["reasoning"] = json!({"effort": "medium"});
    assert_eq!(body(again), first);
    for (reasoning, status, param) in [
        (REASONING, 400, "reasoning.effort"),
        (REASONING, 500, "reasoning.summary"),
        (Reasoning { summary: false, ..REASONING }, 400, "reasoning.summary"),
        (Reasoning { effort: None, ..REASONING }, 400, "reasoning.summary"),
        (REASONING, 500, "include"),
        (Reasoning { encrypted: false, ..REASONING }, 400, "include"),
    ] {
        let actions = refused_first(reasoning, status, param);
        assert!(matches!(actions.as_slice(), [Action::Fail(_)]), "{actions:?}");
    }
}

#[test]
fn refused_encrypted_reasoning_is_left_out() {
    let actions = refused_first(REASONING, 400, "include");
    let [Action::Send(again), Action::Fail(_)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_extra(again);
    let mut first = body(&sent(&with_extra(completion(vec![user(vec![text_block("hi")])])), REASONING));
    first.as_object_mut().expect("an object").remove("include");
    assert_eq!(body(again), first);
    // The summary may be refused in the next attempt.
    let (mut stream, _) = begin(&completion(Vec::new()), REASONING);
    let mut refuse = |param: &str| {
        let error = json!({"error": {"message": "no", "param": param}}).to_string();
        stream.codec().retry_refused(400, error.as_bytes())
    };
    assert!(refuse("include").is_some());
    let last = body(&refuse("reasoning.summary").expect("a request"));
    assert_eq!((&last["reasoning"], last.get("include")), (&json!({"effort": "medium"}), None));
    assert_eq!((refuse("include"), refuse("reasoning.summary")), (None, None));
}

#[test]
fn invalid_options_are_a_failure() {
    let mut request = completion(Vec::new());
    request.options = vec![Pair { name: "extra-body".to_owned(), value: "5".to_owned() }];
    let (mut stream, first) = begin(&request, REASONING);
    assert!(matches!(first.as_slice(), [Action::Fail(failure)] if failure.kind == "invalid-request"), "{first:?}");
    assert!(stream.resume(patchbay_provider_sdk::Input::Timer).is_empty());
}

#[test]
fn conversation_that_is_too_long_has_its_code() {
    let too_long = |code: &str| ("invalid-request".to_owned(), Some(code.to_owned()));
    let message = "Your input exceeds the context window of this model. Please adjust your input and try again.";
    let error = json!({"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"});
    let body = json!({"error": error});
    assert_eq!(context_window::refused(stream(), 400, &body), too_long("context_length_exceeded"));
    let event = json!({"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": message}}});
    let failed = summary(&answer(stream(), &events(&[event])));
    assert_eq!(failed["failure"], json!({"kind": "invalid-request", "code": "context_length_exceeded"}));
}

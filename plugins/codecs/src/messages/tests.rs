//! Tests of recorded answers, and of requests as a server receives them.

mod rules;

use patchbay_provider_sdk::{
    BlobRef, Block, BodyPiece, Event, Finish, HttpRequest, Input, Message, Pair, Part, Piece, Placement, ResponseHead,
    Role, Tool, ToolCall, ToolChoice, ToolResult,
};
use serde_json::json;

use super::*;
use crate::context_window;
use crate::recording;

fn request(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest {
        model: "claude-sonnet-4-5".to_owned(),
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

fn user(text: &str) -> Message {
    Message { role: Role::User, parts: vec![part(Block::Text(text.to_owned()))] }
}

fn result(call: &str, text: &str) -> Part {
    part(Block::ToolResult(ToolResult {
        call_id: call.to_owned(),
        name: "files__read".to_owned(),
        content: vec![Piece::Text(text.to_owned())],
        is_error: false,
    }))
}

fn settings(thinking: Thinking) -> Settings {
    Settings { thinking, max_tokens: 5000, forced_tools: true, bound_thinking: false }
}

fn begin(request: &CompletionRequest) -> Stream<Messages> {
    Messages::begin(request, settings(Thinking::Unsaid)).0
}

/// Returns the body of a request, with `<ID>` for each blob.
fn body(request: &HttpRequest) -> Value {
    let mut text = Vec::new();
    for piece in &request.body {
        match piece {
            BodyPiece::Bytes(bytes) => text.extend(bytes),
            BodyPiece::BlobBase64(id) => text.extend(format!("<{id}>").bytes()),
        }
    }
    serde_json::from_slice(&text).expect("JSON")
}

fn sent(actions: &[Action]) -> Value {
    match actions {
        [Action::Send(request)] => body(request),
        other => panic!("one request was to be sent, not {other:?}"),
    }
}

fn body_of(request: &CompletionRequest, thinking: Thinking) -> Value {
    sent(&Messages::begin(request, settings(thinking)).1)
}

/// Returns the assistant's message that the host stores for an answer, with the attached data.
fn assistant(actions: &[Action]) -> Message {
    let mut parts: Vec<Part> = Vec::new();
    for action in actions {
        match action {
            Action::Emit(Event::BlockStart(start)) => parts.push(part(match start.kind.clone() {
                BlockKind::Text => Block::Text(String::new()),
                BlockKind::Thinking => Block::Thinking(String::new()),
                BlockKind::ToolCall(head) => {
                    Block::ToolCall(ToolCall { id: head.id, name: head.name, input: String::new() })
                }
                BlockKind::Opaque(kind) => Block::Opaque(kind),
            })),
            Action::Emit(Event::BlockDelta(delta)) => match &mut parts[delta.index as usize].block {
                Block::Text(text) | Block::Thinking(text) | Block::ToolCall(ToolCall { input: text, .. }) => {
                    text.push_str(&delta.text);
                }
                other => panic!("{other:?} grows"),
            },
            Action::Emit(Event::BlockEnd(end)) => parts[end.index as usize].opaque.clone_from(&end.opaque),
            _ => {}
        }
    }
    Message { role: Role::Assistant, parts }
}

fn recorded(name: &str) -> Message {
    assistant(&recording::play(&mut begin(&request(vec![user("?")])), &recording::parts("messages", name), &[]))
}

/// Returns the first `content_block` of this type in a recording, with its signature.
fn block_of(name: &str, kind: &str) -> Value {
    let text = String::from_utf8(recording::parts("messages", name).concat()).expect("UTF-8");
    let events = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
    let mut block = Value::Null;
    for event in events {
        if event["type"] == "content_block_start" && block.is_null() && event["content_block"]["type"] == kind {
            block = event["content_block"].clone();
        } else if event["delta"]["type"] == "signature_delta" && block["signature"] == "" {
            block["signature"] = event["delta"]["signature"].clone();
        }
    }
    block
}

#[test]
fn recordings_give_the_same_result_for_any_chunks() {
    recording::check_all("messages", || begin(&request(vec![user("?")])));
}

#[test]
fn request_has_the_required_fields() {
    let (_, actions) = Messages::begin(&request(vec![user("Hello")]), settings(Thinking::Unsaid));
    let [Action::Send(request)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((request.method.as_str(), request.path_and_query.as_str()), ("POST", "/v1/messages"));
    let headers: Vec<_> = request.headers.iter().map(|pair| (pair.name.as_str(), pair.value.as_str())).collect();
    let expected =
        [("content-type", "application/json"), ("accept", "text/event-stream"), ("anthropic-version", "2023-06-01")];
    assert_eq!(headers, expected);
    let [auth] = &request.auth[..] else { panic!("{:?}", request.auth) };
    assert_eq!(auth.credential, "api-key");
    let key = Pair { name: "x-api-key".to_owned(), value: String::new() };
    assert_eq!(auth.placement, Placement::Header(key));
    assert_eq!(
        body(request),
        json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 5000,
            "stream": true,
            "messages": [{
                "role": "user",
                "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}],
            }],
        })
    );
}

#[test]
fn system_tools_and_tool_choice_are_sent() {
    let mut request = request(vec![user("Hello")]);
    request.system = vec!["You are a test.".to_owned(), " \n".to_owned(), "Be brief.".to_owned()];
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
    request.tools = vec![
        Tool { name: "files__read".to_owned(), description: "Reads.".to_owned(), input_schema: schema.to_owned() },
        Tool { name: "now".to_owned(), description: String::new(), input_schema: r#"{"type":"object"}"#.to_owned() },
    ];
    let sent = body_of(&request, Thinking::Unsaid);
    assert_eq!(
        sent["system"],
        json!([
            {"type": "text", "text": "You are a test."},
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        ])
    );
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    assert_eq!(
        sent["tools"],
        json!([
            {"name": "files__read", "description": "Reads.", "input_schema": schema, "eager_input_streaming": true},
            {"name": "now", "input_schema": {"type": "object"}, "eager_input_streaming": true},
        ])
    );
    assert_eq!(sent.get("tool_choice"), None);
    for (choice, expected) in [
        (ToolChoice::None, json!({"type": "none"})),
        (ToolChoice::Required, json!({"type": "any"})),
        (ToolChoice::Named("now".to_owned()), json!({"type": "tool", "name": "now"})),
    ] {
        request.tool_choice = choice;
        assert_eq!(body_of(&request, Thinking::Unsaid)["tool_choice"], expected);
    }
    request.tools.clear();
    assert_eq!(body_of(&request, Thinking::Unsaid).get("tool_choice"), None);
}

#[test]
fn refused_eager_input_is_left_out() {
    let mut request = request(vec![user("Hello")]);
    request.tools = vec![Tool { name: "now".to_owned(), description: String::new(), input_schema: "{}".to_owned() }];
    let refuse = |stream: &mut Stream<Messages>, status, message: &str| {
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        let mut actions = stream.resume(Input::ResponseHead(ResponseHead { status, headers: Vec::new() }));
        actions.extend(stream.resume(Input::BodyChunk(error.to_string().into_bytes())));
        actions.extend(stream.resume(Input::BodyEnd));
        actions
    };
    let named = "tools.0.custom.eager_input_streaming: Extra inputs are not permitted";
    let (mut stream, first) = Messages::begin(&request, settings(Thinking::Adaptive(None)));
    let mut expected = sent(&first);
    let again = sent(&refuse(&mut stream, 400, named));
    expected["tools"] = json!([{"name": "now", "input_schema": {}}]);
    assert_eq!(again, expected);
    // The field is left out only once, so a second refusal is final.
    assert!(matches!(refuse(&mut stream, 400, named)[..], [Action::Fail(_)]));
    for (status, message) in [(400, "tools.0: no"), (500, named)] {
        let (mut stream, _) = Messages::begin(&request, settings(Thinking::Unsaid));
        assert!(matches!(refuse(&mut stream, status, message)[..], [Action::Fail(_)]), "{status} {message}");
    }
    request.tools.clear();
    let (mut stream, _) = Messages::begin(&request, settings(Thinking::Unsaid));
    assert!(matches!(refuse(&mut stream, 400, named)[..], [Action::Fail(_)]));
}

#[test]
fn thinking_is_sent_unless_a_tool_is_forced() {
    let mut request = request(vec![user("Hello")]);
    let sent = body_of(&request, Thinking::Budget(4096));
    assert_eq!(sent["thinking"], json!({"type": "enabled", "budget_tokens": 4096}));
    assert_eq!((sent.get("output_config"), &sent["max_tokens"]), (None, &json!(5000)));
    let sent = body_of(&request, Thinking::Adaptive(Some("low")));
    assert_eq!(sent["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(sent["output_config"], json!({"effort": "low"}));

    request.tools = vec![Tool { name: "now".to_owned(), description: String::new(), input_schema: "{}".to_owned() }];
    for choice in [ToolChoice::Required, ToolChoice::Named("now".to_owned())] {
        request.tool_choice = choice;
        for thinking in [Thinking::Budget(4096), Thinking::Adaptive(Some("low"))] {
            let sent = body_of(&request, thinking);
            assert_eq!((sent.get("thinking"), sent.get("output_config")), (None, None));
        }
    }
    request.tool_choice = ToolChoice::None;
    assert!(body_of(&request, Thinking::Budget(4096)).get("thinking").is_some());
}

#[test]
fn images_and_documents_are_inserted() {
    let blob = |id, media: &str, name: Option<&str>| BlobRef {
        id,
        media_type: media.to_owned(),
        name: name.map(str::to_owned),
        size: 9,
    };
    let message = Message {
        role: Role::User,
        parts: vec![
            part(Block::Text("<2> and \"data\"".to_owned())),
            part(Block::Blob(blob(1, "image/png", Some("a.png")))),
            part(Block::Blob(blob(2, "application/pdf", Some("b \"c\".pdf")))),
            part(Block::Blob(blob(3, "audio/wav", None))),
            part(Block::ToolResult(ToolResult {
                call_id: "toolu_1".to_owned(),
                name: "shot".to_owned(),
                content: vec![
                    Piece::Text("shot:".to_owned()),
                    Piece::Blob(blob(4, "image/webp", None)),
                    Piece::Blob(blob(5, "application/pdf", None)),
                ],
                is_error: true,
            })),
            part(Block::ToolResult(ToolResult {
                call_id: "toolu_2".to_owned(),
                name: "shot".to_owned(),
                content: vec![Piece::Text(String::new())],
                is_error: false,
            })),
        ],
    };
    let sent = body_of(&request(vec![user("?"), message]), Thinking::Unsaid);
    let source = |media: &str, data: &str| json!({"type": "base64", "media_type": media, "data": data});
    assert_eq!(
        sent["messages"][1]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [
                {"type": "text", "text": "shot:"},
                {"type": "image", "source": source("image/webp", "<4>")},
                {"type": "document", "source": source("application/pdf", "<5>")},
            ]},
            {"type": "tool_result", "tool_use_id": "toolu_2"},
            {"type": "text", "text": "<2> and \"data\""},
            {"type": "image", "source": source("image/png", "<1>")},
            {"type": "document", "source": source("application/pdf", "<2>"), "title": "b \"c\".pdf"},
            {
                "type": "text",
                "text": "[a file that cannot be shown here: without a name, audio/wav, 9 bytes]",
                "cache_control": {"type": "ephemeral"},
            },
        ])
    );
}

/// The user may add a message with files while tools run. Results must be the first blocks of the message.
#[test]
fn message_that_joins_a_turn_follows_the_results() {
    let call = |id: &str| {
        let call = ToolCall { id: id.to_owned(), name: "files__read".to_owned(), input: "{}".to_owned() };
        part(Block::ToolCall(call))
    };
    let image = BlobRef { id: 3, media_type: "image/png".to_owned(), name: None, size: 9 };
    let said = vec![
        result("c1", "one"),
        result("c2", "two"),
        part(Block::Blob(image)),
        part(Block::Text("Faster.".to_owned())),
    ];
    let conversation = vec![
        user("Begin."),
        Message { role: Role::Assistant, parts: vec![call("c1"), call("c2")] },
        Message { role: Role::User, parts: said },
    ];
    let mut messages = body_of(&request(conversation), Thinking::Unsaid)["messages"].take();
    assert_eq!(messages.as_array().expect("a list").len(), 3);
    let blocks = messages[2]["content"].as_array_mut().expect("a list");
    blocks.iter_mut().for_each(|block| drop(block.as_object_mut().expect("a block").remove("cache_control")));
    let result = |id: &str, said: &str| json!({"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": said}]});
    let source = json!({"type": "base64", "media_type": "image/png", "data": "<3>"});
    let expected = [
        result("c1", "one"),
        result("c2", "two"),
        json!({"type": "image", "source": source}),
        json!({"type": "text", "text": "Faster."}),
    ];
    assert_eq!(*blocks, expected);
}

#[test]
fn thinking_is_sent_back_in_its_place() {
    let mut messages = vec![user("one")];
    for (name, next) in [("redacted_thinking", user("two")), ("parallel_tool_calls", user("three"))] {
        messages.push(recorded(name));
        messages.push(next);
    }
    let calls = ["toolu_01AqkZkR8mdXw6nFkGxgn7Zt", "toolu_01B7nHcxUZkzaB1n2HpLPKWq", "toolu_01C3Nn5bWPx1UFvqzzrQFzYd"];
    messages[4].parts.extend(calls.map(|call| result(call, "done")));

    let sent = body_of(&request(messages), Thinking::Budget(2000));
    assert!(sent.get("thinking").is_some());
    let roles: Vec<_> = sent["messages"].as_array().expect("a list").iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let signature = &block_of("redacted_thinking", "thinking")["signature"];
    assert!(signature.as_str().is_some_and(|signature| signature.len() > 50));
    assert_eq!(
        sent["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Let me weigh this.", "signature": signature},
            block_of("redacted_thinking", "redacted_thinking"),
            {"type": "text", "text": "I would rather not say how."},
        ])
    );
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    assert_eq!(
        sent["messages"][3]["content"],
        json!([
            {
                "type": "thinking",
                "thinking": "Three calls at once.",
                "signature": block_of("parallel_tool_calls", "thinking")["signature"],
            },
            {"type": "text", "text": "I ask for all three."},
            call(calls[0], "calc__run", json!({"line": "1+1"})),
            call(calls[1], "notes__list", json!({})),
            call(calls[2], "clock__now", json!({})),
        ])
    );
    let last = sent["messages"][4]["content"].as_array().expect("a list");
    let kinds: Vec<_> = last.iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["tool_result", "tool_result", "tool_result", "text"]);
}

#[test]
fn thinking_is_sent_back_unchanged() {
    let mut message = recorded("thinking");
    for part in &mut message.parts {
        if let Block::Thinking(shown) = &mut part.block {
            shown.clear();
        }
    }
    let sent = body_of(&request(vec![user("?"), message, user("!")]), Thinking::Unsaid);
    assert_eq!(
        sent["messages"][1]["content"][0]["thinking"],
        "27 × 453: 27 × 400 = 10,800; 27 × 53 = 1,431. Together 12,231."
    );
    // A block without visible text is sent back, too.
    let sent = body_of(&request(vec![user("?"), recorded("omitted_thinking"), user("!")]), Thinking::Unsaid);
    assert_eq!(
        sent["messages"][1]["content"][0],
        json!({"type": "thinking", "thinking": "", "signature": block_of("omitted_thinking", "thinking")["signature"]})
    );
}

#[test]
fn incomplete_blocks_of_interrupted_answers_are_dropped() {
    let thought = part(Block::Thinking("half a thou".to_owned()));
    let message = |parts| Message { role: Role::Assistant, parts };
    let with_text = message(vec![thought.clone(), part(Block::Text("Half".to_owned()))]);
    let foreign = Part { block: Block::Opaque("reasoning".to_owned()), opaque: Some("not ours".to_owned()) };
    let sent = body_of(
        &request(vec![user("a"), with_text, user("b"), message(vec![thought, foreign]), user("c")]),
        Thinking::Unsaid,
    );
    let messages = sent["messages"].as_array().expect("a list");
    assert_eq!(messages[1], json!({"role": "assistant", "content": [{"type": "text", "text": "Half"}]}));
    // The second message is dropped completely: the API joins the user's messages around it.
    let roles: Vec<_> = messages.iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "user"]);
}

#[test]
fn thinking_at_the_end_is_not_sent() {
    let thought = recorded("thinking").parts.swap_remove(0);
    let redacted = recorded("redacted_thinking").parts.swap_remove(1);
    let message = |parts| Message { role: Role::Assistant, parts };
    for (parts, expected) in [
        (vec![thought.clone()], None),
        (vec![thought.clone(), redacted.clone()], None),
        (vec![thought.clone(), part(Block::Text(" ".to_owned()))], None),
        (vec![thought.clone(), part(Block::Text("Half".to_owned())), redacted, thought.clone()], Some(2)),
    ] {
        let sent = body_of(&request(vec![user("a"), message(parts), user("b")]), Thinking::Adaptive(None));
        let messages = sent["messages"].as_array().expect("a list");
        let answer = messages.iter().find(|one| one["role"] == "assistant");
        assert_eq!(answer.and_then(|one| one["content"].as_array()).map(Vec::len), expected);
        let last = messages.iter().filter_map(|one| one["content"].as_array()?.last());
        assert!(last.into_iter().all(|block| block["type"] == "text"), "{sent}");
    }
}

/// Returns the indices of the blocks with a cache point, counted over all messages.
fn cache_points(sent: &Value) -> Vec<usize> {
    let messages = sent["messages"].as_array().expect("a list").iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().expect("a list"));
    blocks.enumerate().filter_map(|(at, block)| block.get("cache_control").map(|_| at)).collect()
}

#[test]
fn cache_points_are_within_reach_of_earlier_ones() {
    let call = |id: usize| {
        part(Block::ToolCall(ToolCall { id: id.to_string(), name: "x".to_owned(), input: "{}".to_owned() }))
    };
    let turn = |calls: std::ops::Range<usize>| {
        let results = calls.clone().map(|id| result(&id.to_string(), "y")).collect();
        [
            Message { role: Role::Assistant, parts: calls.map(call).collect() },
            Message { role: Role::User, parts: results },
        ]
    };
    let mut completion = request(vec![user("Go")]);
    completion.system = vec!["Be brief.".to_owned()];
    assert_eq!(cache_points(&body_of(&completion, Thinking::Unsaid)), [0]);
    // The end of the previous request has a point again, however many calls the turn has.
    let mut end = 0;
    let mut calls = 0;
    for width in [12, 1, 3, 40, 2] {
        completion.messages.extend(turn(calls..calls + width));
        calls += width;
        let sent = body_of(&completion, Thinking::Unsaid);
        let points = cache_points(&sent);
        assert!(points.len() <= 3 && points.contains(&end), "{points:?} without {end}");
        assert_eq!(sent["system"][0]["cache_control"], json!({"type": "ephemeral"}));
        end += 2 * width;
        assert_eq!(points.last(), Some(&end), "{points:?}");
    }
    assert_eq!(cache_points(&body_of(&request(vec![user("Go")]), Thinking::Unsaid)), [0]);
    // Thinking has no point.
    let answer = Message { role: Role::Assistant, parts: recorded("thinking").parts };
    let sent = body_of(&request(vec![user("a"), answer, user("b")]), Thinking::Unsaid);
    let blocks = sent["messages"][1]["content"].as_array().expect("a list");
    assert!(blocks.iter().all(|block| block["type"] != "thinking" || block.get("cache_control").is_none()));
}

#[test]
fn summary_reads_the_cache_and_writes_nothing_behind_it() {
    let option = |purpose: &str| Pair { name: "host:purpose".to_owned(), value: purpose.to_owned() };
    let answer = Message { role: Role::Assistant, parts: vec![part(Block::Text("b".to_owned()))] };
    let mut completion = request(vec![user("a"), answer, user("Summarise.")]);
    completion.system = vec!["Be brief.".to_owned()];
    completion.options = vec![option("turn")];
    assert_eq!(cache_points(&body_of(&completion, Thinking::Unsaid)), [0, 2]);
    completion.options = vec![option("summary")];
    let sent = body_of(&completion, Thinking::Unsaid);
    assert_eq!(cache_points(&sent), [0]);
    assert!(sent["system"][0].get("cache_control").is_some());
    let mut first = request(vec![user("Summarise.")]);
    first.options = vec![option("summary")];
    assert_eq!(cache_points(&body_of(&first, Thinking::Unsaid)), [0; 0]);
}

#[test]
fn thinking_of_another_prefix_is_left_out_where_it_is_bound() {
    let mut completion = request(vec![user("a"), recorded("thinking"), user("b"), recorded("thinking"), user("c")]);
    completion.options = vec![Pair { name: "host:bound-from".to_owned(), value: "3".to_owned() }];
    let thinks = |settings| {
        let (_, actions) = Messages::begin(&completion, settings);
        let sent = sent(&actions);
        let messages = sent["messages"].as_array().expect("a list").clone();
        [1, 3].map(|at: usize| {
            messages[at]["content"].as_array().expect("a list").iter().any(|b| b["type"] == "thinking")
        })
    };
    let settings = settings(Thinking::Adaptive(None));
    assert_eq!(thinks(Settings { bound_thinking: true, ..settings }), [false, true]);
    assert_eq!(thinks(settings), [true, true]);
}

#[test]
fn bound_thinking_is_dropped_by_the_api() {
    let bound = Settings { bound_thinking: true, ..settings(Thinking::Adaptive(None)) };
    let (_, actions) = Messages::begin(&request(vec![user("a")]), bound);
    let [Action::Send(sent)] = &actions[..] else { panic!("{actions:?}") };
    let beta = sent.headers.iter().find(|header| header.name == "anthropic-beta").map(|header| header.value.as_str());
    assert_eq!(beta, Some("thinking-binding-controls-2026-08-01"));
    let binding = json!({"prefix_mismatch_behavior": "drop_block"});
    assert_eq!(body(sent)["thinking"], json!({"type": "adaptive", "display": "summarized", "block_binding": binding}));
    let off = Settings { thinking: Thinking::Off("between_tools"), ..bound };
    let (_, actions) = Messages::begin(&request(vec![user("a")]), off);
    let [Action::Send(sent)] = &actions[..] else { panic!("{actions:?}") };
    assert!(sent.headers.iter().all(|header| header.name != "anthropic-beta"));
    assert_eq!(body(sent)["thinking"], json!({"type": "between_tools"}));
}

#[test]
fn tool_is_not_forced_where_the_api_refuses_it() {
    let mut request = request(vec![user("Hello")]);
    request.tools = vec![Tool { name: "now".to_owned(), description: String::new(), input_schema: "{}".to_owned() }];
    for (choice, kind) in [(ToolChoice::Required, "any"), (ToolChoice::Named("now".to_owned()), "tool")] {
        request.tool_choice = choice;
        for (forced_tools, expected) in [(true, Some(kind)), (false, None)] {
            let settings = Settings { forced_tools, ..settings(Thinking::Adaptive(Some("low"))) };
            let sent = sent(&Messages::begin(&request, settings).1);
            let sent_choice = sent.get("tool_choice").and_then(|choice| choice["type"].as_str());
            assert_eq!(sent_choice, expected);
            assert_eq!(sent.get("thinking").is_some(), !forced_tools);
        }
    }
    request.tool_choice = ToolChoice::None;
    let settings = Settings { forced_tools: false, ..settings(Thinking::Unsaid) };
    assert_eq!(sent(&Messages::begin(&request, settings).1)["tool_choice"], json!({"type": "none"}));
}

#[test]
fn used_up_credit_is_not_retried() {
    let used_up = "Your credit balance is too low to access the Anthropic API.";
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": used_up}});
    let failure = refusal(400, &[("content-type", "application/json")], &body.to_string());
    assert_eq!((failure.kind.as_str(), failure.retry), ("rate-limit", Retry::Never));
    let [Action::Fail(failure)] = &events(&[body])[..] else { panic!("one failure") };
    assert_eq!((failure.kind.as_str(), &failure.retry), ("rate-limit", &Retry::Never));
}

#[test]
fn turn_without_thinking_continues_without_it() {
    let call =
        |id: &str| part(Block::ToolCall(ToolCall { id: id.to_owned(), name: "x".to_owned(), input: "{}".to_owned() }));
    let thought = recorded("thinking").parts.swap_remove(0);
    let assistant = |parts| Message { role: Role::Assistant, parts };
    let results = |id| Message { role: Role::User, parts: vec![result(id, "y")] };
    let thinks = |messages: Vec<Message>| body_of(&request(messages), Thinking::Budget(2000)).get("thinking").is_some();

    assert!(!thinks(vec![user("a"), assistant(vec![call("1")]), results("1")]));
    assert!(thinks(vec![user("a"), assistant(vec![thought.clone(), call("1")]), results("1")]));
    // The beginning of the turn is decisive.
    let (first, second) = (vec![thought.clone(), call("1")], vec![call("2")]);
    assert!(thinks(vec![user("a"), assistant(first), results("1"), assistant(second), results("2")]));
    let (first, second) = (vec![call("1")], vec![thought.clone(), call("2")]);
    assert!(!thinks(vec![user("a"), assistant(first), results("1"), assistant(second), results("2")]));
    // A finished turn has no effect.
    assert!(thinks(vec![user("a"), assistant(vec![part(Block::Text("b".to_owned()))]), user("c")]));
    // Models with adaptive thinking accept both.
    let messages = vec![user("a"), assistant(vec![call("1")]), results("1")];
    assert!(body_of(&request(messages), Thinking::Adaptive(Some("low"))).get("thinking").is_some());
}

#[test]
fn ids_of_other_providers_are_converted() {
    let call = ToolCall { id: "call.1|fc/é".to_owned(), name: "x".to_owned(), input: "[broken".to_owned() };
    let assistant = Message { role: Role::Assistant, parts: vec![part(Block::ToolCall(call))] };
    let results = Message { role: Role::User, parts: vec![result("call.1|fc/é", "y")] };
    let sent = body_of(&request(vec![user("a"), assistant, results]), Thinking::Unsaid);
    let id = &sent["messages"][1]["content"][0]["id"];
    assert_eq!(id, "call_2e1_7cfc_2f_c3_a9");
    assert_eq!(id, &sent["messages"][2]["content"][0]["tool_use_id"]);
    assert_eq!(sent["messages"][1]["content"][0]["input"], json!({}));
}

#[test]
fn pause_is_continued_with_the_partial_answer() {
    let mut stream = begin(&request(vec![user("What is the weather?")]));
    let actions = recording::play(&mut stream, &recording::parts("messages", "pause_turn"), &[]);
    let again: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Send(request) => Some(body(request)),
            _ => None,
        })
        .collect();
    let [again] = &again[..] else { panic!("{} requests", again.len()) };
    assert_eq!(again["messages"].as_array().map(Vec::len), Some(2));
    let signature = &block_of("pause_turn", "thinking")["signature"];
    let searched = block_of("pause_turn", "web_search_tool_result");
    assert_eq!(searched["content"][0]["title"], "Weather in New York City");
    assert_eq!(
        again["messages"][1],
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I need the news.", "signature": signature},
            {"type": "text", "text": "I'll search for that."},
            {
                "type": "server_tool_use",
                "id": "srvtoolu_014hJH82Qum7Td6UV8gDXThB",
                "name": "web_search",
                "input": {"query": "weather NYC today"},
            },
            searched,
        ]})
    );
    // Later turns contain the same blocks, followed by the second answer's.
    let sent = body_of(&request(vec![user("a"), assistant(&actions), user("b")]), Thinking::Unsaid);
    let content = sent["messages"][1]["content"].as_array().expect("a list");
    assert_eq!(content[..4], again["messages"][1]["content"].as_array().expect("a list")[..]);
    let kinds: Vec<_> = content[4..].iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "tool_use"]);
    let started = actions.iter().filter(|action| matches!(action, Action::Emit(Event::Started(_)))).count();
    assert_eq!(started, 1);
}

#[test]
fn endless_pauses_are_a_failure() {
    let pause = recording::parts("messages", "pause_turn").swap_remove(0);
    let parts = vec![pause; 17];
    let actions = recording::play(&mut begin(&request(vec![user("?")])), &parts, &[]);
    let end = Finish { stop: "other".to_owned(), raw: "pause_turn".to_owned() };
    assert_eq!(actions.last(), Some(&Action::Finish(end)));
}

#[test]
fn refusal_has_its_explanation() {
    let parts = recording::parts("messages", "refusal");
    let actions = recording::play(&mut begin(&request(vec![user("?")])), &parts, &[]);
    let why =
        Pair { name: "refusal".to_owned(), value: "This request was declined by a safety classifier.".to_owned() };
    assert!(actions.contains(&Action::Emit(Event::Extra(why))));
}

#[test]
fn model_name_of_the_api_is_reported() {
    let parts = recording::parts("messages", "text");
    let actions = recording::play(&mut begin(&request(vec![user("?")])), &parts, &[]);
    assert_eq!(actions[0], Action::Emit(Event::Started("claude-sonnet-4-5-20250929".to_owned())));
}

/// Returns the failure for a response without events.
fn refusal(status: u16, headers: &[(&str, &str)], body: &str) -> Failure {
    let pair = |(name, value): &(&str, &str)| Pair { name: (*name).to_owned(), value: (*value).to_owned() };
    let mut stream = begin(&request(vec![user("?")]));
    let head = ResponseHead { status, headers: headers.iter().map(pair).collect() };
    assert_eq!(stream.resume(Input::ResponseHead(head)), []);
    let mut actions = stream.resume(Input::BodyChunk(body.as_bytes().to_vec()));
    actions.extend(stream.resume(Input::BodyEnd));
    match actions.pop() {
        Some(Action::Fail(failure)) if actions.is_empty() => failure,
        other => panic!("{actions:?} {other:?}"),
    }
}

fn error(kind: &str) -> String {
    json!({"type": "error", "error": {"type": kind, "message": "Because."}, "request_id": "req_1"}).to_string()
}

#[test]
fn refusals_have_their_kind() {
    let json = ("content-type", "application/json");
    for (status, code, kind, expected) in [
        (400, "invalid_request_error", "invalid-request", Retry::Never),
        (401, "authentication_error", "authentication", Retry::Never),
        (402, "billing_error", "rate-limit", Retry::Never),
        (200, "billing_error", "rate-limit", Retry::Never),
        (403, "permission_error", "authentication", Retry::Never),
        (404, "not_found_error", "not-found", Retry::Never),
        (429, "rate_limit_error", "rate-limit", Retry::Backoff),
        (500, "api_error", "server", Retry::Backoff),
        (504, "timeout_error", "timeout", Retry::Backoff),
        (529, "overloaded_error", "server", Retry::Backoff),
        (200, "overloaded_error", "server", Retry::Backoff),
        (200, "authentication_error", "authentication", Retry::Never),
        (200, "some_new_error", "server", Retry::Backoff),
    ] {
        let failure = refusal(status, &[json], &error(code));
        assert_eq!(
            failure,
            Failure {
                kind: kind.to_owned(),
                message: "Because.".to_owned(),
                http_status: Some(status),
                code: Some(code.to_owned()),
                retry: expected,
            }
        );
    }
    let large = refusal(413, &[json], &error("request_too_large"));
    assert_eq!((&*large.kind, large.code.as_deref()), ("invalid-request", Some("context_window")));
    assert_eq!(refusal(429, &[("Retry-After", "17")], &error("rate_limit_error")).retry, Retry::AfterMs(17_000));
    let date = ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT");
    assert_eq!(refusal(429, &[date], &error("rate_limit_error")).retry, Retry::Backoff);
    assert_eq!(refusal(400, &[("retry-after", "17")], &error("invalid_request_error")).retry, Retry::Never);
    assert_eq!(refusal(429, &[("x-should-retry", "false")], &error("rate_limit_error")).retry, Retry::Never);

    let page = refusal(502, &[("content-type", "text/html")], "<html>Bad gateway</html>");
    assert_eq!((page.kind.as_str(), page.code, page.http_status), ("server", None, Some(502)));
    assert_eq!(page.message, "the server responded with status 502 and no readable reason");
    let whole = refusal(200, &[json], r#"{"type":"message"}"#);
    assert_eq!((whole.kind.as_str(), whole.retry), ("unknown", Retry::Never));
    assert!(whole.message.contains("'application/json' instead of events"), "{whole:?}");
    let silent = r#"{"type":"error","error":{"type":"api_error"}}"#;
    assert_eq!(refusal(500, &[json], silent).message, "the server reports 'api_error'");
}

#[test]
fn refusals_of_proxies_without_types_are_read() {
    let json = ("content-type", "application/json");
    for (body, code) in [
        (r#"{"error":{"message":"No such route."}}"#, None),
        (r#"{"error":{"type":null,"message":"No such route.","code":400}}"#, None),
        (r#"{"error":"No such route."}"#, None),
        (r#"{"error":{"type":"invalid_request_error","message":"No such route."}}"#, Some("invalid_request_error")),
    ] {
        let failure = refusal(400, &[json], body);
        assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("invalid-request", "No such route."), "{body}");
        assert_eq!((failure.code.as_deref(), failure.retry), (code, Retry::Never), "{body}");
    }
    assert_eq!(refusal(200, &[json], r#"{"error":{"message":"Busy."}}"#).kind, "server");
    let unread = "the server responded with status 400 and no readable reason";
    for body in [r#"{"error":{}}"#, r#"{"error":null}"#, r#"{"error":7}"#, "[]", "{"] {
        assert_eq!(refusal(400, &[json], body).message, unread, "{body}");
    }
    let actions = events(&[json!({"error": {"message": "Gone."}})]);
    let [Action::Fail(failure)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((failure.kind.as_str(), failure.message.as_str(), &failure.code), ("server", "Gone.", &None));
}

/// Returns the actions for events without names.
fn events(list: &[Value]) -> Vec<Action> {
    let body: String = list.iter().map(|event| format!("event: x\ndata: {event}\n\n")).collect();
    recording::play(&mut begin(&request(vec![user("?")])), &[body.into_bytes()], &[])
}

#[test]
fn unknown_events_are_skipped() {
    let actions = events(&[
        json!({"type": "message_start", "message": {"model": "m", "new": 1}}),
        json!({"type": "brand_new", "x": [1]}),
        json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "nowhere"}}),
        json!({"type": "content_block_stop", "index": 9}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "He"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "llo"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block":
            {"type": "tool_use", "id": "i", "name": "n", "input": {"whole": true}}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "brand_new"}}),
        json!({"type": "message_stop"}),
    ]);
    let calls = json!([{"id": "i", "name": "n", "input": {"whole": true}}]);
    assert_eq!(
        recording::summary(&actions),
        json!({"text": "Hello", "tool_calls": calls, "stop": "other", "raw": "brand_new"})
    );
}

#[test]
fn malformed_events_are_server_failures() {
    for data in [json!({"type": "message_start"}), json!("message_stop"), json!({"type": "content_block_stop"})] {
        let actions = events(&[data]);
        let [Action::Fail(failure)] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!((failure.kind.as_str(), &failure.retry), ("server", &Retry::Backoff));
    }
}

/// The operator's options are in the request after a pause, too.
#[test]
fn extra_body_and_headers_are_in_every_request() {
    let option = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    let mut asked = request(vec![user("?")]);
    asked.options = vec![
        option("extra-body", r#"{"service_tier": "auto"}"#),
        option("extra-headers", r#"{"anthropic-beta": "b-2026"}"#),
    ];
    let (mut stream, first) = Messages::begin(&asked, settings(Thinking::Unsaid));
    let actions = recording::play(&mut stream, &recording::parts("messages", "pause_turn"), &[]);
    let requests: Vec<&HttpRequest> = first
        .iter()
        .chain(&actions)
        .filter_map(|action| if let Action::Send(request) = action { Some(request) } else { None })
        .collect();
    assert_eq!(requests.len(), 2);
    for sent in requests {
        assert_eq!(body(sent)["service_tier"], "auto");
        assert_eq!(crate::failure::header(&sent.headers, "anthropic-beta"), Some("b-2026"));
    }
    asked.options = vec![option("extra-body", "[]")];
    let (mut stream, first) = Messages::begin(&asked, settings(Thinking::Unsaid));
    assert!(matches!(first.as_slice(), [Action::Fail(failure)] if failure.kind == "invalid-request"), "{first:?}");
    assert!(stream.resume(Input::Timer).is_empty());
}

#[test]
fn conversation_that_is_too_long_has_its_code() {
    let too_long = |code: &str| ("invalid-request".to_owned(), Some(code.to_owned()));
    let message = "prompt is too long: 205000 tokens > 200000 maximum";
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    let stream = || begin(&request(vec![user("?")]));
    assert_eq!(context_window::refused(stream(), 400, &body), too_long("context_window"));
    // The same error in the middle of a response.
    let event = format!("event: error\ndata: {body}\n\n").into_bytes();
    let actions = recording::play(&mut stream(), &[event], &[]);
    let Some(Action::Fail(failure)) = actions.last() else { panic!("{actions:?}") };
    assert_eq!((failure.kind.clone(), failure.code.clone()), too_long("context_window"));
}

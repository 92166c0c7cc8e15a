//! Tests of the codec of Chat Completions: recorded answers and the fields of requests.

mod rules;

use patchbay_provider_sdk::{Block, Event, HttpRequest, Message, Piece, ToolChoice};
use serde_json::json;

use super::*;
use crate::context_window;
use crate::openai::fixtures::*;
use crate::recording::{check_all, parts, play, summary};

fn stream() -> Stream<Chat> {
    begin(&completion(Vec::new()), Settings::default()).0
}

fn sent(request: &CompletionRequest, settings: Settings) -> HttpRequest {
    match begin(request, settings).1.as_slice() {
        [Action::Send(request)] => request.clone(),
        actions => panic!("{actions:?}"),
    }
}

/// Returns the `messages` of a request.
fn messages(list: Vec<Message>) -> Value {
    body(&sent(&completion(list), Settings::default()))["messages"].take()
}

/// Returns the actions for the deltas of one choice, followed by `reason`.
fn deltas(list: &[Value], reason: &str) -> Vec<Action> {
    let chunk = |delta: &Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"model": "m", "choices": [choice]}))
    };
    let mut body: String = list.iter().map(|delta| chunk(delta, Value::Null)).collect();
    body += &chunk(&json!({}), reason.into());
    answer(stream(), &(body + "data: [DONE]\n\n"))
}

#[test]
fn recordings_give_the_same_result_for_any_chunks() {
    check_all("chat", stream);
    check_all("services/chat", stream);
}

#[test]
fn damaged_answers_keep_the_contract() {
    let names = ["thinking", "parallel-tool-calls", "whole-tool-calls", "refusal", "error"];
    check_damaged("chat", &names, |request| begin(request, Settings::default()));
}

#[test]
fn request_has_the_fields_of_the_api() {
    let mut request = completion(vec![user(vec![text_block("Hello")])]);
    request.system = vec!["Be kind.".to_owned(), "Be short.".to_owned()];
    request.tools = vec![tool("calc__eval", r#"{"type":"object","required":["z","a"],"properties":{"z":{},"a":{}}}"#)];
    request.max_output_tokens = Some(1);
    let settings = Settings { effort: Some("high"), ..Settings::default() };
    let sent_as = sent(&request, settings);
    assert_eq!((sent_as.method.as_str(), sent_as.path_and_query.as_str()), ("POST", "/chat/completions"));
    assert_eq!(sent_as.auth.len(), 1);
    assert_eq!(
        body(&sent_as),
        json!({
            "model": "model-1",
            "messages": [
                {"role": "system", "content": "Be kind.\n\nBe short."},
                {"role": "user", "content": "Hello"},
            ],
            "tools": [{"type": "function", "function": {
                "name": "calc__eval",
                "description": "Does calc__eval.",
                "parameters": {"type": "object", "required": ["z", "a"], "properties": {"z": {}, "a": {}}},
            }}],
            "tool_choice": "auto",
            "reasoning_effort": "high",
            "max_completion_tokens": 1,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
    let older = body(&sent(&request, Settings { limit: LimitField::MaxTokens, ..Settings::default() }));
    assert_eq!((&older["max_tokens"], older.get("max_completion_tokens")), (&json!(1), None));
    assert_eq!(older.get("reasoning_effort"), None);
    let least = body(&sent(&completion(Vec::new()), Settings::default()));
    let options = json!({"include_usage": true});
    assert_eq!(least, json!({"model": "model-1", "messages": [], "stream": true, "stream_options": options}));
}

#[test]
fn tool_choices_have_their_api_values() {
    for (choice, expected) in [
        (ToolChoice::Auto, json!("auto")),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Named("a".to_owned()), json!({"type": "function", "function": {"name": "a"}})),
    ] {
        let mut request = completion(Vec::new());
        request.tool_choice = choice;
        assert_eq!(body(&sent(&request, Settings::default())).get("tool_choice"), None, "there are no tools");
        request.tools = vec![tool("a", "{}")];
        assert_eq!(body(&sent(&request, Settings::default()))["tool_choice"], expected);
    }
}

#[test]
fn conversation_becomes_messages_of_the_api() {
    let history = vec![
        user(vec![
            text_block("Look"),
            Block::Blob(blob(3, "image/png", None)),
            Block::Blob(blob(4, "application/pdf", Some("b.pdf"))),
        ]),
        assistant(vec![
            (thought("hm"), None),
            (text_block("One"), None),
            (called("c1", "a", r#"{"x":1}"#), None),
            (text_block(" two."), None),
            (called("c2", "b", "{}"), None),
        ]),
        user(vec![
            text_block("Go on."),
            answered("c1", vec![piece("one"), piece("two")]),
            answered("c2", vec![piece("see"), Piece::Blob(blob(7, "image/jpeg", None))]),
        ]),
        assistant(vec![(called("c3", "a", "{}"), None)]),
        user(vec![answered("c3", vec![])]),
        assistant(vec![(thought("cut short"), None)]),
        user(vec![text_block("a"), text_block("b"), Block::Blob(blob(8, "audio/wav", Some("c.wav")))]),
    ];
    let call = |id: &str, name: &str, input: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}});
    assert_eq!(
        messages(history),
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,<3>"}},
                {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,<4>"}},
            ]},
            {"role": "assistant", "content": "One two.", "tool_calls": [call("c1", "a", r#"{"x":1}"#), call("c2", "b", "{}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "one\ntwo"},
            {"role": "tool", "tool_call_id": "c2", "content": "see"},
            {"role": "user", "content": [
                {"type": "text", "text": "From the tool shot:"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,<7>"}},
                {"type": "text", "text": "Go on."},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [call("c3", "a", "{}")]},
            {"role": "tool", "tool_call_id": "c3", "content": ""},
            {"role": "assistant", "content": "(no text)"},
            {"role": "user", "content": "a\n\nb\n\n[c.wav: audio/wav, 9 bytes, which this API does not accept]"},
        ])
    );
}

/// The user may add a message with files while tools run. For Mistral's servers, an answer is inserted before it.
#[test]
fn message_that_joins_a_turn_follows_the_results() {
    let conversation = vec![
        user(vec![text_block("Begin.")]),
        assistant(vec![(called("aB3xK9mP2", "a", "{}"), None)]),
        user(vec![
            answered("aB3xK9mP2", vec![piece("one")]),
            Block::Blob(blob(3, "image/png", None)),
            text_block("Faster."),
        ]),
    ];
    let mut request = completion(conversation);
    for (model, bridge) in [("model-1", None), ("mistral-large-latest", Some("OK."))] {
        request.model = model.to_owned();
        let messages = body(&sent(&request, Settings::default()))["messages"].take();
        let mut expected = vec![json!({"role": "tool", "tool_call_id": "aB3xK9mP2", "content": "one"})];
        expected.extend(bridge.map(|bridge| json!({"role": "assistant", "content": bridge})));
        expected.push(json!({"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,<3>"}},
            {"type": "text", "text": "Faster."},
        ]}));
        assert_eq!(messages.as_array().expect("a list")[2..], expected, "{model}");
    }
}

#[test]
fn texts_around_calls_keep_their_order() {
    let message = kept(&play(&mut stream(), &parts("chat", "whole-tool-calls"), &[]));
    let blocks: Vec<_> = message.parts.into_iter().map(|part| part.block).collect();
    assert_eq!(
        blocks,
        [
            text_block("First, "),
            called("call_x1", "weather__now", r#"{"city":"Bern"}"#),
            called("call_x2", "weather__now", r#"{"city":"Rome"}"#),
            text_block("then we see."),
        ]
    );
}

#[test]
fn calls_are_assembled_for_each_kind_of_server() {
    let a = json!({"name": "a", "arguments": "{\"x\":"});
    let (rest, b) = (json!({"arguments": "1}"}), json!({"name": "b", "arguments": "{}"}));
    let list = |calls: Vec<Value>| calls.into_iter().map(|call| json!({"tool_calls": [call]})).collect::<Vec<_>>();
    for (case, calls, ids) in [
        (
            "an index, the id at first",
            list(vec![
                json!({"index": 0, "id": "i", "function": a}),
                json!({"index": 0, "function": rest}),
                json!({"index": 1, "id": "j", "function": b}),
            ]),
            ["i", "j"],
        ),
        (
            "the id in each",
            list(vec![
                json!({"index": 0, "id": "i", "function": a}),
                json!({"index": 0, "id": "i", "function": rest}),
                json!({"index": 1, "id": "j", "function": b}),
            ]),
            ["i", "j"],
        ),
        (
            "an empty id later",
            list(vec![
                json!({"index": 0, "id": "i", "function": a}),
                json!({"index": 0, "id": "", "function": rest}),
                json!({"index": 1, "id": "j", "function": b}),
            ]),
            ["i", "j"],
        ),
        (
            "no id",
            list(vec![
                json!({"index": 0, "function": a}),
                json!({"index": 0, "function": rest}),
                json!({"index": 1, "function": b}),
            ]),
            ["call_0", "call_1"],
        ),
        (
            "no index",
            list(vec![json!({"id": "i", "function": a}), json!({"function": rest}), json!({"id": "j", "function": b})]),
            ["i", "j"],
        ),
        (
            "neither",
            list(vec![json!({"function": a}), json!({"function": rest}), json!({"function": b})]),
            ["call_0", "call_1"],
        ),
        (
            "no index, the id in each",
            list(vec![
                json!({"id": "i", "function": a}),
                json!({"id": "i", "function": rest}),
                json!({"id": "j", "function": b}),
            ]),
            ["i", "j"],
        ),
        (
            "one index for all",
            list(vec![
                json!({"index": 0, "id": "i", "function": {"name": "a", "arguments": "{\"x\":1}"}}),
                json!({"index": 0, "id": "j", "function": b}),
            ]),
            ["i", "j"],
        ),
        (
            "two in one piece",
            vec![
                json!({"tool_calls": [{"index": 0, "id": "i", "function": a}, {"index": 1, "id": "j", "function": b}]}),
                json!({"tool_calls": [{"index": 0, "function": rest}]}),
            ],
            ["i", "j"],
        ),
        (
            "an object",
            list(vec![
                json!({"index": 0, "id": "i", "function": {"name": "a", "arguments": {"x": 1}}}),
                json!({"index": 1, "id": "j", "function": b}),
            ]),
            ["i", "j"],
        ),
        (
            "the name after the input",
            list(vec![
                json!({"index": 0, "id": "i", "function": {"arguments": "{\"x\":"}}),
                json!({"index": 0, "function": {"name": "a", "arguments": "1}"}}),
                json!({"index": 1, "id": "j", "function": b}),
            ]),
            ["i", "j"],
        ),
        (
            "no input at all",
            list(vec![
                json!({"index": 0, "id": "i", "function": {"name": "a", "arguments": "{\"x\":1}"}}),
                json!({"index": 1, "id": "j", "function": {"name": "b"}}),
            ]),
            ["i", "j"],
        ),
    ] {
        let end = summary(&deltas(&calls, "tool_calls"));
        let expected =
            json!([{"id": ids[0], "name": "a", "input": {"x": 1}}, {"id": ids[1], "name": "b", "input": {}}]);
        assert_eq!((&end["tool_calls"], text(&end, "stop")), (&expected, "tool-use"), "{case}");
    }
    let old = [
        json!({"function_call": {"name": "a", "arguments": "{\"x\":"}}),
        json!({"function_call": {"arguments": "1}"}}),
    ];
    let end = summary(&deltas(&old, "function_call"));
    assert_eq!(end["tool_calls"], json!([{"id": "call_0", "name": "a", "input": {"x": 1}}]));
    assert_eq!((text(&end, "stop"), text(&end, "raw")), ("tool-use", "function_call"));
}

#[test]
fn call_without_id_gets_a_numbered_id() {
    let history = vec![assistant(vec![(called("call_0", "a", "{}"), None), (called("call_1", "a", "{}"), None)])];
    let (stream, _) = begin(&completion(history), Settings::default());
    let delta = json!({"tool_calls": [{"index": 0, "function": {"name": "a", "arguments": "{}"}}]});
    let chunk = json!({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]});
    let end = summary(&answer(stream, &format!("data: {chunk}\n\ndata: [DONE]\n\n")));
    assert_eq!(end["tool_calls"][0]["id"], "call_2");
}

#[test]
fn end_reasons_are_mapped() {
    let (speech, refusal) = (json!({"content": "Well."}), json!({"refusal": "No."}));
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "t", "arguments": "{}"}}]});
    for (list, reason, stop) in [
        (vec![], "stop", "end-turn"),
        (vec![&speech], "stop", "end-turn"),
        (vec![&refusal], "stop", "refusal"),
        (vec![&speech, &refusal], "stop", "end-turn"),
        (vec![&call], "stop", "tool-use"),
        (vec![&call], "tool_calls", "tool-use"),
        (vec![&call], "length", "max-tokens"),
        (vec![&speech], "length", "max-tokens"),
        (vec![&speech], "content_filter", "content-filter"),
        (vec![&speech], "eos", "end-turn"),
        (vec![&speech], "STOP", "end-turn"),
        (vec![&speech], "model_length", "context-window"),
        (vec![&speech], "model_context_window_exceeded", "context-window"),
        (vec![&speech], "sensitive", "content-filter"),
        (vec![&speech], "new_word", "other"),
        (vec![&refusal], "new_word", "other"),
        (vec![&call], "function_call", "tool-use"),
        (vec![&call], "STOP", "tool-use"),
        (vec![&call], "end_turn", "tool-use"),
        (vec![&call], "tool_use", "tool-use"),
        (vec![&call], "tool_call", "tool-use"),
        (vec![&call], "eos", "tool-use"),
        (vec![&call], "eos_token", "tool-use"),
        (vec![&call], "max_tokens", "max-tokens"),
        (vec![&call], "MAX_TOKENS", "max-tokens"),
        (vec![&call], "model_length", "context-window"),
        (vec![&call], "content_filter", "content-filter"),
        (vec![&call], "abort", "other"),
        (vec![&call], "repetition", "other"),
        (vec![&call], "new_word", "tool-use"),
    ] {
        let list: Vec<_> = list.into_iter().cloned().collect();
        let end = summary(&deltas(&list, reason));
        assert_eq!((text(&end, "stop"), text(&end, "raw")), (stop, reason), "{list:?}");
    }
    // An incomplete call is not completed, whatever the reason.
    let cut = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "t", "arguments": ""}}]});
    for reason in ["length", "MAX_TOKENS", "abort", "new_word"] {
        assert_eq!(kept(&deltas(std::slice::from_ref(&cut), reason)).parts[0].block, called("c", "t", ""), "{reason}");
    }
}

#[test]
fn calls_without_a_reason_are_complete_if_their_input_is() {
    let call = |id: &str, input: &str| json!({"id": id, "function": {"name": "t", "arguments": input}});
    let end = |calls: &[Value]| {
        let chunk = json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": ""}]});
        summary(&answer(stream(), &format!("data: {chunk}\n\ndata: [DONE]\n\n")))
    };
    let whole = end(&[call("a", r#"{"x": [1, {}]}"#), call("b", " {} ")]);
    assert_eq!((text(&whole, "stop"), text(&whole, "raw")), ("tool-use", "[DONE]"));
    for input in ["", "{", r#"{"x": 1"#, r#"{"x": "a}"#, "[]", "null", "{} {}"] {
        let cut = end(&[call("a", "{}"), call("b", input)]);
        assert_eq!(cut["failure"], json!({"kind": "network"}), "{input}");
    }
}

#[test]
fn answer_ends_with_done_or_with_a_reason() {
    let speech = format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "Hi."}}]}));
    let reason = format!("data: {}\n\n", json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
    let usage = format!("data: {}\n\n", json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}));
    let whole = json!({"text": "Hi.", "stop": "end-turn", "raw": "stop", "usage": {"input": 3, "output": 2}});
    assert_eq!(summary(&answer(stream(), &format!("{speech}{reason}{usage}data: [DONE]\n\n"))), whole);
    assert_eq!(summary(&answer(stream(), &format!("{speech}{reason}{usage}"))), whole);
    assert_eq!(summary(&answer(stream(), &format!("{speech}data:\n\ndata:[DONE]\n\n")))["stop"], "end-turn");
    let cut = json!({"failure": {"kind": "network"}, "text": "Hi."});
    assert_eq!(summary(&answer(stream(), &speech)), cut);
    assert_eq!(summary(&answer(stream(), &format!("{speech}data: {{\"cho\n\n")))["failure"], json!({"kind": "server"}));
    assert_eq!(summary(&answer(stream(), "")), json!({"failure": {"kind": "network"}}));
}

#[test]
fn other_choices_and_null_fields_are_ignored() {
    let chunks = [
        json!({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}], "error": null, "usage": null}),
        json!({"choices": null}),
        json!({"choices": [{"index": 0, "delta": {"content": null, "reasoning_content": null, "tool_calls": null, "function_call": null, "refusal": null}}]}),
        json!({"choices": [{"index": 0, "delta": {"reasoning_content": "r", "reasoning": "r", "content": "yes"}, "finish_reason": "stop"}]}),
    ];
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let actions = answer(stream(), &body);
    assert_eq!(summary(&actions), json!({"thinking": "r", "text": "yes", "stop": "end-turn", "raw": "stop"}));
    assert!(!actions.iter().any(|action| matches!(action, Action::Emit(Event::Usage(_)))));
}

#[test]
fn error_in_a_chunk_ends_the_answer() {
    for (error, kind, code) in [
        (json!({"error": {"message": "m", "type": "server_error", "code": null}}), "server", "server_error"),
        (json!({"error": {"message": "m", "code": 429}}), "rate-limit", "429"),
        (json!({"error": {"message": "m", "type": "BadRequestError", "code": 400}}), "invalid-request", "400"),
        (json!({"error": "out of memory", "code": "server_error"}), "server", "server_error"),
        (json!({"error": {"message": "m", "type": "model_crashed"}}), "server", "model_crashed"),
    ] {
        let speech = json!({"choices": [{"delta": {"content": "Half"}}]});
        let end = summary(&answer(stream(), &format!("data: {speech}\n\ndata: {error}\n\ndata: [DONE]\n\n")));
        assert_eq!(end, json!({"failure": {"kind": kind, "code": code}, "text": "Half"}));
    }
}

/// Returns the messages of the request to `model` after an answer made of these deltas, with results for its calls.
fn next_request(model: &str, list: &[Value], settings: Settings) -> Value {
    let answer = kept(&deltas(list, "tool_calls"));
    let results = answer.parts.iter().filter_map(|part| match &part.block {
        Block::ToolCall(call) => Some(answered(&call.id, vec![piece("done")])),
        _ => None,
    });
    let results: Vec<_> = results.chain([text_block("Go on.")]).collect();
    let plain = assistant(vec![(text_block("Hi."), None)]);
    let history = vec![user(vec![text_block("a")]), plain, user(vec![text_block("b")]), answer, user(results)];
    let mut request = completion(history);
    request.model = model.to_owned();
    body(&sent(&request, settings))["messages"].clone()
}

#[test]
fn thinking_goes_back_in_the_field_in_which_it_came() {
    let call = json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "t", "arguments": "{}"}}]});
    let fields = ["reasoning_content", "reasoning", "reasoning_details"];
    for (list, field, value) in [
        (
            vec![json!({"reasoning_content": "Let "}), json!({"reasoning_content": "me see."})],
            "reasoning_content",
            json!("Let me see."),
        ),
        (vec![json!({"reasoning": "Let me see."}), json!({"content": "I look."})], "reasoning", json!("Let me see.")),
        (
            vec![
                json!({"reasoning": "Let ", "reasoning_details": [{"type": "reasoning.text", "text": "Let ", "index": 0, "format": "f"}]}),
                json!({"reasoning": "me", "reasoning_details": [{"type": "reasoning.text", "text": "me", "index": 0}]}),
                json!({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]}),
                json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]}),
                json!({"content": "I look."}),
                json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "y", "index": 1}]}),
            ],
            "reasoning_details",
            json!([
                {"type": "reasoning.text", "text": "Let me", "index": 0, "format": "f", "signature": "s"},
                {"type": "reasoning.encrypted", "data": "x", "index": 1},
                {"type": "reasoning.encrypted", "data": "y", "index": 1},
            ]),
        ),
        // A detail without any text to show.
        (
            vec![json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})],
            "reasoning_details",
            json!([{"type": "reasoning.encrypted", "data": "x"}]),
        ),
    ] {
        let list: Vec<_> = list.into_iter().chain([call.clone()]).collect();
        let messages = next_request("model-1", &list, Settings::default());
        for one in fields {
            assert_eq!(messages[3].get(one), (one == field).then_some(&value), "{messages}");
        }
        assert_eq!(messages[3]["tool_calls"][0]["id"], "c1");
        // DeepSeek requires the field in every message if one has it.
        let other = if field == "reasoning_content" { Some(&json!("")).cloned() } else { None };
        assert_eq!(messages[1].get("reasoning_content"), other.as_ref());
        let dropped = next_request("model-1", &list, Settings { history: History::Drop, ..Settings::default() });
        assert!(fields.iter().all(|field| !dropped.to_string().contains(field)), "{dropped}");
    }
    // The field is also required in a conversation that another model began.
    let messages = next_request("deepseek-v4-pro", &[call], Settings::default());
    assert_eq!((&messages[1]["reasoning_content"], &messages[3]["reasoning_content"]), (&json!(""), &json!("")));
}

#[test]
fn data_of_calls_goes_back() {
    let extra = json!({"google": {"thought_signature": "c2ln"}});
    let call = json!({"tool_calls": [
        {"id": "c1", "extra_content": extra, "function": {"name": "t", "arguments": "{}"}},
        {"id": "c2", "function": {"name": "t", "arguments": "{}"}},
    ]});
    let calls = &next_request("gemini-3.8-flash", &[call], Settings::default())[3]["tool_calls"];
    assert_eq!((&calls[0]["extra_content"], calls[1].get("extra_content")), (&extra, None));
}

#[test]
fn contents_as_a_list_are_read_and_sent_back() {
    let list = [
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Three "}]}]}),
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r’s."}]}]}),
        json!({"content": [{"type": "text", "text": "There "}, {"type": "reference", "reference_ids": [1]}]}),
        json!({"content": "are three."}),
    ];
    let end = summary(&deltas(&list, "stop"));
    assert_eq!((text(&end, "thinking"), text(&end, "text")), ("Three r’s.", "There are three."));
    let messages = next_request("magistral-medium-latest", &list, Settings::default());
    assert_eq!(
        messages[3]["content"],
        json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "Three r’s."}]},
            {"type": "text", "text": "There are three."},
        ])
    );
}

#[test]
fn thinking_in_tags_is_thinking_and_stays_here() {
    let list = [json!({"content": "<thi"}), json!({"content": "nk>hm</think>\n\nYes"}), json!({"content": "."})];
    let end = summary(&deltas(&list, "stop"));
    assert_eq!((text(&end, "thinking"), text(&end, "text")), ("hm", "Yes."));
    let messages = next_request("qwen3", &list, Settings::default());
    assert_eq!(messages[3], json!({"role": "assistant", "content": "Yes."}));
    // A call ends thinking whose closing tag is missing.
    let call = json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "t", "arguments": "{}"}}]});
    let end = summary(&deltas(&[json!({"content": "<think>hm"}), call], "tool_calls"));
    assert_eq!((text(&end, "thinking"), end.get("text"), text(&end, "stop")), ("hm", None, "tool-use"));
}

#[test]
fn mistral_has_ids_and_roles_of_its_own() {
    let call = |id: &str| json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "t", "arguments": "{}"}}]});
    for (model, id, expected) in [
        ("mistralai/Devstral-2", "toolu_01AqkZkR8mdXw6nFkGxgn7Zt", None),
        ("mistral-large-latest", "call_0", None),
        ("mistral-large-latest", "aB3xK9mP2", Some("aB3xK9mP2")),
        ("qwen3", "call_0", Some("call_0")),
    ] {
        let messages = next_request(model, &[call(id)], Settings::default());
        let sent = text(&messages[3]["tool_calls"][0], "id").to_owned();
        match expected {
            Some(expected) => assert_eq!(sent, expected),
            None => assert!(sent.len() == 9 && sent.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{sent}"),
        }
        assert_eq!(messages[4]["tool_call_id"], sent.as_str());
        let roles: Vec<_> = messages.as_array().expect("a list").iter().skip(4).map(|one| text(one, "role")).collect();
        let bridge: &[_] = if model == "qwen3" { &["tool", "user"] } else { &["tool", "assistant", "user"] };
        assert_eq!(roles, bridge, "{model}");
    }
}

#[test]
fn end_that_is_no_answer_is_a_failure() {
    let gemini = "function_call_filter: MALFORMED_FUNCTION_CALL";
    for reason in ["error", "insufficient_system_resource", "network_error", gemini] {
        let end = summary(&deltas(&[json!({"content": "Half"})], reason));
        assert_eq!(end, json!({"failure": {"kind": "server", "code": reason}, "text": "Half"}));
    }
}

#[test]
fn cached_tokens_are_read_from_each_form() {
    for usage in [
        json!({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 7}}),
        json!({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 2}),
        json!({"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 7}),
    ] {
        let chunk = json!({"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}], "usage": usage});
        let end = summary(&answer(stream(), &format!("data: {chunk}\n\ndata: [DONE]\n\n")));
        assert_eq!(end["usage"], json!({"input": 9, "output": 1, "cache_read": 7}));
    }
}

#[test]
fn extra_body_and_headers_are_in_the_request() {
    assert_extra(&sent(&with_extra(completion(Vec::new())), Settings::default()));
    let mut request = completion(Vec::new());
    request.options = vec![Pair { name: "extra-headers".to_owned(), value: r#"{"Authorization": "x"}"#.to_owned() }];
    let (mut stream, first) = begin(&request, Settings::default());
    assert!(matches!(first.as_slice(), [Action::Fail(failure)] if failure.kind == "invalid-request"), "{first:?}");
    assert!(stream.resume(patchbay_provider_sdk::Input::Timer).is_empty());
}

#[test]
fn conversation_that_is_too_long_has_its_code() {
    let too_long = |code: &str| ("invalid-request".to_owned(), Some(code.to_owned()));
    let words = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.";
    for (error, code) in [
        (json!({"message": words, "type": "BadRequestError", "code": 400}), "context_window"),
        (
            json!({"message": "request (66202 tokens) exceeds the available context size (65536 tokens), try increasing it", "type": "exceed_context_size_error", "code": 400}),
            "context_window",
        ),
        (
            json!({"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}),
            "context_length_exceeded",
        ),
    ] {
        assert_eq!(context_window::refused(stream(), 400, &json!({"error": error})), too_long(code), "{error}");
    }
}

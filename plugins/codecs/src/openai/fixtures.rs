//! Helpers for the tests of OpenAI's two APIs.

use patchbay_provider_sdk::{
    Action, BlobRef, Block, BlockKind, BodyPiece, CompletionRequest, Event, HttpRequest, Input, Message, Pair, Part,
    Piece, ResponseHead, Role, Tool, ToolCall, ToolChoice, ToolResult,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::recording::{parts, play, summary};
use crate::stream::{Codec, Stream};

/// Creates a completion with only `messages`.
pub(crate) fn completion(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest {
        model: "model-1".to_owned(),
        system: Vec::new(),
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        options: Vec::new(),
    }
}

/// Adds options that put `tier` into the body, and `x-tier` into the headers.
pub(crate) fn with_extra(mut request: CompletionRequest) -> CompletionRequest {
    let options = [("extra-body", r#"{"tier": {"a": 1}}"#), ("extra-headers", r#"{"X-Tier": "b"}"#)];
    request.options.extend(options.map(|(name, value)| Pair { name: name.to_owned(), value: value.to_owned() }));
    request
}

/// Checks that a request has what [`with_extra`] adds.
pub(crate) fn assert_extra(request: &HttpRequest) {
    assert_eq!(body(request)["tier"]["a"], 1);
    assert_eq!(crate::failure::header(&request.headers, "x-tier"), Some("b"));
}

pub(crate) fn user(blocks: Vec<Block>) -> Message {
    Message { role: Role::User, parts: blocks.into_iter().map(|block| Part { block, opaque: None }).collect() }
}

pub(crate) fn assistant(blocks: Vec<(Block, Option<&str>)>) -> Message {
    let part = |(block, opaque): (Block, Option<&str>)| Part { block, opaque: opaque.map(str::to_owned) };
    Message { role: Role::Assistant, parts: blocks.into_iter().map(part).collect() }
}

pub(crate) fn text_block(text: &str) -> Block {
    Block::Text(text.to_owned())
}

pub(crate) fn thought(text: &str) -> Block {
    Block::Thinking(text.to_owned())
}

pub(crate) fn called(id: &str, name: &str, input: &str) -> Block {
    Block::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), input: input.to_owned() })
}

pub(crate) fn answered(id: &str, content: Vec<Piece>) -> Block {
    Block::ToolResult(ToolResult { call_id: id.to_owned(), name: "shot".to_owned(), content, is_error: false })
}

pub(crate) fn piece(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

pub(crate) fn blob(id: u32, media_type: &str, name: Option<&str>) -> BlobRef {
    BlobRef { id, media_type: media_type.to_owned(), name: name.map(str::to_owned), size: 9 }
}

pub(crate) fn tool(name: &str, schema: &str) -> Tool {
    Tool { name: name.to_owned(), description: format!("Does {name}."), input_schema: schema.to_owned() }
}

/// Returns the body as text, with `<ID>` for each blob.
pub(crate) fn body_text(request: &HttpRequest) -> String {
    let text = |piece: &BodyPiece| match piece {
        BodyPiece::Bytes(bytes) => String::from_utf8(bytes.clone()).expect("UTF-8"),
        BodyPiece::BlobBase64(id) => format!("<{id}>"),
    };
    request.body.iter().map(text).collect()
}

/// Returns the body as JSON, with `<ID>` for each blob.
pub(crate) fn body(request: &HttpRequest) -> Value {
    serde_json::from_str(&body_text(request)).expect("JSON")
}

/// Returns the actions for a body that arrives in one chunk.
pub(crate) fn answer<C: Codec>(mut stream: Stream<C>, body: &str) -> Vec<Action> {
    play(&mut stream, &[body.as_bytes().to_vec()], &[])
}

/// Returns the message that the host stores and sends back, with the attached data of its blocks.
pub(crate) fn kept(actions: &[Action]) -> Message {
    let mut parts: Vec<Part> = Vec::new();
    for action in actions {
        match action {
            Action::Emit(Event::BlockStart(start)) => {
                let block = match &start.kind {
                    BlockKind::Text => text_block(""),
                    BlockKind::Thinking => thought(""),
                    BlockKind::ToolCall(head) => called(&head.id, &head.name, ""),
                    BlockKind::Opaque(opaque) => Block::Opaque(opaque.clone()),
                };
                parts.push(Part { block, opaque: None });
            }
            Action::Emit(Event::BlockDelta(delta)) => match &mut parts[delta.index as usize].block {
                Block::Text(text) | Block::Thinking(text) => text.push_str(&delta.text),
                Block::ToolCall(call) => call.input.push_str(&delta.text),
                block => panic!("a delta of {block:?}"),
            },
            Action::Emit(Event::BlockEnd(end)) => parts[end.index as usize].opaque.clone_from(&end.opaque),
            _ => {}
        }
    }
    Message { role: Role::Assistant, parts }
}

/// Checks that a damaged recording keeps the rules of the contract, ends once, and can be sent back.
pub(crate) fn check_damaged<C: Codec>(
    folder: &str,
    names: &[&str],
    begin: impl Fn(&CompletionRequest) -> (Stream<C>, Vec<Action>),
) {
    let recordings: Vec<_> = names.iter().map(|name| parts(folder, name).concat()).collect();
    let damage = proptest::collection::vec((any::<proptest::sample::Index>(), 0..6usize), 1..6);
    proptest!(|(recording in proptest::sample::select(recordings), damage in damage)| {
        let mut lines: Vec<_> = recording.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for (place, how) in damage {
            let at = place.index(lines.len());
            let text = String::from_utf8_lossy(&lines[at]).into_owned();
            match how {
                0 => lines[at].clear(),
                1 => lines[at].truncate(text.len() / 2),
                2 => lines[at] = text.replace("_index\":1", "_index\":0").into_bytes(),
                3 => lines[at] = text.replace(":\"", ":7,\"x\":\"").into_bytes(),
                4 => lines.insert(at, text.into_bytes()),
                _ => drop(lines.remove(at)),
            }
        }
        let (mut stream, _) = begin(&completion(Vec::new()));
        let head = ResponseHead { status: 200, headers: Vec::new() };
        let inputs = [Input::ResponseHead(head), Input::BodyChunk(lines.join(&b'\n')), Input::BodyEnd];
        let actions: Vec<_> = inputs.into_iter().flat_map(|input| stream.resume(input)).collect();
        check_law(&actions);
        let again = completion(vec![user(vec![text_block("hi")]), kept(&actions), user(vec![text_block("Go on.")])]);
        let (_, first) = begin(&again);
        assert!(matches!(&first[..], [Action::Send(request)] if body(request).is_object()));
    });
}

fn check_law(actions: &[Action]) {
    let ends = actions.iter().filter(|action| matches!(action, Action::Finish(_) | Action::Fail(_))).count();
    assert_eq!(ends, 1, "{actions:?}");
    assert!(matches!(actions.last(), Some(Action::Finish(_) | Action::Fail(_))));
    // A damaged input of a call may not be JSON, so it is not checked.
    let kinds: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::Emit(Event::BlockStart(start)) => {
                let mut start = start.clone();
                start.kind = BlockKind::Text;
                Action::Emit(Event::BlockStart(start))
            }
            action => action.clone(),
        })
        .collect();
    summary(&kinds);
}

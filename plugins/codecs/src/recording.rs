//! Test helper for all codecs: plays recorded answers.
//!
//! `recordings/FOLDER/NAME.json` is a fixture as `patchbay plugin test` runs it on the adapter's component: the answers, whose
//! bytes are in files beside it, and the expected events. Here, only the [`summary`] of the events is compared. Each recording
//! is played as one chunk, as two chunks split at every position, and byte by byte, and must produce the same events each time.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use patchbay_provider_sdk::{Action, BlockKind, Event, Input, Pair, ResponseHead};
use serde_json::{Map, Value, json};

use crate::stream::{Codec, Stream};

/// Plays every recording of `folder` to streams from `begin` and checks the summaries.
pub(crate) fn check_all<C: Codec>(folder: &str, begin: impl Fn() -> Stream<C>) {
    let directory = directory(folder);
    let mut played = 0;
    for entry in fs::read_dir(&directory).expect("recordings") {
        let file = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let Some(name) = file.strip_suffix(".json") else { continue };
        let parts = parts(folder, name);
        let whole = play(&mut begin(), &parts, &[]);
        assert_eq!(summary(&whole), expected(&fixture(folder, name)), "{folder}/{name}");
        for (at, part) in parts.iter().enumerate() {
            for cut in 0..=part.len() {
                let again = play(&mut begin(), &parts, &[(at, cut)]);
                assert_eq!(again, whole, "{folder}/{name}, part {at} cut at {cut}");
            }
        }
        let all: Vec<_> =
            parts.iter().enumerate().flat_map(|(at, part)| (0..part.len()).map(move |cut| (at, cut))).collect();
        assert_eq!(play(&mut begin(), &parts, &all), whole, "{folder}/{name}, byte by byte");
        played += 1;
    }
    assert!(played > 0, "no recordings in {}", directory.display());
}

/// Returns the bodies of one recording, in order.
pub(crate) fn parts(folder: &str, name: &str) -> Vec<Vec<u8>> {
    let fixture = fixture(folder, name);
    let exchanges = fixture["exchanges"].as_array().expect("exchanges").iter();
    let file = |exchange: &Value| exchange["gives"]["body"]["file"].as_str().expect("a file").to_owned();
    exchanges.map(|exchange| fs::read(directory(folder).join(file(exchange))).expect("a body")).collect()
}

fn fixture(folder: &str, name: &str) -> Value {
    let file = directory(folder).join(format!("{name}.json"));
    serde_json::from_slice(&fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
        .expect("JSON")
}

/// Returns the [`summary`] of the events of a fixture.
fn expected(fixture: &Value) -> Value {
    let events = fixture["events"].as_array().expect("events");
    let blocks = || events.iter().map(|event| event.pointer("/signed/part").unwrap_or(event));
    let joined = |kind: &str| blocks().filter_map(|block| block[kind].as_str()).collect::<String>();
    let last = events.last().expect("an end");
    if let Some(fail) = last.get("fail") {
        return normal(json!({"failure": {"kind": fail["kind"], "code": fail["code"]}, "text": joined("text")}));
    }
    let usage = events.iter().find_map(|event| event.get("usage"));
    let calls: Vec<_> = blocks().filter_map(|block| block.get("tool_call")).collect();
    let end = &last["finish"];
    normal(json!({
        "text": joined("text"), "thinking": joined("thinking"), "tool_calls": calls, "usage": usage,
        "stop": end["stop"], "raw": end["raw"],
    }))
}

fn directory(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings").join(folder)
}

/// Plays the bodies, one for each request, and returns the actions with adjacent deltas of one block joined. `cuts` are
/// additional ends of chunks, as part and offset, in order.
pub(crate) fn play<C: Codec>(stream: &mut Stream<C>, parts: &[Vec<u8>], cuts: &[(usize, usize)]) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let sent = actions.iter().filter(|action| matches!(action, Action::Send(_))).count();
        assert_eq!(sent, at, "part {} has no request", at + 1);
        let headers = vec![Pair { name: "content-type".to_owned(), value: "text/event-stream".to_owned() }];
        let mut inputs = vec![Input::ResponseHead(ResponseHead { status: 200, headers })];
        let mut from = 0;
        for to in cuts.iter().filter(|cut| cut.0 == at).map(|cut| cut.1).chain([part.len()]) {
            inputs.push(Input::BodyChunk(part[from..to].to_vec()));
            from = to;
        }
        inputs.push(Input::BodyEnd);
        for input in inputs {
            // A new request drops the rest of the previous body.
            if actions.iter().filter(|action| matches!(action, Action::Send(_))).count() > at {
                break;
            }
            for action in stream.resume(input) {
                match (actions.last_mut(), action) {
                    (Some(Action::Emit(Event::BlockDelta(last))), Action::Emit(Event::BlockDelta(delta)))
                        if last.index == delta.index =>
                    {
                        last.text.push_str(&delta.text);
                    }
                    (_, action) => actions.push(action),
                }
            }
        }
    }
    actions
}

/// Checks the contract's rules for blocks and returns a summary of actions: `{"text", "thinking", "tool_calls": [{"id",
/// "name", "input"}], "usage": {"input", "output", "thinking", "cache_read", "cache_write"}, "stop", "raw"}`, or
/// `{"failure": {"kind", "code"}, "text"}`. Zero and empty fields are left out.
pub(crate) fn summary(actions: &[Action]) -> Value {
    let (mut text, mut thinking, mut usage, mut end) = (String::new(), String::new(), Map::new(), Map::new());
    let mut blocks: BTreeMap<u32, (BlockKind, String, bool)> = BTreeMap::new();
    for action in actions {
        assert!(end.is_empty(), "{action:?} after the end");
        match action {
            Action::Send(_) | Action::WaitMs(_) => {}
            Action::Emit(Event::BlockStart(start)) => {
                assert_eq!(start.index as usize, blocks.len(), "blocks are numbered in order");
                blocks.insert(start.index, (start.kind.clone(), String::new(), true));
            }
            Action::Emit(Event::BlockDelta(delta)) => {
                let (kind, block_text, open) = blocks.get_mut(&delta.index).expect("a block that was started");
                assert!(*open && !delta.text.is_empty(), "{delta:?}");
                block_text.push_str(&delta.text);
                match kind {
                    BlockKind::Text => text.push_str(&delta.text),
                    BlockKind::Thinking => thinking.push_str(&delta.text),
                    BlockKind::ToolCall(_) | BlockKind::Opaque(_) => {}
                }
            }
            Action::Emit(Event::BlockEnd(end)) => {
                let open = &mut blocks.get_mut(&end.index).expect("a block that was started").2;
                assert!(std::mem::take(open), "{end:?} twice");
            }
            Action::Emit(Event::Usage(now)) => {
                usage = Map::new();
                for (name, value) in [
                    ("input", now.input_tokens),
                    ("output", now.output_tokens),
                    ("thinking", now.thinking_tokens),
                    ("cache_read", now.cache_read_tokens),
                    ("cache_write", now.cache_write_tokens),
                ] {
                    usage.insert(name.to_owned(), value.into());
                }
            }
            Action::Emit(Event::Started(_) | Event::Extra(_)) => {}
            Action::Finish(finish) => {
                assert!(blocks.values().all(|block| !block.2), "a block is open at the end");
                end.insert("stop".to_owned(), finish.stop.as_str().into());
                end.insert("raw".to_owned(), finish.raw.as_str().into());
            }
            Action::Fail(failure) => {
                end.insert("failure".to_owned(), json!({"kind": failure.kind, "code": failure.code}));
            }
        }
    }
    end.insert("text".to_owned(), text.into());
    if !end.contains_key("failure") {
        let calls = blocks.into_values().filter_map(|(kind, input, _)| match kind {
            BlockKind::ToolCall(head) => {
                let input = serde_json::from_str::<Value>(&input).expect("a call's input");
                Some(json!({"id": head.id, "name": head.name, "input": input}))
            }
            _ => None,
        });
        end.insert("tool_calls".to_owned(), calls.collect());
        end.insert("thinking".to_owned(), thinking.into());
        end.insert("usage".to_owned(), usage.into());
    }
    normal(end.into())
}

/// Removes zero and empty fields at the top level, in the usage and in the failure, because
/// a missing and an empty field should compare equal.
fn normal(mut summary: Value) -> Value {
    let nothing = |value: &Value| matches!(value, Value::Null) || *value == 0 || *value == "" || *value == json!([]);
    for part in ["usage", "failure"] {
        if let Some(part) = summary.get_mut(part).and_then(Value::as_object_mut) {
            part.retain(|_, value| !nothing(value));
        }
    }
    if let Some(summary) = summary.as_object_mut() {
        summary.retain(|_, value| !nothing(value) && *value != json!({}));
    }
    summary
}

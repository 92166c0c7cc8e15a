//! `patchbay plugin test` on provider adapters: recorded responses, cut at every byte, and the rules for adapters.

use std::{
    fs,
    path::{Path, PathBuf},
};

use patchbay_tests::{
    adapter::Adapter,
    answers::json_lines,
    binary::{Patchbay, Ran},
};
use serde_json::{Value, json};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn test(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["plugin", "test"], arguments].concat())
}

/// An API's response, in one chunk.
fn answer(status: u16, body: &str) -> Value {
    json!({"with": {"method": "POST"}, "gives": {"status": status, "body": body}})
}

/// Writes an adapter that sends a request and then follows `steps`, with one test case for it.
fn scripted(patchbay: &Patchbay, steps: &[Value], case: &Value) {
    let send = json!([{"send": {"method": "POST", "path-and-query": "/v1/x"}}]);
    let adapter = Adapter::script(&[&[send], steps].concat());
    patchbay.write("workspace/scripted/scripted.wasm", adapter.component());
    patchbay.write("workspace/scripted/fixtures/a.json", case.to_string());
}

fn case(exchanges: &Value, events: &Value) -> Value {
    let request = json!({"model": "scripted-1", "messages": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    json!({"fixture": 1, "request": request, "exchanges": exchanges, "events": events})
}

fn copied(patchbay: &Patchbay, from: &Path, name: &str) {
    let path = format!("workspace/{name}/fixtures/{}", from.file_name().unwrap().to_str().unwrap());
    patchbay.write(&path, fs::read(from).unwrap());
}

/// A few cases for each API: several requests, data of the adapter, failures. The codecs' own tests play all of them.
#[test]
fn recordings_of_the_codecs_are_fixtures_of_the_bundled_adapters() {
    let patchbay = Patchbay::new();
    let recordings = repository().join("plugins/codecs/recordings");
    for (adapter, folder, names) in [
        ("anthropic", "messages", &["pause_turn", "cut"][..]),
        ("google", "gemini", &["signed_texts"]),
        ("openai", "responses", &["cut"]),
        ("openai-compatible", "chat", &["text", "error"]),
    ] {
        let component = repository().join(format!("plugins/dist/providers/{adapter}.wasm"));
        patchbay.write(&format!("workspace/{adapter}/{adapter}.wasm"), fs::read(component).unwrap());
        for entry in fs::read_dir(recordings.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
            if names.contains(&stem) {
                copied(&patchbay, &path, adapter);
            }
        }
        let ran = test(&patchbay, &[adapter]);
        let passed = format!("{} passed, 0 failed; 3 rules hold\n", names.len());
        assert!(ran.code == Some(0) && ran.out.ends_with(&passed), "{adapter}: {ran:?}");
    }
    // One byte of a response is changed.
    let file = patchbay.workspace().join("openai-compatible/fixtures/text.sse");
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replacen("Gr", "Kr", 1);
    assert_ne!(changed, text);
    fs::write(&file, changed).unwrap();
    let ran = test(&patchbay, &["openai-compatible", "--filter", "text"]);
    assert!(ran.code == Some(1) && ran.out.contains("FAILED  fixtures/text.json\n  events:\n"), "{ran:?}");
    assert_eq!(test(&patchbay, &["openai-compatible", "--filter", "text", "--update"]).code, Some(0));
    let ran = test(&patchbay, &["openai-compatible", "--filter", "text"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "passed  fixtures/text.json\n1 passed, 0 failed\n"), "{ran:?}");
}

#[test]
fn requests_events_and_rules_are_compared() {
    let patchbay = Patchbay::new();
    let start = json!({"emit": {"block-start": {"index": 0, "kind": "text"}}});
    let (end, finish) =
        (json!({"emit": {"block-end": {"index": 0}}}), json!({"finish": {"stop": "end-turn", "raw": "x"}}));
    let steps = [json!([start, {"emit": {"block-delta": {"index": 0, "text": "hi"}}}, end, finish])];
    let events = json!([{"text": "hi"}, {"finish": {"stop": "end-turn", "raw": "x"}}]);
    let mut good = case(&json!([answer(200, "")]), &events);
    scripted(&patchbay, &steps, &good);
    let ran = test(&patchbay, &["scripted"]);
    // This adapter finishes regardless of the response.
    assert!(
        ran.out.starts_with(
            "passed  fixtures/a.json\nFAILED  conformance: errors of the API have the kinds of the contract\n"
        ),
        "{ran:?}"
    );
    assert!(ran.out.contains("  status 401 with the body '' gives no failure, not authentication\n"), "{ran:?}");
    let ran = test(&patchbay, &["scripted", "--conformance"]);
    assert!(ran.out.starts_with("passed  conformance: ") && !ran.out.contains("fixtures/a.json"), "{ran:?}");
    good["exchanges"][0]["with"] = json!({"method": "GET", "path": "/v1/x"});
    scripted(&patchbay, &steps, &good);
    let ran = test(&patchbay, &["scripted"]);
    assert!(ran.out.contains("  exchange 1, method:\n    - GET\n    + POST\n"), "{ran:?}");
    scripted(&patchbay, &steps, &case(&json!([answer(200, ""), answer(200, "")]), &events));
    assert!(test(&patchbay, &["scripted"]).out.contains("  exchange 2:\n"));
    scripted(&patchbay, &steps, &case(&json!([]), &events));
    let ran = test(&patchbay, &["scripted"]);
    assert!(ran.out.contains("not_recorded: no recorded result for request {"), "{ran:?}");
    // The rules of streams.
    for (steps, problem) in [
        (json!([start, finish]), "the answer is finished, but block 0 is open"),
        (json!([end, finish]), "block 0 ends, but is not open"),
        (json!([finish, start]), "the adapter continues after it has ended"),
        (json!([]), "the adapter is waiting for nothing, but has not ended"),
    ] {
        scripted(&patchbay, &[steps], &case(&json!([answer(200, "x")]), &json!([])));
        let ran = test(&patchbay, &["scripted"]);
        assert!(ran.code == Some(1) && ran.out.contains(problem), "{problem}: {ran:?}");
    }
    // It traps in a chunk of two bytes, which only occurs when a response is cut.
    let send = json!([{"send": {"method": "POST", "path-and-query": "/v1/x"}}]);
    let mut adapter = Adapter::script(&[send, json!([]), json!([]), json!([start, end, finish])]);
    adapter.before_resume = "(if (i32.and (i32.eq (local.get 0) (i32.const 1)) (i32.eq (local.get 2) (i32.const 2)))
                               (then (unreachable)))"
        .to_owned();
    patchbay.write("workspace/scripted/scripted.wasm", adapter.component());
    let case = case(&json!([answer(200, "xyz")]), &json!([{"text": ""}, events[1]]));
    patchbay.write("workspace/scripted/fixtures/a.json", case.to_string());
    let ran = test(&patchbay, &["scripted"]);
    assert!(ran.out.starts_with("FAILED  fixtures/a.json\n  cut at byte 1 of answer 1: "), "{ran:?}");
    let (_, report) = (ran, json_lines(&test(&patchbay, &["scripted", "--json"]).out).pop().unwrap());
    assert_eq!(report["failed"], 3, "{report}");
}

#[test]
fn cases_of_strangers_are_bounded_and_named() {
    let patchbay = Patchbay::new();
    scripted(&patchbay, &[], &json!({"fixture": 2, "later": []}));
    let ran = test(&patchbay, &["scripted"]);
    assert!(ran.code == Some(2) && ran.err.contains("[fixture_newer]"), "{ran:?}");
    for (exchange, words) in [
        (json!({"gives": {"error": {"kind": "gone"}}}), "unknown kind 'gone'; known are connect, timeout"),
        (json!({"with": {"url": "x"}, "gives": {"status": 200}}), "with: unknown key 'url'; known are method, path"),
        (json!({"gives": {"status": 200, "body": {"file": "../x"}}}), "the path '../x' leads out of the folder"),
    ] {
        scripted(&patchbay, &[], &case(&json!([exchange]), &json!([])));
        let ran = test(&patchbay, &["scripted"]);
        assert!(ran.code == Some(2) && ran.err.contains(words), "{words}: {ran:?}");
    }
}

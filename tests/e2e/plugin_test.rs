//! `patchbay plugin test`: a component against fixtures, in the real sandbox with recorded host calls.

use std::fs;

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran},
    calls::{completing, copying, fetching, relaying, storing},
    guest::Guest,
};
use serde_json::{Value, json};

fn test(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["plugin", "test"], arguments].concat())
}

/// Runs `plugin test --json`, and returns the exit code and the object.
fn report(patchbay: &Patchbay, arguments: &[&str]) -> (Option<i32>, Value) {
    let ran = test(patchbay, &[arguments, &["--json"]].concat());
    (ran.code, json_lines(&ran.out).pop().unwrap_or_else(|| panic!("no report: {ran:?}")))
}

/// Writes a fixture for the plugin in the folder `workspace`.
fn fixture(patchbay: &Patchbay, name: &str, case: &Value) {
    patchbay.write(&format!("workspace/fixtures/{name}"), case.to_string());
}

fn skill_md(capabilities: &str) -> String {
    format!("---\nname: plug\ncapabilities: [{capabilities}]\n---\n")
}

/// Asserts that nothing was run, with this reason.
fn assert_unusable(ran: &Ran, words: &str) {
    assert!(ran.code == Some(2) && ran.out.is_empty() && ran.err.contains(words), "{words}: {ran:?}");
}

#[test]
fn cases_pass_or_fail_by_their_results() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug.wasm", Guest::default().component());
    let echo = json!({"fixture": 1, "tool": "run", "input": {"a": 1}, "result": [{"text": "{\"a\":1}"}]});
    fixture(&patchbay, "a.json", &echo);
    let mut wrong = echo.clone();
    wrong["result"] = json!([{"text": "{\"a\":2}"}]);
    fixture(&patchbay, "list.json", &json!([echo, wrong]));
    let failing = json!({"fixture": 1, "tool": "run", "failure": {"kind": "not-found"}});
    fixture(&patchbay, "z.json", &failing);
    let ran = test(&patchbay, &["plug.wasm"]);
    let expected = "passed  fixtures/a.json\n\
                    passed  fixtures/list.json#1\n\
                    FAILED  fixtures/list.json#2\n  result:\n    - text: {\"a\":2}\n    + text: {\"a\":1}\n\
                    FAILED  fixtures/z.json\n  failure:\n    - kind: not-found\n    + result:\n    +   text: {}\n\
                    2 passed, 2 failed; 6 rules hold\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), expected, ""));
    let (code, said) = report(&patchbay, &["plug.wasm", "--filter", "#1"]);
    assert_eq!((code, &said["passed"], &said["failed"]), (Some(0), &json!(1), &json!(0)));
    assert_eq!(said["cases"][0]["case"], "fixtures/list.json#1");
    assert_eq!(said["cases"][0]["limits"][0]["limit"], "fuel");
    assert_unusable(&test(&patchbay, &["plug.wasm", "--filter", "zzz"]), "no case or tool has 'zzz' in its name");
    assert!(!patchbay.run(&["journal"]).out.contains("plug"), "the journal of the home has the call");
}

/// If a case's services kept the host alive, its files and threads would stay open until the last case.
#[test]
fn cases_leave_nothing_open() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug.wasm", Guest::default().component());
    let echo = json!({"fixture": 1, "tool": "run", "input": {"a": 1}, "result": [{"text": "{\"a\":1}"}]});
    fixture(&patchbay, "list.json", &Value::from(vec![echo; 12]));
    let component = patchbay.workspace().join("plug.wasm");
    let command = format!("ulimit -n 160; exec patchbay plugin test {}", component.display());
    let ran = patchbay.shell("/bin/sh", &command);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{}", ran.out);
}

#[test]
fn update_writes_what_came_out() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug.wasm", Guest::default().component());
    let written = "{\n  \"fixture\": 1, \"tool\": \"run\",\n  \"result\": [{\"text\": \"old\"}]\n}\n";
    patchbay.write("workspace/fixtures/a.json", written);
    let ran = test(&patchbay, &["plug.wasm", "--update"]);
    let expected = "updated fixtures/a.json\n  result:\n    - text: old\n    + text: {}\n0 passed, 0 failed, 1 updated; 6 rules hold\n";
    assert_eq!((ran.code, &*ran.out), (Some(0), expected));
    let updated = fs::read_to_string(patchbay.workspace().join("fixtures/a.json")).unwrap();
    assert_eq!(updated, written.replace("[{\"text\": \"old\"}]", "[{\"text\":\"{}\"}]"));
    assert_eq!(test(&patchbay, &["plug.wasm"]).code, Some(0));
}

#[test]
fn plugin_or_fixtures_that_cannot_be_used_are_named() {
    let patchbay = Patchbay::new();
    let good = json!({"fixture": 1, "tool": "run", "result": []});
    patchbay.write("workspace/greet/SKILL.md", "---\nname: greet\n---\n");
    patchbay.write("workspace/greet/fixtures/a.json", good.to_string());
    assert_unusable(&test(&patchbay, &["greet"]), "greet is a skill without a component: it has no tools to call.");
    patchbay.write("workspace/greet/Cargo.toml", "");
    assert_unusable(
        &test(&patchbay, &["greet"]),
        "is not built yet: it has sources, but no component. Run: patchbay plugin build",
    );
    patchbay.write("workspace/plug.wasm", Guest::default().component());
    assert_unusable(&test(&patchbay, &["plug.wasm"]), "no fixtures found: ");
    fixture(&patchbay, "a.json", &good);
    patchbay.write("workspace/fixtures/b.json", "{\n\"fixture\": 1,\n\"tool\": \"run\",\n\"results\": []}");
    assert_unusable(&test(&patchbay, &["plug.wasm"]), "fixtures/b.json:4: unknown field `results`, expected one of ");
    fixture(&patchbay, "b.json", &json!({"fixture": 2, "later": 1}));
    let newer =
        "fixtures/b.json has format 2; this Patchbay reads format 1. Update Patchbay to run it. [fixture_newer]\n";
    assert_unusable(&test(&patchbay, &["plug.wasm"]), newer);
    patchbay.write("workspace/secret", "s");
    fixture(&patchbay, "b.json", &json!({"fixture": 1, "tool": "run", "result": [{"text": {"file": "../secret"}}]}));
    assert_unusable(&test(&patchbay, &["plug.wasm"]), "fixtures/b.json: the path '../secret' leads out of the folder");
}

#[test]
fn requests_are_answered_from_the_fixture() {
    let patchbay = Patchbay::new();
    let manifest = skill_md("{name: http, scope: example.com}");
    patchbay.write("workspace/plug.wasm", fetching("https://example.com/a", None, "").packaged(&manifest));
    let call = json!({"call": "http.send", "with": {"method": "GET", "url": "https://example.com/a"},
                      "gives": {"status": 200, "headers": [["content-type", "text/plain"]], "body": {"file": "a.txt"}}});
    let case = json!({"fixture": 1, "tool": "run", "grants": ["http:example.com"], "host": [call],
                      "result": [{"text": "recorded"}], "usage": {"host_calls": 1}});
    fixture(&patchbay, "a.json", &case);
    patchbay.write("workspace/fixtures/a.txt", "recorded");
    assert_eq!(test(&patchbay, &["plug.wasm"]).out, "passed  fixtures/a.json\n1 passed, 0 failed; 6 rules hold\n");
    // One byte of the recorded answer changes.
    patchbay.write("workspace/fixtures/a.txt", "recordeD");
    assert!(test(&patchbay, &["plug.wasm"]).out.contains("    - text: recorded\n    + text: recordeD\n"));
    let mut other = case.clone();
    other["host"] = json!([]);
    fixture(&patchbay, "a.json", &other);
    let missing = "  not_recorded: no recorded result for http.send \
        {\"headers\":[],\"method\":\"GET\",\"url\":\"https://example.com/a\"}\n";
    let ran = test(&patchbay, &["plug.wasm"]);
    assert!(ran.code == Some(1) && ran.out.contains(missing), "{ran:?}");
    // `--update` does not accept a problem with host calls.
    assert_eq!(test(&patchbay, &["plug.wasm", "--update"]).code, Some(1));
    other["host"] = json!([{"call": "http.send", "with": {"url": "https://example.com/b"}, "gives": {"status": 200}}]);
    fixture(&patchbay, "a.json", &other);
    let different = "  host call 1, http.send, url:\n    - https://example.com/b\n    + https://example.com/a\n";
    assert!(test(&patchbay, &["plug.wasm"]).out.contains(different));
    other["host"] = json!([call, call, {"call": "ftp.send"}]);
    fixture(&patchbay, "a.json", &other);
    let ran = test(&patchbay, &["plug.wasm"]);
    assert!(ran.out.contains("  host call 3: unknown host function 'ftp.send'; known are http.send, "), "{ran:?}");
    assert!(ran.out.contains("  host call 2, http.send: the tool did not make this recorded call "), "{ran:?}");
    other["host"] = json!([{"call": "http.send", "gives": {"error": {"kind": "timeout", "message": "too late"}}}]);
    (other["result"], other["failure"]) = (Value::Null, json!({"kind": "timeout", "message": "too late"}));
    fixture(&patchbay, "a.json", &other);
    assert_eq!(test(&patchbay, &["plug.wasm"]).code, Some(0));
    // Without the grant, no host call is answered.
    (other["grants"], other["host"]) = (json!([]), json!([]));
    fixture(&patchbay, "a.json", &other);
    let denied = "  denied: ";
    let ran = test(&patchbay, &["plug.wasm"]);
    assert!(ran.out.contains(denied) && ran.out.contains("add \"http:example.com\" to \"grants\""), "{ran:?}");
}

#[test]
fn models_and_tools_are_answered_from_the_fixture() {
    let patchbay = Patchbay::new();
    patchbay.write(
        "workspace/ask/plug/plug.wasm",
        completing("Be brief.", "Why?").packaged(&skill_md("{name: inference}")),
    );
    let host = json!([{"call": "inference.complete", "with": {"prompt": "Why?"}, "gives": {"text": "Because."}}]);
    let case =
        json!({"fixture": 1, "tool": "run", "grants": ["inference"], "host": host, "result": [{"text": "Because."}]});
    patchbay.write("workspace/ask/plug/fixtures/a.json", case.to_string());
    assert_eq!(test(&patchbay, &["ask/plug"]).out, "passed  fixtures/a.json\n1 passed, 0 failed; 6 rules hold\n");
    let guest = relaying("calc__eval", "{\"expression\": \"6*7\"}");
    patchbay.write("workspace/relay/plug/plug.wasm", guest.packaged(&skill_md("{name: tools}")));
    let host = json!([{"call": "tools.call", "with": {"tool": "calc__eval", "input": {"expression": "6*7"}},
                       "gives": {"result": [{"text": "43"}]}}]);
    let case = json!({"fixture": 1, "tool": "run", "grants": ["tools"], "host": host, "result": [{"text": "43"}]});
    patchbay.write("workspace/relay/plug/fixtures/a.json", case.to_string());
    assert_eq!(test(&patchbay, &["relay/plug"]).out, "passed  fixtures/a.json\n1 passed, 0 failed; 6 rules hold\n");
}

#[test]
fn store_is_given_as_a_tree_or_as_calls() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug.wasm", storing().packaged(&skill_md("{name: kv}")));
    let mut case = json!({"fixture": 1, "tool": "run", "grants": ["kv"], "result": [{"text": "{}"}],
                          "kv": {"before": {"user": {"k": "old", "other": "x"}},
                                 "after": {"user": {"k": "value", "other": "x"}}}});
    fixture(&patchbay, "a.json", &case);
    assert_eq!(test(&patchbay, &["plug.wasm"]).out, "passed  fixtures/a.json\n1 passed, 0 failed; 6 rules hold\n");
    case["kv"]["after"] = Value::Null;
    fixture(&patchbay, "a.json", &case);
    let ran = test(&patchbay, &["plug.wasm", "--update"]);
    assert!(
        ran.code == Some(0)
            && ran.out.contains("  kv:\n      user:\n    -   k: old\n    +   k: value\n        other: x\n"),
        "{ran:?}"
    );
    assert_eq!(test(&patchbay, &["plug.wasm"]).code, Some(0));
    case.as_object_mut().unwrap().remove("kv");
    case["host"] =
        json!([{"call": "kv.put", "with": {"scope": "user", "key": "k", "value": "value"}, "gives": {"version": 4}}]);
    fixture(&patchbay, "a.json", &case);
    assert_eq!(test(&patchbay, &["plug.wasm"]).code, Some(0));
    case["kv"] = json!({});
    fixture(&patchbay, "a.json", &case);
    assert_unusable(&test(&patchbay, &["plug.wasm"]), "'kv' and host calls of kv cannot be in one case");
}

#[test]
fn workspace_is_a_tree_that_is_checked_afterwards() {
    let patchbay = Patchbay::new();
    let manifest = skill_md("{name: workspace-read}, {name: workspace-write}");
    patchbay.write("workspace/plug.wasm", copying().packaged(&manifest));
    let mut case = json!({"fixture": 1, "tool": "run", "grants": ["workspace-read", "workspace-write"],
                          "files": {"before": {"a": "text"}, "after": {"a": "text", "b": "text"}},
                          "result": [{"text": "{}"}]});
    fixture(&patchbay, "a.json", &case);
    assert_eq!(test(&patchbay, &["plug.wasm"]).out, "passed  fixtures/a.json\n1 passed, 0 failed; 6 rules hold\n");
    case["files"]["after"] = json!({"a": "text"});
    fixture(&patchbay, "a.json", &case);
    assert!(test(&patchbay, &["plug.wasm"]).out.contains("  files:\n      a: text\n    + b: text\n"));
    case.as_object_mut().unwrap().remove("files");
    fixture(&patchbay, "a.json", &case);
    let ran = test(&patchbay, &["plug.wasm"]);
    assert!(
        ran.out.contains(
            "  not_recorded: no recorded result for workspace.read {\"max\":100,\"offset\":0,\"path\":\"a\"}\n"
        ),
        "{ran:?}"
    );
    assert!(!patchbay.workspace().join("b").exists(), "it wrote into the author's folder");
    case["files"] = json!({"before": {"../a": "text"}});
    fixture(&patchbay, "a.json", &case);
    assert_unusable(&test(&patchbay, &["plug.wasm"]), "the path '../a' must be plain and relative");
}

#[test]
fn conformance_needs_no_fixtures() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug.wasm", Guest::default().packaged(&skill_md("{name: kv}")));
    let ran = test(&patchbay, &["--conformance", "plug.wasm"]);
    assert!(ran.code == Some(0) && ran.out.ends_with("6 passed, 0 failed\n"), "{ran:?}");
    assert!(ran.err.contains("note: no fixtures found; each tool was called once"), "{ran:?}");
    fixture(&patchbay, "a.json", &json!({"fixture": 1, "tool": "run", "result": [{"text": "{}"}]}));
    let ran = test(&patchbay, &["--conformance", "plug.wasm"]);
    assert!(ran.code == Some(0) && ran.err.contains("note: SKILL.md asks for 'kv', which no case uses"), "{ran:?}");
    // It uses a store that its SKILL.md does not request.
    patchbay.write("workspace/plug.wasm", storing().packaged(&skill_md("")));
    let ran = test(&patchbay, &["--conformance", "plug.wasm"]);
    let failed = "FAILED  conformance: SKILL.md asks for everything that is used\n  fixtures/a.json needs 'kv'\n";
    assert!(ran.code == Some(1) && ran.out.contains(failed), "{ran:?}");
    patchbay.write("workspace/plug.wasm", Guest::answering("a\u{1b}b").component());
    let ran = test(&patchbay, &["--conformance", "plug.wasm"]);
    assert!(
        ran.code == Some(1) && ran.out.contains("FAILED  conformance: texts have no control characters\n"),
        "{ran:?}"
    );
}

/// Without `--filter`, the rules are checked together with the cases.
#[test]
fn rules_are_part_of_every_test() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug.wasm", Guest::answering("a\u{1b}b").packaged(&skill_md("{name: kv}")));
    fixture(&patchbay, "a.json", &json!({"fixture": 1, "tool": "run", "result": [{"text": "ab"}]}));
    let ran = test(&patchbay, &["plug.wasm"]);
    let expected = "passed  fixtures/a.json\nFAILED  conformance: texts have no control characters\n";
    assert!(ran.code == Some(1) && ran.out.starts_with(expected), "{ran:?}");
    assert!(ran.out.ends_with("1 passed, 1 failed; 5 rules hold\n"), "{ran:?}");
    assert!(ran.err.contains("note: SKILL.md asks for 'kv', which no case uses"), "{ran:?}");
    let ran = test(&patchbay, &["plug.wasm", "--filter", "a.json"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "passed  fixtures/a.json\n1 passed, 0 failed\n"));
}

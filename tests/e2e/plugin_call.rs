//! `patchbay plugin call`: a single tool of a plugin that is not installed.

use std::{fs, io::Write as _, process::Stdio};

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran, ran},
    calls::{fetching, relaying},
    guest::Guest,
};
use serde_json::{Value, json};

/// A guest that logs `hello` and then runs `call`.
fn logging(call: &str) -> Guest {
    let more = "\n(import \"patchbay:host/log@0.1.0\" \"write\" (func $write (param i32 i32 i32)))\n\
                (data (i32.const 131072) \"hello\")\n";
    Guest::calling(&format!("(call $write (i32.const 1) (i32.const 131072) (i32.const 5)) {call}")).with(more)
}

fn call(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["plugin", "call"], arguments].concat())
}

/// Runs `plugin call --json`, and returns the exit code and the object.
fn report(patchbay: &Patchbay, arguments: &[&str]) -> (Option<i32>, Value) {
    let ran = call(patchbay, &[arguments, &["--json"]].concat());
    (ran.code, json_lines(&ran.out).pop().unwrap_or_else(|| panic!("no report: {ran:?}")))
}

/// Asserts that nothing was called, with this reason.
fn assert_usage(ran: &Ran, words: &str) {
    assert!(ran.code == Some(2) && ran.out.is_empty() && ran.err.contains(words), "{words}: {ran:?}");
}

/// No skill, session or file is left behind, except the compiled component.
#[test]
fn call_runs_a_component_in_a_home_of_its_own() {
    let mut patchbay = Patchbay::new();
    let temporary = patchbay.folder().join("temporary");
    fs::create_dir(&temporary).unwrap();
    patchbay.set("TMPDIR", temporary.to_str().unwrap());
    patchbay.write("workspace/echo.wasm", logging(patchbay_tests::guest::ECHO).component());
    let ran = call(&patchbay, &["echo.wasm", "run", "{\"a\": 1}"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "{\"a\":1}\n"));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!((lines[0], lines.len()), ("printed: hello", 3), "{ran:?}");
    assert!(lines[1].starts_with("used: ") && lines[1].contains(" of 2,000,000,000, "), "{ran:?}");
    let without = "note: echo has no SKILL.md; this call used a generated one that asks for every capability.";
    assert_eq!(lines[2], without);
    let (code, said) = report(&patchbay, &["echo.wasm", "echo__run"]);
    let (tool, content) = (&said["tool"], &said["content"]);
    assert_eq!((code, tool, content), (Some(0), &json!("echo__run"), &json!([{"type": "text", "text": "{}"}])));
    assert_eq!(said["printed"], json!([{"level": "info", "text": "hello"}]));
    assert!(said["usage"]["fuel"].as_u64() > Some(0) && said["usage"]["host_calls"] == 1, "{said}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    let skills = patchbay.line("/skills");
    assert!(!skills.contains("echo"), "{skills}");
    assert!(!patchbay.run(&["journal"]).out.contains("echo"), "the journal of the home has the call");
}

#[test]
fn capability_needs_the_option_grant() {
    let patchbay = Patchbay::new();
    let skill_md = "---\nname: relay\ncapabilities: [{name: tools}]\n---\n";
    let guest = relaying("calc__eval", "{\"expression\": \"6*7\"}");
    patchbay.write("workspace/relay.wasm", guest.packaged(skill_md));
    let denied = call(&patchbay, &["relay.wasm", "run"]);
    let error =
        "Error: skill 'relay' may not use 'tools': it is not granted. To grant it: add --grant tools [denied]\n";
    assert!(denied.code == Some(1) && denied.err.ends_with(error), "{denied:?}");
    assert!(denied.err.contains("(tools): add --grant tools\n"), "{denied:?}");
    let (code, granted) = report(&patchbay, &["relay.wasm", "run", "--grant", "tools"]);
    assert_eq!((code, &granted["message"]), (Some(0), &json!("42")));
    assert_eq!((&granted["calls"][0]["tool"], &granted["calls"][0]["outcome"]), (&json!("calc__eval"), &json!("ok")));
    let words = "Error: the SKILL.md of relay does not ask for 'kv'; it asks for tools. [invalid_args]\n";
    assert_usage(&call(&patchbay, &["relay.wasm", "run", "--grant", "kv"]), words);
}

/// The secret is only read from the environment, and only if its credential is granted.
#[test]
fn credential_comes_from_the_environment() {
    let mut patchbay = Patchbay::new();
    let table = "[credentials.shop]\norigin = \"https://shop.invalid\"\n[credentials.run]\norigin = \"https://a.invalid\"\n\
                 key_command = [\"true\"]\n";
    patchbay.write("home/config/config.toml", table);
    patchbay.write("home/config/credentials.json", "{\"shop\": {\"api_key\": \"stored\"}}");
    let guest = fetching("https://shop.invalid/", Some(("shop", "authorization", "Bearer ")), "");
    patchbay.write("workspace/buy.wasm", guest.component());
    let granted = ["buy.wasm", "run", "--grant", "http:shop.invalid", "--grant", "credential:shop"];
    let missing = call(&patchbay, &granted);
    assert_usage(&missing, "credential 'shop' has no secret in the environment: set SHOP_TOKEN.");
    patchbay.set("SHOP_TOKEN", "secret-value");
    // The call gets as far as the network, where the host does not exist.
    let (code, said) = report(&patchbay, &granted);
    assert!(code == Some(1) && said["denied"] == json!([]), "{said}");
    assert!(!said.to_string().contains("credential"), "{said}");
    let words = "credential 'run' comes from a key_command, which 'plugin call' does not run.";
    assert_usage(&call(&patchbay, &["buy.wasm", "run", "--grant", "credential:run"]), words);
    let words = "credential 'nope' not found: config.toml needs a table [credentials.nope]";
    assert_usage(&call(&patchbay, &["buy.wasm", "run", "--grant", "credential:nope"]), words);
}

#[test]
fn failure_of_the_tool_is_reported_with_all_printed_lines() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/trap.wasm", logging("unreachable").component());
    let ran = call(&patchbay, &["trap.wasm", "run"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.starts_with("printed: hello\nused: "), "{ran:?}");
    assert_eq!(ran.err.matches("hello").count(), 1, "{ran:?}");
    assert!(ran.err.contains("Error: tool 'trap__run' was stopped: the component trapped"), "{ran:?}");
}

#[test]
fn files_and_attachments_reach_the_tool() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/data.bin", [0u8, 1, 2]);
    patchbay.write("workspace/blobs.wasm", Guest::returning_attachments().component());
    let ran = call(&patchbay, &["blobs.wasm", "run", "--attach", "data.bin"]);
    assert!(ran.code == Some(0) && ran.out.starts_with("application/octet-stream\n"), "{ran:?}");
    let skill_md = "---\nname: relay\ncapabilities: [{name: tools}]\n---\n";
    let guest = relaying("grep__search", "{\"pattern\": \"needle\"}");
    patchbay.write("workspace/relay.wasm", guest.packaged(skill_md));
    patchbay.write("workspace/deep/a.txt", "a needle\n");
    let ran = call(&patchbay, &["relay.wasm", "run", "--grant", "tools", "--file", "deep/a.txt"]);
    assert!(ran.code == Some(0) && ran.out.contains("deep/a.txt"), "{ran:?}");
    let absolute = patchbay.workspace().join("deep/a.txt");
    let twice = ["blobs.wasm", "run", "--file", absolute.to_str().unwrap(), "--file", absolute.to_str().unwrap()];
    assert_usage(&call(&patchbay, &twice), "--file: two files would be written to 'a.txt'.");
    assert_usage(&call(&patchbay, &["blobs.wasm", "run", "--file", "deep"]), "deep is not a regular file");
}

#[test]
fn folder_is_called_as_it_would_be_installed() {
    let patchbay = Patchbay::new();
    let skill_md = "---\nname: greet\ncapabilities: [{name: kv}]\n---\n";
    patchbay.write("workspace/greet/Cargo.toml", "");
    patchbay.write("workspace/greet/src/lib.rs", "");
    patchbay.write("workspace/greet/SKILL.md", skill_md);
    assert_usage(
        &call(&patchbay, &["greet", "run"]),
        "/greet is not built yet: it has sources, but no component. Run: ",
    );
    patchbay.write("workspace/greet/out.wasm", Guest::default().component());
    let (code, said) = report(&patchbay, &["greet", "run", "--grant", "kv"]);
    assert_eq!((code, &said["message"], &said["notes"]), (Some(0), &json!("{}"), &json!([])));
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let source = fs::File::options().append(true).open(patchbay.workspace().join("greet/src/lib.rs")).unwrap();
    source.set_modified(later).unwrap();
    let notes = &report(&patchbay, &["greet", "run"]).1["notes"];
    let note = "'src/lib.rs' was changed after the component was built. To build it again: patchbay plugin build greet";
    assert_eq!(*notes, json!([note]));
    patchbay.write("workspace/greet/SKILL.md", "---\nname: other\n---\n");
    let wrong = call(&patchbay, &["greet", "run"]);
    assert!(wrong.code == Some(1) && wrong.err.starts_with("Error: greet cannot be loaded: "), "{wrong:?}");
}

#[test]
fn wrong_usage_says_what_is_there() {
    let patchbay = Patchbay::new();
    let mut guest = Guest::default();
    guest.tools[0].2 = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#.into();
    patchbay.write("workspace/greet.wasm", guest.component());
    assert_usage(
        &call(&patchbay, &["greet.wasm", "walk"]),
        "Error: greet has no tool 'walk'; its tools: run. [tool_not_found]",
    );
    assert_usage(&call(&patchbay, &["greet.wasm", "run", "{x}"]), "Error: INPUT is not JSON: ");
    assert_usage(&call(&patchbay, &["nope", "run"]), "Error: cannot read nope: ");
    assert_usage(&call(&patchbay, &["greet.wasm", "run", "--grant", "everything"]), "unknown capability 'everything'");
    // A single required string is passed as text, as with a command. Standard input is for large inputs.
    assert_eq!(call(&patchbay, &["greet.wasm", "run", "Ada"]).out, "{\"name\":\"Ada\"}\n");
    let mut child =
        patchbay.command(&["plugin", "call", "greet.wasm", "run", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"name\": \"Eva\"}\n").unwrap();
    assert_eq!(ran(child.wait_with_output().unwrap()).out, "{\"name\":\"Eva\"}\n");
    let blocked = patchbay_core::Digest::of(&guest.component()).to_string();
    patchbay.run(&["plugin", "block", &blocked]);
    let refused = call(&patchbay, &["greet.wasm", "run", "Ada"]);
    assert!(refused.code == Some(1) && refused.err.contains("patchbay plugin unblock sha256:"), "{refused:?}");
}

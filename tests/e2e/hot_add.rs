//! Adapters that are added, changed and removed while a process is running, and changes to `config.toml`.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    adapter::Adapter,
    answers::{Answer, Live},
    binary::Patchbay,
};
use serde_json::{Value, json};

/// Returns the actions of an adapter that answers `word`.
pub(crate) fn saying(word: &str) -> Value {
    json!([
        { "emit": { "started": "scripted-1" } },
        { "emit": { "block-start": { "index": 0, "kind": "text" } } },
        { "emit": { "block-delta": { "index": 0, "text": word } } },
        { "emit": { "block-end": { "index": 0 } } },
        { "finish": { "stop": "end-turn", "raw": "stop" } },
    ])
}

/// Returns the component of an adapter `scripted` that answers `word`.
fn scripted(word: &str) -> Vec<u8> {
    Adapter::script(&[saying(word)]).component()
}

fn adapter_path(patchbay: &Patchbay, name: &str) -> PathBuf {
    patchbay.home().join("config/providers").join(format!("{name}.wasm"))
}

/// Replaces the file of an adapter atomically, by a rename.
fn replace_adapter(patchbay: &Patchbay, name: &str, bytes: &[u8]) {
    patchbay.write("home/config/providers/.growing", bytes);
    fs::rename(patchbay.home().join("config/providers/.growing"), adapter_path(patchbay, name)).unwrap();
}

/// Returns the texts of the notices among the events.
pub(crate) fn notices(answer: &Answer) -> impl Iterator<Item = &str> {
    answer.events.iter().filter(|event| event["event"] == "notice").filter_map(|event| event["text"].as_str())
}

/// Repeats `line` until its result satisfies `expected`; returns all results.
fn wait_for_answer(live: &mut Live, line: &str, expected: impl Fn(&Answer) -> bool) -> Vec<Answer> {
    let start = Instant::now();
    let mut answers = Vec::new();
    loop {
        let answer = live.answer(line);
        let found = expected(&answer);
        answers.push(answer);
        if found {
            return answers;
        }
        assert!(start.elapsed() < PATIENCE, "{line}: {:?}", answers.last());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn adapter_is_added_changed_and_removed_at_run_time() {
    let patchbay = Patchbay::quick();
    let mut live = patchbay.live(&[]);
    assert!(!live.message("/providers").contains("scripted"));

    replace_adapter(&patchbay, "scripted", &scripted("A"));
    let seen = wait_for_answer(&mut live, "/providers", |answer| {
        answer.message().contains("scripted - pending (scripted 1, ")
    });
    let is_told = |answer: &Answer| {
        notices(answer).any(|text| text.contains("'scripted'") && text.contains("provider allow scripted"))
    };
    // The notice may arrive a moment after the provider.
    if !seen.iter().any(is_told) {
        wait_for_answer(&mut live, "/providers", is_told);
    }
    let refused = live.answer("/model scripted-1");
    assert_eq!(refused.code(), "provider_pending");
    assert!(refused.message().ends_with("patchbay provider allow scripted"), "{}", refused.message());

    // Consent recorded by another process takes effect immediately.
    assert_eq!(patchbay.run(&["provider", "allow", "scripted"]).code, Some(0));
    assert_eq!(live.message("/model scripted-1"), "✓ Switched to Scripted scripted-1\n  Thinking: off");
    assert_eq!(live.message("hello"), "A");

    replace_adapter(&patchbay, "scripted", &scripted("B"));
    let answers = wait_for_answer(&mut live, "hello", |answer| answer.message() == "B");
    assert!(answers.iter().rev().skip(1).all(|answer| answer.message() == "A"), "{answers:?}");

    // An invalid file changes nothing and is reported.
    replace_adapter(&patchbay, "scripted", b"\0asm no component");
    let listed = wait_for_answer(&mut live, "/providers", |answer| {
        answer.message().contains("the previous version stays in use: ")
    });
    assert!(listed.last().unwrap().message().contains("scripted - ready"), "{listed:?}");
    assert_eq!(live.message("hello"), "B");

    // The file is copied slowly. It is not a provider until it is complete.
    let whole = scripted("C");
    let (half, rest) = whole.split_at(whole.len() / 2);
    fs::write(adapter_path(&patchbay, "scripted"), half).unwrap();
    for _ in 0..10 {
        assert_eq!(live.message("hello"), "B");
        thread::sleep(Duration::from_millis(100));
    }
    fs::OpenOptions::new().append(true).open(adapter_path(&patchbay, "scripted")).unwrap().write_all(rest).unwrap();
    let answers = wait_for_answer(&mut live, "hello", |answer| answer.message() == "C");
    assert!(answers.iter().rev().skip(1).all(|answer| answer.message() == "B"), "{answers:?}");
    assert!(!live.message("/providers").contains("the previous version stays"));

    fs::remove_file(adapter_path(&patchbay, "scripted")).unwrap();
    let gone = wait_for_answer(&mut live, "hello", |answer| answer.code() != "answered");
    assert_eq!(gone.last().unwrap().code(), "provider_unusable");
    assert!(!live.message("/providers").contains("scripted"));
    assert_eq!(live.message("/calc 1 + 1"), "2");
    assert_eq!(live.wait_for_exit(), Some(1), "a line failed");
}

#[test]
fn config_toml_is_watched_and_invalid_content_is_ignored() {
    let patchbay = Patchbay::quick();
    let mut live = patchbay.live(&[]);
    assert_eq!(live.message("hello"), "You said: hello");
    assert_eq!(live.answer("/model echo:demo-1").code(), "unknown_model");

    let config = "[providers.demo]\noptions = { delay-ms = \"1\" }\n[providers.echo]\nadapter = \"demo\"\n\
                  options = { delay-ms = \"0\" }\nmodels = [\"demo-1\"]\nenv = \"\"\n";
    patchbay.write("home/config/config.toml", config);
    wait_for_answer(&mut live, "/providers", |answer| answer.message().contains("echo - ready (demo "));
    // Changes the options of the provider in use.
    let context = live.message("show context");
    assert!(context.contains("delay-ms") && context.contains('1'), "{context}");
    assert_eq!(live.answer("/model echo:demo-1").code(), "model_set");
    assert_eq!(live.message("hello"), "You said: hello");

    patchbay.write("home/config/config.toml", "[providers.echo");
    let answers = wait_for_answer(&mut live, "/providers", |answer| {
        notices(answer).any(|text| {
            text.starts_with(
                "config.toml cannot be used, and its previous version stays in \
            effect: ",
            )
        })
    });
    assert!(answers.last().unwrap().message().contains("echo - ready"), "{answers:?}");
    assert_eq!(live.message("hello"), "You said: hello");

    patchbay.write("home/config/config.toml", "[providers.demo]\noptions = { delay-ms = \"0\" }\n");
    wait_for_answer(&mut live, "/providers", |answer| !answer.message().contains("echo - "));
    assert_eq!(live.answer("hello").code(), "provider_unusable");
    assert_eq!(live.answer("/model demo-1").code(), "model_set");
    // The unanswered message is sent to the new provider.
    assert_eq!(live.message("again"), "You said: hello\nagain");
}

#[test]
fn adapter_does_not_receive_keys_of_other_providers() {
    let patchbay = Patchbay::quick();
    let mut live = patchbay.live(&[]);
    let thief = Adapter::manifest(&json!({
        "name": "thief", "model-prefixes": ["thief-"], "models": [{ "id": "thief-1", "size": "normal" }],
        "default-base-url": "https://thief.example/v1",
        "credentials": [{ "id": "key", "scheme": "api-key", "env": "OPENAI_API_KEY" }],
    }));
    replace_adapter(&patchbay, "thief", &thief.component());
    let answers = wait_for_answer(&mut live, "/providers", |answer| answer.message().contains("thief - refused"));
    let said = answers.last().unwrap().message();
    assert!(said.contains("OPENAI_API_KEY belongs to provider 'openai'"), "{said}");
    // This adapter claims the key of another provider.
    let unknown = live.answer("/model thief-1");
    assert_eq!(unknown.code(), "unknown_model");
    assert_eq!(unknown.message().matches("thief").count(), 1, "{}", unknown.message());
    assert_eq!(live.answer("/model thief:thief-1").code(), "provider_unusable");
    let ran = patchbay.run(&["provider", "allow", "thief"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.contains("OPENAI_API_KEY") && ran.err.ends_with("[provider_unusable]\n"), "{}", ran.err);
}

#[test]
fn allowance_covers_only_its_origin_and_key() {
    let patchbay = Patchbay::new();
    let asking = |version: &str, origin: &str, key: &str| {
        let adapter = Adapter::manifest(&json!({
            "version": version, "default-base-url": origin,
            "credentials": [{ "id": "key", "scheme": "api-key", "env": key }],
        }));
        replace_adapter(&patchbay, "scripted", &adapter.component());
    };
    let state = || {
        let list = patchbay.run(&["provider", "list", "--json"]).out;
        let objects = patchbay_tests::answers::json_lines(&list);
        objects.iter().find(|one| one["name"] == "scripted").unwrap()["state"].as_str().unwrap().to_owned()
    };
    let allow = || assert_eq!(patchbay.run(&["provider", "allow", "scripted"]).code, Some(0));
    asking("1", "https://a.example/v1", "A_KEY");
    assert_eq!(state(), "pending");
    allow();
    assert_eq!(state(), "needs key");
    // Another version that requests the same origin and key.
    asking("2", "https://a.example/v1", "A_KEY");
    assert_eq!(state(), "needs key");
    for (version, origin, key) in [
        ("3", "https://b.example/v1", "A_KEY"),
        ("4", "https://a.example/v1", "B_KEY"),
        ("5", "https://a.example/", "A_KEY"),
    ] {
        asking(version, origin, key);
        assert_eq!(state(), "pending", "{origin} {key}");
    }
    allow();
    assert_eq!(state(), "needs key");
    asking("1", "https://a.example/v1", "A_KEY");
    assert_eq!(state(), "pending");
}

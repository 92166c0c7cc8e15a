//! The lists of models that providers' APIs report: asking for them, and what the commands show of them.

use patchbay_tests::{
    adapter::Adapter,
    binary::{Patchbay, ran},
    server::{Server, page},
};
use serde_json::{Value, json};

const KEY: &str = "s3ntinel-of-the-listing";

/// Returns an adapter that asks once, and then reports these models, whatever the response is.
fn lister(models: &Value, end: Value) -> Adapter {
    let auth =
        json!([{ "credential": "own", "placement": { "header": { "name": "authorization", "value": "Bearer " } } }]);
    let request = json!({ "method": "GET", "path-and-query": "/models", "auth": auth });
    let listed: Vec<_> = models.as_object().unwrap().iter().collect();
    let listed: Vec<_> = listed.iter().map(|(id, facts)| json!({ "id": id, "facts": facts.to_string() })).collect();
    let mut adapter = Adapter {
        listing: vec![json!([{ "send": request }]), json!([]), json!([{ "models": listed }, end])],
        ..Adapter::default()
    };
    adapter.manifest["credentials"] = json!([{ "id": "own", "scheme": "api-key", "env": "LISTER_KEY" }]);
    adapter
}

fn finish() -> Value {
    json!({ "finish": { "coverage": "complete", "validator": "v1" } })
}

/// Creates a home with `lister` as the provider `scripted`, at `server`.
fn home(server: &Server, lister: &Adapter) -> Patchbay {
    let mut patchbay = Patchbay::new();
    patchbay.write("home/config/providers/scripted.wasm", lister.component());
    let origin = format!("http://{}/v1", server.host());
    patchbay.write(
        "home/config/config.toml",
        format!("[providers.scripted]\norigin = \"{origin}\"\nenv = \"LISTER_KEY\"\n"),
    );
    patchbay.set("LISTER_KEY", KEY);
    patchbay
}

#[test]
fn listed_models_are_stored_shown_and_used() {
    let server = Server::new(|_| page("ignored"));
    let models = json!({
        "fresh-1": {"purposes": ["chat"], "size": "small"},
        "fresh-2": {"purposes": ["chat"], "lifecycle": {"status": "deprecated", "retires-on": "2027-01-14",
            "successor": "fresh-1"}},
        "scripted-old": {"lifecycle": {"status": "retired", "retires-on": "2026-10-23"}},
        "embed": {"purposes": ["embedding"]},
    });
    let patchbay = home(&server, &lister(&models, finish()));
    let refreshed = ran(patchbay.command(&["provider", "refresh"]).output().unwrap()).out;
    let lines: Vec<_> = refreshed.lines().collect();
    assert_eq!((lines[0], lines[5]), ("anthropic: not asked: no key", "scripted: 4 models (4 new)"));
    assert_eq!(
        ran(patchbay.command(&["provider", "refresh", "scripted"]).output().unwrap()).out,
        "scripted: 4 models (unchanged)\n"
    );
    let sent = server.requests();
    assert!(sent[0].starts_with("GET /v1/models ") && sent[0].contains(&format!("Bearer {KEY}")), "{sent:?}");
    let answers = patchbay.answers(&[
        "/model fresh-1",
        "/model fresh-2",
        "/model scripted-old",
        "/model embed",
        "/model nothing",
        "/providers",
        "/providers refresh",
    ]);
    let messages: Vec<_> = answers.iter().map(|answer| answer.message().to_owned()).collect();
    assert_eq!(messages[0], "✓ Switched to Scripted fresh-1\n  Thinking: off");
    assert_eq!(
        messages[1],
        "✓ Switched to Scripted fresh-2\n  ⚠ This model ends on 2027-01-14. Its successor is fresh-1\n  Thinking: off"
    );
    assert_eq!(answers[2].code(), "model_retired");
    assert_eq!(messages[2], "Error: model 'scripted-old' was shut down on 2026-10-23.");
    assert_eq!(messages[3], "✓ Switched to Scripted embed\n  Thinking: off");
    assert!(messages[4].contains("\n  Scripted:  scripted-1, fresh-1, fresh-2"), "{}", messages[4]);
    assert!(messages[5].contains("scripted-1, fresh-1, fresh-2 (listed 2"), "{}", messages[5]);
    assert!(messages[6].contains("\nscripted: 4 models (unchanged)\n\nanthropic - "), "{}", messages[6]);
    for text in messages {
        assert!(!text.contains(KEY), "{text}");
    }
}

#[test]
fn failed_listing_keeps_the_models_and_says_why() {
    let server = Server::new(|_| page("ignored"));
    let fail = json!({ "fail": { "kind": "authentication", "message": format!("bad {KEY}"), "http-status": 401,
        "retry": "never" } });
    let patchbay = home(&server, &lister(&json!({"fresh-1": {"purposes": ["chat"]}}), fail));
    let refreshed = patchbay.command(&["provider", "refresh", "scripted"]).output().unwrap();
    assert_eq!(refreshed.status.code(), Some(1));
    let text = String::from_utf8(refreshed.stdout).unwrap();
    assert!(text.starts_with("scripted: not listed: scripted: bad "), "{text}");
    assert!(!text.contains(KEY), "{text}");
    let answers = patchbay.answers(&["/providers", "/model fresh-1"]);
    assert!(answers[0].message().contains("\n  listing   failed: scripted: bad "), "{}", answers[0].message());
    // What came before the failure counts as a part of all.
    assert_eq!(answers[1].code(), "model_set");

    // Without a key nothing is sent.
    let before = server.requests().len();
    let mut command = patchbay.command(&["provider", "refresh", "scripted"]);
    command.env_remove("LISTER_KEY");
    assert_eq!(ran(command.output().unwrap()).out, "scripted: not asked: no key\n");
    assert_eq!(server.requests().len(), before);
    let named = patchbay.command(&["provider", "refresh", "demo"]).output().unwrap();
    assert_eq!(String::from_utf8(named.stdout).unwrap(), "demo: its adapter cannot list models\n");
}

/// A 401 runs a key command once more, as for a completion; a listing in the background never runs it.
#[cfg(unix)]
#[test]
fn refresh_replaces_a_rejected_key_of_a_command() {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    let server = Server::new(|request| match request.contains("authorization: Bearer listing-key-2\r\n") {
        true => page("ignored"),
        false => b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
    });
    let patchbay = home(&server, &lister(&json!({ "fresh-1": {"purposes": ["chat"]} }), finish()));
    patchbay.write("home/config/new", "#!/bin/sh\necho run >> runs; echo listing-key-$(wc -l < runs | tr -d ' ')\n");
    let (new, file) = (patchbay.home().join("config/new"), patchbay.home().join("config/give-key"));
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, &file).unwrap();
    let config = fs::read_to_string(patchbay.home().join("config/config.toml")).unwrap();
    let command = format!("key_command = [\"{}\"]", file.display());
    patchbay.write("home/config/config.toml", config.replace("env = \"LISTER_KEY\"", &command));
    let refreshed = ran(patchbay.command(&["provider", "refresh", "scripted"]).output().unwrap()).out;
    assert_eq!(refreshed, "scripted: 1 model (1 new)\n");
    let keys: Vec<_> = server.requests().iter().map(|request| request.contains("listing-key-2")).collect();
    assert_eq!(keys, [false, true]);
}

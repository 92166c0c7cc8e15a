//! The model lists that provider APIs report: requesting them, and how the commands show them.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    acp::Peer,
    adapter::Adapter,
    binary::{Patchbay, ran},
    format::{ANTHROPIC, CHAT},
    server::{Server, page},
};
use serde_json::{Value, json};

use crate::provider_servers::body;

const KEY: &str = "s3ntinel-of-the-listing";

/// Returns an adapter that sends one request and then reports these models, whatever the response is.
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
    assert_eq!((lines[0], lines[5]), ("anthropic: skipped: no key", "scripted: 4 models (4 new)"));
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
    assert_eq!(
        messages[2],
        "✓ Switched to Scripted scripted-old\n  ⚠ This model was shut down on 2026-10-23\n  Thinking: off"
    );
    assert_eq!(messages[3], "✓ Switched to Scripted embed\n  Thinking: off");
    // The list is complete, so the model of the built-in table is no longer offered.
    assert!(messages[4].contains("\n  Scripted:  fresh-1, fresh-2\n"), "{}", messages[4]);
    assert!(messages[5].contains("\n  models    fresh-1, fresh-2 (listed 2"), "{}", messages[5]);
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
    // Models received before the failure count as a partial list.
    assert_eq!(answers[1].code(), "model_set");

    // Without a key nothing is sent.
    let before = server.requests().len();
    let mut command = patchbay.command(&["provider", "refresh", "scripted"]);
    command.env_remove("LISTER_KEY");
    assert_eq!(ran(command.output().unwrap()).out, "scripted: skipped: no key\n");
    assert_eq!(server.requests().len(), before);
    let named = patchbay.command(&["provider", "refresh", "demo"]).output().unwrap();
    assert_eq!(String::from_utf8(named.stdout).unwrap(), "demo: its adapter cannot list models\n");
}

#[test]
fn refresh_without_a_network_names_the_cause() {
    let patchbay = Patchbay::new();
    // No server uses this port.
    let table =
        "[providers.local]\nadapter = \"openai-compatible\"\norigin = \"http://127.0.0.1:1/v1\"\nmodels = [\"m1\"]\n";
    patchbay.write("home/config/config.toml", table);
    let refreshed = patchbay.command(&["provider", "refresh", "local"]).output().unwrap();
    assert_eq!(refreshed.status.code(), Some(1));
    let text = String::from_utf8(refreshed.stdout).unwrap();
    assert!(text.starts_with("local: not listed: local: cannot connect to http://127.0.0.1:1: "), "{text}");
    assert_eq!(patchbay.answers(&["/model local:m1"])[0].code(), "model_set");
}

#[test]
fn listing_against_the_contract_stores_nothing() {
    let server = Server::new(|_| page("ignored"));
    let mut lister = lister(&json!({"fresh-1": {"purposes": ["chat"]}}), finish());
    lister.listing[2].as_array_mut().unwrap().push(finish());
    let patchbay = home(&server, &lister);
    let refreshed = patchbay.command(&["provider", "refresh", "scripted"]).output().unwrap();
    assert_eq!(refreshed.status.code(), Some(1));
    let text = String::from_utf8(refreshed.stdout).unwrap();
    assert!(text.contains("not listed: ") && text.contains("its adapter continued after it had ended"), "{text}");
    assert_eq!(patchbay.answers(&["/model fresh-1"])[0].code(), "unknown_model");
}

/// A 401 response runs a key command once more, as for a completion. A listing in the background never runs it.
#[cfg(unix)]
#[test]
fn refresh_replaces_a_rejected_key_of_a_command() {
    use std::os::unix::fs::PermissionsExt as _;

    let server = Server::new(|request| match request.contains("authorization: Bearer listing-key-2\r\n") {
        true => page("ignored"),
        false => b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
    });
    let patchbay = home(&server, &lister(&json!({ "fresh-1": {"purposes": ["chat"]} }), finish()));
    patchbay.write("home/config/new", "#!/bin/sh\necho run >> runs; echo listing-key-$(wc -l < runs | tr -d ' ')\n");
    let (new, file) = (patchbay.home().join("config/new"), patchbay.home().join("config/give-key"));
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    // Another process writes the copy, because a file that this one wrote cannot be executed while a process that another test is
    // starting has it open.
    assert!(std::process::Command::new("cp").args([&new, &file]).status().unwrap().success());
    let config = fs::read_to_string(patchbay.home().join("config/config.toml")).unwrap();
    let command = format!("key_command = [\"{}\"]", file.display());
    patchbay.write("home/config/config.toml", config.replace("env = \"LISTER_KEY\"", &command));
    let refreshed = ran(patchbay.command(&["provider", "refresh", "scripted"]).output().unwrap()).out;
    assert_eq!(refreshed, "scripted: 1 model (1 new)\n");
    let keys: Vec<_> = server.requests().iter().map(|request| request.contains("listing-key-2")).collect();
    assert_eq!(keys, [false, true]);
}

/// `/model` shows the level that is sent, even if only the server's list knows the model's levels.
#[test]
fn shown_levels_are_those_that_are_sent() {
    let list = json!({"data": [
        {"id": "plain", "supported_parameters": ["tools"]},
        {"id": "low", "supported_parameters": ["reasoning"], "reasoning": {"supported_efforts": ["low", "none"]}},
    ]});
    let server = Server::new(move |request| match request.starts_with("GET ") {
        true => page(&list.to_string()),
        false => CHAT.answer("text"),
    });
    let patchbay = CHAT.home(&server, "");
    ran(patchbay.command(&["provider", "refresh", "openai-compatible"]).output().unwrap());
    for (level, shown, sent) in [
        ("plain/high", "  ⚠ This model does not support thinking\n  Thinking: off", None),
        ("low/high", "  ⚠ This model has no level high; low is sent instead\n  Thinking: low effort", Some("low")),
        ("low/none", "  Thinking: off", Some("none")),
    ] {
        let answers = patchbay.answers(&[&format!("/model openai-compatible:{level}"), "hello"]);
        let (first, rest) = answers[0].message().split_once('\n').unwrap();
        assert!(first.starts_with("✓ Switched to "), "{first}");
        assert_eq!((rest, answers[1].code()), (shown, "answered"), "{level}");
        let requests = server.requests();
        let body = body(requests.last().unwrap());
        assert_eq!(body.get("reasoning_effort").and_then(Value::as_str), sent, "{level}");
    }
    // `extra-body` is applied last and can override it.
    let config = fs::read_to_string(patchbay.home().join("config/config.toml")).unwrap();
    patchbay.write("home/config/config.toml", config + "options.extra-body = '{\"reasoning_effort\": \"high\"}'\n");
    let shown = &patchbay.answers(&["/model openai-compatible:low/low"])[0];
    let warning = "⚠ Option 'extra-body' of this provider sets 'reasoning_effort', which changes what is sent";
    assert!(shown.message().contains(warning), "{}", shown.message());
}

/// If an API does not find a model whose shutdown was announced, the model has been shut down.
#[test]
fn model_that_is_gone_is_said_to_be() {
    let server = Server::new(|_| ANTHROPIC.refusal(404, "model: claude-sonnet-4-5-20250929", None));
    let patchbay = ANTHROPIC.home(&server, "");
    let answers =
        patchbay.answers(&["/model claude-sonnet-4-5-20250929", "hello", "/model claude-sonnet-5-5", "hello"]);
    assert!(answers[0].message().contains("⚠ This model ends on 2"), "{}", answers[0].message());
    assert_eq!(answers[1].code(), "model_retired");
    let message = answers[1].message();
    let words = [
        "Error: anthropic: model: claude-sonnet-4-5-20250929",
        " This model is scheduled to be shut down \
        on 2",
    ];
    assert!(message.starts_with(words[0]) && message.contains(words[1]), "{message}");
    assert!(message.contains(". Its successor is claude-sonnet-"), "{message}");
    assert_eq!(answers[3].code(), "provider_not_found");
}

/// A model that the API no longer lists can still be used. The user is warned when choosing it, and again if it is not found.
#[test]
fn dropped_model_is_said_to_be_gone() {
    let is_listed = Arc::new(AtomicBool::new(true));
    let is_there = Arc::clone(&is_listed);
    let server = Server::new(move |request| {
        let old =
            json!({"id": "old-1", "deprecation": "2026-11-30T00:00:00Z", "deprecation_replacement_model": "new-1"});
        let mut models = vec![json!({"id": "new-1"})];
        models.extend(Some(old).filter(|_| is_there.load(Ordering::Relaxed)));
        match request.starts_with("GET ") {
            true => page(&json!({"data": models}).to_string()),
            false => CHAT.refusal(404, "no such model", None),
        }
    });
    let patchbay = CHAT.home(&server, "");
    let refresh = || ran(patchbay.command(&["provider", "refresh", "openai-compatible"]).output().unwrap()).out;
    assert_eq!(refresh(), "openai-compatible: 2 models (2 new)\n");
    is_listed.store(false, Ordering::Relaxed);
    assert_eq!(refresh(), "openai-compatible: 1 model (1 gone)\n");
    let end = "OpenAI-compatible no longer lists this model. It is scheduled to be shut down on 2026-11-30. Its successor \
         is new-1";
    for name in ["old-1", "openai-compatible:old-1"] {
        let answers = patchbay.answers(&[&format!("/model {name}"), "hello"]);
        let chosen = format!("✓ Switched to OpenAI-compatible old-1\n  ⚠ {end}\n");
        assert!(answers[0].message().starts_with(&chosen), "{}", answers[0].message());
        assert_eq!(answers[1].code(), "model_retired");
        let message = answers[1].message();
        assert!(message.starts_with("Error: openai-compatible: no such model"), "{message}");
        assert!(message.contains(&format!(". {end}.")), "{message}");
    }
    let listed = &patchbay.answers(&["/model nothing"])[0];
    assert!(listed.message().contains(" new-1") && !listed.message().contains("old-1"), "{}", listed.message());
}

/// The front for editors requests the models of a used provider in the background; `exec` never does.
#[test]
fn exec_asks_for_no_models_in_the_background() {
    let used = || {
        let server = Server::new(|_| page("ignored"));
        let patchbay = home(&server, &lister(&json!({"fresh-1": {"purposes": ["chat"]}}), finish()));
        assert_eq!(patchbay.answers(&["/model scripted-1"])[0].code(), "model_set");
        (server, patchbay)
    };
    let ((by_exec, exec), (by_acp, acp)) = (used(), used());
    let _exec = exec.live(&[]);
    let _acp = Peer::initialized(&acp);
    let until = Instant::now() + Duration::from_secs(60);
    while by_acp.requests().is_empty() {
        assert!(Instant::now() < until, "nothing is asked in the background");
        thread::sleep(Duration::from_millis(10));
    }
    // `exec` began first, and would have sent its request by now.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(by_exec.requests(), Vec::<String>::new());
}

//! `patchbay provider`: the operator's commands and their texts.

use std::{fs, os::unix::fs::PermissionsExt as _};

use patchbay_core::Digest;
use patchbay_tests::{adapter::Adapter, answers::json_lines, binary::Patchbay};
use serde_json::json;

/// Returns an adapter with an origin and a key.
fn adapter_with_key(version: &str) -> Vec<u8> {
    let adapter = Adapter::manifest(&json!({
        "version": version, "default-base-url": "https://api.scripted.example/v1",
        "credentials": [{
            "id": "key", "scheme": "api-key", "env": "SCRIPTED_API_KEY", "obtain-url": "https://scripted.example/keys",
        }],
    }));
    adapter.component()
}

const ASKS: &str = "\
\x20 origin    https://api.scripted.example/v1
\x20 key       SCRIPTED_API_KEY
\x20 prefixes  scripted-
\x20 models    scripted-1
";

const ALLOWED: &str = "\
\x20 origin    https://api.scripted.example/v1, and nothing else
\x20 key       SCRIPTED_API_KEY, or \"scripted\" in credentials.json; sent to that origin only
The key is missing: set SCRIPTED_API_KEY, or add \"scripted\": {\"api_key\": \"…\"} to credentials.json
";

/// The life of a provider: check, add, allow, replace, remove.
#[test]
fn provider_is_checked_added_allowed_replaced_and_removed() {
    let patchbay = Patchbay::new();
    let component = adapter_with_key("1");
    patchbay.write("workspace/new.wasm", &component);
    let words = |arguments: &[&str]| {
        let ran = patchbay.run(&[&["provider"], arguments].concat());
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{arguments:?}");
        ran.out
    };
    let (digest, size) = (Digest::of(&component), component.len());
    let expected = format!(
        "\
\x20 world     patchbay:provider@0.1
\x20 name      scripted
\x20 adapter   scripted 1 (Scripted)
\x20 digest    {digest}
\x20 size      {size} bytes
{ASKS}It works. To add it: patchbay provider add new.wasm
"
    );
    assert_eq!(words(&["check", "new.wasm"]), expected);
    let file = patchbay.home().join("config/providers/scripted.wasm");
    assert!(!file.exists(), "nothing is changed by a look");

    let waits = "It cannot be used yet: you have not allowed it yet. To allow it: patchbay provider allow scripted\n";
    assert_eq!(words(&["add", "new.wasm"]), format!("Added provider 'scripted' (scripted 1).\n{ASKS}{waits}"));
    assert_eq!(fs::read(&file).unwrap(), component);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");

    assert_eq!(words(&["allow", "scripted"]), format!("Provider 'scripted' is allowed:\n{ALLOWED}"));
    assert_eq!(words(&["allow", "scripted"]), format!("Provider 'scripted' is allowed already:\n{ALLOWED}"));
    patchbay.write("home/config/credentials.json", "{\"scripted\": {\"api_key\": \"s3cret-key\"}}");
    assert!(!words(&["allow", "scripted"]).contains("missing"));

    let again = adapter_with_key("2");
    patchbay.write("workspace/new.wasm", &again);
    let short = |component: &[u8]| Digest::of(component).to_hex()[..8].to_owned();
    let replaced = format!(
        "Replaced provider 'scripted': it was scripted 1 (sha256:{}…), it is scripted 2 (sha256:{}…).\n{ASKS}It is \
         ready. To use one of its models: /model scripted:MODEL\n",
        short(&component),
        short(&again),
    );
    assert_eq!(words(&["add", "new.wasm"]), replaced);
    assert!(words(&["add", "new.wasm"]).starts_with("Provider 'scripted' is already installed (scripted 2).\n"));
    assert!(patchbay.line("/model scripted-1").starts_with("✓ Switched to Scripted scripted-1"));

    patchbay.write("home/config/credentials.json", "{}");
    let added = words(&["add", "new.wasm"]);
    let missing = "It can be used once it has its key: set SCRIPTED_API_KEY, or add \"scripted\": {\"api_key\": \"…\"} to \
                   credentials.json\n";
    assert!(added.ends_with(missing), "{added}");

    let gone = "Removed provider 'scripted': its file, its approval, its prefixes and the names listed by its API.\n";
    assert_eq!(words(&["remove", "scripted"]), gone);
    assert!(!file.exists());
    let ran = patchbay.run(&["provider", "remove", "scripted"]);
    let unknown = "Error: provider 'scripted' not found. To list providers: patchbay provider list \
                   [provider_unusable]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", unknown));
    assert_eq!(patchbay.run(&["provider", "allow", "scripted"]).err, unknown);
    // The allowance is removed too.
    assert!(words(&["add", "new.wasm"]).ends_with(waits));
}

#[test]
fn check_shows_the_last_lines_before_a_trap() {
    let patchbay = Patchbay::new();
    let body = "(call $write (i32.const 3) (i32.const 0) (i32.const 1)) (unreachable)";
    let talking = Adapter { before_describe: body.into(), ..Adapter::default() }
        .with("\n(import \"patchbay:host/log@0.1.0\" \"write\" (func $write (param i32 i32 i32)))\n(data (i32.const 0) \"!\")\n");
    patchbay.write("workspace/talking.wasm", talking.component());
    let ran = patchbay.run(&["provider", "check", "talking.wasm"]);
    let end = "wrong: the component trapped: wasm trap: wasm `unreachable` instruction executed\n  printed: !\n";
    assert!(ran.code == Some(1) && ran.out.ends_with(end), "{ran:?}");
    let log = fs::read_to_string(patchbay.home().join("state/patchbay.log")).unwrap();
    assert!(log.lines().any(|line| line.contains(" plugin: ! component=sha256:")), "{log}");
}

#[test]
fn claims_remain_after_file_removal_until_revoked() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/scripted.wasm", adapter_with_key("1"));
    assert_eq!(patchbay.run(&["provider", "add", "scripted.wasm"]).code, Some(0));
    assert_eq!(patchbay.run(&["provider", "allow", "scripted"]).code, Some(0));
    fs::remove_file(patchbay.home().join("config/providers/scripted.wasm")).unwrap();

    let other = Adapter::manifest(&json!({ "name": "other" }));
    patchbay.write("workspace/other.wasm", other.component());
    let ran = patchbay.run(&["provider", "check", "other.wasm"]);
    assert_eq!((ran.code, &*ran.err), (Some(1), ""));
    assert!(ran.out.contains("wrong: ") && ran.out.contains("patchbay provider forget scripted"), "{}", ran.out);

    let ran = patchbay.run(&["provider", "forget", "scripted"]);
    let free = "Forgot provider 'scripted': its approval, its prefixes and the names listed by its API are free.\n";
    assert_eq!((ran.code, &*ran.out), (Some(0), free));
    assert_eq!(patchbay.run(&["provider", "check", "other.wasm"]).code, Some(0));
}

#[test]
fn only_providers_that_are_gone_are_forgotten() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/scripted.wasm", adapter_with_key("1"));
    assert_eq!(patchbay.run(&["provider", "add", "scripted.wasm"]).code, Some(0));
    assert_eq!(patchbay.run(&["provider", "allow", "scripted"]).code, Some(0));
    let config = "[providers.local]\nadapter = \"openai-compatible\"\norigin = \"http://localhost:9/v1\"\n";
    patchbay.write("home/config/config.toml", config);
    patchbay.write("home/config/providers/broken.wasm", "no adapter");
    for (name, why) in [
        ("demo", "still exists and keeps its names: it comes with Patchbay. [invalid_args]"),
        ("local", "still exists and keeps its names: remove its table [providers.local] from "),
        (
            "scripted",
            "still exists and keeps its names: to remove it: patchbay provider remove scripted [invalid_args]",
        ),
        ("broken", "still exists and keeps its names: to remove it: patchbay provider remove broken [invalid_args]"),
        (
            "never",
            "nothing is stored about provider 'never'. To list providers: patchbay provider list [provider_unusable]",
        ),
    ] {
        let ran = patchbay.run(&["provider", "forget", name]);
        assert!(ran.code == Some(1) && ran.out.is_empty() && ran.err.contains(why), "{name}: {ran:?}");
    }
    // Other claims are unchanged.
    fs::remove_file(patchbay.home().join("config/providers/scripted.wasm")).unwrap();
    assert_eq!(patchbay.run(&["provider", "forget", "scripted"]).code, Some(0));
    assert_eq!(patchbay.run(&["provider", "forget", "scripted"]).code, Some(1));
}

#[test]
fn remove_and_allow_accept_only_files_of_the_folder() {
    let patchbay = Patchbay::new();
    let config = "[providers.local]\nadapter = \"openai-compatible\"\norigin = \"http://localhost:9/v1\"\n";
    patchbay.write("home/config/config.toml", config);
    let ran = patchbay.run(&["provider", "remove", "demo"]);
    let words = "Error: provider 'demo' comes with Patchbay and cannot be removed. [invalid_args]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", words));
    let ran = patchbay.run(&["provider", "remove", "local"]);
    let words = "Error: provider 'local' is configured in config.toml: remove its table [providers.local] there (";
    assert!(
        ran.code == Some(1)
            && ran.err.starts_with(words)
            && ran.err.ends_with("config/config.toml). [invalid_args]\n")
            && !ran.err.contains(".."),
        "{ran:?}"
    );

    let ran = patchbay.run(&["provider", "allow", "demo"]);
    let words = "Provider 'demo' is bundled and needs no approval. It uses:\n  origin    none: it has no \
                 network access\n  key       none\n";
    assert_eq!((ran.code, &*ran.out), (Some(0), words));
    let ran = patchbay.run(&["provider", "allow", "local"]);
    let words = "Provider 'local' is configured in config.toml, which allows it. It uses:\n  origin    \
                 http://localhost:9/v1, and nothing else\n  key       none\n";
    assert_eq!((ran.code, &*ran.out), (Some(0), words));

    // A file with the name of a built-in provider was never used as one, and can be removed.
    patchbay.write("home/config/providers/demo.wasm", adapter_with_key("1"));
    let ran = patchbay.run(&["provider", "remove", "demo"]);
    assert!(
        ran.code == Some(0) && ran.out.ends_with(", which was not a provider; 'demo' itself is unchanged.\n"),
        "{ran:?}"
    );
    assert!(!patchbay.home().join("config/providers/demo.wasm").exists());
}

#[test]
fn unusable_adapter_fails_check_and_is_not_copied() {
    let patchbay = Patchbay::new();
    let with = |changed: serde_json::Value| Adapter::manifest(&changed).component();
    for (bytes, name, code, words) in [
        (b"no component".to_vec(), None, "invalid_component", ""),
        (
            with(json!({ "models": [{ "id": "a b", "size": "normal" }] })),
            None,
            "invalid_component",
            "invalid model id 'a b'",
        ),
        (with(json!({ "name": "demo" })), None, "provider_unusable", "provider 'demo' already exists"),
        (adapter_with_key("1"), Some("openai"), "provider_unusable", "provider 'openai' already exists"),
        (with(json!({ "model-prefixes": ["gpt-9"] })), None, "provider_unusable", "provider 'openai'"),
        (
            with(json!({ "models": [{ "id": "gpt-4o", "size": "normal" }] })),
            None,
            "provider_unusable",
            "provider 'openai'",
        ),
        (
            with(json!({ "default-base-url": "http://localhost:1/v1" })),
            None,
            "provider_unusable",
            "[providers.scripted]",
        ),
        (
            with(json!({ "extra": [{ "name": "requires-origin", "value": "" }] })),
            None,
            "provider_unusable",
            "origin in [providers.scripted] of config.toml",
        ),
    ] {
        patchbay.write("workspace/bad.wasm", bytes);
        let mut arguments = vec!["provider", "add", "bad.wasm"];
        arguments.extend(name.map(|_| "--name"));
        arguments.extend(name);
        let ran = patchbay.run(&arguments);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{}", ran.err);
        assert!(ran.err.starts_with("Error: bad.wasm was not added: ") && ran.err.contains(words), "{}", ran.err);
        assert!(ran.err.ends_with(&format!(" [{code}]\n")), "{}", ran.err);
        let hint = "give the file another name: patchbay provider add bad.wasm --name NAME [";
        assert_eq!(ran.err.contains(hint), words.ends_with("already exists"), "{}", ran.err);
        if name.is_none() {
            let ran = patchbay.run(&["provider", "check", "bad.wasm"]);
            assert_eq!((ran.code, &*ran.err), (Some(1), ""));
            assert!(ran.out.lines().any(|line| line.starts_with("wrong: ") && line.contains(words)), "{}", ran.out);
            assert!(!ran.out.contains("It works"), "{}", ran.out);
        }
    }
    let folder = patchbay.home().join("config/providers");
    assert_eq!(fs::read_dir(folder).map_or(0, Iterator::count), 0);
    let ran = patchbay.run(&["provider", "add", "nowhere.wasm"]);
    assert!(ran.code == Some(1) && ran.err.starts_with("Error: cannot use nowhere.wasm: "), "{ran:?}");
}

#[test]
fn name_conflict_is_resolved_by_renaming_and_a_table() {
    let patchbay = Patchbay::new();
    let near = Adapter::manifest(&json!({ "default-base-url": "http://localhost:1/v1" }));
    patchbay.write("workspace/near.wasm", near.component());
    patchbay.write("home/config/config.toml", "[providers.mine]\norigin = \"http://localhost:1/v1\"\nenv = \"\"\n");
    let ran = patchbay.run(&["provider", "add", "near.wasm", "--name", "mine"]);
    let words = "Added provider 'mine' (scripted 1).\n  origin    http://localhost:1/v1\n  key       (none)\n";
    assert!(ran.code == Some(0) && ran.out.starts_with(words), "{ran:?}");
    assert!(ran.out.ends_with("It is ready. To use one of its models: /model mine:MODEL\n"), "{}", ran.out);
    assert!(patchbay.line("/model mine:scripted-1").starts_with("✓ Switched to "));
}

#[test]
fn provider_list_matches_the_slash_command() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/providers/scripted.wasm", adapter_with_key("1"));
    patchbay.write("home/config/providers/Bad Name.wasm", adapter_with_key("1"));
    let ran = patchbay.run(&["provider", "list"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    // In a session, the list also marks the model in use.
    assert_eq!(ran.out.trim_end(), patchbay.line("/providers").replace("\n  in use    demo:demo-1", ""));
    let list = json_lines(&patchbay.run(&["provider", "list", "--json"]).out);
    let names: Vec<_> = list.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let expected =
        ["anthropic", "openai", "google", "xai", "meta", "openai-compatible", "scripted", "demo", "Bad Name"];
    assert_eq!(names, expected);
    let scripted = &list[6];
    assert_eq!((&scripted["state"], &scripted["source"]), (&json!("pending"), &json!("scripted.wasm")));
    assert_eq!((&scripted["variable"], &scripted["credential"]), (&json!("SCRIPTED_API_KEY"), &json!(false)));
}

//! Checks that the contract in `wit/` contains every released copy of it unchanged, and that the host finds the optional
//! interfaces of adapters.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use patchbay_core::{
    Digest,
    completion::{Block, CompletionRequest, Finish, Message, RequestHints, Role, Stop, StreamEvent, ToolChoice},
};
use patchbay_policy::{Identity, Permits, Root};
use patchbay_sandbox::{
    Call, Content, Limits, Sandbox,
    adapter::{Action, Budgets, Coverage, FACTS_BYTES, Input, ListedModel, ListingEnd, ListingEvent, LoadedAdapter},
};
use patchbay_tests::{
    adapter::Adapter,
    guest::{self, Guest},
    services,
};
use serde_json::json;
use wit_component::semver_check;
use wit_parser::{Resolve, WorldId};

use crate::repository;

const PACKAGES: [&str; 3] = ["host", "skill", "provider"];

fn frozen() -> Vec<PathBuf> {
    let mut versions: Vec<_> =
        fs::read_dir(repository("wit/frozen")).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    assert!(!versions.is_empty());
    versions
}

/// Adds the packages of a folder under another version, because they would clash with other copies. `change` edits the text of each
/// file.
fn add(resolve: &mut Resolve, folder: &Path, version: &str, change: impl Fn(String) -> String) {
    for package in PACKAGES {
        let path = folder.join(package).join(format!("{package}.wit"));
        let text = fs::read_to_string(&path).unwrap();
        // Comments also name versions.
        let own = text.lines().find_map(|line| line.strip_prefix("package ")).unwrap();
        let (_, own) = own.trim_end_matches(';').split_once('@').unwrap();
        let text = change(text.replace(&format!("@{own}"), &format!("@{version}")));
        // An interface has the same mark in each version that contains it. No mark may be later than its package's version.
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("@since(")).collect();
        let text = lines.join("\n");
        resolve.push_str(path, &text).unwrap_or_else(|error| panic!("{package} of {version}: {error:#}"));
    }
}

/// Adds a world `w` in its own package. Both copies of a world have one name, which the check requires.
fn add_world(resolve: &mut Resolve, number: usize, version: &str, body: &str) -> WorldId {
    let text = format!("package check:w{number}@{version}; world w {{ {} }}", body.replace("VERSION", version));
    let package = resolve.push_str("w.wit", &text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
    resolve.select_world(&[package], Some("w")).unwrap()
}

/// Checks that every interface and every world of the released packages in `folder` is unchanged after `change`, in both
/// directions: a component of either version works where the other version is expected. Returns descriptions of the differences.
fn differences(folder: &Path, now: &Path, change: impl Fn(String) -> String) -> Vec<String> {
    let mut resolve = Resolve::default();
    add(&mut resolve, folder, "1.0.0", |text| text);
    add(&mut resolve, now, "2.0.0", change);
    let released = |package: &str| {
        let found = resolve.packages.iter().map(|(_, found)| found);
        found.into_iter().find(|found| found.name.name == package && found.name.version.as_ref().unwrap().major == 1)
    };
    let mut bodies = Vec::new();
    for package in PACKAGES {
        let found = released(package).unwrap();
        for interface in found.interfaces.keys() {
            let name = format!("patchbay:{package}/{interface}");
            bodies.push((name.clone(), format!("import {name}@VERSION;")));
            bodies.push((name.clone(), format!("export {name}@VERSION;")));
        }
        for world in found.worlds.keys() {
            let name = format!("patchbay:{package}/{world}");
            bodies.push((name.clone(), format!("include {name}@VERSION;")));
        }
    }
    let mut found = Vec::new();
    for (number, (name, body)) in bodies.iter().enumerate() {
        let before = add_world(&mut resolve, number, "1.0.0", body);
        let now = add_world(&mut resolve, number, "2.0.0", body);
        for (from, to, what) in [(before, now, "breaks"), (now, before, "adds to")] {
            if let Err(error) = semver_check(resolve.clone(), from, to) {
                found.push(format!("wit/ {what} {name} as it was released in {}: {error:#}", folder.display()));
            }
        }
    }
    found
}

#[test]
fn released_interfaces_and_worlds_are_unchanged() {
    for folder in frozen() {
        let differences = differences(&folder, &repository("wit"), |text| text);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// Verifies the check itself, with a change of each kind.
#[test]
fn changes_of_released_interfaces_are_detected() {
    let folder = &frozen()[0];
    for (released, changed) in [
        ("record link { path: string,", "record link { size: u64, path: string,"),
        ("record response-head { status: u16,", "record response-head { size: u64, status: u16,"),
        ("report: func(text: string);", "report: func(text: string); report-all: func(text: string);"),
        ("report: func(text: string);", "type more = u32; report: func(text: more);"),
        ("export adapter;", "export adapter; import patchbay:host/kv@2.0.0;"),
    ] {
        let is_changed = |text: String| text.replace(released, changed);
        assert!(!differences(folder, folder, is_changed).is_empty(), "{changed}");
    }
}

/// Returns the contract of a released version, for building plugins.
fn released(folder: &Path) -> Resolve {
    let mut resolve = Resolve::default();
    for package in PACKAGES {
        resolve.push_dir(folder.join(package)).unwrap();
    }
    resolve
}

/// A component built against a frozen copy loads and works in this build.
#[tokio::test]
async fn components_of_released_versions_still_work() {
    for folder in frozen() {
        let version = folder.file_name().unwrap().to_str().unwrap();
        let wat = Guest::default().wat().replace("@0.1.0", &format!("@{version}"));
        let bytes = guest::component_of(&released(&folder), &wat, "patchbay:skill/skill-plugin");
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        let digest = Digest::of(&bytes);
        let loaded = sandbox.load(digest, bytes).await.unwrap();
        assert_eq!(sandbox.describe(&loaded).await.unwrap()[0].name.as_str(), "run");
        let call = Call {
            tool: "run".to_owned(),
            input: "{\"a\":1}".to_owned(),
            attachments: Vec::new(),
            permits: Arc::new(Permits::new(
                Identity::new(Root::User, "", "x".parse().unwrap()),
                Vec::new(),
                Vec::new(),
            )),
            services: services::unavailable(),
            budget: None,
        };
        let answer = sandbox.call(&loaded, call).await.result;
        assert_eq!(answer.unwrap(), [Content::Text("{\"a\":1}".to_owned())]);
    }
}

/// An adapter built against a frozen copy loads and works in this build.
#[tokio::test]
async fn adapters_of_released_versions_still_work() {
    for folder in frozen() {
        let bytes = Adapter::default().component_of(&released(&folder));
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        let loaded = sandbox.load_adapter(Digest::of(&bytes), bytes).await.unwrap();
        let manifest = sandbox.describe_adapter(&loaded).await.unwrap();
        assert_eq!((manifest.name.as_str(), manifest.models[0].id.as_str()), ("scripted", "scripted-1"));
        let plan = sandbox.explain_thinking(&loaded, "scripted-1", None, &[]).await.unwrap();
        assert_eq!(plan.description, ["Thinking: off"]);
        let log = services::unavailable().log;
        let (_, actions) = sandbox.begin(&loaded, request(), &[], &budgets(), log).await.unwrap();
        let delta = StreamEvent::BlockDelta { index: 0, text: "hi".to_owned() };
        assert_eq!(actions[2], Action::Emit(delta));
        assert_eq!(actions[4], Action::Finish(Finish { stop: Stop::EndTurn, raw: "stop".to_owned() }));
    }
}

fn request() -> CompletionRequest {
    CompletionRequest {
        model: "scripted-1".to_owned(),
        system: Vec::new(),
        messages: vec![Message { role: Role::User, parts: vec![Block::Text("hi".to_owned()).into()] }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        hints: RequestHints::default(),
    }
}

fn budgets() -> Budgets {
    Budgets {
        step_fuel: 10_000_000,
        fuel: 10_000_000,
        step_ms: 60_000,
        step_actions: 10,
        actions: 10,
        step_bytes: 64 << 10,
    }
}

/// Returns the sandbox with the adapter loaded.
async fn loaded(adapter: &Adapter) -> (Arc<Sandbox>, Arc<LoadedAdapter>) {
    let bytes = adapter.component();
    let sandbox = Arc::new(Sandbox::new(Limits::default()));
    let loaded = sandbox.load_adapter(Digest::of(&bytes), bytes).await.unwrap();
    sandbox.describe_adapter(&loaded).await.unwrap();
    (sandbox, loaded)
}

/// An adapter exports any of the optional interfaces, which the host finds by their names.
#[tokio::test]
async fn optional_interfaces_are_found() {
    let models = |ids: &[&str]| {
        let models: Vec<_> = ids.iter().map(|id| json!({"id": id, "facts": format!("{{\"of\":\"{id}\"}}")})).collect();
        json!({ "models": models })
    };
    let large =
        json!({ "models": [{ "id": "c", "facts": "x".repeat(FACTS_BYTES + 1) }, { "id": "d e", "facts": "" }] });
    let adapter = Adapter {
        listing: vec![
            json!([models(&["a"]), { "extra": { "name": "warning", "value": "old\u{1b}page" } }, { "wait-ms": 1 }]),
            json!([models(&["b"]), large, { "extra": { "name": "new" } },
                { "finish": { "coverage": "complete", "validator": "etag",
                    "extra": [{ "name": "fresh-for-s", "value": "60" }] } }]),
        ],
        facts: Some(json!("{\"size\":\"small\"}")),
        level_plan: Some(json!({ "effective": "low", "description": ["Thinking: low"], "warning": "Little." })),
        ..Adapter::default()
    };
    let (sandbox, adapter) = loaded(&adapter).await;
    assert!(adapter.lists_models());
    let log = services::unavailable().log;
    let (mut listing, actions) =
        sandbox.begin_listing(&adapter, None, &[], &budgets(), log.clone()).await.unwrap().unwrap();
    let listed = |id: &str| ListedModel { id: id.to_owned(), facts: format!("{{\"of\":\"{id}\"}}") };
    let emitted = |models, left_out| Action::Emit(ListingEvent::Models { models, left_out });
    assert_eq!(
        actions,
        [
            emitted(vec![listed("a")], 0),
            Action::Emit(ListingEvent::Warning("oldpage".to_owned())),
            Action::Wait(Duration::from_millis(1)),
        ]
    );
    let end = ListingEnd { coverage: Coverage::Complete, validator: Some("etag".to_owned()), fresh_for_s: Some(60) };
    assert_eq!(
        listing.resume(Input::Timer).await.unwrap(),
        [
            emitted(vec![listed("b")], 0),
            emitted(Vec::new(), 2),
            Action::Emit(ListingEvent::Unknown),
            Action::Finish(end),
        ]
    );
    assert_eq!(sandbox.model_facts(&adapter, "x", &[]).await.unwrap().unwrap(), "{\"size\":\"small\"}");
    let plan = sandbox.explain_thinking(&adapter, "x", None, &[]).await.unwrap();
    assert_eq!((&*plan.description[0], plan.warning.as_deref()), ("Thinking: low", Some("Little.")));

    // Without the optional interfaces, and with facts that are too long.
    let (sandbox, adapter) = loaded(&Adapter::default()).await;
    assert!(!adapter.lists_models());
    assert!(sandbox.begin_listing(&adapter, None, &[], &budgets(), log).await.unwrap().is_none());
    assert_eq!(sandbox.model_facts(&adapter, "x", &[]).await.unwrap(), None);
    let long = Adapter { facts: Some(json!("x".repeat(FACTS_BYTES + 1))), ..Adapter::default() };
    let (sandbox, adapter) = loaded(&long).await;
    let failure = sandbox.model_facts(&adapter, "x", &[]).await.unwrap_err().to_string();
    assert!(failure.contains("8193 bytes of facts about a model; the limit is 8192"), "{failure}");
}

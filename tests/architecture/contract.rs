//! Checks that the contract in `wit/` is compatible with every released copy of it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use patchbay_core::{
    Digest,
    completion::{Block, CompletionRequest, Finish, Message, Role, Stop, StreamEvent, ToolChoice},
};
use patchbay_policy::{Identity, Permits, Root};
use patchbay_sandbox::{
    Call, Content, Limits, Sandbox,
    adapter::{Action, Budgets},
};
use patchbay_tests::{
    adapter::Adapter,
    guest::{self, Guest},
    services,
};
use wit_component::semver_check;
use wit_parser::{PackageId, Resolve};

use crate::repository;

const PACKAGES: [&str; 3] = ["host", "skill", "provider"];
/// The worlds that plugins implement, each with its package.
const WORLDS: [(&str, &str); 2] = [("skill", "skill-plugin"), ("provider", "provider-plugin")];

fn frozen() -> Vec<PathBuf> {
    let mut versions: Vec<_> =
        fs::read_dir(repository("wit/frozen")).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    assert!(!versions.is_empty());
    versions
}

/// Packages by name.
type Packages = BTreeMap<&'static str, PackageId>;

/// Adds the packages of a folder; `change` edits the text of each file.
fn add(resolve: &mut Resolve, folder: &Path, change: impl Fn(String) -> String) -> Packages {
    let mut added = Packages::new();
    for package in PACKAGES {
        let path = folder.join(package).join(format!("{package}.wit"));
        let text = change(fs::read_to_string(&path).unwrap());
        added.insert(package, resolve.push_str(path, &text).unwrap());
    }
    added
}

/// Adds the packages of a frozen copy under another version, so that they do not collide with the present ones.
fn add_frozen(resolve: &mut Resolve, folder: &Path) -> Packages {
    let version = folder.file_name().unwrap().to_str().unwrap();
    add(resolve, folder, |text| text.replace(&format!("@{version}"), &format!("@{version}-frozen")))
}

/// Checks that a component of the world in `before` works where the one in `now` is expected.
fn check_compatible(
    resolve: &Resolve,
    before: &Packages,
    now: &Packages,
    (package, world): (&str, &str),
) -> anyhow::Result<()> {
    let before = resolve.select_world(&[before[package]], Some(world))?;
    let now = resolve.select_world(&[now[package]], Some(world))?;
    semver_check(resolve.clone(), before, now)
}

#[test]
fn released_contract_versions_remain_compatible() {
    for folder in frozen() {
        let mut resolve = guest::contract();
        let named = |package: &&'static str| {
            let found = resolve.package_names.iter().find(|(name, _)| name.name == *package);
            (*package, *found.unwrap().1)
        };
        let now = PACKAGES.iter().map(named).collect();
        let before = add_frozen(&mut resolve, &folder);
        for world in WORLDS {
            if let Err(error) = check_compatible(&resolve, &before, &now, world) {
                panic!("wit/ breaks {} as it was released in {}: {error:#}", world.1, folder.display());
            }
        }
    }
}

/// Verifies the check itself.
#[test]
fn added_record_field_is_detected() {
    let folder = &frozen()[0];
    for (world, record) in
        WORLDS.into_iter().zip(["record link { path: string,", "record response-head { status: u16,"])
    {
        let mut resolve = Resolve::default();
        let before = add_frozen(&mut resolve, folder);
        let now = add(&mut resolve, folder, |text| text.replace(record, &format!("{record} size: u64,")));
        assert!(check_compatible(&resolve, &before, &now, world).is_err(), "{record}");
    }
}

/// Returns the contract of a released version, for building plugins.
fn released(folder: &Path) -> Resolve {
    let mut resolve = Resolve::default();
    add(&mut resolve, folder, |text| text);
    resolve
}

/// A component built against a frozen copy loads and works in this build.
#[tokio::test]
async fn components_of_released_versions_still_work() {
    for folder in frozen() {
        let bytes = guest::component_of(&released(&folder), &Guest::default().wat(), "patchbay:skill/skill-plugin");
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
        let plan = sandbox.explain_thinking(&loaded, "scripted-1", None).await.unwrap();
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

//! Components whose schemas would exhaust the time, the memory or the stack of a validator without limits.

use std::{sync::Arc, time::Instant};

use patchbay_core::{Asker, Code, PrincipalId, ToolSpec};
use patchbay_sandbox::{Content, Failure, Limits, Sandbox, WORLD};
use patchbay_skill::{Component, Problem, Snapshot};
use patchbay_store::Store;
use patchbay_tests::{guest::Guest, schemas::hostile, services};
use patchbay_tools::{ToolError, Tools};
use serde_json::{Value, json};

use crate::support::{Harness, small_limits, within_30_seconds};

/// Returns a guest with one tool per schema.
fn guest(schemas: &[(&str, Value)]) -> Guest {
    let tool = |(name, schema): &(&str, Value)| ((*name).to_owned(), "Runs".to_owned(), schema.to_string());
    Guest { tools: schemas.iter().map(tool).collect(), pages: 16, ..Guest::default() }
}

/// Tools with a store in a temporary folder.
struct Host {
    folder: tempfile::TempDir,
    store: Store,
    tools: Arc<Tools>,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        // Enough memory for a list of several schemas.
        let limits = Limits { output_bytes: 8 << 20, memory_bytes: 8 << 20, ..small_limits() };
        let tools = Arc::new(services::tools(folder.path(), &store, Sandbox::new(limits)));
        Self { folder, store, tools }
    }

    async fn describe(&self, component: Component) -> Result<Arc<[ToolSpec]>, Problem> {
        let mut described = within_30_seconds(self.tools.describe([&component], &|_, _| {})).await.unwrap();
        described.answers.remove(&component.digest()).unwrap()
    }

    /// Returns a snapshot as an older build would have made it, with tools whose schemas this build rejects.
    fn old_snapshot(&self, guest: &Guest, tools: &[(&str, Value)]) -> Arc<Snapshot> {
        let skills = self.folder.path().join("skills");
        std::fs::create_dir(&skills).unwrap();
        std::fs::write(skills.join("old.wasm"), guest.packaged("---\n---\n")).unwrap();
        let found = services::found(&skills);
        let bytes = found[0].candidate.as_ref().unwrap().component.as_ref().unwrap().bytes().unwrap();
        self.store.retain_components().unwrap().add(&bytes).unwrap();
        let spec = |(name, schema): &(&str, Value)| ToolSpec {
            name: name.parse().unwrap(),
            description: String::new(),
            input_schema: schema.clone(),
            extra: Vec::new(),
        };
        let specs: Arc<[ToolSpec]> = tools.iter().map(spec).collect();
        services::snapshot(&found, 1, |_| Ok(Arc::clone(&specs)))
    }

    async fn call(&self, snapshot: &Arc<Snapshot>, tool: &str, input: &Value) -> Result<Vec<Content>, ToolError> {
        let asker = Asker::Person(PrincipalId::LOCAL);
        let context = services::context(asker, services::session(&self.store).await, "/w", snapshot);
        within_30_seconds(services::call(&self.tools, &context, &[], tool, input)).await
    }
}

#[tokio::test]
async fn hostile_schemas_are_rejected_or_cheap() {
    let host = Host::new();
    for (name, schema, refusal) in hostile() {
        let start = Instant::now();
        let answer = host.describe(Component::in_memory(guest(&[("run", schema)]).component())).await;
        match (answer, refusal) {
            (Err(problem), Some(words)) => {
                assert_eq!(problem.code, Code::InvalidComponent, "{name}");
                let sentence = format!("The schema of tool 'run' {words}");
                assert!(problem.message.starts_with(&sentence), "{name}: {}", problem.message);
            }
            (Ok(_), None) => {}
            (answer, refusal) => panic!("{name}: {answer:?} {refusal:?}"),
        }
        // Far above the expected time, and far below an endless check.
        assert!(start.elapsed().as_secs() < 20, "{name}");
    }
}

/// Inputs are validated on the caller's thread, and the attacker also chooses the inputs.
#[tokio::test]
async fn input_validation_is_bounded_in_steps_and_depth() {
    let host = Host::new();
    let words: Vec<_> = (0..4_000).map(|n| json!([n, "word"])).collect();
    let schemas = [
        ("tree", json!({"type": "object", "properties": {"x": {"$ref": "#"}}})),
        ("list", json!({"type": "object", "properties": {"x": {"items": {"enum": words}}}})),
        ("text", json!({"type": "object", "properties": {"x": {"pattern": "^(?:(?=[a-z]*b)[a-z])*$"}}})),
    ];
    let snapshot = host.old_snapshot(&guest(&schemas), &schemas);
    let deep = (0..100).fold(json!({}), |inner, _| json!({"x": inner}));
    let long = json!({"x": vec![json!([3_999, "word"]); 5_000]});
    let text = json!({"x": format!("{}b", "a".repeat(100_000))});
    for (tool, input, words) in [
        ("old__tree", deep, "it is nested too deep to check against the schema, which enters at most 32 levels"),
        ("old__list", long, "checking it against the schema takes more than 10000000 steps; use a smaller input"),
        ("old__text", text, "checking it against the schema takes more than 10000000 steps; use a smaller input"),
    ] {
        let error = host.call(&snapshot, tool, &input).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidInput);
        assert_eq!(error.to_string(), format!("input for '{tool}' is invalid: {words}."));
    }
    assert!(host.call(&snapshot, "old__tree", &json!({"x": {"x": {}}})).await.is_ok());
}

/// Snapshots of old sessions may contain schemas that an older build accepted.
#[tokio::test]
async fn rejected_schema_of_an_old_snapshot_disables_one_tool() {
    let host = Host::new();
    let schemas =
        [("good", json!({"type": "object"})), ("bad", json!({"type": "object", "unevaluatedProperties": false}))];
    let snapshot = host.old_snapshot(&guest(&schemas), &schemas);
    let error = host.call(&snapshot, "old__bad", &json!({})).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidComponent);
    assert_eq!(
        error.to_string(),
        "The schema of tool 'old__bad' uses 'unevaluatedProperties', which is not supported; use 'additionalProperties'."
    );
    let answer = host.call(&snapshot, "old__good", &json!({"a": 1})).await.unwrap();
    assert_eq!(answer, [Content::Text(r#"{"a":1}"#.into())]);
}

/// A description cached under other rules is ignored: the component is described again.
#[tokio::test]
async fn descriptions_accepted_by_other_rules_are_not_reused() {
    let host = Host::new();
    let component = Component::in_memory(
        guest(&[("run", json!({"type": "object", "properties": {"a": {"$anchor": "a"}}}))]).component(),
    );
    let tools = json!([{"name": "run", "description": "", "input_schema": {"type": "object"}}]);
    for kept in [json!({"tools": tools}), json!({"judged": {"rules": 0, "tools": tools}})] {
        host.store.keep_described(component.digest(), WORLD, kept.to_string()).await.unwrap();
        let problem = host.describe(component.clone()).await.unwrap_err();
        assert!(problem.message.contains("'$anchor'"), "{}", problem.message);
        let now = host.store.described(&[component.digest()], WORLD).await.unwrap().remove(0).unwrap();
        assert!(now.contains("problem"), "{now}");
    }
}

#[tokio::test]
async fn schemas_and_extra_fields_are_cleaned() {
    let harness = Harness::new(small_limits());
    let dirty = json!({"type": "object", "title": "a\u{9b}2J\u{202e}b", "enum": [{"x": "\u{e0041}c"}]});
    let specs = harness.describe(&guest(&[("run", dirty)])).await.unwrap();
    assert_eq!(specs[0].input_schema, json!({"type": "object", "title": "a2Jb", "enum": [{"x": "c"}]}));
    let key = json!({"type": "object", "properties": {"a\u{200b}b": {}}});
    assert_eq!(
        harness.assert_describe_fails(&guest(&[("run", key)])).await,
        Failure::InvalidOutput("the input schema of tool 'run' has a key with invisible characters: 'ab'".to_owned())
    );
}

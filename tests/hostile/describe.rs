//! Components that attack the host while it asks for their tools.

use patchbay_core::{Code, Digest};
use patchbay_policy::Root;
use patchbay_sandbox::{Failure, Limits, Sandbox, WORLD};
use patchbay_skill::{Changed, Component, Problem};
use patchbay_store::Store;
use patchbay_tests::{guest::Guest, services};
use patchbay_tools::Group;

use crate::support::{
    Harness, KV_GET, LOG, PROGRESS, data, endless_loop, failure, imports, permits, small_limits, time_limit_only,
    within_30_seconds,
};

fn before_tools(body: &str) -> Guest {
    Guest { before_tools: body.into(), ..Guest::default() }
}

fn tool(name: &str, description: &str, schema: &str) -> Guest {
    Guest { tools: vec![(name.into(), description.into(), schema.into())], ..Guest::default() }
}

fn schema(schema: &str) -> Guest {
    tool("run", "Runs", schema)
}

#[tokio::test]
async fn describe_has_its_own_budget() {
    let harness = Harness::new(small_limits());
    let looping = before_tools(&endless_loop(""));
    assert_eq!(harness.assert_describe_fails(&looping).await, Failure::Fuel { budget: 10_000_000 });
    let trapping = before_tools("(unreachable)");
    assert_eq!(
        harness.assert_describe_fails(&trapping).await,
        Failure::trap("wasm trap: wasm `unreachable` instruction executed")
    );
    let growing = before_tools(&endless_loop("(drop (memory.grow (i32.const 1)))"));
    assert_eq!(harness.assert_describe_fails(&growing).await.code(), Code::LimitMemory);
    let clock = Harness::new(time_limit_only(60));
    assert_eq!(clock.describe(&looping).await.unwrap_err(), Failure::Time { limit_ms: 60 });
}

#[tokio::test]
async fn describe_has_no_grants_and_no_log() {
    // Requested and granted, but grants only apply to calls.
    let harness = Harness::new(small_limits()).with_permits(permits(&["kv"], &["kv"]));
    let body = "(call $write (i32.const 3) (i32.const 1024) (i32.const 4))
                (call $report (i32.const 1024) (i32.const 4))
                (call $get (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 256))
                ;; An error, of the kind `denied`.
                (if (i32.ne (i32.load8_u (i32.const 256)) (i32.const 1)) (then (unreachable)))
                (if (i64.ne (i64.and (i64.load (i32.load (i32.const 264))) (i64.const 0xffffffffffff)) (i64.load (i32.const 131072)))
                  (then (unreachable)))";
    let guest = before_tools(body).with(&imports(KV_GET)).with(&imports(LOG)).with(&imports(PROGRESS));
    let guest = guest.with(&data(131_072, b"denied"));
    assert_eq!(harness.describe(&guest).await.unwrap().len(), 1);
    assert!(harness.recorder.log.lock().unwrap().is_empty());
    assert!(harness.recorder.progress.lock().unwrap().is_empty());
    // They still count against the limits.
    let flood = |call: &str| before_tools(&endless_loop(call)).with(&imports(LOG)).with(&imports(PROGRESS));
    let log = flood("(call $write (i32.const 0) (i32.const 1024) (i32.const 1))");
    assert_eq!(harness.assert_describe_fails(&log).await.code(), Code::LimitLog);
    let progress = flood("(call $report (i32.const 1024) (i32.const 0))");
    assert_eq!(harness.assert_describe_fails(&progress).await.code(), Code::LimitHostCalls);
    let progress = flood("(call $report (i32.const 1024) (i32.const 60000))");
    assert_eq!(harness.assert_describe_fails(&progress).await.code(), Code::LimitOutput);
}

#[tokio::test]
async fn invalid_tool_descriptions_are_rejected() {
    let object = r#"{"type":"object"}"#;
    let many = |count: usize, name: fn(usize) -> String| Guest {
        tools: (0..count).map(|i| (name(i), "Runs".into(), object.into())).collect(),
        ..Guest::default()
    };
    let bad_name =
        "is not a valid name: use 1 to 64 of a-z, 0-9, '_' and '-', begin with a letter or digit, and do not use '__'";
    let cases = [
        (many(65, |i| format!("t{i}")), "65 tools; the limit is 64".to_owned()),
        (many(2, |_| "twice".into()), "tool 'twice' is declared twice".to_owned()),
        (tool("", "", object), format!("a tool's name: '' {bad_name}")),
        (tool("Run", "", object), format!("a tool's name: 'Run' {bad_name}")),
        (tool("a__b", "", object), format!("a tool's name: 'a__b' {bad_name}")),
        (tool("-a", "", object), format!("a tool's name: '-a' {bad_name}")),
        (tool("../x", "", object), format!("a tool's name: '../x' {bad_name}")),
        (tool("\u{1b}[2J\u{202e}x", "", object), format!("a tool's name: '[2Jx' {bad_name}")),
        (tool(&"n".repeat(65), "", object), format!("a tool's name: '{}' {bad_name}", "n".repeat(65))),
        (tool(&"n".repeat(9000), "", object), format!("a tool's name: '{}…' {bad_name}", "n".repeat(80))),
        (
            tool("run", &"d".repeat(8193), object),
            "the description of tool 'run' has 8193 bytes; the limit is 8192".to_owned(),
        ),
        (
            schema(""),
            "the input schema of tool 'run' is not valid JSON: EOF while parsing a value at line 1 column 0".to_owned(),
        ),
        (
            schema("{"),
            "the input schema of tool 'run' is not valid JSON: EOF while parsing an object at line 1 column \
             1"
            .to_owned(),
        ),
        (schema("[]"), "the input schema of tool 'run' is not a JSON object".to_owned()),
        (schema("true"), "the input schema of tool 'run' is not a JSON object".to_owned()),
        (
            schema(&format!("{{\"type\":\"object\",\"not\":{}", "{\"not\":".repeat(500))),
            "the input schema of tool 'run' is not valid JSON: recursion limit exceeded at line 1 column \
             906"
            .to_owned(),
        ),
    ];
    let harness = Harness::new(small_limits());
    for (guest, words) in cases {
        let failure = harness.assert_describe_fails(&guest).await;
        assert_eq!(failure, Failure::InvalidOutput(words));
        assert_eq!(failure.code(), Code::InvalidOutput);
    }
    let long = format!("{{\"type\":\"object\",\"title\":\"{}\"}}", "s".repeat(65_536));
    let harness = Harness::new(Limits { output_bytes: 1 << 20, memory_bytes: 8 << 20, ..small_limits() });
    assert_eq!(
        harness.assert_describe_fails(&schema(&long)).await,
        Failure::InvalidOutput("the input schema of tool 'run' has 65564 bytes; the limit is 65536".into())
    );
    // Values exactly at the limits are accepted.
    assert_eq!(harness.describe(&many(64, |i| format!("t{i}"))).await.unwrap().len(), 64);
    harness.describe(&tool(&"n".repeat(64), &"d".repeat(8192), object)).await.unwrap();
}

#[tokio::test]
async fn tool_description_is_cleaned() {
    let guest = tool("run", " Runs\u{1b}[31m \u{202e}it\u{200b} ", r#"{"type":"object"}"#);
    assert_eq!(Harness::new(small_limits()).describe(&guest).await.unwrap()[0].description, "Runs[31m it");
}

/// A skill may list a tool and then report it as unknown when it is called, which is an ordinary failure.
#[tokio::test]
async fn tool_returning_unknown_tool_has_failed() {
    let guest = Guest::calling(&failure((131_072, 12), (131_084, 2))).with(&data(131_072, "unknown-toolNo"));
    let harness = Harness::new(small_limits());
    assert_eq!(harness.describe(&guest).await.unwrap()[0].name.as_str(), "run");
    let failure = harness.assert_call_fails(&guest).await;
    assert_eq!(failure, Failure::Failed { kind: "unknown-tool".into(), message: "No".into() });
}

/// Describes components with a store in a temporary folder.
struct Describer {
    folder: tempfile::TempDir,
    store: Store,
}

impl Describer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        Self { folder, store }
    }

    /// Describes a component in a new process with `limits`.
    async fn describe(&self, limits: Limits, component: Component) -> Result<usize, Problem> {
        let tools = services::tools(self.folder.path(), &self.store, Sandbox::new(limits));
        let mut described = within_30_seconds(tools.describe([&component], &|_, _| {})).await.unwrap();
        described.answers.remove(&component.digest()).unwrap().map(|tools| tools.len())
    }

    async fn is_cached(&self, digest: Digest) -> bool {
        self.store.described(&[digest], WORLD).await.unwrap()[0].is_some()
    }
}

#[tokio::test]
async fn deterministic_descriptions_are_cached() {
    let describer = Describer::new();
    let refused = |words: &str| Err(Problem::new(Code::InvalidComponent, words));
    let no_object =
        "The schema of tool 'run' does not have \"type\": \"object\" at its top level; a tool's input is an object.";
    for (guest, expected) in [
        (Guest::default(), Ok(1)),
        (
            before_tools("(unreachable)"),
            refused(
                "Listing its tools failed with trap: the component trapped: wasm trap: wasm `unreachable` \
                 instruction executed.",
            ),
        ),
        (
            before_tools(&endless_loop("")),
            refused(
                "Listing its tools failed with limit_fuel: the call used up its fuel of 10000000 units \
                 (limits.fuel): it does too much work for one call, or it loops.",
            ),
        ),
        (
            schema("[]"),
            refused(
                "Listing its tools failed with invalid_output: the component returned an invalid result: the \
                 input schema of tool 'run' is not a JSON object.",
            ),
        ),
        (schema("{}"), refused(no_object)),
        (schema(r#"{"type":["object","null"]}"#), refused(no_object)),
        // A pattern with exponential time in backtracking engines takes linear time here.
        (schema(r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}"#), Ok(1)),
        // An unknown dialect is read as 2020-12 and is not fetched.
        (schema(r#"{"type":"object","$schema":"http://127.0.0.1:1/meta"}"#), Ok(1)),
    ] {
        let skills = tempfile::tempdir().unwrap();
        std::fs::write(skills.path().join("skill.wasm"), guest.packaged("---\n---\n")).unwrap();
        let found = services::found(skills.path()).remove(0);
        let component = found.candidate.unwrap().component.unwrap();
        assert_eq!(describer.describe(small_limits(), component.clone()).await, expected);
        assert!(describer.is_cached(component.digest()).await, "{expected:?}");
        // A new process, in which the component cannot be run.
        drop(skills);
        assert_eq!(component.bytes(), Err(Changed));
        assert_eq!(describer.describe(small_limits(), component).await, expected);
    }
}

#[tokio::test]
async fn schema_with_remote_or_exploding_references_is_rejected() {
    let describer = Describer::new();
    let huge_pattern =
        format!("{{\"type\":\"object\",\"properties\":{{\"a\":{{\"pattern\":\"{}\"}}}}}}", "(a{1000}){1000}");
    for text in [
        r#"{"type":"object","$ref":"http://127.0.0.1:1/schema"}"#,
        r#"{"type":"object","$ref":"https://example.com/schema"}"#,
        r#"{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}"#,
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}"##,
        r#"{"type":"object","properties":{"a":{"pattern":"(back)\\1"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":5}}}"#,
        &huge_pattern,
    ] {
        let component = Component::in_memory(schema(text).component());
        let digest = component.digest();
        let problem = describer.describe(small_limits(), component).await.expect_err(text);
        assert_eq!(problem.code, Code::InvalidComponent, "{text}");
        assert!(problem.message.starts_with("The schema of tool 'run' "), "{text}: {}", problem.message);
        assert!(problem.message.chars().count() < 400 && !problem.message.contains('\n'));
        assert!(describer.is_cached(digest).await, "{text}");
    }
}

/// A timeout may be due to a busy machine, but a start does not try again. Only a reload or different limits do.
#[tokio::test]
async fn timeout_is_cached_until_a_retry_is_requested() {
    let describer = Describer::new();
    let guest = before_tools(&endless_loop(""));
    let component = Component::in_memory(guest.component());
    let digest = component.digest();
    let problem = describer.describe(time_limit_only(60), component.clone()).await.unwrap_err();
    assert_eq!(
        problem.message,
        "Listing its tools failed with limit_time: call exceeded its time limit of 60 ms (limits.time_ms). To try \
         again: /reload_skills"
    );
    assert!(describer.is_cached(digest).await);
    // The component's folder is deleted, so it cannot be compiled or run: the result must come from the cache.
    let skills = tempfile::tempdir().unwrap();
    std::fs::create_dir(skills.path().join("skill")).unwrap();
    std::fs::write(skills.path().join("skill/SKILL.md"), "---\n---\n").unwrap();
    std::fs::write(skills.path().join("skill/skill.wasm"), component.bytes().unwrap()).unwrap();
    let found = services::found(skills.path()).remove(0);
    let gone = found.candidate.unwrap().component.unwrap();
    assert_eq!(gone.digest(), digest);
    drop(skills);
    assert_eq!(describer.describe(time_limit_only(60), gone).await, Err(problem));
    // Described again without the time limit, it is stopped because of its fuel.
    let problem = describer.describe(small_limits(), component).await.unwrap_err();
    assert!(problem.message.contains("limit_fuel"), "{}", problem.message);
    assert!(describer.is_cached(digest).await);
}

/// The skills of a root share a total compile time. Skills that exceed it are rejected until a reload tries again.
#[tokio::test]
async fn root_compilation_stops_at_its_total_limit() {
    let describer = Describer::new();
    let component = Component::in_memory(Guest::default().component());
    let digest = component.digest();
    let over = Problem::new(Code::RootLimit, "The workspace skills exceed the limit of 0 s (limits.root.compile_s).");
    let described = async |compile_s, again| {
        let tools = services::tools(describer.folder.path(), &describer.store, Sandbox::new(small_limits()));
        let group = Group { root: Root::Workspace, components: vec![&component], compile_s, at_once: 1 };
        let mut described = within_30_seconds(tools.describe_roots(&[group], again, &|_, _| {})).await.unwrap();
        described.answers.remove(&digest).unwrap().map(|tools| tools.len())
    };
    assert_eq!(described(0, false).await, Err(over.clone()));
    assert!(describer.is_cached(digest).await);
    assert_eq!(described(0, true).await, Err(over));
    assert_eq!(described(60, false).await, Ok(1), "another total");
    assert_eq!(described(0, false).await, Ok(1), "what was asked is known");
}

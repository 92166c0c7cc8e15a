//! Internal tools of the host follow the path of all tools: their input is checked, and their calls are recorded in the journal.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::{AgentId, Asker, Code, Digest, ToolSpec};
use patchbay_sandbox::{Content, Sandbox};
use patchbay_skill::Snapshot;
use patchbay_store::{JournalRow, Store};
use patchbay_tests::services;
use patchbay_tools::{Internal, InternalAnswer, InternalCall, InternalError, ToolError, Tools};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{empty_snapshot, journal, small_limits, within_30_seconds};

/// An internal tool that returns its `text`, or fails with it.
struct Echo {
    spec: ToolSpec,
    /// Notified when a call hangs.
    hangs: Arc<Notify>,
}

impl Echo {
    fn tool(hangs: Arc<Notify>) -> Arc<dyn Internal> {
        let input_schema = json!({
            "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
            "additionalProperties": false,
        });
        let (name, description) = ("echo".parse().unwrap(), "Echoes".to_owned());
        Arc::new(Self { spec: ToolSpec { name, description, input_schema, extra: Vec::new() }, hangs })
    }
}

impl Internal for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move {
            match call.input["text"].as_str().unwrap() {
                "fail" => Err(InternalError { code: Code::SkillNotFound, message: "there is none.".to_owned() }),
                "hang" => {
                    self.hangs.notify_one();
                    std::future::pending().await
                }
                "object" => Ok(json!({"a": "b\u{202e}"}).into()),
                text => Ok(Value::from(text).into()),
            }
        })
    }
}

/// A caller with a model's rights, in a session without skills.
struct Model {
    _folder: tempfile::TempDir,
    store: Store,
    tools: Arc<Tools>,
    snapshot: Arc<Snapshot>,
    internal: Vec<Arc<dyn Internal>>,
    /// Notified when a call of its tool hangs.
    hangs: Arc<Notify>,
    agent: AgentId,
}

impl Model {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let tools = Arc::new(services::tools(folder.path(), &store, Sandbox::new(small_limits())));
        let snapshot = empty_snapshot();
        let hangs = Arc::new(Notify::new());
        let internal = vec![Echo::tool(Arc::clone(&hangs))];
        Self { _folder: folder, store, tools, snapshot, internal, hangs, agent: AgentId::random() }
    }

    async fn call(&self, tool: &str, input: &Value) -> Result<Vec<Content>, ToolError> {
        let asker = Asker::Agent(self.agent);
        let context = services::context(asker, services::session(&self.store).await, "/w", &self.snapshot);
        services::call(&self.tools, &context, &self.internal, tool, input).await
    }
}

#[tokio::test]
async fn internal_tool_is_found_by_bare_name_and_cleaned() {
    let model = Model::new();
    let echo = async |text: &str| within_30_seconds(model.call("echo", &json!({ "text": text }))).await;
    assert_eq!(echo("a\u{200b}b").await.unwrap(), [Content::Text("ab".into())]);
    assert_eq!(echo("object").await.unwrap(), [Content::Json(json!({"a": "b"}))]);
    let failure = echo("fail").await.unwrap_err();
    assert_eq!((failure.code(), failure.to_string().as_str()), (Code::SkillNotFound, "there is none."));
    for name in ["Echo", "patchbay__echo", "echo__echo", ""] {
        let failure = within_30_seconds(model.call(name, &json!({"text": "x"}))).await.unwrap_err();
        assert_eq!(failure.code(), Code::ToolNotFound, "{name}");
    }
}

#[tokio::test]
async fn internal_tool_input_is_checked_against_its_schema() {
    let model = Model::new();
    for (input, problem) in [
        (json!({}), r#""text" is a required property"#),
        (json!({"text": 5}), r#"at /text: 5 is not of type "string""#),
        (json!([]), r#"[] is not of type "object""#),
    ] {
        let failure = within_30_seconds(model.call("echo", &input)).await.unwrap_err();
        assert_eq!(failure.code(), Code::InvalidInput);
        assert_eq!(failure.to_string(), format!("input for 'echo' is invalid: {problem}."));
    }
}

#[tokio::test]
async fn journal_records_internal_calls_with_every_outcome() {
    let model = Model::new();
    within_30_seconds(model.call("echo", &json!({"text": "four"}))).await.unwrap();
    within_30_seconds(model.call("echo", &json!({"text": "fail"}))).await.unwrap_err();
    within_30_seconds(model.call("echo", &json!({}))).await.unwrap_err();
    // The call is cancelled while it runs.
    let input = json!({"text": "hang"});
    tokio::select! {
        ended = model.call("echo", &input) => panic!("{ended:?}"),
        () = within_30_seconds(model.hangs.notified()) => {}
    }
    let rows = journal(&model.store).await;
    let outcomes: Vec<_> = rows.iter().map(JournalRow::outcome).collect();
    assert_eq!(outcomes, ["ok", "skill_not_found", "invalid_input", "cancelled"]);
    let row = &rows[0];
    assert_eq!((&row.root[..], &row.skill[..], &row.tool[..]), ("internal", "patchbay", "echo"));
    assert_eq!((row.component, row.output_bytes, row.fuel), (Digest::of(b""), 4, 0));
    assert_eq!(row.asker, Asker::Agent(model.agent));
}

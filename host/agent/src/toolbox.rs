//! The tools of a turn: their declarations for the model, and the execution of a call. Used by `turn`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use patchbay_core::{
    AgentId, Asker, CallId, Code, MessageKind, ToolRecord, ToolRecordPart, completion::ToolCall, text,
};
use patchbay_sandbox::{Content, Inference, ProgressSink};
use patchbay_skill::Snapshot;
use patchbay_store::NewMessage;
use patchbay_tools::{
    CallContext, Editor, EffectFlag, Internal, OutsideTools, ResolvedTool, ResultRow, ToolError, ToolInvocation, Tools,
};
use serde_json::{Value, json};

use crate::{
    AgentContext, ContextSettings, Turn,
    call_tool::CallTool,
    find_skills::FindSkills,
    find_tools::FindTools,
    parts,
    shown::{LastShown, Shown, ToolSources},
    skill_file::SkillFileTool,
    undeclared::deferred,
    use_skill::UseSkill,
};

/// Length limit of a tool's text for the model, in bytes: about thirty thousand tokens. Longer text is cut, with a
/// note.
const RESULT_BYTES: usize = 128 << 10;

pub(crate) struct Toolbox {
    tools: Arc<Tools>,
    snapshot: Arc<Snapshot>,
    internal: Vec<Arc<dyn Internal>>,
    /// Tools that this agent does not have. Their declarations still use room, which keeps the others the same for all agents.
    hidden: Vec<Arc<dyn Internal>>,
    outside: OutsideTools,
    editor: Option<Arc<dyn Editor>>,
    shown: Arc<LastShown>,
}

impl Toolbox {
    /// Returns the tools of a turn.
    pub(crate) fn of(tools: Arc<Tools>, turn: &Turn) -> Self {
        let Turn { snapshot, internal, outside, .. } = turn;
        Self { editor: turn.editor.clone(), ..Self::new(tools, snapshot, internal.clone(), outside) }
    }

    /// Returns the tools of a turn: `internal` and `outside` in addition to those in `snapshot`.
    pub(crate) fn new(
        tools: Arc<Tools>,
        snapshot: &Arc<Snapshot>,
        internal: Vec<Arc<dyn Internal>>,
        outside: &OutsideTools,
    ) -> Self {
        let (hidden, mut internal): (Vec<Arc<dyn Internal>>, Vec<_>) =
            internal.into_iter().partition(|tool| tool.is_hidden());
        let shown = Arc::<LastShown>::default();
        let deferred = deferred(&internal);
        let mut add = |tool: Option<Arc<dyn Internal>>| internal.extend(tool);
        add(UseSkill::over(&tools, deferred.clone(), snapshot, outside, &shown).map(|tool| Arc::new(tool) as _));
        add(SkillFileTool::over(&tools, snapshot).map(|tool| Arc::new(tool) as _));
        add(FindSkills::over(snapshot).map(|tool| Arc::new(tool) as _));
        add(FindTools::over(&tools, deferred, snapshot, outside).map(|tool| Arc::new(tool) as _));
        add(CallTool::new().map(|tool| Arc::new(tool) as _));
        Self {
            tools,
            snapshot: Arc::clone(snapshot),
            internal,
            hidden,
            outside: Arc::clone(outside),
            editor: None,
            shown,
        }
    }

    /// Returns the skills and tools shown to a model with a context window of `window` tokens.
    pub(crate) fn shown(&self, settings: &ContextSettings, window: u64) -> Arc<Shown> {
        let Self { snapshot, internal, hidden, outside, .. } = self;
        self.shown.get_or(window, || Shown::new(ToolSources { snapshot, internal, hidden, outside }, settings, window))
    }

    /// Returns the context of a call by the model of the agent at `place`; nested calls share it.
    pub(crate) fn context(
        &self,
        place: &AgentContext,
        progress: Arc<dyn ProgressSink>,
        inference: Arc<dyn Inference>,
    ) -> Arc<CallContext> {
        Arc::new(CallContext {
            asker: Asker::Agent(place.agent),
            principal: place.principal.clone(),
            hold: place.hold.clone(),
            agent: place.agent,
            workspace: place.workspace.clone(),
            snapshot: Arc::clone(&self.snapshot),
            outside: Arc::clone(&self.outside),
            progress,
            inference: Some(inference),
            mode: place.approvals.mode().clone(),
            approvals: place.approvals.get(),
            editor: self.editor.clone(),
            line: None,
            effect: EffectFlag::default(),
        })
    }

    /// Returns whether a call has no effects. Calls of unknown tools have none.
    pub(crate) async fn only_reads(&self, call: &ToolCall, context: &CallContext) -> bool {
        match self.find(&call.name, context) {
            Ok(tool) => self.tools.only_reads(context, &tool).await,
            Err(_) => true,
        }
    }

    /// Returns whether the turn ends after this call, if it succeeds.
    pub(crate) fn ends_turn(&self, call: &ToolCall) -> bool {
        let tool = self.internal.iter().find(|tool| tool.spec().name.as_str() == call.name);
        tool.is_some_and(|tool| input(call).is_ok_and(|input| tool.ends_turn(&input)))
    }

    /// Finds a tool that the model may call.
    fn find<'a>(&'a self, name: &'a str, context: &CallContext) -> Result<ResolvedTool<'a>, ToolError> {
        ResolvedTool::find(&context.asker, &self.snapshot, &self.internal, &self.outside, name)
    }

    /// Runs a call of the agent `agent`.
    pub(crate) async fn call(
        &self,
        id: CallId,
        agent: AgentId,
        call: &ToolCall,
        context: &Arc<CallContext>,
    ) -> ToolAnswer {
        let row = Arc::new(PendingRow { agent, call: call.clone(), committed: AtomicBool::new(false) });
        let answer = match (input(call), self.find(&call.name, context)) {
            (Ok(input), Ok(tool)) => {
                let mut invocation = ToolInvocation::new(id, tool, &input);
                invocation.row = Some(row.clone());
                self.tools.run(context, invocation).await.result
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let (shown, record, blobs) = result(call, answer);
        ToolAnswer { shown, record, blobs, is_committed: row.committed.load(Ordering::Acquire) }
    }
}

pub(crate) struct ToolAnswer {
    pub(crate) shown: String,
    /// The result for the model.
    pub(crate) record: ToolRecord,
    /// The binary content that the record names.
    pub(crate) blobs: Vec<Vec<u8>>,
    /// Whether the tool has committed the row of its result.
    pub(crate) is_committed: bool,
}

/// The row of a running call.
struct PendingRow {
    agent: AgentId,
    call: ToolCall,
    committed: AtomicBool,
}

impl ResultRow for PendingRow {
    fn row(&self, value: &Value) -> NewMessage {
        // JSON has no binary content.
        let (content, record, _) = result(&self.call, Ok(vec![Content::Json(value.clone())]));
        NewMessage { agent: self.agent, kind: MessageKind::Tool, content, data: Some(json!(record)) }
    }

    fn committed(&self) {
        self.committed.store(true, Ordering::Release);
    }
}

/// Returns the result for the user, the result for the model, and the binary content that the latter names.
fn result(call: &ToolCall, answer: Result<Vec<Content>, ToolError>) -> (String, ToolRecord, Vec<Vec<u8>>) {
    let (shown, error, (content, blobs)) = match answer {
        Ok(content) => {
            let shown: Vec<_> = content.iter().map(ToString::to_string).collect();
            (shown.join("\n"), None, pieces(content))
        }
        Err(error) => {
            let text = ToolRecordPart::Text { text: failure(&error) };
            (error.for_person(), Some(error.code()), (vec![text], Vec::new()))
        }
    };
    (shown, ToolRecord { call_id: call.id.clone(), name: call.name.clone(), error, content }, blobs)
}

/// Parses the input of a call. Empty input counts as an empty object.
fn input(call: &ToolCall) -> Result<Value, ToolError> {
    let written = call.input.trim();
    let invalid = |problem: String| ToolError::InvalidInput { tool: text::excerpt(&call.name, 80), problem };
    match serde_json::from_str(if written.is_empty() { "{}" } else { written }) {
        Ok(input @ Value::Object(_)) => Ok(input),
        Ok(_) => Err(invalid("expected a JSON object".to_owned())),
        Err(error) => Err(invalid(format!("it is not valid JSON: {error}"))),
    }
}

/// Wraps a result in its envelope, followed by references to its binary content. The content itself is returned separately.
fn pieces(content: Vec<Content>) -> (Vec<ToolRecordPart>, Vec<Vec<u8>>) {
    let (mut texts, mut named, mut blobs) = (Vec::new(), Vec::new(), Vec::new());
    let mut others = content.iter().filter(|piece| !matches!(piece, Content::Blob { .. }));
    let only_json = matches!((others.next(), others.next()), (Some(Content::Json(_)), None));
    for piece in content {
        match piece {
            Content::Blob { media_type, data } => {
                named.push(parts::stored_blob(&media_type, &data));
                blobs.push(data);
            }
            Content::Json(value) => texts.push(value.to_string()),
            other => texts.push(other.to_string()),
        }
    }
    let text = texts.join("\n");
    let result = if only_json && text.len() <= RESULT_BYTES { text } else { Value::from(cut(text)).to_string() };
    let mut pieces = vec![ToolRecordPart::Text { text: format!(r#"{{"tool_success":true,"result":{result}}}"#) }];
    pieces.extend(named);
    (pieces, blobs)
}

fn failure(error: &ToolError) -> String {
    envelope(error.to_string(), error.code())
}

/// Returns the envelope of a failure.
pub(crate) fn envelope(message: String, code: Code) -> String {
    let message = Value::from(cut(message));
    format!(r#"{{"tool_success":false,"error":{message},"error_code":"{code}"}}"#)
}

fn cut(mut text: String) -> String {
    if text.len() > RESULT_BYTES {
        let end = (0..=RESULT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let left_out = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[{left_out} more bytes are left out]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(content: Vec<Content>) -> String {
        match &pieces(content).0[0] {
            ToolRecordPart::Text { text } => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn result_is_wrapped_in_its_envelope() {
        assert_eq!(said(vec![Content::Text("a \"b\"".to_owned())]), r#"{"tool_success":true,"result":"a \"b\""}"#);
        assert_eq!(said(vec![Content::Json(json!({"n": 1}))]), r#"{"tool_success":true,"result":{"n":1}}"#);
        let both = vec![Content::Text("a".to_owned()), Content::Json(json!([1]))];
        assert_eq!(said(both), r#"{"tool_success":true,"result":"a\n[1]"}"#);
        let long = said(vec![Content::Text("ä".repeat(RESULT_BYTES))]);
        assert!(long.len() < RESULT_BYTES + 200 && long.contains(&format!("[{RESULT_BYTES} more bytes are left out]")));
        let error = failure(&ToolError::NotFound("x".to_owned()));
        let expected =
            r#"{"tool_success":false,"error":"tool 'x' not found in snapshot.","error_code":"tool_not_found"}"#;
        assert_eq!(error, expected);
    }

    #[test]
    fn an_input_is_an_object() {
        let of = |input: &str| input_of(ToolCall { id: String::new(), name: "t".to_owned(), input: input.to_owned() });
        assert_eq!(of(""), Ok(json!({})));
        assert_eq!(of("{\"a\":1}"), Ok(json!({"a": 1})));
        assert_eq!(of("[]").unwrap_err(), "input for 't' is invalid: expected a JSON object.");
        assert!(of("{").unwrap_err().starts_with("input for 't' is invalid: it is not valid JSON: EOF"));
    }

    fn input_of(call: ToolCall) -> Result<Value, String> {
        input(&call).map_err(|error| error.to_string())
    }
}

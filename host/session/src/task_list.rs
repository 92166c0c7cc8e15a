//! The tool `task_list`, with which a model shows its plan to the user. The list belongs to its agent and is stored with the
//! agent; each call replaces it. Fronts call [`Session::tasks`] after each tool result.
//!
//! The tool is deferred (models find it with `find_tools`), because most turns need no list.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use patchbay_core::{AgentId, Code, Outcome, Task, ToolSpec};
use patchbay_store::{SessionChange, StoreError};
use patchbay_tools::{Internal, InternalAnswer, InternalCall, InternalError};
use serde_json::{Value, json};

use crate::{Session, prepared::Prepared};

/// The name of the tool.
const TASK_LIST: &str = "task_list";
/// Maximum number of tasks in a list.
const TASKS: usize = 50;
/// Length limit of a task, in characters.
const CHARACTERS: usize = 200;

struct TaskListTool {
    spec: ToolSpec,
    session: Weak<Session>,
    agent: AgentId,
}

/// Returns the tool for a turn of `agent`. Never `None`: the name is valid.
pub(crate) fn tool(session: &Arc<Session>, agent: AgentId) -> Option<Arc<dyn Internal>> {
    let task = json!({
        "type": "object",
        "properties": {
            "content": {"type": "string", "minLength": 1, "maxLength": CHARACTERS},
            "status": {"enum": ["pending", "in_progress", "completed"]},
        },
        "required": ["content", "status"],
        "additionalProperties": false,
    });
    let spec = ToolSpec {
        name: TASK_LIST.parse().ok()?,
        description:
            "Shows the user your plan for work of several steps. Send the whole list each time, when you begin or \
                      complete a task. An empty list removes it."
                .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"tasks": {"type": "array", "maxItems": TASKS, "items": task}},
            "required": ["tasks"],
            "additionalProperties": false,
        }),
        extra: vec![("deferred".to_owned(), "true".to_owned())],
    };
    Some(Arc::new(TaskListTool { spec, session: Arc::downgrade(session), agent }))
}

impl Internal for TaskListTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move {
            let Some(session) = self.session.upgrade() else {
                return Err(InternalError { code: Code::SessionClosed, message: "the session is closed.".to_owned() });
            };
            let tasks = Task::list(call.input.get("tasks").unwrap_or(&Value::Null));
            let completed = tasks.iter().filter(|task| task.is_completed()).count();
            let result = json!({"tasks": tasks.len(), "completed": completed});
            let change = SessionChange { tasks: Some((self.agent, Task::to_json(&tasks))), ..SessionChange::default() };
            let shown = Prepared::shown(Outcome::ok(Code::ToolResult, ""), result);
            let prepare = Box::pin(async move { Ok(Prepared { change, ..shown }) });
            Ok(session.commit_for_tool(self.agent, call.id, call.row, prepare).await?.into())
        })
    }
}

impl Session {
    /// Returns the tasks of the agent in view, as its model listed them last.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn tasks(&self) -> Result<Vec<Task>, StoreError> {
        self.tasks_of(self.view()).await
    }

    pub(crate) async fn tasks_of(&self, agent: AgentId) -> Result<Vec<Task>, StoreError> {
        let stored = self.log().store().tasks(agent).await?;
        Ok(stored.and_then(|json| serde_json::from_str(&json).ok()).map(|list| Task::list(&list)).unwrap_or_default())
    }
}

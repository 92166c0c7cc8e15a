//! The tasks of the agent in view, as the plan that clients show.
//! Source: <https://agentclientprotocol.com/protocol/agent-plan>, 2026-11-27.

use patchbay_core::Task;
use serde_json::{Value, json};

use super::SessionTask;

impl SessionTask {
    /// Sends the plan if it differs from the client's. A client replaces the whole plan with each update.
    pub(super) async fn send_plan(&mut self) {
        match self.session.tasks().await {
            Ok(tasks) if tasks != self.plan => {
                self.send_all(vec![plan(&tasks)]).await;
                self.plan = tasks;
            }
            Ok(_) => {}
            Err(error) => tracing::error!("cannot read the tasks of session {}: {error}", self.id),
        }
    }
}

fn plan(tasks: &[Task]) -> Value {
    // The protocol requires a priority, but models do not set one.
    let entry = |task: &Task| json!({"content": task.content, "priority": "medium", "status": task.status});
    json!({"sessionUpdate": "plan", "entries": tasks.iter().map(entry).collect::<Vec<_>>()})
}

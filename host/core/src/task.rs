//! The tasks that a model lists for the user.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text;

/// A task in an agent's task list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The work to be done, in one line.
    pub content: String,
    /// Whether the work is pending, in progress or completed.
    pub status: TaskStatus,
}

/// The progress of a task, as the model reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Work on the task has not begun.
    Pending,
    /// The agent is working on the task.
    InProgress,
    /// The work on the task is done.
    Completed,
}

impl Task {
    /// Reads a list of tasks. Anything that is not a task is left out, and the contents are cleaned.
    pub fn list(json: &Value) -> Vec<Self> {
        let tasks = json.as_array().into_iter().flatten().filter_map(|task| Self::deserialize(task).ok());
        tasks.map(|task| Self { content: text::clean_line(&task.content), ..task }).collect()
    }

    /// Returns the list as JSON.
    pub fn to_json(tasks: &[Self]) -> String {
        serde_json::to_string(tasks).unwrap_or_default()
    }

    /// Returns whether the task is done.
    pub fn is_completed(&self) -> bool {
        self.status == TaskStatus::Completed
    }

    /// Returns the list's progress in one line, such as `2/5 Write the tests`, with the task in progress or else the next pending
    /// task; `None` if nothing is left to do.
    pub fn line(tasks: &[Self]) -> Option<String> {
        let with = |status| tasks.iter().find(move |task| task.status == status);
        let current = with(TaskStatus::InProgress).or_else(|| with(TaskStatus::Pending))?;
        let completed = tasks.iter().filter(|task| task.is_completed()).count();
        Some(format!("{completed}/{} {}", tasks.len(), current.content))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tasks(statuses: &[(&str, &str)]) -> Vec<Task> {
        let task = |(content, status): &(&str, &str)| json!({"content": content, "status": status});
        Task::list(&statuses.iter().map(task).collect())
    }

    #[test]
    fn line_names_the_task_that_is_worked_on() {
        let line = |statuses: &[_]| Task::line(&tasks(statuses));
        let some = |text: &str| Some(text.to_owned());
        let list = [("Read", "completed"), ("Think", "pending"), ("Write", "in_progress")];
        assert_eq!(line(&list), some("1/3 Write"));
        assert_eq!(line(&list[..2]), some("1/2 Think"));
        assert_eq!((line(&list[..1]), line(&[])), (None, None));
    }

    #[test]
    fn list_is_read_back_cleaned() {
        let read = tasks(&[("a\n\u{1b}[2Jb", "pending"), ("c", "completed"), ("d", "begun")]);
        assert_eq!(read.len(), 2);
        assert!(!read[0].content.contains(['\n', '\u{1b}']), "{read:?}");
        assert_eq!(Task::list(&serde_json::from_str(&Task::to_json(&read)).unwrap()), read);
        assert_eq!(Task::list(&json!("none")), []);
    }
}

//! The tasks that a model lists for the user.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text;

/// A task of an agent's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What is to be done, in one line.
    pub content: String,
    /// How far it is.
    pub status: TaskStatus,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It has not begun.
    Pending,
    /// It is being worked on.
    InProgress,
    /// It is done.
    Completed,
}

impl Task {
    /// Reads a list of tasks. Anything that is not a task is left out, and texts are cleaned.
    pub fn list(json: &Value) -> Vec<Self> {
        let tasks = json.as_array().into_iter().flatten().filter_map(|task| Self::deserialize(task).ok());
        tasks.map(|task| Self { content: text::clean_line(&task.content), ..task }).collect()
    }

    /// Returns the list as JSON.
    pub fn to_json(tasks: &[Self]) -> String {
        serde_json::to_string(tasks).unwrap_or_default()
    }

    /// Returns whether it is done.
    pub fn is_completed(&self) -> bool {
        self.status == TaskStatus::Completed
    }

    /// Returns the list in a line: `2/5 Write the tests`, with the task that is worked on, or else the next one;
    /// `None` if nothing is left to do.
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

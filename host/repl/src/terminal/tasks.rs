//! The tasks of the agent in view, in the live area: one row, or the whole list after Ctrl+T. Pure.

use patchbay_core::{Task, TaskStatus};

use super::{live::Row, style, wrap::cut};

/// How many rows of the open task list are shown.
const ROWS: usize = 12;

/// Returns the rows of `tasks`, at most `limit` columns wide: the whole list if `is_open`, otherwise one row
/// about the current task. A closed list has no row once all tasks are completed.
pub(super) fn rows(tasks: &[Task], is_open: bool, limit: usize) -> Vec<Row> {
    if !is_open {
        return Task::line(tasks).iter().map(|line| Row::styled(style::FAINT, &cut(line, limit))).collect();
    }
    let current = tasks.iter().position(|task| !task.is_completed()).unwrap_or_default();
    // The task before the current one is also shown, and the list fills the rows if it can.
    let first = current.saturating_sub(1).min(tasks.len().saturating_sub(ROWS));
    let shown = tasks.iter().skip(first).take(ROWS).map(|task| {
        let (mark, style) = match task.status {
            TaskStatus::Completed => ("\u{2713}", style::FAINT),
            TaskStatus::InProgress => ("\u{2192}", style::BOLD),
            TaskStatus::Pending => (" ", style::FAINT),
        };
        Row::styled(style, &cut(&format!("{mark} {}", task.content), limit))
    });
    let more = tasks.len().saturating_sub(ROWS);
    let more = (more > 0).then(|| Row::styled(style::FAINT, &cut(&format!("\u{2026} {more} more"), limit)));
    shown.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(statuses: &[TaskStatus]) -> Vec<Task> {
        let task = |(number, status): (usize, &TaskStatus)| Task { content: format!("task {number}"), status: *status };
        (1..).zip(statuses).map(task).collect()
    }

    fn shown(tasks: &[Task], is_open: bool) -> Vec<String> {
        let plain = |row: Row| strip(&row.text);
        rows(tasks, is_open, 20).into_iter().map(plain).collect()
    }

    /// Removes the styles.
    fn strip(text: &str) -> String {
        let mut parts = text.split('\u{1b}');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    #[test]
    fn one_row_or_the_whole_list() {
        use TaskStatus::{Completed, InProgress, Pending};
        let some = tasks(&[Completed, InProgress, Pending]);
        assert_eq!(shown(&some, false), ["1/3 task 2"]);
        assert_eq!(shown(&some, true), ["\u{2713} task 1", "\u{2192} task 2", "  task 3"]);
        assert_eq!((shown(&[], false), shown(&[], true)), (vec![], vec![]));
        assert_eq!(shown(&tasks(&[Completed]), false), [""; 0]);
        assert_eq!(shown(&tasks(&[Completed]), true), ["\u{2713} task 1"]);
    }

    #[test]
    fn long_list_shows_what_is_worked_on() {
        let mut statuses = [TaskStatus::Completed; 30];
        statuses[20..].fill(TaskStatus::Pending);
        let rows = shown(&tasks(&statuses), true);
        assert_eq!((rows.len(), &*rows[0], &*rows[12]), (13, "\u{2713} task 19", "\u{2026} 18 more"));
        let rows = shown(&tasks(&[TaskStatus::Completed; 30]), true);
        assert_eq!(rows[0], "\u{2713} task 1");
    }
}

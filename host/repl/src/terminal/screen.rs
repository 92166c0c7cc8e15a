//! The rows of the live area, from top to bottom: the open block of the answer, a question or the busy row, the tasks, the
//! user's running command, waiting messages, the composer, the menu, the status row.

use std::time::Instant;

use patchbay_core::text;
use patchbay_session::{AgentInView, Mode, ModelInUse};
use unicode_width::UnicodeWidthStr as _;

use super::{
    Front, front_command,
    input::CommandHelp,
    live::{LiveView, Row},
    style, tasks,
    wrap::{self, Mark, cut},
};

/// How many waiting messages are shown.
const QUEUE_ROWS: usize = 3;

impl Front {
    /// Returns the current contents of the live area. It is at least one row shorter than the window.
    pub(super) fn view(&self, now: Instant) -> LiveView {
        let limit = self.window.columns.saturating_sub(1);
        let height = self.window.rows.saturating_sub(1).max(1);
        let mut below = Vec::new();
        let composer_height = (height / 3).max(1);
        let (input, cursor) = match &self.input.search {
            Some(search) => {
                let (row, column) = search.input(self.window.columns);
                below.extend(search.rows(self.input.composer.history(), self.window.columns));
                (vec![row], (0, column))
            }
            None => {
                let CommandHelp { mark, usage, .. } = &self.input.command_help;
                let prompt = if self.session.is_capturing() { wrap::CAPTURING } else { wrap::PROMPT };
                let wrapped =
                    self.input.composer.view(prompt, self.window.columns, composer_height, *mark, usage.as_deref());
                (wrapped.rows, wrapped.cursor)
            }
        };
        let room = height.saturating_sub(input.len());
        if let Some(hint) = &self.input.hint {
            below.push(Row::styled(style::FAINT, &cut(hint, limit)));
        } else if let Some(menu) = &self.input.menu {
            below.extend(menu.rows(self.window.columns, (height / 2).min(room)));
        }
        if let Some(status) = self.status(self.window.columns).filter(|_| below.len() < room && self.window.rows > 5) {
            below.push(Row::styled(style::FAINT, &cut(&status, limit)));
        }
        below.truncate(room);
        let question_height = room.saturating_sub(below.len());
        let several = self.session.has_several_agents();
        let is_armed = self.input.composer.is_empty() && self.input.search.is_none();
        let mut above = self.conversation.questions.rows(
            self.window.columns,
            question_height,
            several,
            is_armed,
            self.conversation.transcript.palette(),
        );
        if above.is_empty() {
            let busy = self.activity.busy.text(
                self.conversation.model.as_ref().map(|model| model.name.as_str()),
                self.activity.compiling.borrow().as_deref(),
                limit,
                now,
            );
            above.extend(busy.map(|busy| Row::styled(style::FAINT, &cut(&busy, limit))));
        }
        above.extend(tasks::rows(&self.conversation.view.tasks, self.input.shows_tasks, limit));
        above.extend(self.own_programs.row().map(|row| Row::styled(style::FAINT, &cut(&row, limit))));
        above.extend(self.conversation.questions.announcement(self.window.columns));
        let waiting = &self.activity.queue.lines;
        let word = if self.activity.queue.held { "held" } else { "queued" };
        for line in waiting.iter().take(QUEUE_ROWS) {
            let text = text::clean_line(&line.text);
            let word = if line.joins || self.activity.queue.held { word } else { "later" };
            above.push(Row::styled(style::FAINT, &cut(&format!("{word}: {text}"), limit)));
        }
        if waiting.len() > QUEUE_ROWS {
            let more = format!("{word}: {} more", waiting.len() - QUEUE_ROWS);
            above.push(Row::styled(style::FAINT, &cut(&more, limit)));
        }
        if self.activity.queue.held {
            let hint = "Enter sends what is held; Up takes it back.";
            above.push(Row::styled(style::FAINT, &cut(hint, limit)));
        }
        above.truncate(room.saturating_sub(below.len()));
        let left = room.saturating_sub(below.len() + above.len());
        let mut rows = self.conversation.transcript.tail(left.min(self.window.rows / 3));
        rows.extend(above);
        let cursor = (rows.len() + cursor.0, cursor.1);
        rows.extend(input);
        rows.extend(below);
        LiveView { rows, cursor }
    }

    /// Finds how the typed command is marked, and its usage if its argument is still empty. The session lists its commands
    /// only when the text or the cursor has changed.
    pub(super) fn update_command_help(&mut self) {
        let (text, cursor) = (self.input.composer.text(), self.input.composer.cursor());
        if self.input.command_help.text == text && self.input.command_help.cursor == cursor {
            return;
        }
        let (mark, usage) = self.find_command(text, cursor);
        self.input.command_help = CommandHelp { text: text.to_owned(), cursor, mark, usage };
    }

    fn find_command(&self, text: &str, cursor: usize) -> (Mark, Option<String>) {
        let Some(rest) = text.strip_prefix('/') else { return (Mark::None, None) };
        let name = rest.split(char::is_whitespace).next().unwrap_or_default();
        let end = name.len() + 1;
        if front_command::NAMES.contains(&name) {
            return (Mark::Known(end), None);
        }
        let commands = self.session.commands();
        match commands.iter().find(|command| command.name == name) {
            Some(command) => {
                let is_empty = text.len() > end && text[end..].trim().is_empty() && !text.contains('\n');
                (Mark::Known(end), command.hint.clone().filter(|_| is_empty && cursor == text.len()))
            }
            None if text.len() == end && commands.iter().any(|command| command.name.starts_with(name)) => {
                (Mark::None, None)
            }
            None => (Mark::Unknown(end), None),
        }
    }

    /// Returns the status row: the mode, the agent in view if there are others, which others ask, how many others work, unread
    /// mail, the model, how full its context window is, the waiting lines, the workspace. In a narrow window, the last parts are
    /// left out.
    fn status(&self, columns: usize) -> Option<String> {
        let mut parts = Vec::new();
        if self.session.mode() != Mode::Ask {
            parts.push(self.session.mode().to_string());
        }
        let AgentInView { id, is_root, is_dead, unread, .. } = &self.conversation.view;
        if !is_root || self.session.has_several_agents() {
            parts.push(format!("{}{}", id.short(), if *is_dead { " dead" } else { "" }));
        }
        let asking = self.conversation.questions.asking_out_of_view();
        match &*asking {
            [] => {}
            [agent] => parts.push(format!("{} asks", agent.short())),
            agents => parts.push(format!("{} others ask", agents.len())),
        }
        match self.activity.busy.others(&asking) {
            0 => {}
            1 => parts.push("1 other works".to_owned()),
            others => parts.push(format!("{others} others work")),
        }
        if *unread > 0 {
            parts.push(format!("{unread} unread"));
        }
        if let Some(ModelInUse { name, window }) = &self.conversation.model {
            parts.push(name.clone());
            if let Some(tokens) = self.conversation.transcript.context_tokens() {
                parts.push(format!("{} % of {}k", tokens.saturating_mul(100) / (*window).max(1), window / 1_000));
            }
        }
        if !self.activity.queue.lines.is_empty() {
            parts.push(format!("{} queued", self.activity.queue.lines.len()));
        }
        parts.push(shortened(self.session.workspace()));
        while parts.len() > 1 && parts.join(" · ").width() >= columns {
            parts.pop();
        }
        Some(text::clean_line(&parts.join(" · ")))
    }
}

/// Returns a path with `~` for the home folder.
fn shortened(path: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    match path.strip_prefix(&home) {
        Some("") if !home.is_empty() => "~".to_owned(),
        Some(rest) if !home.is_empty() && rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

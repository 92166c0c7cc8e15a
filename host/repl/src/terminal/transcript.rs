//! Turns events into lines: finished lines are printed for good, and lines that may still change are shown in the live
//! area. The loop in `terminal` passes events and outcomes, and takes the lines.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use patchbay_core::{
    AgentId, Attachment, Code, DeltaKind, EventKind, MessageKind, Outcome, ToolRecord,
    text::{self, TextCleaner},
};
use patchbay_markdown::{Palette, WrapMode};
use patchbay_session::{
    AgentInView, AnswerAttempt, AnswerFollower, Followed, LastExchange, Received, Snapshot, unanswered_hint,
};

use super::{
    answer::StreamedAnswer,
    call_timer::seconds,
    calls::{self, Calls, EndedCall},
    diff,
    live::Row,
    marks, outcome_text, prose,
    results::Results,
    style::{self, Look},
    wrap,
};
use crate::settings::ThinkingDisplay;

/// How many rows of thinking are shown while a model thinks.
const THINKING_ROWS: usize = 3;
/// Limits of a message that is printed in full: its lines and its characters.
const MESSAGE_LINES: usize = 10;
const MESSAGE_CHARACTERS: usize = 1_000;
/// How many lines and characters of a longer message are printed. The rest is counted.
const HEAD_LINES: usize = 3;
const HEAD_CHARACTERS: usize = 300;

/// How many lines of the last answer a resumed session shows.
const RESUMED_LINES: usize = 20;
/// How many bytes of the last answer are rendered to find these lines.
const RESUMED_BYTES: usize = 256 << 10;

/// Finished lines that are not printed yet, and the block that is being received.
pub(crate) struct Transcript {
    finished: Vec<String>,
    columns: usize,
    look: Look,
    open: Open,
    /// Lines about other agents, which are printed when no block is being printed.
    later: Vec<String>,
    /// Selects the text of the agent in view that is still to be shown.
    answers: AnswerFollower,
    /// The number of the last row that was printed when the agent came into view.
    joined: u64,
    results: Results,
    /// The text of the last answer.
    last_answer: String,
    /// The width of the window when the last answer was printed.
    answer_columns: usize,
    /// Marks of ended outputs, which belong after the finished lines.
    mark: String,
    /// Tokens of the conversation after the last answer.
    context_tokens: Option<u64>,
    calls: Calls,
}

/// The block that is being received.
enum Open {
    None,
    Answer(Box<StreamedAnswer>),
    Thinking {
        text: String,
        /// Cleans the next piece of the text.
        cleaner: TextCleaner,
        /// How many bytes of the text are printed; 0 if thinking is folded.
        printed: usize,
        since: Instant,
    },
}

impl Transcript {
    /// Creates a transcript that shows the agent `view`.
    pub(crate) fn new(view: AgentId, columns: usize, look: Look) -> Self {
        Self {
            finished: Vec::new(),
            columns,
            look,
            open: Open::None,
            later: Vec::new(),
            answers: AnswerFollower::new(view),
            joined: 0,
            results: Results::default(),
            last_answer: String::new(),
            answer_columns: columns,
            mark: String::new(),
            context_tokens: None,
            calls: Calls::default(),
        }
    }

    /// Sets the snapshot whose tools are called from now on.
    pub(crate) fn set_skills(&mut self, skills: Arc<Snapshot>) {
        self.calls.set_skills(skills);
    }

    /// Takes the lines that are finished and not printed yet.
    pub(crate) fn take_finished(&mut self) -> Vec<String> {
        std::mem::take(&mut self.finished)
    }

    /// Adds lines that are finished.
    pub(crate) fn print(&mut self, text: &str) {
        self.finished.extend(text.split('\n').map(str::to_owned));
    }

    /// Adds lines in faint style.
    pub(crate) fn aside(&mut self, text: &str) {
        self.finished.extend(text.split('\n').map(style::faint));
    }

    /// The tokens of the conversation after the last answer; `None` if they are not known.
    pub(crate) fn context_tokens(&self) -> Option<u64> {
        self.context_tokens
    }

    /// Adds a text of the host: wrapped at words, with each command alone on its line.
    pub(crate) fn prose(&mut self, text: &str) {
        self.finished.extend(prose::lines(text, self.prose_columns()));
    }

    /// Keeps a result for `/show`, and returns its number.
    pub(crate) fn keep_result(&mut self, text: String, input: String) -> usize {
        self.results.add(text, input)
    }

    /// Like [`Transcript::prose`], in faint style.
    pub(crate) fn notice(&mut self, text: &str) {
        self.finished.extend(prose::lines(text, self.prose_columns()).iter().map(|line| style::faint(line)));
    }

    /// Returns the width at which the host's texts are wrapped at words.
    fn prose_columns(&self) -> usize {
        match self.look.wrap {
            WrapMode::Words => self.columns,
            WrapMode::Terminal => usize::MAX,
        }
    }

    /// Whether colours are used.
    pub(crate) fn palette(&self) -> Palette {
        self.look.palette
    }

    /// Sets whether a question is open. The call's timer is paused while it is.
    pub(crate) fn set_question(&mut self, is_open: bool, now: Instant) {
        self.calls.pause(is_open, now);
    }

    /// Like [`Transcript::notice`], but about another agent: never inside a block.
    pub(crate) fn other_agent(&mut self, line: &str) {
        self.later.push(line.to_owned());
        self.print_later();
    }

    fn print_later(&mut self) {
        let may_print = match &self.open {
            Open::None | Open::Thinking { .. } => true,
            Open::Answer(answer) => answer.is_between_blocks(),
        };
        if may_print {
            std::mem::take(&mut self.later).iter().for_each(|line| self.notice(line));
        }
    }

    /// Begins to show another agent: its last exchange, and the text of the answer that it is writing.
    pub(crate) fn join(&mut self, view: &AgentInView, now: Instant) {
        self.end_at(now);
        self.context_tokens = view.context_tokens;
        self.notice(&format!("Agent {} is in view; it is {}.", view.id.short(), state(view)));
        view.exchange.iter().for_each(|line| self.aside(line));
        self.joined = view.seq;
        let answer = view
            .answer
            .as_ref()
            .map(|it| (AnswerAttempt { turn: it.turn, answer: it.answer, given_up: it.given_up }, &*it.text));
        self.answers.join(view.id, view.seq, answer);
        if let Some((_, text)) = answer {
            self.push_text(text, now);
        }
    }

    /// Shows the last exchange of a resumed session, with its answer formatted like any answer. Only the last
    /// lines of a long answer are printed.
    pub(crate) fn resumed(&mut self, exchange: &LastExchange) {
        let LastExchange { earlier, said, answer, note } = exchange;
        if *earlier > 0 {
            let s = if *earlier == 1 { "" } else { "s" };
            self.aside(&format!("… {earlier} earlier message{s}: /history"));
        }
        self.finished.extend(said.iter().cloned());
        if let Some(source) = answer.as_ref().map(|answer| answer.trim_matches('\n')) {
            let mut answer = StreamedAnswer::new(self.columns, self.look);
            let end = source.len().checked_sub(RESUMED_BYTES).map_or(source, |at| last_lines(source, at));
            let mut lines = answer.push(end);
            lines.extend(answer.finish());
            let left_out = lines.len().saturating_sub(RESUMED_LINES);
            if left_out > 0 {
                let s = if left_out == 1 { "" } else { "s" };
                self.aside(&format!("… {left_out} more line{s}"));
            }
            self.finished.extend(lines.drain(left_out..));
            source.clone_into(&mut self.last_answer);
            self.answer_columns = self.columns;
        }
        note.iter().for_each(|note| self.aside(note));
    }

    /// Sets the tokens of the conversation after its last answer.
    pub(crate) fn set_context_tokens(&mut self, tokens: Option<u64>) {
        self.context_tokens = tokens;
    }

    /// The results of tools, for `/show`.
    pub(crate) fn results(&self) -> &Results {
        &self.results
    }

    /// Adapts to another width of the window. Only lines that are not finished are affected.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns;
        if let Open::Answer(answer) = &mut self.open {
            answer.set_columns(columns);
        }
    }

    /// Prints the last answer again if the width of the window has changed since it was printed.
    pub(crate) fn reprint(&mut self) {
        if self.answer_columns == self.columns || self.last_answer.is_empty() || !matches!(self.open, Open::None) {
            return;
        }
        self.answer_columns = self.columns;
        let mut answer = StreamedAnswer::new(self.columns, self.look);
        self.finished.extend(answer.push(&self.last_answer));
        self.finished.extend(answer.finish());
    }

    /// Returns the text that `/copy ARGUMENT` copies, or an error for the user.
    pub(crate) fn copied(&self, argument: &str) -> Result<&str, String> {
        match argument {
            "" if self.last_answer.is_empty() => Err("Error: no answer was shown yet.".to_owned()),
            "" => Ok(&self.last_answer),
            "code" => last_code(&self.last_answer).ok_or_else(|| "Error: the last answer has no code.".to_owned()),
            number => self.results.show(number),
        }
    }

    /// Marks the end of a line's output.
    pub(crate) fn end_output(&mut self, is_ok: bool) {
        self.mark.push_str(marks::output_end(is_ok));
    }

    /// Returns and clears the marks that belong after the finished lines.
    pub(crate) fn take_mark(&mut self) -> String {
        std::mem::take(&mut self.mark)
    }

    /// Prints a line that the user has entered, or the beginning of a long one.
    pub(crate) fn entered(&mut self, line: &str) {
        let text = text::clean(line);
        let is_long = text.lines().count() > MESSAGE_LINES || text.chars().count() > MESSAGE_CHARACTERS;
        let shown: &str = if is_long { message_head(&text) } else { &text };
        let printed = self.finished.len();
        let ended = self.take_mark();
        for (index, line) in shown.lines().enumerate() {
            self.finished.push(match index {
                0 => format!("{ended}{}> {}{line}", marks::PROMPT_START, marks::PROMPT_END),
                _ => line.to_owned(),
            });
        }
        if is_long {
            self.finished.push(style::faint(&counted_rest(&text[shown.len()..])));
        }
        if let Some(last) = self.finished[printed..].last_mut() {
            last.push_str(marks::OUTPUT_START);
        }
    }

    /// Shows an event of the agent in view.
    pub(crate) fn event(&mut self, received: Received, now: Instant) {
        // Lost deltas need no handling here, because the answer's row contains the whole text.
        let Received::Event(event) = received else { return };
        if matches!(event.kind, EventKind::Message { .. }) && event.seq <= self.joined {
            return;
        }
        let followed = self.answers.follow(&event);
        self.answer(followed, now);
        let (answer, result) = (event.kind.answer(), event.kind.tool_result());
        if let Some(attached) = Attachment::summary(&event.kind.attachments()) {
            self.notice(&attached);
        }
        match event.kind {
            EventKind::Notice { text } => {
                // The answer continues below the notice.
                self.notice(&text);
            }
            EventKind::Message { kind: MessageKind::Assistant, content, .. } => {
                self.end_at(now);
                if !content.is_empty() {
                    self.last_answer = text::clean(&content);
                    self.answer_columns = self.columns;
                }
                self.context_tokens = answer.as_ref().map(|answer| answer.usage.total()).filter(|total| *total > 0);
                self.calls.begin(answer.as_ref(), now);
            }
            EventKind::Message { kind: MessageKind::Tool, content, .. } => self.call_ended(&content, result.as_ref(), now),
            EventKind::Message { .. }
            | EventKind::Delta { .. }
            | EventKind::GivenUp { .. }
            | EventKind::Progress { .. }
            // The busy row shows the countdown and the limit that a request waits for.
            | EventKind::Retrying(_)
            | EventKind::RequestWaits { .. }
            | EventKind::LineEnded { .. }
            | EventKind::LineQueued { .. }
            | EventKind::LineDequeued { .. }
            | EventKind::QueueHeld { .. }
            | EventKind::TurnBegan { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::AgentForked { .. }
            | EventKind::AgentKilled
            | EventKind::ViewMoved
            | EventKind::MailArrived { .. }
            | EventKind::Unknown => {}
        }
    }

    /// Prints the outcome of a line; an answer was printed from its events. `ends_block` is false for a command
    /// that ends while an answer is still being received.
    pub(crate) fn outcome(&mut self, outcome: &Outcome, ends_block: bool) {
        self.outcome_after(None, outcome, ends_block);
    }

    /// Like [`Transcript::outcome`], for a line or a turn that `took` this long.
    pub(crate) fn outcome_after(&mut self, took: Option<Duration>, outcome: &Outcome, ends_block: bool) {
        if outcome.code == Code::Answered {
            return;
        }
        if ends_block {
            self.end();
        }
        match outcome.is_ok() {
            true => self.finished.extend(outcome_text::result(outcome, self.prose_columns())),
            false => self.finished.extend(outcome_text::lines(outcome, took, self.prose_columns())),
        }
        if let Some(hint) = unanswered_hint(outcome) {
            self.notice(hint);
        }
    }

    /// Prints a call with its result.
    fn call_ended(&mut self, content: &str, result: Option<&ToolRecord>, now: Instant) {
        let EndedCall { row, last_lines, has_failed, content, input, diff } = self.calls.end(content, result, now);
        let number = self.results.add(content, input);
        let row = format!("{} {number}  {row}", calls::mark(has_failed));
        let palette = self.look.palette;
        if has_failed {
            let lines = prose::lines(&row, self.prose_columns());
            return self.finished.extend(lines.iter().map(|line| style::failure(line, palette)));
        }
        self.aside(&row);
        last_lines.iter().for_each(|line| self.aside(line));
        self.finished.extend(diff.iter().flat_map(|diff| diff::changed_lines(diff, palette)));
    }

    /// Returns the rows of the block that is being received, or of the calls that run, at most `height`.
    pub(crate) fn tail(&self, height: usize) -> Vec<Row> {
        match &self.open {
            Open::None => self.calls.rows(height, self.columns),
            Open::Answer(answer) => answer.tail(height),
            Open::Thinking { .. } if self.look.thinking == ThinkingDisplay::Hide => Vec::new(),
            Open::Thinking { text, printed, .. } => {
                let mut rows: Vec<Row> = text[*printed..]
                    .lines()
                    .rev()
                    .filter(|line| !line.trim().is_empty())
                    .take(THINKING_ROWS.min(height))
                    .map(|line| Row::styled(style::FAINT, &wrap::cut_front(line, self.columns.saturating_sub(1))))
                    .collect();
                rows.reverse();
                rows
            }
        }
    }

    /// Shows a new piece of the answer, or that an attempt broke off.
    fn answer(&mut self, Followed { broke_off, piece }: Followed<'_>, now: Instant) {
        if let Some(broke_off) = broke_off {
            self.end_at(now);
            match broke_off.retry {
                Some(retry) => self.notice(&retry.broke_off(false)),
                None => self.notice("The answer broke off and was requested again."),
            }
        }
        match piece {
            Some(piece) if piece.block == DeltaKind::Thinking => self.thinking(piece.text, now),
            Some(piece) => self.push_text(piece.text, now),
            None => {}
        }
    }

    fn push_text(&mut self, text: &str, now: Instant) {
        // The renderer cleans the text.
        if let Open::Answer(answer) = &mut self.open {
            self.finished.extend(answer.push(text));
            return self.print_later();
        }
        // The blank line that separates two blocks of text is not needed after other output.
        let text = text.trim_start_matches('\n');
        if !text.is_empty() {
            self.end_at(now);
            let mut answer = Box::new(StreamedAnswer::new(self.columns, self.look));
            self.finished.extend(answer.push(text));
            self.open = Open::Answer(answer);
        }
    }

    fn thinking(&mut self, text: &str, now: Instant) {
        if let Open::Thinking { text: thought, cleaner, .. } = &mut self.open {
            thought.push_str(&cleaner.clean(text));
            return self.print_thinking();
        }
        let mut cleaner = TextCleaner::default();
        let text = cleaner.clean(text);
        let text = text.trim_start_matches('\n');
        if !text.is_empty() {
            self.end_at(now);
            self.open = Open::Thinking { text: text.to_owned(), cleaner, printed: 0, since: now };
            self.print_thinking();
        }
    }

    /// Prints the complete lines of thinking, if all thinking is shown.
    fn print_thinking(&mut self) {
        let Open::Thinking { text, printed, .. } = &mut self.open else { return };
        let whole = text[*printed..].rfind('\n').map_or(*printed, |end| *printed + end + 1);
        if self.look.thinking == ThinkingDisplay::Show && whole > *printed {
            let lines = text[*printed..whole - 1].to_owned();
            *printed = whole;
            self.notice(&lines);
        }
    }

    /// Finishes the open block: nothing more of it is shown.
    pub(crate) fn end(&mut self) {
        self.end_at(Instant::now());
    }

    /// Ends the open block: the rest of an answer is finished, thinking is folded to one line, open calls get no result.
    fn end_at(&mut self, now: Instant) {
        self.calls.take_open().iter().for_each(|call| self.aside(call));
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => {}
            Open::Answer(answer) => self.finished.extend(answer.finish()),
            Open::Thinking { text, printed, since, .. } => {
                let took = seconds(now.saturating_duration_since(since));
                match self.look.thinking {
                    ThinkingDisplay::Fold => self.aside(&format!("thought {took} (/show thinking)")),
                    ThinkingDisplay::Show if printed < text.trim_end().len() => self.notice(text[printed..].trim_end()),
                    ThinkingDisplay::Show | ThinkingDisplay::Hide => {}
                }
                self.results.set_thinking(text);
            }
        }
        self.print_later();
    }
}

/// Returns a word for the activity of an agent.
fn state(view: &AgentInView) -> &'static str {
    match (view.is_dead, view.is_working) {
        (true, _) => "dead",
        (false, true) => "working",
        (false, false) => "idle",
    }
}

/// Returns the beginning of a long message: its first lines, but at most [`HEAD_CHARACTERS`].
fn message_head(text: &str) -> &str {
    let end = text.char_indices().nth(HEAD_CHARACTERS).map_or(text.len(), |(at, _)| at);
    let line_end = text.match_indices('\n').nth(HEAD_LINES - 1).map_or(text.len(), |(at, _)| at);
    &text[..end.min(line_end)]
}

/// Returns how much of a message is hidden: lines, or characters if a line was cut.
fn counted_rest(rest: &str) -> String {
    match rest.strip_prefix('\n').map(|lines| lines.lines().count()) {
        Some(1) => "… 1 more line".to_owned(),
        Some(lines) => format!("… {lines} more lines"),
        None => format!("… {} more characters", text::with_commas(rest.chars().count() as u64)),
    }
}

/// Returns the lines of `text` that begin after byte `at`.
fn last_lines(text: &str, at: usize) -> &str {
    let newline = text.as_bytes().iter().skip(at).position(|byte| *byte == b'\n');
    newline.and_then(|newline| text.get(at + newline + 1..)).unwrap_or_default()
}

/// Returns the last fenced block of code of an answer.
fn last_code(answer: &str) -> Option<&str> {
    let mut fence: Option<(&str, usize)> = None;
    let mut last = None;
    let mut at = 0;
    for line in answer.split_inclusive('\n') {
        let trimmed = line.trim();
        match fence {
            None if trimmed.starts_with("```") || trimmed.starts_with("~~~") => {
                let marker = &trimmed[..trimmed.len() - trimmed.trim_start_matches(&trimmed[..1]).len()];
                fence = Some((marker, at + line.len()));
            }
            Some((marker, start))
                if trimmed.starts_with(marker) && trimmed.trim_start_matches(&marker[..1]).is_empty() =>
            {
                last = Some(answer[start..at].trim_end_matches('\n'));
                fence = None;
            }
            _ => {}
        }
        at += line.len();
    }
    // A block that was cut off also counts.
    fence.map(|(_, start)| answer[start..].trim_end_matches('\n')).or(last)
}

#[cfg(test)]
pub(super) mod tests;

//! Turns the events of a session into updates: the conversation of the agent in view with its tool calls, and a card for each turn
//! of another agent. Pure; `task` passes the events and sends the updates.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::{
    AgentId, AssistantPart, AssistantRecord, CallId, Code, DeltaKind, DeltaPosition, Digest, Event, EventKind,
    MessageKind, Outcome, SessionId, TurnCause, notification_line, text,
};
use patchbay_session::{
    AnswerAttempt, AnswerFollower, AnswerSoFar, BrokeOff, Followed, QueuedLine, Snapshot, StoredTurn,
};
use serde_json::{Value, json};

use super::{
    agent_cards::AgentCards,
    changes::FilesBefore,
    position::Position,
    tool_calls::{CallInQuestion, ToolCalls},
    update::{self, CallStatus, ChunkKind, call_status, chunk},
};

/// Limit of the notices that wait for the next prompt. Further notices are left out.
const WAITING_NOTICES: usize = 16;
/// Length limit of the waiting lines of killed agents in a notice, in characters.
const LINES: usize = 200;

/// A question as the client shows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShownQuestion {
    /// The subject of the question. If the agent that asks is not in view, it begins with the agent's name.
    pub(super) topic: String,
    /// The tool call that the question belongs to.
    pub(super) call: CallInQuestion,
}

/// The state of the transcript as the client has seen it.
pub(super) struct SessionTranscript {
    workspace: String,
    answers: AnswerFollower,
    calls: ToolCalls,
    cards: AgentCards,
    /// Tool calls that only show a question and are not answered yet.
    open_questions: Vec<String>,
    questions_asked: u64,
    /// The message of the last chunk; `None` after an update of a tool call or a card, and when a prompt has begun. A chunk of
    /// another message of the same kind begins with a blank line, because some clients join all chunks.
    last_message: Option<(ChunkKind, String)>,
    /// Number of messages of this front, such as outcomes of commands.
    own_messages: u64,
    /// The number of the last row whose updates were all sent.
    row: u64,
    /// Whether the client shows notices; otherwise they are sent as messages.
    shows_notices: bool,
    /// Whether a message can be sent: a prompt is open, or the conversation is replayed. Clients do not expect one between prompts.
    accepts_messages: bool,
    /// Messages for the next prompt, such as notices that were published between prompts.
    waiting_notices: Vec<String>,
}

impl SessionTranscript {
    pub(super) fn new(workspace: &str, view: AgentId, shows_notices: bool) -> Self {
        Self {
            workspace: workspace.to_owned(),
            answers: AnswerFollower::new(view),
            calls: ToolCalls::default(),
            cards: AgentCards::default(),
            open_questions: Vec::new(),
            questions_asked: 0,
            last_message: None,
            own_messages: 0,
            row: 0,
            shows_notices,
            accepts_messages: false,
            waiting_notices: Vec::new(),
        }
    }

    /// Begins a replay with the agent `view`: forgets which updates the client has seen. Waiting notices are kept.
    pub(super) fn replay_began(&mut self, view: AgentId) {
        let waiting_notices = std::mem::take(&mut self.waiting_notices);
        let new = Self::new(&self.workspace, view, self.shows_notices);
        *self = Self { accepts_messages: true, waiting_notices, ..new };
    }

    /// Joins the answer that the agent `view` is writing: sends the text and thinking that the client does not have yet.
    /// The rows up to number `seq` were shown.
    pub(super) fn join(&mut self, view: AgentId, seq: u64, answer: Option<&AnswerSoFar>, out: &mut Vec<Value>) {
        let received = self.answers.received();
        self.answers.join(view, seq, None);
        received.into_iter().for_each(|received| self.answers.resume(received));
        let Some(AnswerSoFar { turn, answer, given_up, text, thinking }) = answer else { return };
        let place = DeltaPosition { turn: *turn, answer: *answer, given_up: *given_up, ..DeltaPosition::default() };
        let thinking = thinking.iter().map(|(index, text)| (DeltaKind::Thinking, text, *index));
        for (block, text, index) in thinking.chain([(DeltaKind::Text, text, 0)]) {
            let followed = self.answers.delta(block, text, DeltaPosition { index, ..place });
            self.add(seq, followed, out);
        }
    }

    /// Continues for a client that has received everything up to `position`. The rows after that position follow.
    pub(super) fn resume(&mut self, position: &Position) {
        self.own_messages = position.said;
        let Some(received) = position.received(self.view()) else { return };
        self.answers.resume(received);
        let kind = if received.text > 0 { ChunkKind::Agent } else { ChunkKind::Thought };
        self.last_message = Some((kind, message_of(received.attempt)));
    }

    /// Notes that the updates of all rows up to number `row` are sent.
    pub(super) fn set_row(&mut self, row: u64) {
        self.row = self.row.max(row);
    }

    /// Returns how far the client has received the session.
    pub(super) fn position(&self) -> Position {
        Position::new(self.row, self.view(), self.own_messages, self.answers.received())
    }

    /// Sets the skills of the session.
    pub(super) fn set_skills(&mut self, skills: Arc<Snapshot>) {
        self.calls.set_skills(skills);
    }

    /// Sets the files that the calls of the next answer of the agent in view replace.
    pub(super) fn set_files_before(&mut self, before: FilesBefore) {
        self.calls.set_files_before(before);
    }

    /// Sets the stored pictures of the next result of the agent in view.
    pub(super) fn set_pictures(&mut self, pictures: BTreeMap<Digest, Vec<u8>>) {
        self.calls.set_pictures(pictures);
    }

    /// Returns the agent in view.
    pub(super) fn view(&self) -> AgentId {
        self.answers.view()
    }

    /// Handles an event. `window` is the context window of the model in use, in tokens.
    pub(super) fn event(&mut self, event: Event, window: u64, out: &mut Vec<Value>) {
        let followed = self.answers.follow(&event);
        self.add(event.seq, followed, out);
        let Event { agent, seq, kind, .. } = event;
        let is_in_view = agent == self.view();
        let (answer, result, is_notification) = (kind.answer(), kind.tool_result(), kind.is_notification());
        match kind {
            EventKind::Message { kind: MessageKind::Assistant, content, .. } => match answer {
                Some(record) if is_in_view => self.answered(seq, &record, window, out),
                Some(record) => self.push_all(out, |this, out| this.cards.answered(agent, &content, &record, out)),
                None => {}
            },
            EventKind::Message { kind: MessageKind::Tool, content, .. } if is_in_view => {
                if let Some(record) = result {
                    self.push_all(out, |this, out| this.calls.ended(seq, &content, &record, out));
                }
            }
            EventKind::Message { kind: MessageKind::User, content, .. } if is_in_view && is_notification => {
                self.notice(notification_line(&content), false, out);
            }
            EventKind::Progress { tool, text } if is_in_view => {
                self.push_all(out, |this, out| this.calls.progress(&tool, &text, out));
            }
            EventKind::Notice { text } => self.notice(&of_agent(agent, self.view(), &text), false, out),
            EventKind::Retrying(retrying) => {
                self.notice(&of_agent(agent, self.view(), &retrying.to_string()), false, out);
            }
            EventKind::TurnBegan { turn, .. } => {
                self.push_all(out, |this, out| this.cards.began(agent, turn, is_in_view, out));
            }
            EventKind::TurnEnded { cause, state, outcome, .. } => {
                self.push_all(out, |this, out| this.cards.ended(agent, state, &outcome, out));
                if is_in_view {
                    self.push_all(out, |this, out| this.calls.abandon(out));
                    // If the user submitted the line, the outcome is shown when the line ends.
                    if !outcome.is_ok() && cause != TurnCause::Person {
                        self.outcome(&outcome, out);
                    }
                }
            }
            EventKind::ViewMoved => self.view_moved(agent, out),
            EventKind::Delta { .. }
            | EventKind::Message { .. }
            | EventKind::Progress { .. }
            | EventKind::GivenUp { .. }
            | EventKind::RequestWaits { .. }
            | EventKind::LineEnded { .. }
            | EventKind::LineQueued { .. }
            | EventKind::LineDequeued { .. }
            | EventKind::QueueHeld { .. }
            | EventKind::AgentForked { .. }
            | EventKind::AgentKilled
            | EventKind::MailArrived { .. }
            | EventKind::Unknown => {}
        }
    }

    /// Shows a stored turn of an agent that is not in view. The rows of its answers follow.
    pub(super) fn stored_turn(&mut self, agent: AgentId, turn: u64, stored: StoredTurn, out: &mut Vec<Value>) {
        self.push_all(out, |this, out| this.cards.stored(agent, turn, stored, out));
    }

    /// Ends the replay, and with it the cards of stored turns. `is_prompt_open` is set if a prompt has no response yet.
    pub(super) fn replayed(&mut self, is_prompt_open: bool, out: &mut Vec<Value>) {
        self.push_all(out, |this, out| this.cards.end_all_stored(out));
        self.accepts_messages = is_prompt_open;
    }

    /// Notes that a prompt began while no other was open. Clients show its answer separately from the last one. Waiting notices
    /// are shown first.
    pub(super) fn prompt_began(&mut self, out: &mut Vec<Value>) {
        self.last_message = None;
        self.accepts_messages = true;
        for text in std::mem::take(&mut self.waiting_notices) {
            self.say(&text, out);
        }
    }

    /// Notes that all prompts are answered.
    pub(super) fn prompts_ended(&mut self) {
        self.accepts_messages = false;
    }

    /// Shows a question of `agent` about the last tool of `chain`. Questions of commands and of agents that are not in
    /// view get a tool call of their own.
    pub(super) fn question(
        &mut self,
        agent: AgentId,
        chain: &[String],
        topic: &str,
        out: &mut Vec<Value>,
    ) -> ShownQuestion {
        let is_in_view = agent == self.view();
        let topic = if is_in_view { topic.to_owned() } else { format!("{} asks: {topic}", agent.short()) };
        if is_in_view && let Some(call) = self.calls.question(chain) {
            return ShownQuestion { topic, call };
        }
        let id = format!("question-{}", self.questions_asked);
        self.questions_asked += 1;
        self.open_questions.push(id.clone());
        self.push_all(out, |_, out| {
            out.push(json!({
                "sessionUpdate": "tool_call", "toolCallId": id, "title": topic, "kind": "other",
                "status": CallStatus::Pending.as_str(),
            }));
        });
        let call = CallInQuestion { id, title: topic.clone(), content: Vec::new() };
        ShownQuestion { topic, call }
    }

    /// Shows a terminal in the call that runs a program in it.
    pub(super) fn terminal_opened(&mut self, session: SessionId, call: CallId, terminal: &str, out: &mut Vec<Value>) {
        self.push_all(out, |this, out| this.calls.terminal_opened(session, call, terminal, out));
    }

    /// Shows the answer to a question.
    pub(super) fn question_answered(&mut self, id: &str, is_allowed: bool, out: &mut Vec<Value>) {
        let Some(at) = self.open_questions.iter().position(|open| open == id) else {
            return self.push_all(out, |this, out| this.calls.question_answered(id, out));
        };
        self.open_questions.remove(at);
        let status = if is_allowed { CallStatus::Completed } else { CallStatus::Failed };
        self.push_all(out, |_, out| out.push(call_status(id, status, None)));
    }

    /// Notes that events were lost. `view` is the agent in view now.
    pub(super) fn lost(&mut self, view: AgentId, out: &mut Vec<Value>) {
        self.view_moved(view, out);
    }

    /// Ends everything that is still shown as running, because no agent is working.
    pub(super) fn idle(&mut self, out: &mut Vec<Value>) {
        let lost = self.answers.idle();
        self.add(0, lost, out);
        self.push_all(out, |this, out| {
            this.cards.idle(out);
            this.calls.abandon(out);
            out.extend(this.open_questions.drain(..).map(|id| call_status(&id, CallStatus::Failed, None)));
        });
    }

    /// Adds the outcome of a line.
    pub(super) fn outcome(&mut self, outcome: &Outcome, out: &mut Vec<Value>) {
        match &*outcome.line() {
            "" if outcome.code == Code::ToolResult => self.say("(no output)", out),
            "" => {}
            line => self.say(line, out),
        }
    }

    /// Announces which agent the user talks to now, if the line of `agent` has moved the view and
    /// its outcome does not mention it.
    pub(super) fn moved_view(&mut self, agent: AgentId, outcome: &Outcome, out: &mut Vec<Value>) {
        match outcome.code {
            Code::Forked => self.say("You are now talking to it; /switch parent goes back.", out),
            Code::Killed if agent != self.view() => {
                self.say(&format!("You are now talking to {}.", self.view().short()), out)
            }
            _ => {}
        }
    }

    /// Names the waiting lines that `/kill` has deleted with their agents.
    pub(super) fn killed_lines(&mut self, outcome: &Outcome, out: &mut Vec<Value>) {
        if let Some(line) = not_sent(outcome) {
            self.notice(&line, false, out);
        }
    }

    /// Shows the waiting lines of an earlier process that will not run. They are deleted, so they are shown whole, and in a
    /// message, because clients may drop notices.
    pub(super) fn earlier_lines(&mut self, lines: &[QueuedLine], out: &mut Vec<Value>) {
        let shown = |line: &QueuedLine| {
            let files = line.attached.iter().map(|name| format!("[attached: {}]", text::clean_line(name)));
            let text = Some(text::clean(&line.text)).filter(|text| !text.trim().is_empty());
            text.into_iter().chain(files).collect::<Vec<_>>().join("\n")
        };
        let were = match lines.len() {
            0 => return,
            1 => "line was",
            _ => "lines were",
        };
        let texts = lines.iter().map(shown).collect::<Vec<_>>().join("\n\n");
        self.say(&format!("{} waiting {were} not sent:\n\n{texts}", lines.len()), out);
    }

    /// Reports that an answer before the row in `event` was lost: the client has part of it, but the process died before it had
    /// stored the answer.
    pub(super) fn lost_before(&mut self, event: &Event, out: &mut Vec<Value>) {
        if matches!(event.kind, EventKind::Message { kind: MessageKind::User | MessageKind::Skill, .. }) {
            let lost = self.answers.follow(event);
            self.add(event.seq, lost, out);
        }
    }

    /// Adds a message of the user, which is stored as row `seq`. `key` is the key that the client sent with the message.
    pub(super) fn stored_message(&mut self, seq: u64, text: &str, key: Option<&str>, out: &mut Vec<Value>) {
        self.text(ChunkKind::User, format!("row {seq}"), text, out);
        if let (Some(key), Some(message)) = (key, out.last_mut()) {
            update::extend(message, "key", json!(key));
        }
    }

    /// Adds the thinking of an answer stored as row `seq` if the client does not have it. While an answer is being received, its
    /// thinking arrives in pieces instead.
    pub(super) fn stored_thoughts(&mut self, seq: u64, answer: &AssistantRecord, out: &mut Vec<Value>) {
        let received = self.answers.received().filter(|it| it.attempt.given_up >= answer.failed_attempts.given_up);
        let seen = received.and_then(|received| received.thinking);
        let thoughts = (0..).zip(&answer.parts).filter_map(|(index, part)| match (part, seen) {
            (AssistantPart::Thinking { .. }, Some((last, _))) if index < last => None,
            (AssistantPart::Thinking { text, .. }, Some((last, end))) if index == last => {
                text.get(usize::try_from(end).ok()?..)
            }
            (AssistantPart::Thinking { text, .. }, _) => Some(text.as_str()),
            _ => None,
        });
        let thoughts =
            thoughts.map(text::clean).filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n");
        if !thoughts.is_empty() {
            let message = received.map_or_else(|| format!("row {seq}"), |received| message_of(received.attempt));
            self.text(ChunkKind::Thought, message, &thoughts, out);
        }
    }

    /// Adds a message of this front.
    pub(super) fn say(&mut self, text: &str, out: &mut Vec<Value>) {
        // This cannot overflow, although a client may have resumed with any number.
        self.own_messages = self.own_messages.saturating_add(1);
        let message = format!("host {}", self.own_messages);
        self.text(ChunkKind::Agent, message, text, out);
    }

    /// Adds a line that the user should read now. It is a notice, which clients may drop, or a message if the client does not show
    /// notices.
    pub(super) fn notice(&mut self, line: &str, is_error: bool, out: &mut Vec<Value>) {
        match self.shows_notices {
            true => out.push(update::notice(line, is_error)),
            false => self.say_when_open(line, out),
        }
    }

    /// Adds a message, which waits for the next prompt if none is open.
    fn say_when_open(&mut self, text: &str, out: &mut Vec<Value>) {
        if self.accepts_messages {
            self.say(text, out);
        } else if self.waiting_notices.len() < WAITING_NOTICES && !self.waiting_notices.iter().any(|it| it == text) {
            self.waiting_notices.push(text.to_owned());
        } else {
            tracing::info!("a notice between two prompts is not shown: {text}");
        }
    }

    fn answered(&mut self, seq: u64, record: &AssistantRecord, window: u64, out: &mut Vec<Value>) {
        self.push_all(out, |this, out| this.calls.asked(seq, record, &this.workspace, out));
        let used = record.usage.total();
        if used > 0 {
            out.push(update::usage(used, window));
        }
    }

    /// Sends new text of the answer. `seq` is the number of its event.
    fn add(&mut self, seq: u64, Followed { broke_off, piece }: Followed<'_>, out: &mut Vec<Value>) {
        if let Some(broke_off) = broke_off {
            self.notice(&broke_off.line(), false, out);
            if let (BrokeOff { kept: Some(kept), .. }, Some(notice)) = (broke_off, out.last_mut()) {
                update::extend(notice, "kept", json!(kept));
            }
        }
        if let Some(piece) = piece {
            let kind = match piece.block {
                DeltaKind::Thinking => ChunkKind::Thought,
                DeltaKind::Text => ChunkKind::Agent,
            };
            let message = match piece.attempt {
                Some(attempt) => message_of(attempt),
                None => format!("row {seq}"),
            };
            self.text(kind, message, piece.text, out);
        }
    }

    /// Adds a piece of a message.
    fn text(&mut self, kind: ChunkKind, message: String, text: &str, out: &mut Vec<Value>) {
        let key = Some((kind, message));
        let is_apart = self.last_message.as_ref().is_some_and(|(last, _)| *last == kind) && self.last_message != key;
        self.last_message = key;
        let Some((_, message)) = &self.last_message else { return };
        match is_apart {
            true => out.push(chunk(kind, message, &format!("\n\n{text}"))),
            false => out.push(chunk(kind, message, text)),
        }
    }

    /// Adds updates other than chunks.
    fn push_all(&mut self, out: &mut Vec<Value>, add: impl FnOnce(&mut Self, &mut Vec<Value>)) {
        let before = out.len();
        add(self, out);
        if out.len() > before {
            self.last_message = None;
        }
    }

    fn view_moved(&mut self, view: AgentId, out: &mut Vec<Value>) {
        if !self.answers.look_at(view) {
            return;
        }
        self.push_all(out, |this, out| {
            this.calls.abandon(out);
            this.cards.view_moved(view, out);
        });
    }
}

/// Returns the id of the message with an answer.
fn message_of(AnswerAttempt { turn, answer, given_up }: AnswerAttempt) -> String {
    format!("{turn}.{answer}.{given_up}")
}

/// Returns a line about an agent. If the agent is not in view and the line does not contain its name, the name comes first.
fn of_agent(agent: AgentId, view: AgentId, line: &str) -> String {
    let short = agent.short();
    if agent == view || line.contains(&*short) { line.to_owned() } else { format!("{short}: {line}") }
}

/// Returns the notice about the waiting lines of killed agents; `None` for other outcomes and without such lines.
fn not_sent(outcome: &Outcome) -> Option<String> {
    let lines = outcome.killed_lines();
    let was = match lines.len() {
        0 => return None,
        1 => "line was",
        _ => "lines were",
    };
    let texts = lines.iter().map(|line| text::excerpt(line, LINES)).collect::<Vec<_>>().join("; ");
    Some(format!("{} waiting {was} not sent: {}", lines.len(), text::excerpt(&texts, LINES)))
}

#[cfg(test)]
mod tests;

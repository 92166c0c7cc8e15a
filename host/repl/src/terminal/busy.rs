//! Running work: the lines of this front and the turns of all agents. The busy row shows the current step of
//! the agent in view, how long it has been running, and how to stop it. The loop in `terminal` passes events
//! and the time.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use patchbay_core::{AgentId, AssistantPart, DeltaKind, EventKind, LineId, MessageKind, Retrying, text};
use unicode_width::UnicodeWidthStr as _;

use super::{call_timer::seconds, wrap};

/// Length limit of a tool's progress text, in characters.
const PROGRESS: usize = 60;
/// Length limit of a command's text, in characters.
const COMMAND: usize = 40;
/// Length limit of a retry's cause, in characters.
const CAUSE: usize = 60;

/// The running lines of this front, the running turns, and the current step of the agent in view.
#[derive(Debug)]
pub(crate) struct Busy {
    view: AgentId,
    lines: Vec<RunningLine>,
    /// The agents that run a turn, with or without a line of this front, and since when.
    turns: BTreeMap<AgentId, Instant>,
    step: Step,
    /// Tokens that the answers of the running turn used.
    tokens: u64,
}

#[derive(Debug)]
struct RunningLine {
    id: LineId,
    /// The agent that the line belongs to.
    agent: AgentId,
    /// The command as typed, shortened; `None` for a message.
    command: Option<String>,
    since: Instant,
}

#[derive(Debug, Default)]
enum Step {
    /// The current step is not known yet.
    #[default]
    Waiting,
    Thinking(Instant),
    Answering,
    /// The request waits for this limit.
    RequestWaits(String),
    /// The provider failed because of `cause`, and the request is sent again at the time `at`.
    Retrying {
        at: Instant,
        attempt: u32,
        of: u32,
        cause: String,
    },
    /// The running tools, and the newest progress.
    Tools {
        names: Vec<String>,
        progress: Option<String>,
        since: Instant,
    },
}

impl Busy {
    /// Returns the state in which nothing runs. `view` is the agent in view.
    pub(crate) fn new(view: AgentId) -> Self {
        Self { view, lines: Vec::new(), turns: BTreeMap::new(), step: Step::Waiting, tokens: 0 }
    }

    /// Sets the agent in view, which is writing an answer if `is_answering`.
    pub(crate) fn set_view(&mut self, view: AgentId, is_answering: bool) {
        self.view = view;
        self.step = if is_answering { Step::Answering } else { Step::Waiting };
        self.tokens = 0;
    }

    /// Adds a line of `agent` that runs now.
    pub(crate) fn begin(&mut self, id: LineId, agent: AgentId, line: &str, now: Instant) {
        self.begin_work(agent);
        let command = line.starts_with('/').then(|| text::excerpt(line, COMMAND));
        self.lines.push(RunningLine { id, agent, command, since: now });
    }

    /// Forgets the step of earlier work of the agent in view.
    fn begin_work(&mut self, agent: AgentId) {
        if agent == self.view && self.is_idle() {
            (self.step, self.tokens) = (Step::Waiting, 0);
        }
    }

    /// Removes a line that has ended and returns how long it ran; `None` if it did not run here.
    pub(crate) fn end(&mut self, id: LineId, now: Instant) -> Option<Duration> {
        let index = self.lines.iter().position(|line| line.id == id)?;
        Some(now.saturating_duration_since(self.lines.remove(index).since))
    }

    /// Removes the turn of an agent and returns how long it ran; `None` if it is not known.
    pub(crate) fn end_turn(&mut self, agent: AgentId, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.turns.remove(&agent)?))
    }

    /// Sets which agents run a turn, after events were lost.
    pub(crate) fn set_turns(&mut self, working: impl IntoIterator<Item = AgentId>, now: Instant) {
        let known = std::mem::take(&mut self.turns);
        self.turns = working.into_iter().map(|agent| (agent, known.get(&agent).copied().unwrap_or(now))).collect();
    }

    /// Whether neither a line nor a turn of the agent in view runs.
    pub(crate) fn is_idle(&self) -> bool {
        !self.turns.contains_key(&self.view) && self.lines.iter().all(|line| line.agent != self.view)
    }

    /// Whether this agent runs a turn.
    pub(crate) fn runs_turn(&self, agent: AgentId) -> bool {
        self.turns.contains_key(&agent)
    }

    /// Returns how many other agents run a turn, not counting the agents in `asking`.
    pub(crate) fn others(&self, asking: &[AgentId]) -> usize {
        self.turns.keys().filter(|agent| **agent != self.view && !asking.contains(agent)).count()
    }

    /// Whether a line with the command `name` is running.
    pub(crate) fn runs_command(&self, name: &str) -> bool {
        let mut commands = self.lines.iter().filter_map(|line| line.command.as_deref());
        commands.any(|command| command.split_whitespace().next() == Some(name))
    }

    /// The ids of the running lines of the agent in view, in the order in which they were entered.
    pub(crate) fn running(&self) -> Vec<LineId> {
        self.lines.iter().filter(|line| line.agent == self.view).map(|line| line.id).collect()
    }

    /// Updates the running work after an event of `agent`.
    pub(crate) fn event(&mut self, agent: AgentId, event: &EventKind, now: Instant) {
        match event {
            EventKind::TurnBegan { .. } => {
                self.begin_work(agent);
                self.turns.insert(agent, now);
            }
            EventKind::AgentKilled => drop(self.turns.remove(&agent)),
            _ if agent == self.view => self.step(event, now),
            _ => {}
        }
    }

    fn step(&mut self, event: &EventKind, now: Instant) {
        match event {
            EventKind::Delta { block: DeltaKind::Thinking, .. } => {
                self.step = match self.step {
                    Step::Thinking(since) => Step::Thinking(since),
                    _ => Step::Thinking(now),
                }
            }
            EventKind::Delta { .. } => self.step = Step::Answering,
            EventKind::RequestWaits { limit: Some(limit) } => self.step = Step::RequestWaits(limit.to_string()),
            EventKind::RequestWaits { limit: None } if matches!(self.step, Step::RequestWaits(_)) => {
                self.step = Step::Waiting;
            }
            EventKind::Retrying(retry) => self.step = retrying(retry, 0, now),
            // The transcript counts attempts, and the first attempt does not count as a retry.
            EventKind::GivenUp { retry, .. } => self.step = retrying(retry, 1, now),
            EventKind::Progress { tool, text: progress } => {
                let progress = Some(text::excerpt(progress, PROGRESS));
                match &mut self.step {
                    Step::Tools { progress: last, .. } => *last = progress,
                    _ => self.step = Step::Tools { names: vec![tool.clone()], progress, since: now },
                }
            }
            EventKind::Message { kind: MessageKind::Assistant, .. } => {
                let Some(answer) = event.answer() else { return };
                self.tokens += answer.usage.output;
                let calls = answer.parts.iter().filter_map(AssistantPart::tool_call);
                let names: Vec<String> = calls.map(|call| text::excerpt(&call.name, COMMAND)).collect();
                self.step = match names.is_empty() {
                    true => Step::Waiting,
                    false => Step::Tools { names, progress: None, since: now },
                };
            }
            EventKind::Message { kind: MessageKind::Tool, .. } => {
                if let (Step::Tools { names, progress, .. }, Some(result)) = (&mut self.step, event.tool_result()) {
                    if let Some(index) = names.iter().position(|name| *name == result.name) {
                        names.remove(index);
                        *progress = None;
                    }
                    if names.is_empty() {
                        self.step = Step::Waiting;
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the text of the row; `None` if nothing runs. `model` answers messages; `compiling` is the progress of
    /// compilation. If the row is wider than `columns`, the limit that a request waits for, the cause of a retry or the progress of
    /// a tool is truncated, to keep the final hint about how to stop visible.
    pub(crate) fn text(
        &self,
        model: Option<&str>,
        compiling: Option<&str>,
        columns: usize,
        now: Instant,
    ) -> Option<String> {
        let line = self.lines.iter().find(|line| line.agent == self.view);
        let turn = self.turns.get(&self.view).copied();
        let since = line.map(|line| line.since).or(turn)?;
        let mut parts = vec![match (line.and_then(|line| line.command.as_ref()), model) {
            (Some(command), _) => command.clone(),
            (None, Some(model)) => model.to_owned(),
            (None, None) => "working".to_owned(),
        }];
        let took = |since: Instant| seconds(now.saturating_duration_since(since));
        let mut detail = String::new();
        match &self.step {
            Step::Waiting => parts.push(took(since)),
            Step::Thinking(since) => parts.push(format!("thinking {}", took(*since))),
            Step::Answering => parts.push(format!("answering {}", took(since))),
            Step::RequestWaits(limit) => {
                parts.push("waiting".to_owned());
                detail = format!(": {limit}");
            }
            Step::Retrying { at, attempt, of, cause } => {
                let left = at.saturating_duration_since(now);
                // Rounded up, so the countdown ends at 1.
                let left = Duration::from_secs(left.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX));
                let when =
                    if left.is_zero() { "retrying".to_owned() } else { format!("retrying in {}", seconds(left)) };
                parts.push(format!("{when}, {attempt} of {of}"));
                detail = format!(": {cause}");
            }
            Step::Tools { names, progress, since } => {
                parts.push(format!("{} {}", names.join(", "), took(*since)));
                if let Some(progress) = progress {
                    detail = format!(" · {progress}");
                }
            }
        }
        let begin = format!("* {}", parts.join(" · "));
        let compiling = compiling.map(|progress| format!(" · {progress}")).unwrap_or_default();
        let tokens = if self.tokens > 0 { format!(" · {} tokens", self.tokens) } else { String::new() };
        let end = format!("{compiling}{tokens} · Esc stops");
        if let Some(room) = columns.checked_sub(begin.width() + end.width()) {
            detail = wrap::cut(&detail, room);
        }
        Some(format!("{begin}{detail}{end}"))
    }
}

/// Returns the step while a retry waits. `first` is added to the numbers of the retry, to count the first attempt as well.
fn retrying(retry: &Retrying, first: u32, now: Instant) -> Step {
    let Retrying { wait_ms, attempt, of, cause, .. } = retry;
    // A wait beyond the range of the clock ends immediately. In practice, waits are limited to minutes.
    let at = now.checked_add(Duration::from_millis(*wait_ms)).unwrap_or(now);
    let [attempt, of] = [attempt, of].map(|retries| retries.saturating_add(first));
    Step::Retrying { at, attempt, of, cause: text::excerpt(cause, CAUSE) }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{DeltaPosition, RequestLimit, TurnCause};

    use super::*;

    const AGENT: AgentId = AgentId::from_bytes([2; 16]);
    const OTHER: AgentId = AgentId::from_bytes([3; 16]);

    fn delta(block: DeltaKind) -> EventKind {
        EventKind::Delta { block, text: "x".to_owned(), at: DeltaPosition::default() }
    }

    #[test]
    fn row_says_what_runs_and_for_how_long() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut busy = Busy::new(AGENT);
        assert_eq!(busy.text(Some("m1"), None, 80, start), None);
        busy.begin(LineId::from_bytes([1; 16]), AGENT, "hello", start);
        assert_eq!(busy.text(Some("m1"), None, 80, at(2)).unwrap(), "* m1 · 2 s · Esc stops");
        busy.event(AGENT, &delta(DeltaKind::Thinking), at(3));
        busy.event(AGENT, &delta(DeltaKind::Thinking), at(5));
        assert_eq!(busy.text(Some("m1"), None, 80, at(7)).unwrap(), "* m1 · thinking 4 s · Esc stops");
        busy.event(AGENT, &delta(DeltaKind::Text), at(8));
        assert_eq!(busy.text(Some("m1"), None, 80, at(70)).unwrap(), "* m1 · answering 1 min 10 s · Esc stops");
        busy.event(AGENT, &EventKind::Progress { tool: "web__fetch".to_owned(), text: "40 %".to_owned() }, at(71));
        assert_eq!(busy.text(Some("m1"), None, 80, at(72)).unwrap(), "* m1 · web__fetch 1 s · 40 % · Esc stops");
        let ended = [1, 1].map(|line| busy.end(LineId::from_bytes([line; 16]), at(73)));
        assert_eq!(ended, [Some(Duration::from_secs(73)), None]);
        assert!(busy.is_idle());
    }

    #[test]
    fn retry_is_counted_down() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut busy = Busy::new(AGENT);
        busy.begin(LineId::from_bytes([1; 16]), AGENT, "hello", start);
        let (provider, what, cause) = ("m".to_owned(), "Connection failed".to_owned(), "connection refused".to_owned());
        busy.event(
            AGENT,
            &EventKind::Retrying(Retrying { provider, what, cause, wait_ms: 2_700, attempt: 2, of: 3 }),
            start,
        );
        for (ms, expected) in [
            (0, "* m1 · retrying in 3 s, 2 of 3: connection refused · Esc stops"),
            (1_000, "* m1 · retrying in 2 s, 2 of 3: connection refused · Esc stops"),
            (2_600, "* m1 · retrying in 1 s, 2 of 3: connection refused · Esc stops"),
            (2_700, "* m1 · retrying, 2 of 3: connection refused · Esc stops"),
        ] {
            assert_eq!(busy.text(Some("m1"), None, 80, at(ms)).unwrap(), expected);
        }
        busy.event(AGENT, &delta(DeltaKind::Text), at(3_000));
        assert_eq!(busy.text(Some("m1"), None, 80, at(3_000)).unwrap(), "* m1 · answering 3 s · Esc stops");
        let [provider, what, cause] = ["m", "Server error", "overloaded"].map(str::to_owned);
        let retry = Retrying { provider, what, cause, wait_ms: 1_000, attempt: 1, of: 4 };
        busy.event(AGENT, &EventKind::GivenUp { turn: 1, answer: 0, given_up: 1, retry }, at(3_000));
        let broken = "* m1 · retrying in 1 s, 2 of 5: overloaded · Esc stops";
        assert_eq!(busy.text(Some("m1"), None, 80, at(3_000)).unwrap(), broken);
    }

    #[test]
    fn waiting_request_names_the_limit() {
        let now = Instant::now();
        let mut busy = Busy::new(AGENT);
        busy.begin(LineId::from_bytes([1; 16]), AGENT, "hello", now);
        let text = |busy: &Busy, columns| busy.text(Some("m1"), None, columns, now).unwrap();
        let limit = RequestLimit { provider: Some("demo".to_owned()), at_once: 2 };
        busy.event(AGENT, &EventKind::RequestWaits { limit: Some(limit) }, now);
        assert_eq!(text(&busy, 80), "* m1 · waiting: demo accepts 2 requests at a time · Esc stops");
        assert_eq!(text(&busy, 40), "* m1 · waiting: demo accept… · Esc stops");
        busy.event(AGENT, &EventKind::RequestWaits { limit: None }, now);
        assert_eq!(text(&busy, 80), "* m1 · 0 s · Esc stops");
        // The request of another agent changes nothing, and the end of a wait does not replace a newer step.
        busy.event(OTHER, &EventKind::RequestWaits { limit: Some(RequestLimit { provider: None, at_once: 1 }) }, now);
        busy.event(AGENT, &delta(DeltaKind::Text), now);
        busy.event(AGENT, &EventKind::RequestWaits { limit: None }, now);
        assert_eq!(text(&busy, 80), "* m1 · answering 0 s · Esc stops");
    }

    #[test]
    fn cause_and_progress_are_cut_before_how_to_stop() {
        let now = Instant::now();
        let mut busy = Busy::new(AGENT);
        busy.begin(LineId::from_bytes([1; 16]), AGENT, "hello", now);
        let [provider, what, cause] =
            ["m", "Rate limit exceeded", "Rate limit reached for requests"].map(str::to_owned);
        let retry = Retrying { provider, what, cause, wait_ms: 1_000, attempt: 1, of: 4 };
        busy.event(AGENT, &EventKind::Retrying(retry), now);
        let text = |busy: &Busy, columns| busy.text(Some("m1"), None, columns, now).unwrap();
        assert_eq!(text(&busy, 57), "* m1 · retrying in 1 s, 1 of 4: Rate limit r… · Esc stops");
        assert_eq!(text(&busy, 42), "* m1 · retrying in 1 s, 1 of 4 · Esc stops");
        busy.event(AGENT, &EventKind::Progress { tool: "a__b".to_owned(), text: "half of it".to_owned() }, now);
        assert_eq!(text(&busy, 35), "* m1 · a__b 0 s · half… · Esc stops");
    }

    #[test]
    fn command_is_named_by_its_text() {
        let mut busy = Busy::new(AGENT);
        let now = Instant::now();
        busy.begin(LineId::from_bytes([1; 16]), AGENT, "/spin {}", now);
        assert_eq!(busy.text(None, None, 80, now).unwrap(), "* /spin {} · 0 s · Esc stops");
    }

    #[test]
    fn only_the_agent_in_view_is_shown() {
        let start = Instant::now();
        let mut busy = Busy::new(AGENT);
        let began = EventKind::TurnBegan { turn: 1, cause: TurnCause::Mail };
        busy.event(OTHER, &began, start);
        busy.begin(LineId::from_bytes([1; 16]), OTHER, "/spin {}", start);
        busy.event(OTHER, &delta(DeltaKind::Text), start);
        assert_eq!((busy.is_idle(), busy.others(&[]), busy.running().len()), (true, 1, 0));
        assert_eq!(busy.text(Some("m1"), None, 80, start), None);
        assert!(busy.runs_command("/spin") && !busy.runs_command("/spi"));
        // A turn without a line of this front.
        busy.event(AGENT, &began, start);
        let later = start + Duration::from_secs(2);
        assert_eq!(busy.text(Some("m1"), None, 80, later).unwrap(), "* m1 · 2 s · Esc stops");
        busy.set_view(OTHER, true);
        assert_eq!(busy.text(None, None, 80, later).unwrap(), "* /spin {} · answering 2 s · Esc stops");
        busy.event(OTHER, &EventKind::AgentKilled, later);
        assert_eq!(busy.end_turn(AGENT, later), Some(Duration::from_secs(2)));
        assert_eq!((busy.end_turn(AGENT, later), busy.others(&[])), (None, 0));
        busy.set_turns([AGENT], later);
        assert_eq!((busy.others(&[]), busy.others(&[AGENT])), (1, 0));
    }
}

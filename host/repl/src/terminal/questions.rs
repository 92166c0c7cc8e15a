//! Questions of the host to the person, such as: may a skill use a capability? The session has the [`QuestionSender`]; the loop in
//! `terminal` shows one question at a time, passes keys, and prints whether a grant was stored.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use patchbay_core::{AgentId, text};
use patchbay_session::{Approval, Approver, Question, QuestionSubject, SkillCapability};
use tokio::sync::{mpsc, oneshot};
use unicode_width::UnicodeWidthStr as _;

use super::{
    live::Row,
    prose, style,
    wrap::{cut, cut_front},
};

/// Keys are ignored until this time has passed without one: they were meant for the composer.
const DEAF: Duration = Duration::from_millis(400);
/// Messages on their way to the loop: the host opens at most 4 questions of a session at once, and each may end with a grant.
const WAITING: usize = 16;
/// Rows of one part of a question, such as the input of a call: of a longer one the first and the last row, with a note between
/// them.
const PART_ROWS: usize = 3;
/// Prints the open question above it, with all of the input that the host gives.
const SHOW_ALL: char = 'v';

/// Passes questions to the loop.
pub(crate) struct QuestionSender(mpsc::Sender<ApproverMessage>);

/// What the host has for the person.
pub(crate) enum ApproverMessage {
    Question(Box<PendingQuestion>),
    /// A line for the transcript: whether the grant of the answer `always` was stored.
    Stored(String),
}

/// A question that waits for its answer.
pub(crate) struct PendingQuestion {
    question: Question,
    answer: oneshot::Sender<Approval>,
}

impl PendingQuestion {
    /// Returns the agent whose call needs the answer.
    pub(crate) fn agent(&self) -> AgentId {
        self.question.agent
    }

    /// Returns the line for the transcript while another agent is in view.
    pub(crate) fn headline(&self) -> String {
        format!("{} asks: {}", self.question.agent.short(), self.question.subject.title())
    }
}

/// Returns the two ends of the way of questions.
pub(crate) fn channel() -> (QuestionSender, mpsc::Receiver<ApproverMessage>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (QuestionSender(sender), receiver)
}

impl Approver for QuestionSender {
    fn approve(&self, question: Question) -> std::pin::Pin<Box<dyn Future<Output = Approval> + Send + '_>> {
        let (answer, answered) = oneshot::channel();
        Box::pin(async move {
            // Without room, or after the front has left, the answer is no.
            let pending = Box::new(PendingQuestion { question, answer });
            if self.0.try_send(ApproverMessage::Question(pending)).is_err() {
                return Approval::No;
            }
            answered.await.unwrap_or(Approval::No)
        })
    }

    fn grant_stored(&self, question: &Question, stored: Result<(), String>) {
        let allowed = question.subject.decided(true);
        let line = match stored {
            Ok(()) => format!("Allowed from now on: {allowed}."),
            Err(error) => format!("Error: the grant is not stored: {error}. Only for this call, {allowed}."),
        };
        // The front may have left.
        let _ = self.0.try_send(ApproverMessage::Stored(line));
    }
}

/// The open question and those behind it.
pub(crate) struct Questions {
    waiting: VecDeque<PendingQuestion>,
    /// When a key was last ignored, or the open question was first drawn.
    deaf_since: Instant,
    /// Whether the open question was drawn: before, no key can be its answer.
    is_drawn: bool,
}

impl Questions {
    pub(crate) fn new(now: Instant) -> Self {
        Self { waiting: VecDeque::new(), deaf_since: now, is_drawn: false }
    }

    /// Adds a question behind those that wait. The host bounds their number.
    pub(crate) fn add(&mut self, question: PendingQuestion, now: Instant) {
        if self.waiting.is_empty() {
            self.opened(now);
        }
        self.waiting.push_back(question);
    }

    /// Removes questions whose calls have ended. Returns true if the open one was among them.
    pub(crate) fn withdraw(&mut self, now: Instant) -> bool {
        let was_open = self.waiting.front().is_some_and(|pending| pending.answer.is_closed());
        self.waiting.retain(|pending| !pending.answer.is_closed());
        if was_open {
            self.opened(now);
        }
        was_open
    }

    /// Notes that another question is the open one, if there is one.
    fn opened(&mut self, now: Instant) {
        (self.deaf_since, self.is_drawn) = (now, false);
    }

    /// Notes that a frame was written. Keys are ignored for a time after the first one with the open question.
    pub(crate) fn drawn(&mut self, now: Instant) {
        if self.is_open() && !self.is_drawn {
            (self.deaf_since, self.is_drawn) = (now, true);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the agent whose call needs the answer to the open question.
    pub(crate) fn agent(&self) -> Option<AgentId> {
        self.waiting.front().map(PendingQuestion::agent)
    }

    /// Returns whether a key comes too early to be an answer. Such a key begins the time without keys again.
    fn is_early(&mut self, now: Instant) -> bool {
        let is_early = self.withdraw(now) || !self.is_drawn || now.saturating_duration_since(self.deaf_since) < DEAF;
        if is_early {
            self.deaf_since = now;
        }
        is_early
    }

    /// Returns the character of a key that comes too early to be an answer: it was meant for the composer. `None` for other keys,
    /// and if no question is open.
    pub(crate) fn typed_ahead(&mut self, key: KeyEvent, now: Instant) -> Option<char> {
        match key.code {
            _ if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => None,
            KeyCode::Char(character) if self.is_open() && self.is_early(now) => Some(character),
            _ => None,
        }
    }

    /// Answers the open question if the key is an offered answer and was not typed ahead. Returns the text for the
    /// transcript; `None` for `always`, whose line is printed when the grant is stored. For [`SHOW_ALL`], the text is the whole
    /// question, which stays open.
    pub(crate) fn key(&mut self, key: KeyEvent, now: Instant) -> Option<String> {
        if self.is_early(now) {
            return None;
        }
        let approval = match key.code {
            _ if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => return None,
            KeyCode::Char('1') => Approval::Once,
            KeyCode::Char('2') => Approval::Session,
            KeyCode::Char('3') => Approval::Always,
            KeyCode::Char('4' | 'n') | KeyCode::Esc => Approval::No,
            KeyCode::Char(SHOW_ALL) => return Some(whole(&self.waiting.front()?.question)),
            _ => return None,
        };
        if !self.waiting.front()?.question.allows(approval) {
            return None;
        }
        self.answer(approval, now)
    }

    /// Answers the open question. Returns the same as [`Questions::key`].
    pub(crate) fn answer(&mut self, approval: Approval, now: Instant) -> Option<String> {
        let pending = self.waiting.pop_front()?;
        self.opened(now);
        let decided = pending.question.subject.decided(approval.is_yes());
        let line = match approval {
            Approval::Once => Some(format!("Allowed for this call: {decided}.")),
            Approval::Session => Some(format!("Allowed for this session: {decided}.")),
            Approval::Always => None,
            Approval::No | Approval::Never => Some(format!("Not allowed: {decided}.")),
        };
        // The call may have ended in the meantime.
        let _ = pending.answer.send(approval);
        line
    }

    /// Returns the tool that needs the answer to the open question; `None` if another tool has called it.
    pub(crate) fn tool(&self) -> Option<&str> {
        match &*self.waiting.front()?.question.chain {
            [tool] => Some(tool),
            _ => None,
        }
    }

    /// Returns the rows of the open question, at most `height`: where there is little room, its details are left out. `diff`
    /// is what the call changes in a file. The agent is named if the session `has_several_agents`.
    pub(crate) fn rows(&self, columns: usize, height: usize, diff: Vec<Row>, has_several_agents: bool) -> Vec<Row> {
        let Some(PendingQuestion { question, .. }) = self.waiting.front() else { return Vec::new() };
        let limit = columns.saturating_sub(1);
        let title = shortened(&question.subject.title(), limit);
        let mut title: Vec<Row> = title.iter().map(|row| Row::styled(style::BOLD, row)).collect();
        let mut foot: Vec<Row> = keys(question, limit).iter().map(|row| Row::plain(cut(row, limit))).collect();
        if self.waiting.len() > 1 {
            let count = self.waiting.len() - 1;
            let more = format!("further questions: {count}");
            foot.push(Row::styled(style::FAINT, &cut(&more, limit)));
        }
        foot.truncate(height);
        title.truncate(height - foot.len());
        let room = height - foot.len() - title.len();
        let diff: Vec<Row> = diff.into_iter().take(room).collect();
        let room = room - diff.len();
        let details = details(question, has_several_agents);
        let details = details.iter().flat_map(|detail| shortened(detail, limit)).take(room);
        let details: Vec<Row> = details.map(|row| Row::styled(style::FAINT, &row)).collect();
        title.into_iter().chain(diff).chain(details).chain(foot).collect()
    }
}

/// Returns what the person should know before answering, the most important first.
fn details(question: &Question, has_several_agents: bool) -> Vec<String> {
    let mut details = question.subject.facts();
    details.push(format!("for {}", question.chain.join(" → ")));
    if let Some(grant) = &question.grant {
        details.push(format!("3 is {}", grant.what));
        details.extend(grant.scope.clone());
    }
    if question.only_once {
        details.push("This workspace is or holds your home folder: a yes is for this call only.".to_owned());
    }
    details.extend(question.reason.as_ref().map(|reason| format!("the skill's reason: {reason}")));
    if let QuestionSubject::Capability(SkillCapability { capability, .. }) = &question.subject
        && capability.to_string().starts_with("workspace-")
    {
        details.push(format!("in {}", question.workspace));
    }
    if has_several_agents {
        details.push(format!("for agent {}", question.agent.short()));
    }
    details
}

/// Returns all of a question: a line for its title and for each detail.
fn whole(question: &Question) -> String {
    let lines = std::iter::once(question.subject.title()).chain(details(question, true));
    lines.map(|line| text::clean_line(&line)).collect::<Vec<_>>().join("\n")
}

/// Returns how an answer is offered; `None` for one that the terminal does not offer.
fn key_of(answer: Approval) -> Option<&'static str> {
    match answer {
        Approval::Once => Some("1 this call"),
        Approval::Session => Some("2 this session"),
        Approval::Always => Some("3 always"),
        Approval::No => Some("Esc no"),
        Approval::Never => None,
    }
}

/// Returns the rows with the keys that answer.
fn keys(question: &Question, limit: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for key in question.answers().into_iter().filter_map(key_of) {
        match rows.last_mut() {
            Some(row) if row.len() + 2 + key.len() <= limit => *row += &format!("  {key}"),
            _ => rows.push(key.to_owned()),
        }
    }
    rows
}

/// Breaks a part of a question into at most [`PART_ROWS`] rows. Of a longer one, the beginning and the end are shown.
fn shortened(part: &str, limit: usize) -> Vec<String> {
    let line = text::with_visible_blanks(&text::clean_line(part)).into_owned();
    // A long part is not broken with each frame.
    if line.width() <= PART_ROWS * limit {
        let rows = prose::rows(&line, limit);
        if rows.len() <= PART_ROWS {
            return rows;
        }
    }
    let (head, tail) = (cut(&line, limit), cut_front(&line, limit));
    // Both have a `…`.
    let left_out = (line.chars().count() + 2).saturating_sub(head.chars().count() + tail.chars().count());
    let note = format!("… {} more characters: {SHOW_ALL} shows more", text::with_commas(left_out as u64));
    vec![head, cut(&note, limit), tail]
}

#[cfg(test)]
mod tests {
    use patchbay_core::{AgentId, Asker, Digest, PrincipalId};
    use patchbay_session::{CalledTool, Identity, OfferedGrant, Root};

    use super::*;

    fn keeper(capability: &str) -> QuestionSubject {
        QuestionSubject::Capability(SkillCapability {
            skill: Identity::new(Root::User, "", "keeper".parse().unwrap()),
            capability: capability.parse().unwrap(),
            digest: Digest::from_bytes([0x11; 32]),
        })
    }

    fn question() -> Question {
        Question {
            agent: AgentId::from_bytes([0xab; 16]),
            asker: Asker::Person(PrincipalId::LOCAL),
            subject: keeper("kv"),
            chain: vec!["ask__run".to_owned(), "keeper__run".to_owned()],
            workspace: "/w".to_owned(),
            reason: Some("keeps your notes".to_owned()),
            only_once: false,
            grant: Some(OfferedGrant {
                what: "patchbay grant add keeper kv".to_owned(),
                scope: Some(format!("for the skill's files {}", Digest::from_bytes([0x11; 32]))),
            }),
        }
    }

    fn opened(question: Question, now: Instant) -> (Questions, oneshot::Receiver<Approval>) {
        let (answer, answered) = oneshot::channel();
        let mut questions = Questions::new(now);
        questions.add(PendingQuestion { question, answer }, now);
        questions.drawn(now);
        (questions, answered)
    }

    fn texts(rows: &[Row]) -> Vec<String> {
        let plain = |row: &Row| {
            ["\x1b[1m", "\x1b[2m", "\x1b[0m"].iter().fold(row.text.clone(), |text, it| text.replace(it, ""))
        };
        rows.iter().map(plain).collect()
    }

    fn press(questions: &mut Questions, code: KeyCode, now: Instant) -> Option<String> {
        questions.key(KeyEvent::new(code, KeyModifiers::NONE), now)
    }

    #[test]
    fn question_shows_skill_chain_grant_and_reason() {
        let now = Instant::now();
        let (questions, _answered) = opened(question(), now);
        let digest = format!("for the skill's files sha256:{}", "11".repeat(32));
        let rows = questions.rows(120, 20, Vec::new(), false);
        let expected = [
            "May the user skill 'keeper' use 'kv'?",
            "for ask__run → keeper__run",
            "3 is patchbay grant add keeper kv",
            &digest,
            "the skill's reason: keeps your notes",
            "1 this call  2 this session  3 always  Esc no",
        ];
        assert_eq!(texts(&rows), expected);
        assert_eq!(texts(&questions.rows(120, 20, Vec::new(), true))[5], "for agent abababab");
        let diff = vec![Row::plain("- old"), Row::plain("+ new")];
        assert_eq!(texts(&questions.rows(120, 20, diff.clone(), false))[..3], [expected[0], "- old", "+ new"]);
        assert_eq!(texts(&questions.rows(120, 3, diff, false)), [expected[0], "- old", expected[5]]);
        // The answers are shown in the smallest window, and no row is wider than it.
        let small = ["May the user skill 'keeper' use 'kv'?", "1 this call  2 this session  3 always", "Esc no"];
        assert_eq!(texts(&questions.rows(40, 3, Vec::new(), true)), small);
        assert!(questions.rows(40, 20, Vec::new(), true).iter().all(|row| row.width < 40));
    }

    fn calling(input: &str) -> Question {
        let subject = QuestionSubject::Tool(CalledTool {
            name: "mcp__files__delete".to_owned(),
            input: input.to_owned(),
            input_digest: Digest::of(b""),
            digest: Digest::of(b""),
            is_destructive: true,
        });
        Question { subject, chain: vec!["mcp__files__delete".to_owned()], reason: None, ..question() }
    }

    #[test]
    fn long_input_is_shown_with_its_end_and_printed_by_a_key() {
        let start = Instant::now();
        let input = format!(r#"{{"args":["-c","{}\ncurl x | sh"],"command":"sh"}}"#, "Tests. ".repeat(1_000));
        let (mut questions, mut answered) = opened(calling(&input), start);
        let rows = texts(&questions.rows(40, 20, Vec::new(), false));
        let expected = [
            "May the tool 'mcp__files__delete' be",
            "called?",
            r#"with {"args":["-c","Tests. Tests. Test…"#,
            "… 6,975 more characters: v shows more",
            r#"…Tests. \ncurl x | sh"],"command":"sh"}"#,
        ];
        assert_eq!(rows[..5], expected);
        assert_eq!(press(&mut questions, KeyCode::Char('v'), start), None);
        let all = press(&mut questions, KeyCode::Char('v'), start + 2 * DEAF).unwrap();
        assert!(all.starts_with("May the tool") && all.contains(&format!("\nwith {input}\nits source says")), "{all}");
        assert!(questions.is_open() && answered.try_recv().is_err());
    }

    #[test]
    fn call_of_an_outside_tool_is_shown_with_its_input() {
        let start = Instant::now();
        let (mut questions, _answered) = opened(calling(r#"{"path":"notes.txt"}"#), start);
        let expected = [
            "May the tool 'mcp__files__delete' be called?",
            r#"with {"path":"notes.txt"}"#,
            "its source says that it deletes or overwrites something",
            "for mcp__files__delete",
        ];
        assert_eq!(texts(&questions.rows(120, 20, Vec::new(), false))[..4], expected);
        let line = press(&mut questions, KeyCode::Esc, start + DEAF).unwrap();
        assert_eq!(line, "Not allowed: the tool 'mcp__files__delete' may not be called.");
    }

    #[test]
    fn only_offered_answers_are_shown_and_accepted() {
        let start = Instant::now();
        let now = start + DEAF;
        let in_home = Question { only_once: true, grant: None, subject: keeper("workspace-write"), ..question() };
        let (mut questions, mut answered) = opened(in_home, start);
        let rows = texts(&questions.rows(120, 20, Vec::new(), false));
        assert_eq!(rows.last().unwrap(), "1 this call  Esc no");
        assert!(rows.contains(&"in /w".to_owned()), "{rows:?}");
        for key in ['2', '3', 'x'] {
            assert_eq!(press(&mut questions, KeyCode::Char(key), now), None);
        }
        let alt = KeyEvent::new(KeyCode::Char('1'), KeyModifiers::ALT);
        assert_eq!(questions.key(alt, now), None);
        assert!(questions.is_open());
        let line = press(&mut questions, KeyCode::Char('1'), now).unwrap();
        assert_eq!(line, "Allowed for this call: the user skill 'keeper' may use 'workspace-write'.");
        assert_eq!((answered.try_recv(), questions.is_open()), (Ok(Approval::Once), false));
    }

    #[test]
    fn keys_that_were_typed_ahead_are_ignored() {
        let start = Instant::now();
        let (mut questions, mut answered) = opened(question(), start);
        let after = |ms| start + Duration::from_millis(ms);
        for ms in [100, 400, 700] {
            assert_eq!(press(&mut questions, KeyCode::Char('3'), after(ms)), None, "{ms}");
        }
        assert!(answered.try_recv().is_err());
        assert!(press(&mut questions, KeyCode::Esc, after(1_100)).unwrap().starts_with("Not allowed: "));
        assert_eq!(answered.try_recv(), Ok(Approval::No));
    }

    #[test]
    fn early_text_is_meant_for_the_composer() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let text = |character| KeyEvent::new(KeyCode::Char(character), KeyModifiers::NONE);
        assert_eq!(Questions::new(start).typed_ahead(text('n'), start), None);
        let (mut questions, mut answered) = opened(question(), start);
        // Each of them begins the time without keys again.
        for ms in [100, 400, 700] {
            assert_eq!(questions.typed_ahead(text('3'), after(ms)), Some('3'), "{ms}");
        }
        let control = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
        for key in [control, KeyEvent::from(KeyCode::Enter), KeyEvent::from(KeyCode::Esc)] {
            assert_eq!(questions.typed_ahead(key, after(800)), None);
        }
        assert_eq!(questions.typed_ahead(text('1'), after(1_100)), None);
        assert!(questions.is_open() && answered.try_recv().is_err());
        assert!(press(&mut questions, KeyCode::Char('1'), after(1_100)).is_some());
        assert_eq!(answered.try_recv(), Ok(Approval::Once));
    }

    #[test]
    fn question_that_was_not_drawn_is_not_answered() {
        let start = Instant::now();
        let (answer, mut answered) = oneshot::channel();
        let mut questions = Questions::new(start);
        questions.add(PendingQuestion { question: question(), answer }, start);
        // The process stalled.
        let later = start + Duration::from_secs(5);
        assert_eq!(press(&mut questions, KeyCode::Char('3'), later), None);
        questions.drawn(later + DEAF);
        assert_eq!(press(&mut questions, KeyCode::Char('3'), later + DEAF + DEAF / 2), None);
        assert!(answered.try_recv().is_err());
        // Later frames change nothing.
        questions.drawn(later + 3 * DEAF);
        assert!(press(&mut questions, KeyCode::Char('1'), later + 3 * DEAF).is_some());
        assert_eq!(answered.try_recv(), Ok(Approval::Once));
    }

    #[test]
    fn always_is_printed_when_the_grant_is_stored() {
        let start = Instant::now();
        let (mut questions, mut answered) = opened(question(), start);
        assert_eq!(press(&mut questions, KeyCode::Char('3'), start + DEAF), None);
        assert_eq!((answered.try_recv(), questions.is_open()), (Ok(Approval::Always), false));
        let (sender, mut messages) = channel();
        sender.grant_stored(&question(), Ok(()));
        sender.grant_stored(&question(), Err("the disk is full".to_owned()));
        let mut line = || match messages.try_recv() {
            Ok(ApproverMessage::Stored(line)) => line,
            _ => panic!("no line"),
        };
        assert_eq!(line(), "Allowed from now on: the user skill 'keeper' may use 'kv'.");
        let failed = "Error: the grant is not stored: the disk is full. Only for this call, the user skill 'keeper' may use 'kv'.";
        assert_eq!(line(), failed);
    }

    #[test]
    fn withdrawn_question_gives_way_to_the_next() {
        let start = Instant::now();
        let (mut questions, answered) = opened(question(), start);
        let (answer, mut second) = oneshot::channel();
        questions.add(PendingQuestion { question: question(), answer }, start);
        assert_eq!(texts(&questions.rows(120, 20, Vec::new(), false)).last().unwrap(), "further questions: 1");
        drop(answered);
        let later = start + Duration::from_secs(5);
        // A key that was meant for the withdrawn question does not answer the next one.
        assert_eq!(press(&mut questions, KeyCode::Char('3'), later), None);
        assert!(questions.is_open() && !questions.withdraw(later));
        assert!(second.try_recv().is_err());
    }
}

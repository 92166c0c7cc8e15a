//! Questions of the host to the user in the terminal. The loop in `terminal` shows one
//! question at a time and passes keys.
//!
//! The composer keeps the keyboard. A question of the agent in view is answered by single keys, but only while the composer is
//! empty: anything else that is typed begins a draft, and the keys of the draft answer nothing. A question of another agent is
//! announced in one row, and Tab opens it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use patchbay_core::{AgentId, text};
use patchbay_markdown::Palette;
use patchbay_session::{Approval, PersonAnswer, Question};
use unicode_width::UnicodeWidthStr as _;

use super::{
    diff,
    live::Row,
    prose, style,
    wrap::{cut, cut_front},
};
use crate::{approver::PendingQuestion, question_text};

/// Keys answer nothing until this time has passed without a key, because they were meant for the composer.
const DEAF: Duration = Duration::from_millis(400);
/// Limit of the rows of one part of a question, such as the input of a call. If a part is longer, its first and last rows are
/// shown, with a note between them.
const PART_ROWS: usize = 3;
/// Limit of the rows of a file's diff.
const DIFF_ROWS: usize = 12;
/// The key that prints the whole open question above the live area.
const SHOW_ALL: char = 'v';
/// Shown in place of the answers while the composer has text.
const DISARMED: &str = "Clear your text to answer (Ctrl+C); Esc no";
/// Shown in place of the answers while the user types the reason for a no.
const REFUSING: &str = "Why not? Enter sends your reason; Esc denies without one";
/// How to open the question of an agent that is not in view.
const CALL: &str = "  (Tab answers)";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QuestionKey {
    /// The key was for the question, and there is nothing to print. It may also have come too early to answer.
    Taken,
    /// The line for the transcript: the answer, or for [`SHOW_ALL`] the whole question, which stays open.
    Print(String),
    /// The key is not for the question; the composer handles it.
    NotMeant,
}

/// The questions that wait for answers, and which of them is open.
pub(crate) struct Questions {
    waiting: VecDeque<PendingQuestion>,
    /// The agent in view. Its first question is open.
    view: AgentId,
    /// Whether the user has opened the first question although its agent is not in view.
    is_called: bool,
    /// The number of the question that is refused as soon as the user has typed the reason.
    refusing: Option<u64>,
    /// Number of questions so far.
    added: u64,
    /// The number of the open question in the last frame. No key can answer a question that was not drawn yet.
    drawn: u64,
    /// When a key was last typed, or the open question was first drawn.
    deaf_since: Instant,
}

impl Questions {
    pub(crate) fn new(view: AgentId, now: Instant) -> Self {
        Self { waiting: VecDeque::new(), view, is_called: false, refusing: None, added: 0, drawn: 0, deaf_since: now }
    }

    /// Adds a question after the waiting questions, whose number the host limits.
    pub(crate) fn add(&mut self, question: PendingQuestion) {
        self.added += 1;
        self.waiting.push_back(PendingQuestion { number: self.added, ..question });
    }

    pub(crate) fn set_view(&mut self, view: AgentId) {
        self.is_called &= self.view == view;
        self.view = view;
    }

    /// Removes questions whose calls have ended.
    pub(crate) fn withdraw(&mut self) {
        let first = self.waiting.front().map(|pending| pending.number);
        self.waiting.retain(|pending| !pending.answer.is_closed());
        self.is_called &= self.waiting.front().map(|pending| pending.number) == first;
    }

    /// Returns the index of the open question.
    fn open_at(&self) -> Option<usize> {
        let in_view = self.waiting.iter().position(|pending| pending.agent() == self.view);
        in_view.or((self.is_called && !self.waiting.is_empty()).then_some(0))
    }

    fn open(&self) -> Option<&PendingQuestion> {
        self.waiting.get(self.open_at()?)
    }

    /// Must be called after each frame. Keys are ignored for a moment after the first frame that shows the open
    /// question.
    pub(crate) fn drawn(&mut self, now: Instant) {
        let open = self.open().map_or(0, |pending| pending.number);
        if open != self.drawn {
            (self.deaf_since, self.drawn) = (now, open);
        }
    }

    /// Returns whether no question waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether a question can be answered by a key.
    pub(crate) fn is_open(&self) -> bool {
        self.open_at().is_some()
    }

    /// Returns the agent whose call needs the answer to the open question.
    pub(crate) fn agent(&self) -> Option<AgentId> {
        self.open().map(PendingQuestion::agent)
    }

    /// Returns the agents out of view whose calls need an answer, in the order of their questions.
    pub(crate) fn asking_out_of_view(&self) -> Vec<AgentId> {
        let mut agents = Vec::new();
        for agent in self.waiting.iter().map(PendingQuestion::agent).filter(|agent| *agent != self.view) {
            if !agents.contains(&agent) {
                agents.push(agent);
            }
        }
        agents
    }

    /// Opens the question of an agent that is not in view. Returns false if there is none, or a question is open.
    pub(crate) fn call(&mut self) -> bool {
        let can_call = !self.is_open() && !self.waiting.is_empty();
        self.is_called |= can_call;
        can_call
    }

    /// Must be called when a key went to the composer. Restarts the time in which keys don't answer the question.
    pub(crate) fn typed(&mut self, now: Instant) {
        self.deaf_since = now;
    }

    /// Returns whether a key comes too early to be an answer.
    fn is_early(&self, now: Instant) -> bool {
        self.open().is_none_or(|open| open.number != self.drawn || open.answer.is_closed())
            || now.saturating_duration_since(self.deaf_since) < DEAF
    }

    /// Passes a key that was typed while the composer is empty. It answers the open question if it is an offered
    /// answer and was not typed ahead.
    pub(crate) fn key(&mut self, key: KeyEvent, now: Instant) -> QuestionKey {
        let is_text = matches!(key.code, KeyCode::Char(_));
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return QuestionKey::NotMeant;
        }
        if self.is_early(now) {
            self.deaf_since = now;
            self.withdraw();
            return if is_text { QuestionKey::NotMeant } else { QuestionKey::Taken };
        }
        let approval = match key.code {
            KeyCode::Esc => Approval::No,
            KeyCode::Char('4' | 'n') => {
                self.refusing = self.open().map(|open| open.number);
                return QuestionKey::Taken;
            }
            KeyCode::Char(SHOW_ALL) => {
                return self
                    .open()
                    .map_or(QuestionKey::NotMeant, |open| QuestionKey::Print(question_text::whole(&open.question)));
            }
            code => match code.as_char().and_then(question_text::answer_of) {
                Some(answer) => answer,
                None => {
                    // The key begins a draft, so the question of another agent is closed again.
                    self.is_called &= !is_text;
                    return QuestionKey::NotMeant;
                }
            },
        };
        if !self.open().is_some_and(|open| open.question.allows(approval)) {
            return QuestionKey::NotMeant;
        }
        self.answer(approval.into()).map_or(QuestionKey::Taken, QuestionKey::Print)
    }

    /// Answers the open question. Returns the line for the transcript; `None` for `always`, whose line is
    /// printed when the grant is stored.
    pub(crate) fn answer(&mut self, answer: PersonAnswer) -> Option<String> {
        let pending = self.waiting.remove(self.open_at()?)?;
        self.is_called = false;
        let line = question_text::decided(&pending.question, answer.approval);
        // The call may have ended in the meantime.
        let _ = pending.answer.send(answer);
        line
    }

    /// Whether the user is typing the reason for a no to the open question.
    pub(crate) fn is_refusing(&self) -> bool {
        self.open().is_some_and(|open| self.refusing == Some(open.number))
    }

    /// Returns the rows of the open question, at most `height`. If there is little room, its details are left out. The agent is
    /// named if the session `has_several_agents`. The answers are shown if `is_armed`, which means that the composer is empty.
    pub(crate) fn rows(
        &self,
        columns: usize,
        height: usize,
        has_several_agents: bool,
        is_armed: bool,
        palette: Palette,
    ) -> Vec<Row> {
        let Some(PendingQuestion { question, .. }) = self.open() else { return Vec::new() };
        let limit = columns.saturating_sub(1);
        let title = shortened(&question.subject.title(), limit);
        let mut title: Vec<Row> = title.iter().map(|row| Row::styled(style::BOLD, row)).collect();
        let foot = match is_armed {
            _ if self.is_refusing() => prose::rows(REFUSING, limit),
            true => keys(question, limit),
            false => prose::rows(DISARMED, limit),
        };
        let mut foot: Vec<Row> = foot.iter().map(|row| Row::plain(cut(row, limit))).collect();
        if self.waiting.len() > 1 {
            let count = self.waiting.len() - 1;
            let more = format!("further questions: {count}");
            foot.push(Row::styled(style::FAINT, &cut(&more, limit)));
        }
        // If rows are cut off, the usual answers remain, because they come first. The question itself keeps a row.
        foot.truncate(height.saturating_sub(1).max(1).min(height));
        title.truncate(height - foot.len());
        let room = height - foot.len() - title.len();
        let diff = question.subject.diff();
        let diff = diff.map(|diff| diff::rows(diff, room.min(DIFF_ROWS), palette, limit)).unwrap_or_default();
        let room = room - diff.len();
        let details = question_text::details(question, has_several_agents);
        let details = details.iter().flat_map(|detail| shortened(detail, limit)).take(room);
        let details: Vec<Row> = details.map(|row| Row::styled(style::FAINT, &row)).collect();
        title.into_iter().chain(diff).chain(details).chain(foot).collect()
    }

    /// Returns the row that announces the question of an agent that is not in view, while no question is open.
    pub(crate) fn announcement(&self, columns: usize) -> Option<Row> {
        let waiting = self.waiting.front().filter(|_| !self.is_open())?;
        let limit = columns.saturating_sub(1);
        let headline = text::clean_line(&waiting.headline());
        let headline = cut(&headline, limit.saturating_sub(CALL.width()));
        Some(Row::styled(style::BOLD, &cut(&format!("{headline}{CALL}"), limit)))
    }
}

/// Returns the rows with the answers and their keys.
fn keys(question: &Question, limit: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for key in question.answers().into_iter().filter_map(|answer| question_text::key_of(question, answer)) {
        match rows.last_mut() {
            Some(row) if row.len() + 2 + key.len() <= limit => *row += &format!("  {key}"),
            _ => rows.push(key),
        }
    }
    rows
}

/// Wraps a part of a question into at most [`PART_ROWS`] rows. A longer part is shown with its beginning and its end.
fn shortened(part: &str, limit: usize) -> Vec<String> {
    let line = text::with_visible_blanks(&text::clean_line(part)).into_owned();
    // A very long part is not even wrapped, because this runs for each frame.
    if line.width() <= PART_ROWS * limit {
        let rows = prose::rows(&line, limit);
        if rows.len() <= PART_ROWS {
            return rows;
        }
    }
    let (head, tail) = (cut(&line, limit), cut_front(&line, limit));
    // Both contain a `…`.
    let left_out = (line.chars().count() + 2).saturating_sub(head.chars().count() + tail.chars().count());
    let note = format!("… {} more characters: {SHOW_ALL} shows more", text::with_commas(left_out as u64));
    vec![head, cut(&note, limit), tail]
}

#[cfg(test)]
mod tests {
    use patchbay_core::{AgentId, Digest};
    use patchbay_session::{CalledTool, FileDiff};

    use patchbay_session::QuestionSubject;
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        approver::{ApproverMessage, channel},
        question_text::tests::{VIEW, keeper, question},
    };

    fn added(questions: &mut Questions, question: Question) -> oneshot::Receiver<PersonAnswer> {
        let (answer, answered) = oneshot::channel();
        questions.add(PendingQuestion::new(question, answer));
        answered
    }

    fn opened(question: Question, now: Instant) -> (Questions, oneshot::Receiver<PersonAnswer>) {
        let mut questions = Questions::new(VIEW, now);
        let answered = added(&mut questions, question);
        questions.drawn(now);
        (questions, answered)
    }

    fn texts(rows: &[Row]) -> Vec<String> {
        let plain = |row: &Row| {
            ["\x1b[1m", "\x1b[2m", "\x1b[0m"].iter().fold(row.text.clone(), |text, it| text.replace(it, ""))
        };
        rows.iter().map(plain).collect()
    }

    fn press(questions: &mut Questions, code: KeyCode, now: Instant) -> QuestionKey {
        questions.key(KeyEvent::new(code, KeyModifiers::NONE), now)
    }

    fn printed(key: QuestionKey) -> String {
        match key {
            QuestionKey::Print(line) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn question_shows_act_chain_skill_and_reason() {
        let now = Instant::now();
        let (mut questions, _answered) = opened(question(), now);
        let rows = questions.rows(120, 20, false, true, Palette::NoColour);
        let expected = [
            "Store the key k of this session: 3 bytes?",
            "value: \"yes\"",
            "for ask__run → keeper__run",
            "the user skill 'keeper' asks for 'kv'",
            "the skill's reason: keeps your notes",
            "1 once  2 this session  3 always here  Esc no  n no, and why  c this whole call  e exactly this again",
        ];
        assert_eq!(texts(&rows), expected);
        assert_eq!(texts(&questions.rows(120, 20, true, true, Palette::NoColour))[5], "for agent abababab");
        // The answers are shown in the smallest window, and no row is wider than it.
        let small = [
            "Store the key k of this session: 3",
            "1 once  2 this session  3 always here",
            "Esc no  n no, and why",
            "c this whole call  e exactly this again",
        ];
        assert_eq!(texts(&questions.rows(40, 4, true, true, Palette::NoColour)), small);
        assert!(questions.rows(40, 20, true, true, Palette::NoColour).iter().all(|row| row.width < 40));
        // A key shows the rule that the answer would store.
        let all = printed(press(&mut questions, KeyCode::Char('v'), now + DEAF));
        let digest = format!("for the skill's files sha256:{}", "11".repeat(32));
        let grant =
            ["3 is patchbay grant add --in /w keeper kv", "to take it back: patchbay grant remove --in /w keeper kv"];
        let ends = "any other yes ends at the latest when you leave the session";
        assert!(all.ends_with(&format!("{}\n{}\n{digest}\n{ends}", grant[0], grant[1])), "{all}");
        // With a draft no single key answers.
        assert_eq!(texts(&questions.rows(120, 2, true, false, Palette::NoColour)), [expected[0], DISARMED]);
    }

    #[test]
    fn change_of_a_file_is_shown_with_its_difference() {
        let now = Instant::now();
        let mut asked = Question { grant: None, reason: None, ..question() };
        if let QuestionSubject::Capability(capability) = &mut asked.subject {
            capability.act.title = "Overwrite a.txt: +1 −1".to_owned();
            capability.act.diff = Some(FileDiff::new("one\ntwo\n", "one\n2\n"));
            capability.act.lines.clear();
        }
        let (mut questions, _answered) = opened(asked, now);
        let expected = ["Overwrite a.txt: +1 −1?", "1   one", "2 - two", "2 + 2", "for ask__run → keeper__run"];
        assert_eq!(texts(&questions.rows(120, 20, false, true, Palette::NoColour))[..5], expected);
        let small = questions.rows(120, 4, false, true, Palette::NoColour);
        assert_eq!(texts(&small)[..3], [expected[0], expected[1], "… 2 more changed lines: v shows them"]);
        let all = printed(press(&mut questions, KeyCode::Char('v'), now + DEAF));
        assert!(all.starts_with(&expected[..4].join("\n")), "{all}");
    }

    #[test]
    fn answer_about_one_host_is_offered_first() {
        let now = Instant::now();
        let mut asked = question();
        if let QuestionSubject::Capability(capability) = &mut asked.subject {
            capability.capability = "http:*".parse().unwrap();
            capability.offered = "http:example.org".parse().unwrap();
        }
        let (mut questions, mut answered) = opened(asked, now);
        let keys = texts(&questions.rows(200, 20, false, true, Palette::NoColour)).pop().unwrap();
        let expected = "1 once  2 this session, example.org  3 always here, example.org  a this session, all of 'http:*'  \
                        Esc no  n no, and why  c this whole call, example.org  e exactly this again";
        assert_eq!(keys, expected);
        let line = printed(press(&mut questions, KeyCode::Char('a'), now + DEAF));
        assert_eq!(line, "Allowed for this session, until you leave it: 'http:*' for the user skill 'keeper'.");
        assert_eq!(answered.try_recv(), Ok(Approval::Wide.into()));
    }

    #[test]
    fn narrower_answers_say_what_they_are_for() {
        let start = Instant::now();
        let mut asked = Question { subject: keeper("workspace-write"), ..question() };
        if let QuestionSubject::Capability(capability) = &mut asked.subject {
            capability.act.path = Some("my src/a.rs".to_owned());
        }
        let (mut questions, mut answered) = opened(asked.clone(), start);
        let keys = texts(&questions.rows(200, 20, false, true, Palette::NoColour)).pop().unwrap();
        assert!(keys.ends_with("  e exactly this again  f all below my src/"), "{keys}");
        let line = printed(press(&mut questions, KeyCode::Char('f'), start + DEAF));
        let allowed = "Allowed for this session, until you leave it: 'workspace-write' below 'my src'/ for the user skill 'keeper'.";
        assert_eq!((&*line, answered.try_recv()), (allowed, Ok(Approval::Folder.into())));
        let (mut questions, mut answered) = opened(asked, start);
        let line = printed(press(&mut questions, KeyCode::Char('e'), start + DEAF));
        let allowed =
            "Allowed for this session, until you leave it, exactly so: Store the key k of this session: 3 bytes.";
        assert_eq!((&*line, answered.try_recv()), (allowed, Ok(Approval::Exact.into())));
    }

    #[test]
    fn no_can_have_a_reason() {
        let start = Instant::now();
        let (mut questions, mut answered) = opened(question(), start);
        assert_eq!(press(&mut questions, KeyCode::Char('n'), start + DEAF), QuestionKey::Taken);
        assert!(questions.is_refusing() && questions.is_open() && answered.try_recv().is_err());
        assert_eq!(texts(&questions.rows(120, 20, false, true, Palette::NoColour)).pop().unwrap(), REFUSING);
        let line = questions.answer(PersonAnswer::no(" use\u{1b}[2J the API \n")).unwrap();
        assert_eq!(line, "Not allowed: Store the key k of this session: 3 bytes.");
        let said = Some("use[2J the API".to_owned());
        assert_eq!(answered.try_recv(), Ok(PersonAnswer { said, ..Approval::No.into() }));
        assert!(!questions.is_refusing());
    }

    fn calling(input: &str) -> Question {
        let subject = QuestionSubject::Tool(CalledTool {
            name: "mcp__files__delete".to_owned(),
            input: input.to_owned(),
            input_digest: Digest::of(b""),
            digest: Digest::of(b""),
            is_destructive: true,
            notes: Vec::new(),
            only_this_input: false,
        });
        Question { subject, chain: vec!["mcp__files__delete".to_owned()], reason: None, ..question() }
    }

    #[test]
    fn long_input_is_shown_with_its_end_and_printed_by_a_key() {
        let start = Instant::now();
        let input = format!(r#"{{"args":["-c","{}\ncurl x | sh"],"command":"sh"}}"#, "Tests. ".repeat(1_000));
        let (mut questions, mut answered) = opened(calling(&input), start);
        let rows = texts(&questions.rows(40, 20, false, true, Palette::NoColour));
        let expected = [
            "Call files: delete?",
            r#"with {"args":["-c","Tests. Tests. Test…"#,
            "… 6,975 more characters: v shows more",
            r#"…Tests. \ncurl x | sh"],"command":"sh"}"#,
        ];
        assert_eq!(rows[..4], expected);
        assert_eq!(press(&mut questions, KeyCode::Char('v'), start), QuestionKey::NotMeant);
        let all = printed(press(&mut questions, KeyCode::Char('v'), start + 2 * DEAF));
        assert!(
            all.starts_with("Call files: delete?") && all.contains(&format!("\nwith {input}\nits source says")),
            "{all}"
        );
        assert!(questions.is_open() && answered.try_recv().is_err());
    }

    #[test]
    fn call_of_an_outside_tool_is_shown_with_its_input() {
        let start = Instant::now();
        let (mut questions, _answered) = opened(calling(r#"{"path":"notes.txt"}"#), start);
        let expected = [
            "Call files: delete?",
            r#"with {"path":"notes.txt"}"#,
            "its source says that it deletes or overwrites something",
            "for mcp__files__delete",
        ];
        assert_eq!(texts(&questions.rows(120, 20, false, true, Palette::NoColour))[..4], expected);
        let line = printed(press(&mut questions, KeyCode::Esc, start + DEAF));
        assert_eq!(line, "Not allowed: Call files: delete.");
    }

    #[test]
    fn only_offered_answers_are_shown_and_accepted() {
        let start = Instant::now();
        let now = start + DEAF;
        let in_home = Question { only_once: true, grant: None, subject: keeper("workspace-write"), ..question() };
        let (mut questions, mut answered) = opened(in_home, start);
        let rows = texts(&questions.rows(120, 20, false, true, Palette::NoColour));
        assert_eq!(rows.last().unwrap(), "1 once  Esc no  n no, and why");
        assert!(rows.contains(&"in /w".to_owned()), "{rows:?}");
        for key in ['c', 'e', 'f', '2', '3', 'x'] {
            assert_eq!(press(&mut questions, KeyCode::Char(key), now), QuestionKey::NotMeant);
        }
        let alt = KeyEvent::new(KeyCode::Char('1'), KeyModifiers::ALT);
        assert_eq!(questions.key(alt, now), QuestionKey::NotMeant);
        assert!(questions.is_open());
        let line = printed(press(&mut questions, KeyCode::Char('1'), now));
        assert_eq!(line, "Allowed once: Store the key k of this session: 3 bytes.");
        assert_eq!((answered.try_recv(), questions.is_open()), (Ok(Approval::Once.into()), false));
    }

    #[test]
    fn whole_call_is_an_answer_of_its_own() {
        let start = Instant::now();
        let (mut questions, mut answered) = opened(question(), start);
        let line = printed(press(&mut questions, KeyCode::Char('c'), start + DEAF));
        assert_eq!(line, "Allowed for this whole call: 'kv' for the user skill 'keeper'.");
        assert_eq!(answered.try_recv(), Ok(Approval::Call.into()));
        // A call of a tool outside of the sandbox is a single act.
        let (mut questions, _answered) = opened(calling("{}"), start);
        assert_eq!(press(&mut questions, KeyCode::Char('c'), start + DEAF), QuestionKey::NotMeant);
    }

    #[test]
    fn keys_that_were_typed_ahead_are_ignored() {
        let start = Instant::now();
        let (mut questions, mut answered) = opened(question(), start);
        let after = |ms| start + Duration::from_millis(ms);
        // Text goes to the composer. Each key restarts the time without keys.
        for (code, becomes, ms) in [
            (KeyCode::Char('3'), QuestionKey::NotMeant, 100),
            (KeyCode::Esc, QuestionKey::Taken, 400),
            (KeyCode::Enter, QuestionKey::Taken, 700),
        ] {
            assert_eq!(press(&mut questions, code, after(ms)), becomes, "{ms}");
        }
        assert!(answered.try_recv().is_err());
        assert!(printed(press(&mut questions, KeyCode::Esc, after(1_100))).starts_with("Not allowed: "));
        assert_eq!(answered.try_recv(), Ok(Approval::No.into()));
    }

    /// `please 2 files`, `my draft here`, `typing`: none of them answers.
    #[test]
    fn other_text_begins_a_draft_and_its_keys_answer_nothing() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let (mut questions, mut answered) = opened(question(), start);
        for code in [KeyCode::Char('p'), KeyCode::Enter, KeyCode::Up, KeyCode::Tab] {
            assert_eq!(press(&mut questions, code, after(1_000)), QuestionKey::NotMeant, "{code:?}");
        }
        // The keys of the draft are not passed. After the last key, an answer must wait for the time without keys.
        questions.typed(after(5_000));
        assert_eq!(press(&mut questions, KeyCode::Char('2'), after(5_300)), QuestionKey::NotMeant);
        assert!(questions.is_open() && answered.try_recv().is_err());
        printed(press(&mut questions, KeyCode::Char('2'), after(5_800)));
        assert_eq!(answered.try_recv(), Ok(Approval::Session.into()));
    }

    #[test]
    fn question_of_another_agent_is_open_only_after_a_call() {
        let start = Instant::now();
        let mut questions = Questions::new(VIEW, start);
        let other = AgentId::from_bytes([0xcd; 16]);
        let mut answered = added(&mut questions, Question { agent: other, ..question() });
        questions.drawn(start);
        let (later, much_later) = (start + 2 * DEAF, start + 5 * DEAF);
        assert!(!questions.is_open() && questions.rows(120, 20, true, true, Palette::NoColour).is_empty());
        let row = questions.announcement(120).unwrap();
        assert_eq!(texts(&[row]), ["cdcdcdcd asks: Store the key k of this session: 3 bytes?  (Tab answers)"]);
        assert!(questions.announcement(40).unwrap().width < 40);
        assert_eq!(questions.asking_out_of_view(), [other]);
        assert!(questions.call() && questions.is_open() && !questions.call());
        assert_eq!((questions.agent(), questions.announcement(120).is_none()), (Some(other), true));
        // A draft closes it again.
        questions.drawn(start);
        assert_eq!(press(&mut questions, KeyCode::Char('x'), later), QuestionKey::NotMeant);
        assert!(!questions.is_open() && questions.call());
        // A question of the agent in view comes first, and needs no call.
        let mut own = added(&mut questions, question());
        questions.drawn(later);
        assert_eq!(questions.agent(), Some(VIEW));
        assert_eq!(press(&mut questions, KeyCode::Char('1'), later), QuestionKey::NotMeant, "just drawn");
        printed(press(&mut questions, KeyCode::Char('1'), much_later));
        assert_eq!((own.try_recv(), questions.is_open()), (Ok(Approval::Once.into()), false));
        // The other agent's question opens once that agent is in view.
        questions.set_view(other);
        assert!(questions.asking_out_of_view().is_empty());
        questions.drawn(much_later);
        printed(press(&mut questions, KeyCode::Esc, much_later + DEAF));
        assert_eq!(answered.try_recv(), Ok(Approval::No.into()));
    }

    #[test]
    fn question_that_was_not_drawn_is_not_answered() {
        let start = Instant::now();
        let mut questions = Questions::new(VIEW, start);
        let mut answered = added(&mut questions, question());
        // The process stalled.
        let later = start + Duration::from_secs(5);
        assert_eq!(press(&mut questions, KeyCode::Char('3'), later), QuestionKey::NotMeant);
        questions.drawn(later + DEAF);
        assert_eq!(press(&mut questions, KeyCode::Char('3'), later + DEAF + DEAF / 2), QuestionKey::NotMeant);
        assert!(answered.try_recv().is_err());
        // Later frames change nothing.
        questions.drawn(later + 3 * DEAF);
        printed(press(&mut questions, KeyCode::Char('1'), later + 3 * DEAF));
        assert_eq!(answered.try_recv(), Ok(Approval::Once.into()));
    }

    #[test]
    fn always_is_printed_when_the_grant_is_stored() {
        let start = Instant::now();
        let (mut questions, mut answered) = opened(question(), start);
        assert_eq!(press(&mut questions, KeyCode::Char('3'), start + DEAF), QuestionKey::Taken);
        assert_eq!((answered.try_recv(), questions.is_open()), (Ok(Approval::Always.into()), false));
        let (sender, mut messages) = channel();
        patchbay_session::Approver::grant_stored(&sender, &question(), Ok(()));
        patchbay_session::Approver::grant_stored(&sender, &question(), Err("the disk is full".to_owned()));
        let mut line = || match messages.try_recv() {
            Ok(ApproverMessage::Stored(line)) => line,
            _ => panic!("no line"),
        };
        assert_eq!(
            line(),
            "Allowed in this workspace from now on: 'kv' for the user skill 'keeper'. To take it back: patchbay grant remove --in /w keeper kv"
        );
        let failed =
            "Error: the grant is not stored: the disk is full. Allowed once: Store the key k of this session: 3 bytes.";
        assert_eq!(line(), failed);
    }

    #[test]
    fn withdrawn_question_gives_way_to_the_next() {
        let start = Instant::now();
        let (mut questions, answered) = opened(question(), start);
        let mut second = added(&mut questions, question());
        assert_eq!(
            texts(&questions.rows(120, 20, false, true, Palette::NoColour)).last().unwrap(),
            "further questions: 1"
        );
        drop(answered);
        // A key that was meant for the withdrawn question does not answer the next one.
        let later = start + Duration::from_secs(5);
        assert_eq!(press(&mut questions, KeyCode::Char('3'), later), QuestionKey::NotMeant);
        questions.withdraw();
        assert!(questions.is_open() && second.try_recv().is_err());
    }
}

//! The host's questions as plain lines, for terminals that cannot draw and for screen readers. A question is printed, and the user
//! types a line to answer it.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use patchbay_core::text;
use patchbay_session::{Approval, PersonAnswer, Session};
use tokio::sync::mpsc;

use crate::{
    approver::{ApproverMessage, PendingQuestion, channel},
    question_text,
};

/// How many lines of a file's diff are printed with a question.
const DIFF_LINES: usize = 40;

/// A line that arrives within this time after a question was shown does not answer it: the user cannot have read the question yet.
const DEAF: Duration = Duration::from_millis(400);

/// The questions of a session that wait for a line.
pub struct LineQuestions {
    asked: mpsc::Receiver<ApproverMessage>,
    /// Only the first question is shown. Each other question is shown when it becomes the first.
    waiting: VecDeque<PendingQuestion>,
    /// When the first question was shown.
    shown: Instant,
}

impl LineQuestions {
    /// Directs the questions of `session` to the caller.
    pub fn of(session: &Session) -> Self {
        let (sender, asked) = channel();
        session.set_approver(Arc::new(sender));
        Self::new(asked)
    }

    fn new(asked: mpsc::Receiver<ApproverMessage>) -> Self {
        Self { asked, waiting: VecDeque::new(), shown: Instant::now() }
    }

    /// Returns whether a question waits for an answer.
    pub fn is_open(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits for something to print: a question, a question's withdrawal, or the result of storing a grant. Cancel-safe.
    pub async fn next(&mut self) -> String {
        let first = self.waiting.front_mut();
        let withdrawn = async {
            match first {
                Some(pending) => pending.answer.closed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(message) = self.asked.recv() => match message {
                ApproverMessage::Stored(line) => line,
                ApproverMessage::Question(question) => {
                    self.waiting.push_back(*question);
                    match self.waiting.len() {
                        1 => self.show_first().unwrap_or_default(),
                        2 => "1 more question waits.".to_owned(),
                        more => format!("{} more questions wait.", more - 1),
                    }
                }
            },
            () = withdrawn => {
                let lines = ["The question was withdrawn.".to_owned()].into_iter().chain(self.show_next());
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Handles a line that was typed at the time `at`. The line must be one of the answers; a reason may follow `n`. Returns
    /// the text to print, or `None` if the line does not answer the question shown.
    pub fn typed(&mut self, line: &str, at: Instant) -> Option<String> {
        let line = line.trim();
        let first = self.waiting.front().filter(|first| !first.answer.is_closed())?;
        if at.saturating_duration_since(self.shown) < DEAF {
            return None;
        }
        let answer = match (line, line.chars().next()?) {
            ("v", _) => return Some(question_text::whole(&first.question)),
            ("n" | "4", _) => PersonAnswer::no(""),
            (_, key) if key.len_utf8() == line.len() => {
                question_text::answer_of(key).filter(|answer| first.question.allows(*answer))?.into()
            }
            _ => PersonAnswer::no(line.strip_prefix("n ")?),
        };
        let decided = question_text::decided(&first.question, answer.approval);
        // The call may have ended in the meantime.
        let _ = self.waiting.pop_front()?.answer.send(answer);
        Some(decided.into_iter().chain(self.show_next()).collect::<Vec<_>>().join("\n"))
    }

    /// Removes questions whose calls have ended, and shows the first remaining question.
    fn show_next(&mut self) -> Option<String> {
        self.waiting.retain(|pending| !pending.answer.is_closed());
        self.show_first()
    }

    /// Returns the text of the first question. From now on, lines answer this question.
    fn show_first(&mut self) -> Option<String> {
        self.shown = Instant::now();
        let PendingQuestion { question, .. } = self.waiting.front()?;
        let mut lines = vec![text::clean_line(&question.subject.title())];
        if let Some(diff) = question.subject.diff().map(ToString::to_string) {
            let all = diff.lines().count();
            lines.extend(diff.lines().take(DIFF_LINES).map(str::to_owned));
            lines.extend((all > DIFF_LINES).then(|| format!("… {} more lines", all - DIFF_LINES)));
        }
        lines.extend(question_text::details(question, true).iter().map(|detail| text::clean_line(detail)));
        let keys = question.answers().into_iter().flat_map(|answer| match answer {
            Approval::No => ["n no", "n WHY", "v all of it"].map(str::to_owned).to_vec(),
            answer => question_text::key_of(question, answer).into_iter().collect(),
        });
        let keys: Vec<String> = keys.collect();
        // The bell announces the question, because nothing else on the screen changes.
        lines.push(format!("Type an answer and Enter: {}.\x07", keys.join(", ")));
        Some(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use patchbay_session::Approver as _;

    use super::*;
    use crate::question_text::tests::question;

    #[tokio::test]
    async fn question_is_answered_by_a_line_of_its_own() {
        let (sender, asked) = channel();
        let mut questions = LineQuestions::new(asked);
        let later = || Instant::now() + DEAF;
        assert_eq!(questions.typed("1", later()), None);
        let answered = tokio::spawn(async move {
            let answers = [sender.approve(question()).await, sender.approve(question()).await];
            (answers, sender.approve(question()).await)
        });
        let shown = questions.next().await;
        let expected = "Store the key k of this session: 3 bytes?\nvalue: \"yes\"\nfor ask__run → keeper__run\n\
                        the user skill 'keeper' asks for 'kv'\nthe skill's reason: keeps your notes\nfor agent abababab\n\
                        Type an answer and Enter: 1 once, 2 this session, 3 always here, n no, n WHY, v all of it, \
                        c this whole call, e exactly this again.\x07";
        assert_eq!(shown, expected);
        for other in ["11", "x", "a", "no", "please 1", "", "/help"] {
            assert_eq!(questions.typed(other, later()), None, "{other}");
        }
        // Typed before the question could be read.
        assert_eq!(questions.typed("1", Instant::now()), None);
        assert!(questions.typed("v", later()).unwrap().contains("3 is patchbay grant add"));
        let once = "Allowed once: Store the key k of this session: 3 bytes.".to_owned();
        assert_eq!(questions.typed(" 1 ", later()), Some(once));
        questions.next().await;
        let no = "Not allowed: Store the key k of this session: 3 bytes.".to_owned();
        assert_eq!(questions.typed("n not now", later()), Some(no));
        questions.next().await;
        questions.typed("3", later());
        let (answers, always) = answered.await.unwrap();
        assert_eq!(answers, [Approval::Once.into(), PersonAnswer::no("not now")]);
        assert_eq!(always, Approval::Always.into());
        assert!(!questions.is_open());
    }

    /// No line answers the next question before it is shown, because the user has not read it.
    #[tokio::test]
    async fn line_never_answers_a_question_behind_a_withdrawn_one() {
        let (sender, asked) = channel();
        let mut questions = LineQuestions::new(asked);
        let sender = Arc::new(sender);
        let ask = || {
            let sender = Arc::clone(&sender);
            tokio::spawn(async move { sender.approve(question()).await })
        };
        let (first, mut second) = (ask(), None);
        questions.next().await;
        second.replace(ask());
        assert_eq!(questions.next().await, "1 more question waits.");
        first.abort();
        let _ = first.await;
        let later = Instant::now() + DEAF;
        assert_eq!(questions.typed("3", later), None);
        assert!(questions.next().await.starts_with("The question was withdrawn.\nStore the key"));
        assert_eq!(questions.typed("1", later), None, "it was typed before");
        assert!(questions.typed("1", Instant::now() + DEAF).is_some());
        assert_eq!(second.unwrap().await.unwrap(), Approval::Once.into());
    }
}

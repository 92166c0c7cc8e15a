//! Questions of the host in plain lines, for terminals without drawing and for screen readers: a question is printed, and a line with
//! one of its answers answers it.

use std::collections::VecDeque;

use patchbay_core::text;
use patchbay_session::{Approval, PersonAnswer, Session};
use tokio::sync::mpsc;

use crate::{
    approver::{ApproverMessage, PendingQuestion, channel},
    question_text,
};

/// Lines of the difference of a file that are printed at once.
const DIFF_LINES: usize = 40;

/// The questions of a session that wait for a line.
pub struct LineQuestions {
    asked: mpsc::Receiver<ApproverMessage>,
    waiting: VecDeque<PendingQuestion>,
}

/// What a line meant.
#[derive(Debug, PartialEq, Eq)]
pub enum LineAnswer {
    /// It is no answer, or no question waits.
    None,
    /// It was an answer, or asked for all of the question. These lines are printed.
    Print(String),
}

impl LineQuestions {
    /// Makes the caller answer the questions of `session`.
    pub fn of(session: &Session) -> Self {
        let (sender, asked) = channel();
        session.set_approver(std::sync::Arc::new(sender));
        Self { asked, waiting: VecDeque::new() }
    }

    /// Returns whether a question waits for an answer.
    pub fn is_open(&mut self) -> bool {
        self.waiting.retain(|pending| !pending.answer.is_closed());
        !self.waiting.is_empty()
    }

    /// Waits for something to print: a question, that a question is withdrawn, or whether a grant was stored. Cancel-safe.
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
                        1 => self.shown(),
                        more => format!("{} more questions wait.", more - 1),
                    }
                }
            },
            () = withdrawn => {
                self.waiting.pop_front();
                let next = self.shown();
                format!("The question was withdrawn.{}{next}", if next.is_empty() { "" } else { "\n" })
            }
        }
    }

    /// Takes a line that was typed: an answer is a whole line, and a reason follows its `n`.
    pub fn typed(&mut self, line: &str) -> LineAnswer {
        let line = line.trim();
        if !self.is_open() {
            return LineAnswer::None;
        }
        let Some(first) = self.waiting.front() else { return LineAnswer::None };
        let answer = match (line, line.chars().next()) {
            ("v", _) => return LineAnswer::Print(question_text::whole(&first.question)),
            ("n" | "4", _) => PersonAnswer::no(""),
            (_, Some(key)) if key.len_utf8() == line.len() => match question_text::answer_of(key) {
                Some(approval) if first.question.allows(approval) => approval.into(),
                _ => return LineAnswer::None,
            },
            _ => match line.strip_prefix("n ") {
                Some(why) => PersonAnswer::no(why),
                None => return LineAnswer::None,
            },
        };
        let Some(pending) = self.waiting.pop_front() else { return LineAnswer::None };
        let decided = question_text::decided(&pending.question, answer.approval);
        // The call may have ended in the meantime.
        let _ = pending.answer.send(answer);
        let next = self.shown();
        let lines = decided.into_iter().chain((!next.is_empty()).then_some(next));
        LineAnswer::Print(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Returns the text of the first question; empty without one.
    fn shown(&self) -> String {
        let Some(PendingQuestion { question, .. }) = self.waiting.front() else { return String::new() };
        let mut lines = vec![text::clean_line(&question.subject.title())];
        if let Some(diff) = question.subject.diff().map(ToString::to_string) {
            let all = diff.lines().count();
            lines.extend(diff.lines().take(DIFF_LINES).map(str::to_owned));
            lines.extend((all > DIFF_LINES).then(|| format!("… {} more lines", all - DIFF_LINES)));
        }
        lines.extend(question_text::details(question, true).iter().map(|detail| text::clean_line(detail)));
        let keys = question.answers().into_iter().filter(|answer| *answer != Approval::No);
        let keys = keys.filter_map(|answer| question_text::key_of(question, answer));
        let keys: Vec<String> = keys.chain(["n no".to_owned(), "n WHY".to_owned(), "v all of it".to_owned()]).collect();
        lines.push(format!("Type an answer and Enter: {}.", keys.join(", ")));
        lines.join("\n")
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
        let mut questions = LineQuestions { asked, waiting: VecDeque::new() };
        assert_eq!(questions.typed("1"), LineAnswer::None);
        let answered = tokio::spawn(async move {
            let answers = [sender.approve(question()).await, sender.approve(question()).await];
            (answers, sender.approve(question()).await)
        });
        let shown = questions.next().await;
        let expected = "Store the key k of this session: 3 bytes?\nvalue: \"yes\"\nfor ask__run → keeper__run\n\
                        the user skill 'keeper' asks for 'kv'\nthe skill's reason: keeps your notes\nfor agent abababab\n\
                        Type an answer and Enter: 1 once, c this whole call, 2 this session, 3 always here, n no, n WHY, \
                        v all of it.";
        assert_eq!(shown, expected);
        for other in ["11", "x", "a", "no", "please 1", "", "/help"] {
            assert_eq!(questions.typed(other), LineAnswer::None, "{other}");
        }
        assert!(matches!(questions.typed("v"), LineAnswer::Print(all) if all.contains("3 is patchbay grant add")));
        let once = "Allowed once: Store the key k of this session: 3 bytes.".to_owned();
        assert_eq!(questions.typed(" 1 "), LineAnswer::Print(once));
        questions.next().await;
        let no = "Not allowed: Store the key k of this session: 3 bytes.".to_owned();
        assert_eq!(questions.typed("n not now"), LineAnswer::Print(no));
        questions.next().await;
        questions.typed("3");
        let (answers, always) = answered.await.unwrap();
        assert_eq!(answers, [Approval::Once.into(), PersonAnswer::no("not now")]);
        assert_eq!(always, Approval::Always.into());
        assert!(!questions.is_open());
    }
}

//! Questions of the host to the person: may a skill use a capability? [`Asker`] is given to the session; the loop in
//! `terminal` shows one question at a time and passes keys.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crossterm::event::KeyCode;
use patchbay_core::text;
use patchbay_session::{Approval, Approver, Question};
use tokio::sync::{mpsc, oneshot};

use super::{live::Row, style, wrap::cut};

/// Keys are ignored until this time has passed without one: they were meant for the composer.
const DEAF: Duration = Duration::from_millis(400);
/// Questions of a session that are open or waiting. Further ones are denied.
const WAITING: usize = 8;

/// Passes questions to the loop.
pub(crate) struct QuestionSender(mpsc::Sender<PendingQuestion>);

/// A question that waits for its answer.
pub(crate) struct PendingQuestion {
    question: Question,
    answer: oneshot::Sender<Approval>,
}

/// Returns the two ends of the way of questions.
pub(crate) fn channel() -> (QuestionSender, mpsc::Receiver<PendingQuestion>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (QuestionSender(sender), receiver)
}

impl Approver for QuestionSender {
    fn approve(&self, question: Question) -> std::pin::Pin<Box<dyn Future<Output = Approval> + Send + '_>> {
        let (answer, answered) = oneshot::channel();
        Box::pin(async move {
            // Without room, or after the front has left, the answer is no.
            if self.0.try_send(PendingQuestion { question, answer }).is_err() {
                return Approval::No;
            }
            answered.await.unwrap_or(Approval::No)
        })
    }
}

/// The open question and those behind it.
pub(crate) struct Questions {
    waiting: VecDeque<PendingQuestion>,
    /// When a key was last ignored, or the question was opened.
    deaf_since: Instant,
}

impl Questions {
    pub(crate) fn new(now: Instant) -> Self {
        Self { waiting: VecDeque::new(), deaf_since: now }
    }

    /// Adds a question behind those that wait.
    pub(crate) fn add(&mut self, question: PendingQuestion, now: Instant) {
        if self.waiting.is_empty() {
            self.deaf_since = now;
        }
        if self.waiting.len() < WAITING {
            self.waiting.push_back(question);
        }
    }

    /// Removes questions whose calls have ended. Returns true if the open one was among them.
    pub(crate) fn withdraw(&mut self, now: Instant) -> bool {
        let was_open = self.waiting.front().is_some_and(|pending| pending.answer.is_closed());
        self.waiting.retain(|pending| !pending.answer.is_closed());
        if was_open {
            self.deaf_since = now;
        }
        was_open
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Answers the open question if the key is an answer and was not typed ahead. Returns the line for the transcript.
    pub(crate) fn key(&mut self, key: KeyCode, now: Instant) -> Option<String> {
        if now.saturating_duration_since(self.deaf_since) < DEAF {
            self.deaf_since = now;
            return None;
        }
        let approval = match key {
            KeyCode::Char('1') => Approval::Once,
            KeyCode::Char('2') => Approval::Session,
            KeyCode::Char('3') => Approval::Always,
            KeyCode::Char('4' | 'n') | KeyCode::Esc => Approval::No,
            _ => return None,
        };
        let pending = self.waiting.pop_front()?;
        self.deaf_since = now;
        let Question { skill, capability, .. } = &pending.question;
        let line = match approval {
            Approval::Once => format!("Allowed for this call: skill '{skill}' may use '{capability}'."),
            Approval::Session => format!("Allowed for this session: skill '{skill}' may use '{capability}'."),
            Approval::Always => format!("Allowed from now on: skill '{skill}' may use '{capability}'."),
            Approval::No => format!("Not allowed: skill '{skill}' may not use '{capability}'."),
        };
        // The call may have ended in the meantime.
        let _ = pending.answer.send(approval);
        Some(line)
    }

    /// Returns the rows of the open question.
    pub(crate) fn rows(&self, columns: usize) -> Vec<Row> {
        let Some(PendingQuestion { question, .. }) = self.waiting.front() else { return Vec::new() };
        let limit = columns.saturating_sub(1);
        let row = |text: String| cut(&text::clean_line(&text), limit);
        let mut rows = vec![Row::styled(
            style::BOLD,
            &row(format!("May skill '{}' use '{}'?", question.skill.name, question.capability)),
        )];
        rows.push(Row::styled(style::FAINT, &row(format!("for {}", question.chain.join(" → ")))));
        rows.push(Row::plain(row("1 this call  2 this session  3 always  Esc no".to_owned())));
        if self.waiting.len() > 1 {
            rows.push(Row::styled(style::FAINT, &row(format!("{} more questions wait", self.waiting.len() - 1))));
        }
        rows
    }
}

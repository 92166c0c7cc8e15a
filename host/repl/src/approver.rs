//! Carries questions from the session to a front. The session has the [`QuestionSender`]; the fronts of this crate receive
//! [`ApproverMessage`]s.

use futures_util::future::BoxFuture;
use patchbay_core::AgentId;
use patchbay_session::{Approval, Approver, PersonAnswer, Question};
use tokio::sync::{mpsc, oneshot};

/// How many messages may wait for the front. A session has at most 4 open questions, and each may end with a grant.
const WAITING: usize = 16;

/// Passes questions to the front.
pub(crate) struct QuestionSender(mpsc::Sender<ApproverMessage>);

/// A message from the host to the user.
pub(crate) enum ApproverMessage {
    Question(Box<PendingQuestion>),
    /// A line for the transcript that reports whether the grant for the answer `always` was stored.
    Stored(String),
}

/// A question that waits for its answer.
pub(crate) struct PendingQuestion {
    pub(crate) question: Question,
    pub(crate) answer: oneshot::Sender<PersonAnswer>,
    /// Its place in the order of questions, from 1.
    pub(crate) number: u64,
}

impl PendingQuestion {
    pub(crate) fn new(question: Question, answer: oneshot::Sender<PersonAnswer>) -> Self {
        Self { question, answer, number: 0 }
    }

    /// Returns the agent whose call needs the answer.
    pub(crate) fn agent(&self) -> AgentId {
        self.question.agent
    }

    /// Returns the line for the transcript while another agent is in view.
    pub(crate) fn headline(&self) -> String {
        format!("{} asks: {}", self.question.agent.short(), self.question.subject.title())
    }
}

/// Returns the two ends of the channel for questions.
pub(crate) fn channel() -> (QuestionSender, mpsc::Receiver<ApproverMessage>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (QuestionSender(sender), receiver)
}

impl Approver for QuestionSender {
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer> {
        let (answer, answered) = oneshot::channel();
        Box::pin(async move {
            // If the queue is full or the front has left, the answer is no.
            let pending = Box::new(PendingQuestion::new(question, answer));
            if self.0.try_send(ApproverMessage::Question(pending)).is_err() {
                return Approval::No.into();
            }
            answered.await.unwrap_or(Approval::No.into())
        })
    }

    fn grant_stored(&self, question: &Question, stored: Result<(), String>) {
        let decided = |answer| question.subject.decided(answer);
        let take_back = question.grant.as_ref().map_or("", |grant| &grant.take_back);
        let line = match stored {
            Ok(()) => format!(
                "Allowed in this workspace from now on: {}. To take it back: {take_back}",
                decided(Approval::Always)
            ),
            Err(error) => {
                format!("Error: the grant is not stored: {error}. Allowed once: {}.", decided(Approval::Once))
            }
        };
        // The front may have left.
        let _ = self.0.try_send(ApproverMessage::Stored(line));
    }
}

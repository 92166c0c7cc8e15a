//! The open questions of a session. All its clients are asked; the first answer counts, and the question is withdrawn from the
//! others.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use patchbay_core::EventKind;
use patchbay_tools::{Approval, Approver, PersonAnswer, Question};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

use crate::{ClientIdentity, Session};

/// A question that waits for its answer.
pub struct OpenQuestion {
    /// The question's number in the session. Later questions have higher numbers. The first number is random, so a client that
    /// still shows a question from before the session was reopened cannot answer a new one.
    pub id: u64,
    /// The question as clients show it.
    pub question: Question,
    answer: Mutex<Option<oneshot::Sender<PersonAnswer>>>,
    is_allowed: AtomicBool,
}

impl OpenQuestion {
    /// Returns the answers that a client may give; `None` is the front of the process.
    pub fn answers_of(&self, client: Option<&ClientIdentity>) -> Vec<Approval> {
        self.question.answers().into_iter().filter(|answer| may_give(client, *answer)).collect()
    }

    /// Answers the question. Returns false if another answer came first, the call was stopped, or the client may not give this
    /// answer.
    pub fn answer(&self, approval: Approval, client: Option<&ClientIdentity>) -> bool {
        if !may_give(client, approval) {
            return false;
        }
        let client = client.map(|client| client.name.to_string());
        let Some(answer) = self.answer.lock().take() else { return false };
        self.is_allowed.store(approval.is_yes(), Ordering::Relaxed);
        answer.send(PersonAnswer { client, ..approval.into() }).is_ok()
    }

    /// Returns whether the answer was yes.
    pub fn is_allowed(&self) -> bool {
        self.is_allowed.load(Ordering::Relaxed)
    }
}

fn may_give(client: Option<&ClientIdentity>, approval: Approval) -> bool {
    client.is_none_or(|client| client.may.answers && (client.may.grants || approval != Approval::Always))
}

/// The open questions of one session.
pub(super) struct SharedQuestions {
    session: Weak<Session>,
    last: AtomicU64,
    open: watch::Sender<Vec<Arc<OpenQuestion>>>,
    /// How long a question waits for its answer.
    patience: Duration,
}

/// Removes its question from the open ones when it is dropped.
struct AskedOnce<'a> {
    questions: &'a SharedQuestions,
    id: u64,
}

impl Drop for AskedOnce<'_> {
    fn drop(&mut self) {
        self.questions.open.send_modify(|open| open.retain(|question| question.id != self.id));
    }
}

impl SharedQuestions {
    pub(super) fn new(session: &Arc<Session>, patience: Duration) -> Arc<Self> {
        let [.., a, b, c, d, e, f] = session.store().source().uuid();
        // 48 bits, because JavaScript reads only integers of up to 53 bits exactly.
        let last = AtomicU64::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        Arc::new(Self { session: Arc::downgrade(session), last, open: watch::Sender::default(), patience })
    }

    /// Subscribes to the list of open questions.
    pub(super) fn subscribe(&self) -> watch::Receiver<Vec<Arc<OpenQuestion>>> {
        self.open.subscribe()
    }

    pub(super) fn is_any(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Stores a notice about a question that was not answered in time.
    async fn gave_up(&self, question: &Question) {
        let Some(session) = self.session.upgrade() else { return };
        let minutes = self.patience.as_secs().div_ceil(60);
        let title = question.subject.title();
        let line = format!("No client answered within {minutes} min, so the answer is no: {title}");
        if let Err(error) = session.add_notice(question.agent, line).await {
            tracing::error!("cannot store that a question was not answered: {error}");
        }
    }
}

impl Approver for SharedQuestions {
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer> {
        Box::pin(async move {
            let id = self.last.fetch_add(1, Ordering::Relaxed);
            let (answer, answered) = oneshot::channel();
            let (answer, is_allowed) = (Mutex::new(Some(answer)), AtomicBool::new(false));
            let open = OpenQuestion { id, question: question.clone(), answer, is_allowed };
            self.open.send_modify(|all| all.push(Arc::new(open)));
            let asked = AskedOnce { questions: self, id };
            match timeout(self.patience, answered).await {
                Ok(answer) => answer.unwrap_or(Approval::No.into()),
                Err(_) => {
                    drop(asked);
                    self.gave_up(&question).await;
                    Approval::No.into()
                }
            }
        })
    }

    fn grant_stored(&self, question: &Question, stored: Result<(), String>) {
        let (Err(error), Some(session)) = (stored, self.session.upgrade()) else { return };
        let allowed = question.subject.decided(Approval::Once);
        let text = format!("Error: the grant is not stored: {error}. Allowed once: {allowed}.");
        session.log().publish(question.agent, EventKind::Notice { text });
    }
}

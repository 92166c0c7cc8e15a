//! Asks a person for capabilities that a skill is not granted. A session with a front provides an [`Approver`]; without
//! one, the call is denied with the command that grants the capability.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use futures_util::future::{FutureExt as _, Shared, WeakShared};
use parking_lot::{Mutex, MutexGuard};
use patchbay_core::{AgentId, Asker, Digest};
use patchbay_policy::{Capability, Identity};
use patchbay_sandbox::BoxFuture;

/// Shows questions to a person. Implemented by `session`.
pub trait Approver: Send + Sync {
    /// Asks `question` and waits for the answer. If the future is dropped, the question is withdrawn.
    fn approve(&self, question: Question) -> BoxFuture<'_, Approval>;
}

/// A question to a person: may a skill use a capability?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The agent that the call belongs to.
    pub agent: AgentId,
    /// The caller of the outermost tool.
    pub asker: Asker,
    /// The skill that needs the capability.
    pub skill: Identity,
    /// The full names of the running tools, from the outermost to the one that needs the capability.
    pub chain: Vec<String>,
    /// The requested capability.
    pub capability: Capability,
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Allowed for this call.
    Once,
    /// Allowed for this skill and its current files while this process holds the session.
    Session,
    /// Allowed and stored as a grant.
    Always,
    /// Not allowed.
    No,
}

/// The subject of a question. Concurrent questions with equal subjects are asked once.
type Subject = (Identity, Digest, Capability);
type Asking = Shared<BoxFuture<'static, Approval>>;

/// The questions and answers of one session, which keeps it while it is open.
pub struct Approvals {
    approver: Arc<dyn Approver>,
    /// Subjects that are allowed for the session.
    allowed: Mutex<BTreeSet<Subject>>,
    /// Questions without an answer yet.
    open: Mutex<BTreeMap<Subject, WeakShared<BoxFuture<'static, Approval>>>>,
}

/// The approvals of one session, shared by the session and its agents. Empty until a front gives an approver.
#[derive(Clone, Default)]
pub struct ApprovalSlot(Arc<Mutex<Option<Arc<Approvals>>>>);

impl fmt::Debug for ApprovalSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalSlot").field("has_approver", &self.get().is_some()).finish()
    }
}

impl ApprovalSlot {
    /// Makes `approver` answer all questions from the next call on.
    pub fn set(&self, approver: Arc<dyn Approver>) {
        *lock(&self.0) = Some(Approvals::new(approver));
    }

    /// Returns the approvals; `None` if no front can ask a person.
    pub fn get(&self) -> Option<Arc<Approvals>> {
        lock(&self.0).clone()
    }
}

impl Approvals {
    /// Returns approvals that ask `approver`. Nothing is allowed yet.
    pub fn new(approver: Arc<dyn Approver>) -> Arc<Self> {
        Arc::new(Self { approver, allowed: Mutex::default(), open: Mutex::default() })
    }

    /// Returns the answer to `question` for a skill whose files have the digest `digest`. Uses an earlier answer for the
    /// session if there is one; concurrent calls with the same subject share one question.
    pub(crate) async fn ask(&self, digest: Digest, question: Question) -> Approval {
        let subject = (question.skill.clone(), digest, question.capability.clone());
        if lock(&self.allowed).contains(&subject) {
            return Approval::Session;
        }
        let answer = self.join(&subject, question).await;
        lock(&self.open).remove(&subject);
        if answer == Approval::Session {
            lock(&self.allowed).insert(subject);
        }
        answer
    }

    /// Joins the open question on `subject`, or opens one.
    fn join(&self, subject: &Subject, question: Question) -> Asking {
        let mut open = lock(&self.open);
        if let Some(asking) = open.get(subject).and_then(WeakShared::upgrade) {
            return asking;
        }
        let approver = Arc::clone(&self.approver);
        let asking = async move { approver.approve(question).await };
        let asking: Asking = (Box::pin(asking) as BoxFuture<'static, Approval>).shared();
        if let Some(weak) = asking.downgrade() {
            open.insert(subject.clone(), weak);
        }
        asking
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU32, sync::atomic::Ordering, time::Duration};

    use patchbay_policy::Root;

    use super::*;

    struct TestApprover {
        answer: Approval,
        asked: AtomicU32,
    }

    impl Approver for TestApprover {
        fn approve(&self, _: Question) -> BoxFuture<'_, Approval> {
            Box::pin(async {
                self.asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.answer
            })
        }
    }

    fn approvals(answer: Approval) -> (Arc<TestApprover>, Arc<Approvals>) {
        let person = Arc::new(TestApprover { answer, asked: AtomicU32::new(0) });
        (person.clone(), Approvals::new(person))
    }

    fn question(capability: Capability) -> Question {
        Question {
            agent: AgentId::from_bytes([1; 16]),
            asker: Asker::Agent(AgentId::from_bytes([1; 16])),
            skill: Identity::new(Root::User, "", "notes".parse().unwrap()),
            chain: vec!["notes__add".to_owned()],
            capability,
        }
    }

    #[tokio::test]
    async fn equal_questions_are_asked_once() {
        let (person, approvals) = approvals(Approval::Once);
        let digest = Digest::of(b"files");
        let ask = |capability| approvals.ask(digest, question(capability));
        let answers = tokio::join!(ask(Capability::Kv), ask(Capability::Kv), ask(Capability::Tools));
        assert_eq!(answers, (Approval::Once, Approval::Once, Approval::Once));
        assert_eq!(person.asked.load(Ordering::Relaxed), 2);
        // The answer applied to those calls only.
        ask(Capability::Kv).await;
        assert_eq!(person.asked.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn session_approval_applies_to_the_same_files() {
        let (person, approvals) = approvals(Approval::Session);
        for files in [b"one", b"one", b"two"] {
            assert_eq!(approvals.ask(Digest::of(files), question(Capability::Kv)).await, Approval::Session);
        }
        assert_eq!(person.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn question_outlives_its_first_call() {
        let (person, approvals) = approvals(Approval::Once);
        let digest = Digest::of(b"files");
        let ask = || approvals.ask(digest, question(Capability::Kv));
        let first = tokio::time::timeout(Duration::from_millis(5), ask());
        let (first, second) = tokio::join!(first, ask());
        assert!(first.is_err() && second == Approval::Once);
        assert_eq!(person.asked.load(Ordering::Relaxed), 1);
    }
}

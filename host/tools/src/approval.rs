//! Asks a person for capabilities that a skill is not granted. A session with a front provides an [`Approver`]; without
//! one, the call is denied with the command that grants the capability.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::{FutureExt as _, Shared, WeakShared};
use parking_lot::Mutex;
use patchbay_core::{AgentId, Asker, Digest};
use patchbay_policy::{Capability, Identity};
use patchbay_sandbox::BoxFuture;
use patchbay_store::StoreError;
use tokio::sync::Semaphore;

/// Shows questions to a person. Implemented by fronts.
pub trait Approver: Send + Sync {
    /// Asks `question` and waits for the answer, which is one of [`Question::answers`] or [`Approval::Never`]; any other one
    /// counts as no. If the future is dropped, the question is withdrawn.
    fn approve(&self, question: Question) -> BoxFuture<'_, Approval>;

    /// Reports that the grant of [`Approval::Always`] was stored, or why not: then the answer is [`Approval::Once`].
    fn grant_stored(&self, _question: &Question, _stored: Result<(), String>) {}
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
    /// The requested capability with its scope.
    pub capability: Capability,
    /// The canonical path of the session's workspace.
    pub workspace: String,
    /// The reason in the skill's manifest, cleaned, on one line of at most 200 characters; `None` if it gives none.
    pub reason: Option<String>,
    /// Whether the answer can be for this call only: the skill would write in the person's home folder.
    pub only_once: bool,
    /// What [`Approval::Always`] stores; `None` if that answer is not offered.
    pub grant: Option<OfferedGrant>,
}

/// The grant that the answer [`Approval::Always`] stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedGrant {
    /// The command that stores the same grant.
    pub command: String,
    /// The digest of the skill's files, for which the grant is valid; `None` for a bundled skill, whose grants are valid for
    /// every version of it.
    pub digest: Option<Digest>,
}

impl Question {
    /// Maximum length of [`Question::reason`] in characters.
    pub const REASON: usize = 200;

    /// Returns the answers that a front offers.
    pub fn answers(&self) -> Vec<Approval> {
        let all = [Approval::Once, Approval::Session, Approval::Always, Approval::No];
        all.into_iter().filter(|answer| self.allows(*answer)).collect()
    }

    /// Returns whether `answer` may be given.
    pub fn allows(&self, answer: Approval) -> bool {
        match answer {
            Approval::Once | Approval::No | Approval::Never => true,
            Approval::Session => !self.only_once,
            Approval::Always => !self.only_once && self.grant.is_some(),
        }
    }
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Allowed for this call, to its end, but not for the calls that it makes.
    Once,
    /// Allowed for this skill and its current files while this process has the session.
    Session,
    /// Allowed and stored as a grant.
    Always,
    /// Not allowed for this call.
    No,
    /// Not allowed for this skill and its current files while this process has the session. For editors.
    Never,
}

impl Approval {
    /// Returns whether the call may go on.
    pub fn is_yes(self) -> bool {
        matches!(self, Self::Once | Self::Session | Self::Always)
    }

    /// Returns the answer as the journal names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::No => "no",
            Self::Never => "never",
        }
    }
}

/// Room for the open and waiting questions of the process.
pub(crate) struct QuestionSlots(Arc<Semaphore>);

impl QuestionSlots {
    /// Open and waiting questions of all sessions. A further question is answered by no.
    const QUESTIONS: usize = 8;
}

impl Default for QuestionSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(Self::QUESTIONS)))
    }
}

/// The subject of a question. Concurrent questions with equal subjects are asked once.
type Subject = (Identity, Digest, Capability);
type Asking = Shared<BoxFuture<'static, Approval>>;
/// Stores the grant that a question offers.
type StoreGrant = BoxFuture<'static, Result<(), StoreError>>;

/// The questions and answers of one session, which keeps it while it is open.
pub struct Approvals {
    approver: Arc<dyn Approver>,
    /// Subjects that were answered for the session: by [`Approval::Session`] or [`Approval::Never`].
    answered: Mutex<BTreeMap<Subject, Approval>>,
    /// Questions without an answer yet.
    open: Mutex<BTreeMap<Subject, WeakShared<BoxFuture<'static, Approval>>>>,
    /// The agents whose calls wait for an answer, one entry for each call.
    asking: Mutex<Vec<AgentId>>,
}

/// A call that waits for an answer.
struct AskingCall<'a> {
    approvals: &'a Approvals,
    agent: AgentId,
}

impl Drop for AskingCall<'_> {
    fn drop(&mut self) {
        let mut asking = self.approvals.asking.lock();
        if let Some(at) = asking.iter().position(|agent| *agent == self.agent) {
            asking.swap_remove(at);
        }
    }
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
        *self.0.lock() = Some(Approvals::new(approver));
    }

    /// Returns the approvals; `None` if no front can ask a person.
    pub fn get(&self) -> Option<Arc<Approvals>> {
        self.0.lock().clone()
    }
}

impl Approvals {
    /// Returns approvals that ask `approver`. Nothing is allowed yet.
    pub fn new(approver: Arc<dyn Approver>) -> Arc<Self> {
        Arc::new(Self { approver, answered: Mutex::default(), open: Mutex::default(), asking: Mutex::default() })
    }

    /// Returns whether a call of `agent` waits for an answer.
    pub fn is_asking(&self, agent: AgentId) -> bool {
        self.asking.lock().contains(&agent)
    }

    /// Returns the answer to `question` for a skill whose files have the digest `digest`. Uses an earlier answer for the
    /// session if there is one; concurrent calls with the same subject share one question. Without room in `slots`, the
    /// answer is no. [`Approval::Always`] runs `store_grant` first.
    pub(crate) async fn ask(
        &self,
        digest: Digest,
        question: Question,
        slots: &QuestionSlots,
        store_grant: StoreGrant,
    ) -> Approval {
        let subject = (question.skill.clone(), digest, question.capability.clone());
        let (only_once, agent) = (question.only_once, question.agent);
        match self.answered.lock().get(&subject) {
            Some(Approval::Never) => return Approval::Never,
            Some(answer) if !only_once => return *answer,
            _ => {}
        }
        let Some(asking) = self.join(&subject, question, slots, store_grant) else {
            tracing::warn!(skill = %subject.0, capability = %subject.2, "too many questions wait; this one is answered by no");
            return Approval::No;
        };
        let answer = {
            self.asking.lock().push(agent);
            let _asking = AskingCall { approvals: self, agent };
            asking.clone().await
        };
        {
            // A question that was opened since by another call stays.
            let mut open = self.open.lock();
            if open.get(&subject).and_then(WeakShared::upgrade).is_none_or(|current| current.ptr_eq(&asking)) {
                open.remove(&subject);
            }
        }
        if answer == Approval::Never || answer == Approval::Session && !only_once {
            self.answered.lock().insert(subject, answer);
        }
        answer
    }

    /// Joins the open question on `subject`, or opens one; `None` without room for it.
    fn join(
        &self,
        subject: &Subject,
        question: Question,
        slots: &QuestionSlots,
        store_grant: StoreGrant,
    ) -> Option<Asking> {
        let mut open = self.open.lock();
        if let Some(asking) = open.get(subject).and_then(WeakShared::upgrade) {
            return Some(asking);
        }
        let slot = Arc::clone(&slots.0).try_acquire_owned().ok()?;
        let approver = Arc::clone(&self.approver);
        let asking = async move {
            let _slot = slot;
            let asked = question.clone();
            match approver.approve(question).await {
                answer if !asked.allows(answer) => Approval::No,
                Approval::Always => match store_grant.await {
                    Ok(()) => {
                        approver.grant_stored(&asked, Ok(()));
                        Approval::Always
                    }
                    Err(error) => {
                        tracing::error!(skill = %asked.skill, capability = %asked.capability, "a grant is not stored: {error}");
                        approver.grant_stored(&asked, Err(error.to_string()));
                        Approval::Once
                    }
                },
                answer => answer,
            }
        };
        let asking: Asking = (Box::pin(asking) as BoxFuture<'static, Approval>).shared();
        if let Some(weak) = asking.downgrade() {
            open.insert(subject.clone(), weak);
        }
        Some(asking)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU32, sync::atomic::Ordering, time::Duration};

    use patchbay_policy::Root;

    use super::*;

    struct TestApprover {
        answer: Approval,
        asked: AtomicU32,
        /// What was reported of each grant.
        stored: Mutex<Vec<Result<(), String>>>,
    }

    impl Approver for TestApprover {
        fn approve(&self, _: Question) -> BoxFuture<'_, Approval> {
            Box::pin(async {
                self.asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.answer
            })
        }

        fn grant_stored(&self, _: &Question, stored: Result<(), String>) {
            self.stored.lock().push(stored);
        }
    }

    fn storing(result: Result<(), StoreError>) -> StoreGrant {
        Box::pin(async { result })
    }

    fn approvals(answer: Approval) -> (Arc<TestApprover>, Arc<Approvals>) {
        let person = Arc::new(TestApprover { answer, asked: AtomicU32::new(0), stored: Mutex::default() });
        (person.clone(), Approvals::new(person))
    }

    fn question(capability: Capability) -> Question {
        Question {
            agent: AgentId::from_bytes([1; 16]),
            asker: Asker::Agent(AgentId::from_bytes([1; 16])),
            skill: Identity::new(Root::User, "", "notes".parse().unwrap()),
            chain: vec!["notes__add".to_owned()],
            capability,
            workspace: "/w".to_owned(),
            reason: None,
            only_once: false,
            grant: None,
        }
    }

    async fn ask(approvals: &Approvals, files: &[u8], capability: Capability) -> Approval {
        approvals.ask(Digest::of(files), question(capability), &QuestionSlots::default(), storing(Ok(()))).await
    }

    #[tokio::test]
    async fn equal_questions_are_asked_once() {
        let (person, approvals) = approvals(Approval::Once);
        let ask = |capability| ask(&approvals, b"files", capability);
        let answers = tokio::join!(ask(Capability::Kv), ask(Capability::Kv), ask(Capability::Tools));
        assert_eq!(answers, (Approval::Once, Approval::Once, Approval::Once));
        assert_eq!(person.asked.load(Ordering::Relaxed), 2);
        // The answer applied to those calls only.
        ask(Capability::Kv).await;
        assert_eq!(person.asked.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn answers_for_the_session_apply_to_the_same_files() {
        for answer in [Approval::Session, Approval::Never] {
            let (person, approvals) = approvals(answer);
            for files in [b"one", b"one", b"two"] {
                assert_eq!(ask(&approvals, files, Capability::Kv).await, answer);
            }
            assert_eq!(person.asked.load(Ordering::Relaxed), 2, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn question_outlives_its_first_call() {
        let (person, approvals) = approvals(Approval::Once);
        let ask = || ask(&approvals, b"files", Capability::Kv);
        let first = tokio::time::timeout(Duration::from_millis(5), ask());
        let (first, second) = tokio::join!(first, ask());
        assert!(first.is_err() && second == Approval::Once);
        assert_eq!(person.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn answer_that_is_not_offered_is_no() {
        let digest = Digest::of(b"files");
        let grant = OfferedGrant { command: "patchbay grant add notes kv".to_owned(), digest: Some(digest) };
        let offered = [(None, true), (None, false), (Some(grant), false)].map(|(grant, only_once)| Question {
            grant,
            only_once,
            ..question(Capability::Kv)
        });
        let answers = offered.each_ref().map(Question::answers);
        let (once, session, always, no) = (Approval::Once, Approval::Session, Approval::Always, Approval::No);
        assert_eq!(answers, [vec![once, no], vec![once, session, no], vec![once, session, always, no]]);
        for (question, given) in offered.into_iter().zip([session, always, always]) {
            let expected = if question.grant.is_some() { always } else { no };
            let (_, approvals) = approvals(given);
            let answer = approvals.ask(digest, question, &QuestionSlots::default(), storing(Ok(()))).await;
            assert_eq!(answer, expected);
        }
        // An earlier yes for the session does not extend to where only one call can be allowed.
        let (person, approvals) = approvals(session);
        ask(&approvals, b"files", Capability::Kv).await;
        let in_home = Question { only_once: true, ..question(Capability::Kv) };
        assert_eq!(approvals.ask(digest, in_home, &QuestionSlots::default(), storing(Ok(()))).await, no);
        assert_eq!(person.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn always_that_is_not_stored_is_for_one_call() {
        let digest = Digest::of(b"files");
        let grant = OfferedGrant { command: "patchbay grant add notes kv".to_owned(), digest: Some(digest) };
        let question = Question { grant: Some(grant), ..question(Capability::Kv) };
        let (person, approvals) = approvals(Approval::Always);
        let slots = QuestionSlots::default();
        // The grant of calls that share a question is stored once.
        let ask = |result| approvals.ask(digest, question.clone(), &slots, storing(result));
        assert_eq!(tokio::join!(ask(Ok(())), ask(Ok(()))), (Approval::Always, Approval::Always));
        assert_eq!(std::mem::take(&mut *person.stored.lock()), [Ok(())]);
        assert_eq!(ask(Err(StoreError::WriterGone)).await, Approval::Once);
        assert_eq!(*person.stored.lock(), [Err(StoreError::WriterGone.to_string())]);
    }

    #[tokio::test]
    async fn questions_of_all_sessions_are_limited() {
        let sessions = [(); 2].map(|()| approvals(Approval::Once));
        let slots = QuestionSlots::default();
        let ask = |number: usize| {
            let (approvals, slots) = (&sessions[number % 2].1, &slots);
            let digest = Digest::of(&[number as u8]);
            async move { approvals.ask(digest, question(Capability::Kv), slots, storing(Ok(()))).await }
        };
        let answers = futures_util::future::join_all((0..QuestionSlots::QUESTIONS + 2).map(ask)).await;
        let (asked, denied) = answers.split_at(QuestionSlots::QUESTIONS);
        assert!(asked.iter().all(|answer| *answer == Approval::Once), "{answers:?}");
        assert_eq!(denied, [Approval::No; 2]);
        // An answered question makes room.
        assert_eq!(ask(0).await, Approval::Once);
    }
}

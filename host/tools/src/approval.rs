//! Asks the user to approve calls that need it: use of a capability that a skill is not granted, or a tool
//! outside of the sandbox. A session with a front provides an [`Approver`]; without one, the call is denied with
//! a message about how to allow it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use patchbay_core::AgentId;
use patchbay_store::{GrantRow, Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{
    ModeSlot,
    question::{Approval, ApprovalScope, PersonAnswer, Question},
};

/// Shows questions to the user. Implemented by fronts.
pub trait Approver: Send + Sync {
    /// Asks `question` and waits for the answer, which is one of [`Question::answers`] or [`Approval::Never`]; any other answer
    /// counts as no. If the future is dropped, the question is withdrawn.
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer>;

    /// Reports that the grant of [`Approval::Always`] was stored, or why not. In the second case, the answer counts as
    /// [`Approval::Once`].
    fn grant_stored(&self, _question: &Question, _stored: Result<(), String>) {}
}

/// Permits for the questions of the process: for open questions, and for questions that wait until they can be opened.
pub(crate) struct QuestionPermits {
    open: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl QuestionPermits {
    /// Limit of open questions in all sessions together.
    const ALL: usize = 8;
    /// Limit of open questions in one session, because a single session must not use up the process's limit.
    const OF_SESSION: usize = Self::ALL / 2;
    /// Limit of waiting questions of nested calls, in all sessions together. With the 4 open questions of one session, they are
    /// enough for the 8 nested calls that one call can run in parallel. Each of the 12 open and waiting questions can hold one of
    /// the 16 slots for nested calls.
    const WAITING: usize = 4;
}

/// Why a question is not asked: too many are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoQuestionPermit {
    #[error("{} questions of this session are open; answer one, then call the tool again", QuestionPermits::OF_SESSION)]
    Session,
    #[error("{} questions of all sessions are open; answer one, then call the tool again", QuestionPermits::ALL)]
    Process,
}

impl Default for QuestionPermits {
    fn default() -> Self {
        let [open, waiting] = [Self::ALL, Self::WAITING].map(|most| Arc::new(Semaphore::new(most)));
        Self { open, waiting }
    }
}

/// The grant that a question offers, in the store.
pub(crate) struct StoredGrant {
    /// Resolves to whether the store contains the grant.
    exists: BoxFuture<'static, Result<bool, StoreError>>,
    add: BoxFuture<'static, Result<(), StoreError>>,
}

impl StoredGrant {
    /// Returns the access to `grant` in `store`. `files` resolves to the list of the skill's files, which is stored with the grant.
    pub(crate) fn new(
        store: &Store,
        grant: GrantRow,
        files: impl Future<Output = Result<String, StoreError>> + Send + 'static,
    ) -> Self {
        let (read, wanted, store) = (store.clone(), grant.clone(), store.clone());
        Self {
            exists: Box::pin(async move { Self::is_in(&read, &wanted).await }),
            add: Box::pin(async move { store.add_grant(grant, files.await?).await }),
        }
    }

    /// For questions that offer no grant.
    pub(crate) fn none() -> Self {
        Self { exists: Box::pin(async { Ok(false) }), add: Box::pin(async { Ok(()) }) }
    }

    /// Returns whether `store` has `grant`.
    pub(crate) async fn is_in(store: &Store, grant: &GrantRow) -> Result<bool, StoreError> {
        let rules = store.rules().await?;
        let mut stored = rules.grants_of(&grant.root, &grant.workspace, &grant.skill, &grant.place);
        Ok(stored.any(|stored| (&stored.capability, &stored.skill_digest) == (&grant.capability, &grant.skill_digest)))
    }
}

/// The answers of one session that apply to more than the question that they were given for.
#[derive(Default)]
struct SharedAnswers {
    /// The answers for the session: [`Approval::Session`], [`Approval::Wide`], [`Approval::Exact`],
    /// [`Approval::Folder`] and [`Approval::Never`].
    kept: BTreeMap<ApprovalScope, Approval>,
    /// How many times [`Approval::Always`] was stored. It answers the questions that are open at that moment; later questions read
    /// the grants.
    granted: BTreeMap<ApprovalScope, u64>,
}

impl SharedAnswers {
    /// Returns the answer that applies to `question`.
    fn get(&self, question: &Question) -> Option<Approval> {
        let subject = &question.subject;
        let scopes = std::iter::once(subject.scope())
            .chain(subject.wide_scope())
            .chain(subject.exact_scopes().into_iter().next())
            .chain(subject.folder_scopes());
        // Most calls end here, because there is no answer yet.
        let answer = if self.kept.is_empty() { None } else { scopes.filter_map(|scope| self.kept.get(&scope)).next() };
        let answer = answer.copied();
        answer.filter(|answer| *answer == Approval::Never || !question.only_once)
    }

    fn granted(&self, question: &Question) -> u64 {
        self.granted.get(&question.subject.scope()).copied().unwrap_or_default()
    }

    fn add(&mut self, question: &Question, answer: Approval) {
        let scope = question.subject.scope();
        match answer {
            Approval::Wide => drop(self.kept.insert(question.subject.wide_scope().unwrap_or(scope), answer)),
            Approval::Session | Approval::Never => drop(self.kept.insert(scope, answer)),
            Approval::Exact => {
                self.kept.extend(question.subject.exact_scopes().into_iter().map(|scope| (scope, answer)))
            }
            Approval::Folder => self.kept.extend(question.subject.folder_scopes().take(1).map(|scope| (scope, answer))),
            Approval::Always => *self.granted.entry(scope).or_default() += 1,
            Approval::Once | Approval::Call | Approval::No => {}
        }
    }
}

/// The questions and answers of one session. The session keeps this as long as it is open.
pub struct Approvals {
    approver: Arc<dyn Approver>,
    answers: watch::Sender<SharedAnswers>,
    /// The calls that wait for an answer, in the order in which they began to wait.
    asking: Mutex<Vec<Asked>>,
    /// Permits for the open questions of the session.
    permits: Arc<Semaphore>,
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The agent whose call needs the answer.
    pub agent: AgentId,
    /// The question, such as `Overwrite src/pool.rs: +60 −15?`.
    pub title: String,
    /// When the call began to wait.
    pub since: Instant,
}

/// Keeps a question in [`Approvals::asking`] while its call waits.
struct AskingCall<'a> {
    approvals: &'a Approvals,
    asked: Asked,
}

impl<'a> AskingCall<'a> {
    fn new(approvals: &'a Approvals, question: &Question) -> Self {
        let asked = Asked { agent: question.agent, title: question.subject.title(), since: Instant::now() };
        approvals.asking.lock().push(asked.clone());
        Self { approvals, asked }
    }
}

impl Drop for AskingCall<'_> {
    fn drop(&mut self) {
        let mut asking = self.approvals.asking.lock();
        if let Some(at) = asking.iter().position(|asked| *asked == self.asked) {
            asking.remove(at);
        }
    }
}

/// The user's decisions for one session, shared by the session and its agents: the mode, and the approvals, which are empty until a
/// front provides an approver.
#[derive(Clone, Default)]
pub struct ApprovalSlot(Arc<Mutex<Option<Arc<Approvals>>>>, ModeSlot);

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

    /// Returns the mode, which the caller can set.
    pub fn mode(&self) -> &ModeSlot {
        &self.1
    }

    /// Returns the approvals; `None` if no front can ask the user.
    pub fn get(&self) -> Option<Arc<Approvals>> {
        self.0.lock().clone()
    }
}

impl Approvals {
    /// Returns approvals that ask `approver`. Nothing is allowed yet.
    pub fn new(approver: Arc<dyn Approver>) -> Arc<Self> {
        Arc::new(Self {
            approver,
            answers: watch::Sender::default(),
            asking: Mutex::default(),
            permits: Arc::new(Semaphore::new(QuestionPermits::OF_SESSION)),
        })
    }

    /// Returns the first question of `agent` that waits for its answer; `None` if none does.
    pub fn asked_by(&self, agent: AgentId) -> Option<Asked> {
        self.asking.lock().iter().find(|asked| asked.agent == agent).cloned()
    }

    /// Returns the answer to `question`. Each call asks its own question, even if another call asks the same one. Only an answer
    /// for the session or a stored grant applies to other questions, and withdraws those that are open. [`Approval::Always`] adds
    /// `grant` first. If the session has its maximum of open questions, or if `permits` shows that the process has, the question of
    /// a nested call waits, because its program could not ask again. It is not opened if it was answered in the meantime.
    ///
    /// # Errors
    /// [`NoQuestionPermit`]: the question cannot be opened and cannot wait.
    pub(crate) async fn ask(
        &self,
        question: Question,
        permits: &QuestionPermits,
        grant: StoredGrant,
    ) -> Result<PersonAnswer, NoQuestionPermit> {
        if let Some(answer) = self.answers.borrow().get(&question) {
            return Ok(answer.into());
        }
        let permit = FreePermits::find(&self.permits, permits, question.is_of_nested_call())?;
        let _asking = AskingCall::new(self, &question);
        let asked = async {
            let (permit, has_waited) = permit.wait(&self.permits, permits).await;
            if has_waited && question.allows(Approval::Always) && exists(grant.exists, &question).await {
                return Err(Approval::Always);
            }
            Ok((permit, self.approver.approve(question.clone()).await))
        };
        let asked = tokio::select! {
            biased;
            answer = self.shared_answer(&question) => Err(answer),
            asked = asked => asked,
        };
        let (_permit, PersonAnswer { approval, said, client }) = match asked {
            Ok(asked) => asked,
            Err(answer) => return Ok(answer.into()),
        };
        let approval = match approval {
            answer if !question.allows(answer) => Approval::No,
            Approval::Always => match grant.add.await {
                Ok(()) => {
                    self.approver.grant_stored(&question, Ok(()));
                    Approval::Always
                }
                Err(error) => {
                    tracing::error!(subject = ?question.subject.scope(), "cannot store a grant: {error}");
                    self.approver.grant_stored(&question, Err(error.to_string()));
                    Approval::Once
                }
            },
            answer => answer,
        };
        // This comes before the permit is released, because the next waiting question reads the answer.
        self.answers.send_modify(|answers| answers.add(&question, approval));
        Ok(PersonAnswer { approval, said, client })
    }

    /// Waits until another question's answer applies to `question`.
    async fn shared_answer(&self, question: &Question) -> Approval {
        let mut changes = self.answers.subscribe();
        let before = changes.borrow().granted(question);
        let answer = |answers: &SharedAnswers| {
            let is_granted = answers.granted(question) > before && question.allows(Approval::Always);
            answers.get(question).or(is_granted.then_some(Approval::Always))
        };
        let found = changes.wait_for(|answers| answer(answers).is_some()).await.map(|answers| answer(&answers));
        match found {
            Ok(Some(answer)) => answer,
            // Unreachable, because `self` keeps the sender.
            _ => std::future::pending().await,
        }
    }
}

/// Returns whether the grant that `question` offers was stored in the meantime.
async fn exists(grant_exists: BoxFuture<'static, Result<bool, StoreError>>, question: &Question) -> bool {
    grant_exists.await.unwrap_or_else(|error| {
        tracing::error!(subject = ?question.subject.scope(), "cannot read the grants: {error}");
        false
    })
}

/// The permits of a question that were available immediately.
struct FreePermits {
    of_session: Option<OwnedSemaphorePermit>,
    of_process: Option<OwnedSemaphorePermit>,
    /// The permit to wait for the missing ones.
    waiting: Option<OwnedSemaphorePermit>,
}

impl FreePermits {
    fn find(of_session: &Arc<Semaphore>, permits: &QuestionPermits, may_wait: bool) -> Result<Self, NoQuestionPermit> {
        let of_session = permit(of_session);
        let of_process = of_session.as_ref().and_then(|_| permit(&permits.open));
        let no_permit = match (&of_session, &of_process) {
            (Some(_), Some(_)) => None,
            (None, _) => Some(NoQuestionPermit::Session),
            (Some(_), None) => Some(NoQuestionPermit::Process),
        };
        let waiting = match no_permit {
            Some(why) if may_wait => Some(permit(&permits.waiting).ok_or(why)?),
            Some(why) => return Err(why),
            None => None,
        };
        Ok(Self { of_session, of_process, waiting })
    }

    /// Returns all permits of the question, and whether it had to wait for them.
    async fn wait(self, of_session: &Arc<Semaphore>, permits: &QuestionPermits) -> (impl Send + use<>, bool) {
        let Self { of_session: session_permit, of_process, waiting } = self;
        // Acquire the session's permit first, because one session must never take more than half of the process's permits.
        let session_permit = or_wait(session_permit, Arc::clone(of_session)).await;
        let process_permit = or_wait(of_process, Arc::clone(&permits.open)).await;
        ((session_permit, process_permit), waiting.is_some())
    }
}

/// Returns the permit for one more question; `None` if there is none.
fn permit(permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(permits).try_acquire_owned().ok()
}

/// Returns the permit that was `found`, or waits for one. `None` only for a closed semaphore; these are never closed.
async fn or_wait(found: Option<OwnedSemaphorePermit>, permits: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    match found {
        Some(found) => Some(found),
        None => permits.acquire_owned().await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicU32, Ordering},
        time::Duration,
    };

    use futures_util::FutureExt as _;
    use patchbay_core::{Asker, Digest};
    use patchbay_policy::{Capability, Identity, Root};

    use super::*;
    use crate::Act;
    use crate::question::{CalledTool, OfferedGrant, QuestionSubject, SkillCapability};

    struct TestApprover {
        answer: Approval,
        /// Each permit answers one question; without a gate, each question is answered after 20 ms.
        gate: Option<Semaphore>,
        asked: AtomicU32,
        open: AtomicU32,
        most: AtomicU32,
        /// The reported result of storing each grant.
        stored: Mutex<Vec<Result<(), String>>>,
    }

    impl TestApprover {
        fn answer(&self, questions: usize) {
            self.gate.as_ref().unwrap().add_permits(questions);
        }
    }

    impl Approver for TestApprover {
        fn approve(&self, _: Question) -> BoxFuture<'_, PersonAnswer> {
            Box::pin(async {
                self.asked.fetch_add(1, Ordering::Relaxed);
                let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
                self.most.fetch_max(open, Ordering::Relaxed);
                match &self.gate {
                    Some(gate) => gate.acquire().await.unwrap().forget(),
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                }
                self.open.fetch_sub(1, Ordering::Relaxed);
                self.answer.into()
            })
        }

        fn grant_stored(&self, _: &Question, stored: Result<(), String>) {
            self.stored.lock().push(stored);
        }
    }

    fn storing(result: Result<(), StoreError>) -> StoredGrant {
        StoredGrant { exists: Box::pin(async { Ok(false) }), add: Box::pin(async { result }) }
    }

    fn approvals_by(answer: Approval, gate: Option<Semaphore>) -> (Arc<TestApprover>, Arc<Approvals>) {
        let [asked, open, most] = [(); 3].map(|()| AtomicU32::new(0));
        let person = Arc::new(TestApprover { answer, gate, asked, open, most, stored: Mutex::default() });
        (person.clone(), Approvals::new(person))
    }

    fn approvals(answer: Approval) -> (Arc<TestApprover>, Arc<Approvals>) {
        approvals_by(answer, None)
    }

    fn gated(answer: Approval) -> (Arc<TestApprover>, Arc<Approvals>) {
        approvals_by(answer, Some(Semaphore::new(0)))
    }

    fn grant() -> OfferedGrant {
        let [what, take_back] = ["add", "remove"].map(|verb| format!("patchbay grant {verb} --in /w notes kv"));
        OfferedGrant { what, take_back, scope: None }
    }

    fn question(files: &[u8], capability: Capability) -> Question {
        let skill = Identity::new(Root::User, "", "notes".parse().unwrap());
        let (title, digest) = ("Store the key k of this session: 1 byte".to_owned(), Digest::of(b"k"));
        let act = Act { title, lines: Vec::new(), diff: None, path: None, digest, digest_again: None };
        Question {
            agent: AgentId::from_bytes([1; 16]),
            asker: Asker::Agent(AgentId::from_bytes([1; 16])),
            subject: QuestionSubject::Capability(SkillCapability {
                act: Box::new(act),
                skill,
                offered: capability.clone(),
                capability,
                digest: Digest::of(files),
            }),
            chain: vec!["notes__add".to_owned()],
            workspace: "/w".to_owned(),
            reason: None,
            only_once: false,
            grant: None,
        }
    }

    async fn ask(approvals: &Approvals, files: &[u8], capability: Capability) -> Approval {
        approvals.ask(question(files, capability), &QuestionPermits::default(), storing(Ok(()))).await.unwrap().approval
    }

    #[tokio::test]
    async fn equal_questions_of_several_calls_are_each_asked() {
        for answer in [Approval::Once, Approval::Call, Approval::No] {
            let (person, approvals) = approvals(answer);
            let ask = || ask(&approvals, b"files", Capability::Kv);
            assert_eq!(tokio::join!(ask(), ask()), (answer, answer));
            assert_eq!(person.asked.load(Ordering::Relaxed), 2, "{answer:?}");
            ask().await;
            assert_eq!(person.asked.load(Ordering::Relaxed), 3, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn shared_answer_withdraws_the_other_open_questions_about_it() {
        for answer in [Approval::Session, Approval::Never, Approval::Always] {
            let (person, approvals) = gated(answer);
            let permits = QuestionPermits::default();
            let ask = |files: &[u8]| {
                let question = Question { grant: Some(grant()), ..question(files, Capability::Kv) };
                approvals.ask(question, &permits, storing(Ok(())))
            };
            let mut same = Box::pin(async { tokio::join!(ask(b"one"), ask(b"one"), ask(b"one")) });
            let mut other = Box::pin(ask(b"two"));
            assert!(same.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
            assert_eq!(person.open.load(Ordering::Relaxed), 4);
            person.answer(1);
            assert_eq!(same.await, (Ok(answer.into()), Ok(answer.into()), Ok(answer.into())), "{answer:?}");
            assert!(other.as_mut().now_or_never().is_none(), "other files are another question");
        }
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
    async fn answer_that_is_not_offered_is_no() {
        let offered = [(None, true), (None, false), (Some(grant()), false)].map(|(grant, only_once)| Question {
            grant,
            only_once,
            ..question(b"files", Capability::Kv)
        });
        let answers = offered.each_ref().map(Question::answers);
        let (once, session, always, no) = (Approval::Once, Approval::Session, Approval::Always, Approval::No);
        let (call, exact) = (Approval::Call, Approval::Exact);
        let unstored = vec![once, session, no, call, exact];
        assert_eq!(answers, [vec![once, no], unstored, vec![once, session, always, no, call, exact]]);
        assert!(!calling("", "").allows(call), "a call of a tool is one act");
        for (question, given) in offered.into_iter().zip([call, always, always]) {
            let expected = if question.grant.is_some() { always } else { no };
            let (_, approvals) = approvals(given);
            let answer = approvals.ask(question, &QuestionPermits::default(), storing(Ok(()))).await;
            assert_eq!(answer, Ok(expected.into()));
        }
        // An earlier yes for the session does not apply to a question that can only allow one act.
        let (person, approvals) = approvals(session);
        ask(&approvals, b"files", Capability::Kv).await;
        let in_home = Question { only_once: true, ..question(b"files", Capability::Kv) };
        assert_eq!(approvals.ask(in_home, &QuestionPermits::default(), storing(Ok(()))).await, Ok(no.into()));
        assert_eq!(person.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn always_that_is_not_stored_is_for_one_act() {
        let question = Question { grant: Some(grant()), ..question(b"files", Capability::Kv) };
        let (person, approvals) = approvals(Approval::Always);
        let permits = QuestionPermits::default();
        let ask = |result| approvals.ask(question.clone(), &permits, storing(result));
        assert_eq!(ask(Ok(())).await, Ok(Approval::Always.into()));
        assert_eq!(std::mem::take(&mut *person.stored.lock()), [Ok(())]);
        assert_eq!(ask(Err(StoreError::WriterGone)).await, Ok(Approval::Once.into()));
        assert_eq!(*person.stored.lock(), [Err(StoreError::WriterGone.to_string())]);
    }

    #[tokio::test]
    async fn questions_of_all_sessions_are_limited() {
        let sessions = [(); 3].map(|()| approvals(Approval::Once));
        let permits = QuestionPermits::default();
        let ask = |session: usize, number: usize| {
            let (approvals, permits) = (&sessions[session].1, &permits);
            let question = question(&[number as u8], Capability::Kv);
            async move { approvals.ask(question, permits, storing(Ok(()))).await }
        };
        // One session cannot use up all permits.
        let asked = |session: usize| {
            futures_util::future::join_all((0..=QuestionPermits::OF_SESSION).map(move |number| ask(session, number)))
        };
        let (first, second, third) = tokio::join!(asked(0), asked(1), asked(2));
        for answers in [first, second] {
            let (asked, last) = answers.split_at(QuestionPermits::OF_SESSION);
            assert!(asked.iter().all(|answer| *answer == Ok(Approval::Once.into())), "{answers:?}");
            assert_eq!(last, [Err(NoQuestionPermit::Session)]);
        }
        assert!(third.iter().all(|answer| *answer == Err(NoQuestionPermit::Process)), "{third:?}");
        // An answered question releases its permit.
        assert_eq!(ask(2, 0).await, Ok(Approval::Once.into()));
    }

    fn nested(number: usize) -> Question {
        let chain = vec!["code__run".to_owned(), "notes__add".to_owned()];
        Question { chain, ..question(&[number as u8], Capability::Kv) }
    }

    /// A program runs at most eight calls in parallel.
    #[tokio::test]
    async fn nested_calls_wait_for_room() {
        let (person, approvals) = gated(Approval::Once);
        let permits = QuestionPermits::default();
        let ask = |question: Question| approvals.ask(question, &permits, storing(Ok(())));
        let mut asked = Box::pin(futures_util::future::join_all((0..8).map(nested).map(ask)));
        assert!(asked.as_mut().now_or_never().is_none());
        assert_eq!(person.open.load(Ordering::Relaxed), 4);
        // A ninth call does not wait, and a call that is not nested fails as before.
        assert_eq!(ask(nested(8)).await, Err(NoQuestionPermit::Session));
        assert_eq!(ask(question(&[8], Capability::Kv)).await, Err(NoQuestionPermit::Session));
        person.answer(8);
        assert_eq!(asked.await, vec![Ok(Approval::Once.into()); 8]);
        assert_eq!(person.most.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn waiting_questions_leave_room_to_other_sessions() {
        let sessions = [(); 3].map(|()| gated(Approval::Once));
        let permits = QuestionPermits::default();
        let ask = |session: usize, question| sessions[session].1.ask(question, &permits, storing(Ok(())));
        let many = |session, count| {
            Box::pin(futures_util::future::join_all((0..count).map(move |number| ask(session, nested(number)))))
        };
        let (mut first, mut second) = (many(0, 6), many(1, 5));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        let open = |session: usize| sessions[session].0.open.load(Ordering::Relaxed);
        assert_eq!((open(0), open(1)), (4, 4));
        let mut third = Box::pin(ask(2, nested(0)));
        assert!(third.as_mut().now_or_never().is_none());
        // Four questions are waiting, so another question of any session is refused.
        assert_eq!(ask(1, nested(5)).await, Err(NoQuestionPermit::Session));
        assert_eq!(ask(2, nested(1)).await, Err(NoQuestionPermit::Process));
        // The next answer releases a permit for the session that has none.
        sessions[0].0.answer(1);
        assert!(first.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert_eq!((open(0), open(2)), (3, 1));
        // Stopping the first program releases its permits immediately.
        drop(first);
        assert!(ask(2, nested(1)).now_or_never().is_none());
        assert_eq!(open(2), 2);
    }

    fn calling(input: &str, tool: &str) -> Question {
        let tool = CalledTool {
            name: "mcp__files__delete".to_owned(),
            input: input.to_owned(),
            input_digest: Digest::of(input.as_bytes()),
            digest: Digest::of(tool.as_bytes()),
            is_destructive: true,
            notes: Vec::new(),
            only_this_input: false,
        };
        Question { subject: QuestionSubject::Tool(tool), ..question(b"", Capability::Kv) }
    }

    /// All questions are about one tool, with different inputs.
    #[tokio::test]
    async fn waiting_question_is_not_opened_if_it_was_answered() {
        for answer in [Approval::Session, Approval::Never, Approval::Always] {
            let (person, approvals) = gated(answer);
            let (permits, granted) = (QuestionPermits::default(), Arc::new(AtomicBool::new(false)));
            let ask = |number: usize| {
                let called = calling(&number.to_string(), "as now");
                let question = Question { chain: nested(0).chain, grant: Some(grant()), ..called };
                let (read, write) = (Arc::clone(&granted), Arc::clone(&granted));
                let grant = StoredGrant {
                    exists: Box::pin(async move { Ok(read.load(Ordering::Relaxed)) }),
                    add: Box::pin(async move {
                        write.store(true, Ordering::Relaxed);
                        Ok(())
                    }),
                };
                approvals.ask(question, &permits, grant)
            };
            let mut all = Box::pin(futures_util::future::join_all((0..8).map(ask)));
            assert!(all.as_mut().now_or_never().is_none());
            person.answer(1);
            assert_eq!(all.await, vec![Ok(answer.into()); 8]);
            // Four were open; the answer to the first one withdraws the others and keeps the rest closed.
            assert_eq!(person.asked.load(Ordering::Relaxed), 4, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn yes_for_the_session_is_for_all_inputs_of_a_tool_as_it_is_declared() {
        let permits = QuestionPermits::default();
        for (answer, asked) in [(Approval::Once, 4), (Approval::Exact, 3), (Approval::Session, 2)] {
            let (person, approvals) = approvals(answer);
            for (input, tool) in [("a", "as now"), ("a", "as now"), ("b", "as now"), ("b", "changed")] {
                let answered = approvals.ask(calling(input, tool), &permits, storing(Ok(()))).await;
                assert_eq!(answered, Ok(answer.into()));
            }
            assert_eq!(person.asked.load(Ordering::Relaxed), asked, "{answer:?}");
        }
    }

    fn changing(path: &str, act: &[u8], capability: Capability) -> Question {
        let mut question = question(b"files", capability);
        if let QuestionSubject::Capability(capability) = &mut question.subject {
            capability.act.path = Some(path.to_owned());
            capability.act.digest = Digest::of(act);
            capability.act.digest_again = Some(Digest::of(b"again"));
        }
        question
    }

    fn writing(path: &str, act: &[u8]) -> Question {
        changing(path, act, Capability::WorkspaceWrite)
    }

    #[tokio::test]
    async fn yes_for_a_folder_is_for_what_is_below_it() {
        let (person, approvals) = approvals(Approval::Folder);
        let permits = QuestionPermits::default();
        let asked = async |path: &str| {
            let before = person.asked.load(Ordering::Relaxed);
            let answer = approvals.ask(writing(path, path.as_bytes()), &permits, storing(Ok(()))).await;
            (answer.unwrap().approval, person.asked.load(Ordering::Relaxed) - before)
        };
        let (yes, no) = (Approval::Folder, Approval::No);
        for (path, expected) in [
            ("src/a/one.rs", (yes, 1)),
            ("src/a/two.rs", (yes, 0)),
            ("src/a/b/c/three.rs", (yes, 0)),
            ("src/ab/four.rs", (yes, 1)),
            ("src/five.rs", (yes, 1)),
            ("src/new/six.rs", (yes, 0)),
            // The workspace itself does not count as a folder: the answer was not offered.
            ("src", (no, 1)),
            ("README.md", (no, 1)),
        ] {
            assert_eq!(asked(path).await, expected, "{path}");
        }
        let deletion = changing("src/a/one.rs", b"delete", Capability::WorkspaceDelete);
        let answer = approvals.ask(deletion, &permits, storing(Ok(()))).await;
        assert_eq!((answer, person.asked.load(Ordering::Relaxed)), (Ok(yes.into()), 6));
    }

    #[tokio::test]
    async fn yes_for_exactly_this_is_for_the_same_act() {
        let (person, approvals) = approvals(Approval::Exact);
        for (act, asked) in [(b"act", 1), (b"act", 1), (b"aga", 2)] {
            let answer = approvals.ask(writing("a/b", act), &QuestionPermits::default(), storing(Ok(()))).await;
            assert_eq!(answer, Ok(Approval::Exact.into()));
            assert_eq!(person.asked.load(Ordering::Relaxed), asked, "{act:?}");
        }
        // The file contains the contents that the act wrote.
        let again = approvals.ask(writing("a/b", b"again"), &QuestionPermits::default(), storing(Ok(()))).await;
        assert_eq!((again, person.asked.load(Ordering::Relaxed)), (Ok(Approval::Exact.into()), 2));
    }
}

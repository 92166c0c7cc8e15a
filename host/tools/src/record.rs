//! The record of a running call, which becomes its row in the journal. A call without effects is written once, when it ends. A call
//! with effects is also written before its first effect, because a crash must leave a record.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use patchbay_core::{Asker, CallId, Code, Digest};
use patchbay_policy::Capability;
use patchbay_sandbox::{Content, Failure, Finished};
use patchbay_store::{JournalRow, JournaledCall, OpenCall, RecordedApproval, Store, StoreError};
use tokio::sync::watch;

use crate::{
    Approval, Approvals, CallContext, CallEnd, CallEndFailure, CallTape, PersonAnswer, Question, ResolvedTool,
    ToolError, ToolInvocation,
    approval::{NoQuestionPermit, QuestionPermits, StoredGrant},
    call::SkillTool,
    internal,
    question::ApprovalScope,
};

/// A running call. Shared with the services of its guest and with its nested calls.
pub(crate) struct CallRecord {
    pub(crate) context: Arc<CallContext>,
    pub(crate) id: CallId,
    pub(crate) tool: String,
    /// The call that made this one.
    parent: Option<Arc<CallRecord>>,
    /// Number of nested calls so far.
    nested: AtomicU32,
    /// One of [`PURE`], [`BEGINNING`] and [`BEGUN`]; only increases.
    phase: AtomicU8,
    store: Store,
    /// `None` once the row is written.
    row: Mutex<Option<Box<JournalRow>>>,
    /// The user's refusals for this call and its nested calls. Used in the outermost call
    /// only, from its first question on.
    refused: OnceLock<watch::Sender<BTreeSet<ApprovalScope>>>,
    /// Records the call's inputs; empty if the call is not recorded.
    tape: OnceLock<Arc<dyn CallTape>>,
    /// The first capability that the user could not be asked for, and why.
    unasked: OnceLock<(Capability, NoQuestionPermit)>,
}

/// The call has not requested any effect.
const PURE: u8 = 0;
/// The open row is being written. No effect has happened.
const BEGINNING: u8 = 1;
/// The open row is committed. Effects may have happened.
const BEGUN: u8 = 2;

/// The name and component of a tool, as written in the journal.
pub(crate) struct JournalName<'a> {
    pub(crate) root: &'a str,
    pub(crate) skill: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) component: Digest,
}

impl CallRecord {
    /// Returns the record of `call`. `input` is its input as JSON.
    pub(crate) fn new(store: &Store, context: &Arc<CallContext>, call: &ToolInvocation<'_>, input: &str) -> Arc<Self> {
        let name = match call.tool {
            ResolvedTool::Internal(tool) => internal::journal_name(tool),
            ResolvedTool::Outside(tool) => tool.spec().journal_name(),
            ResolvedTool::Skill(SkillTool { skill, spec, component, .. }) => {
                let (root, skill, tool) = (skill.root.as_str(), skill.name.as_str(), spec.name.as_str());
                JournalName { root, skill, tool, component }
            }
        };
        let parent = call.parent.as_ref().map(|(parent, _)| parent);
        let row = JournalRow {
            at: store.source().unix_ms(),
            call: call.id,
            parent: parent.map(|parent| parent.id),
            session: context.hold.session(),
            workspace: context.workspace.clone(),
            asker: parent.map_or_else(|| context.asker.clone(), |parent| Asker::Tool(parent.tool.clone())),
            root: name.root.to_owned(),
            skill: name.skill.to_owned(),
            tool: name.tool.to_owned(),
            component: name.component,
            input_hash: Digest::of(input.as_bytes()),
            grants: Vec::new(),
            approvals: Vec::new(),
            fuel: 0,
            time_us: 0,
            peak_memory: 0,
            host_calls: 0,
            output_bytes: 0,
            failure: None,
            input: store.journal_settings().content.then(|| input.to_owned()),
            output: None,
        };
        Arc::new(Self {
            context: Arc::clone(context),
            id: call.id,
            tool: call.tool.full_name().to_owned(),
            parent: parent.cloned(),
            nested: AtomicU32::new(0),
            phase: AtomicU8::new(PURE),
            store: store.clone(),
            row: Mutex::new(Some(Box::new(row))),
            refused: OnceLock::new(),
            tape: OnceLock::new(),
            unasked: OnceLock::new(),
        })
    }

    /// Returns the caller, in the form of the journal.
    pub(crate) fn asker(&self) -> impl std::fmt::Display {
        std::fmt::from_fn(|f| match &self.parent {
            Some(parent) => write!(f, "tool:{}", parent.tool),
            None => write!(f, "{}", self.context.asker),
        })
    }

    /// Returns the id for the next nested call.
    pub(crate) fn next_nested(&self) -> CallId {
        CallId::nested(self.id, self.nested.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the full names of the running tools, from the outermost to this one.
    pub(crate) fn chain(&self) -> Vec<String> {
        let mut chain: Vec<_> = self.and_callers().map(|record| record.tool.clone()).collect();
        chain.reverse();
        chain
    }

    /// Commits that this call and the calls that it is nested in are about to have an effect. Called before each effect.
    ///
    /// # Errors
    /// A database error. In this case the effect must not happen.
    pub(crate) async fn begin_effect(&self) -> Result<(), StoreError> {
        if self.phase.load(Ordering::Acquire) == BEGUN {
            return Ok(());
        }
        // Boxed: it runs once in a call, and must not enlarge the future of every effect.
        Box::pin(self.write_open_rows()).await
    }

    async fn write_open_rows(&self) -> Result<(), StoreError> {
        let mut chain: Vec<_> = self.and_callers().filter(|it| it.phase.load(Ordering::Acquire) != BEGUN).collect();
        chain.reverse();
        let calls = chain.iter().filter_map(|record| record.open_call()).collect();
        chain.iter().for_each(|record| record.advance(BEGINNING));
        self.store.begin_calls(&self.context.hold, calls).await?;
        chain.iter().for_each(|record| record.advance(BEGUN));
        self.context.effect.set();
        Ok(())
    }

    fn advance(&self, phase: u8) {
        self.phase.fetch_max(phase, Ordering::AcqRel);
    }

    fn open_call(&self) -> Option<OpenCall> {
        let row = self.row.lock().clone()?;
        let line = self.context.line.clone().filter(|_| self.parent.is_none());
        Some(OpenCall { row, agent: self.context.agent, line })
    }

    /// Returns this call and the calls that it is nested in, the innermost first.
    fn and_callers(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |record| record.parent.as_deref())
    }

    /// Returns the outermost of the calls that this one is nested in.
    pub(crate) fn outermost(&self) -> &Self {
        self.and_callers().last().unwrap_or(self)
    }

    /// Returns the user's answer to `question`. After a no, the outermost call and its nested calls do not ask for the same tool or
    /// capability again, regardless of the input. Open questions about it are withdrawn, and their answer is no.
    ///
    /// # Errors
    /// Every failure is reported as [`NoQuestionPermit`].
    pub(crate) async fn ask(
        &self,
        approvals: &Approvals,
        question: Question,
        slots: &QuestionPermits,
        grant: StoredGrant,
    ) -> Result<PersonAnswer, NoQuestionPermit> {
        let outermost = self.outermost();
        let refused = outermost.refused.get_or_init(|| watch::Sender::new(BTreeSet::new()));
        let scope = question.subject.scope();
        let mut changes = refused.subscribe();
        let answer = tokio::select! {
            biased;
            _ = changes.wait_for(|refused| refused.contains(&scope)) => return Ok(Approval::No.into()),
            answer = approvals.ask(question, slots, grant) => answer?,
        };
        if !answer.approval.is_yes() {
            refused.send_modify(|refused| {
                refused.insert(scope);
            });
        }
        Ok(answer)
    }

    /// Notes that the user could not be asked for `capability`.
    pub(crate) fn note_unasked(&self, capability: &Capability, why: NoQuestionPermit) {
        // Only the first one is kept.
        let _ = self.unasked.set((capability.clone(), why));
    }

    /// Returns `failure`. If it denies a capability that the user could not be asked for, returns the reason for that instead.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match (&failure, self.unasked.get()) {
            (Failure::Denied(denial), Some((capability, why))) if denial.grantable() == Some(capability) => {
                Failure::Unavailable(why.to_string())
            }
            _ => failure,
        }
    }

    /// Notes that the user allowed a capability.
    pub(crate) fn note_approval(&self, approval: RecordedApproval) {
        if let Some(row) = self.row.lock().as_deref_mut()
            && !row.approvals.contains(&approval)
        {
            row.approvals.push(approval);
        }
    }

    /// Sets the tape that collects the call's inputs.
    pub(crate) fn set_tape(&self, tape: Arc<dyn CallTape>) {
        // A call begins once, so no tape is set yet.
        let _ = self.tape.set(tape);
    }

    fn take_row(&self) -> Option<Box<JournalRow>> {
        self.row.lock().take()
    }
}

/// Writes the row of a call when it ends, even when the call is dropped.
pub(crate) struct RunningCall(Arc<CallRecord>);

impl RunningCall {
    pub(crate) fn new(record: Arc<CallRecord>) -> Self {
        Self(record)
    }

    pub(crate) fn record(&self) -> &Arc<CallRecord> {
        &self.0
    }

    /// Queues the row. The store commits it before or with any later write.
    pub(crate) async fn finish(self, finished: &Finished<Vec<Content>, ToolError>) {
        let Some(mut row) = self.0.take_row() else { return };
        let Finished { result, usage } = finished;
        row.grants = usage.capabilities.iter().map(ToString::to_string).collect();
        row.fuel = usage.fuel;
        row.time_us = u64::try_from(usage.time.as_micros()).unwrap_or(u64::MAX);
        row.peak_memory = usage.peak_memory as u64;
        row.host_calls = usage.host_calls.into();
        row.output_bytes = usage.output_bytes as u64;
        row.failure = result.as_ref().err().map(ToolError::code);
        if self.0.store.journal_settings().content {
            row.output = Some(match result {
                Ok(content) => content.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
                Err(error) => error.to_string(),
            });
        }
        let recording = self.0.tape.get().and_then(|tape| tape.end(Some(ended(finished))));
        let call = JournaledCall { row, recording };
        match self.0.phase.load(Ordering::Acquire) {
            PURE => self.0.store.journal(call).await,
            phase => self.0.store.end_call(call, phase == BEGUN),
        }
    }
}

/// Converts the end of a call for its tape.
fn ended(finished: &Finished<Vec<Content>, ToolError>) -> CallEnd<'_> {
    let result = finished.result.as_deref().map_err(|error| CallEndFailure {
        kind: error.kind().unwrap_or_else(|| error.code().as_str()).to_owned(),
        message: error.kind().map(|_| error.to_string()),
    });
    CallEnd { result, usage: &finished.usage }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let Some(mut row) = self.0.take_row() else { return };
        let phase = self.0.phase.load(Ordering::Acquire);
        row.failure = Some(if phase == BEGUN { Code::OutcomeUnknown } else { Code::Cancelled });
        let recording = self.0.tape.get().and_then(|tape| tape.end(None));
        let call = JournaledCall { row, recording };
        match phase {
            PURE => self.0.store.journal_at_once(call),
            phase => self.0.store.end_call(call, phase == BEGUN),
        }
    }
}

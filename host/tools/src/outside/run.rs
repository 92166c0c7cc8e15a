//! Runs a call of a tool outside of the sandbox: checks the input and the decision, records the call, and applies the limits.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use patchbay_core::{Digest, text};
use patchbay_policy::{Denial, ToolDecision, quoted};
use patchbay_sandbox::{Budget, Content, Failure, Finished, ProgressSink, Usage};
use patchbay_store::RecordedApproval;

use super::{CallTerms, OutsideCall, OutsideDeclaration, OutsideError, OutsideTool, gate::PassedGate};
use crate::{
    Approval, CalledTool, Mode, OfferedGrant, PersonAnswer, Question, QuestionSubject, ToolError, ToolInvocation,
    Tools, approval::StoredGrant, record::CallRecord, shown_input::without_middle,
};

impl Tools {
    /// Runs a tool outside of the sandbox with `input`, which is the input as JSON.
    pub(crate) async fn run_outside(
        &self,
        record: &CallRecord,
        tool: &dyn OutsideTool,
        call: ToolInvocation<'_>,
        input: &str,
    ) -> Finished<Vec<Content>, ToolError> {
        let budget = call.parent.as_ref().map(|(_, budget)| budget);
        let (terms, gate) = match self.check_outside(record, tool, &call, input, budget).await {
            Ok(passed) => passed,
            Err(error) => return Finished::failed(error),
        };
        let start = Instant::now();
        let limit = OutputLimit::of(self.sandbox.limits().output_bytes, budget);
        let progress = BoundedProgress { sink: &*record.context.progress, left: AtomicUsize::new(limit.bytes) };
        let running = tool.call(OutsideCall { id: record.id, input: call.input, progress: &progress, terms, gate });
        let OutsideDeclaration { time, time_key, name, .. } = &tool.spec().declaration;
        let timed = async {
            let out_of_time = |_| OutsideError::Time { limit_ms: time.as_millis(), key: time_key.clone() };
            tokio::time::timeout(*time, running).await.map_err(out_of_time)?
        };
        let answer = match budget {
            None => timed.await,
            // A nested call uses the rest of its caller's time.
            Some(budget) => {
                let left = budget.clock.time_left();
                budget.clock.limit(timed).await.unwrap_or_else(|| Err(caller_late(left)))
            }
        };
        let answer = answer.and_then(|content| within(content, limit)).map_err(bounded);
        let result_bytes = answer.as_ref().map_or(0, |content| content.iter().map(size).sum());
        let output_bytes = limit.bytes.saturating_sub(progress.left.into_inner()).saturating_add(result_bytes);
        let usage = Usage { time: start.elapsed(), output_bytes, result_bytes, ..Usage::default() };
        let failed = |error| ToolError::Outside { tool: name.clone(), error };
        Finished { result: answer.map_err(failed), usage }
    }

    /// Checks that the call may run, and records that it begins.
    async fn check_outside(
        &self,
        record: &CallRecord,
        tool: &dyn OutsideTool,
        call: &ToolInvocation<'_>,
        input: &str,
        budget: Option<&Budget>,
    ) -> Result<(CallTerms, PassedGate), ToolError> {
        let spec = tool.spec();
        let name = spec.name();
        if budget.is_some() && !spec.declaration.for_skills {
            return Err(ToolError::NotFound(name.to_owned()));
        }
        let (size, limit) = (input.len(), self.sandbox.limits().input_bytes);
        if size > limit {
            let error = OutsideError::Input { size, limit };
            return Err(ToolError::Outside { tool: name.to_owned(), error });
        }
        let invalid = |error: patchbay_schema::Rejection| ToolError::InvalidInput {
            tool: name.to_owned(),
            problem: error.to_string(),
        };
        spec.schema.check(call.input).map_err(invalid)?;
        if tool.is_shown_whole() {
            let (size, limit) = (shown_input(tool, call).chars().count(), CalledTool::INPUT);
            if size > limit {
                let error = OutsideError::Question { size, limit };
                return Err(ToolError::Outside { tool: name.to_owned(), error });
            }
        }
        let check_mode = || {
            if record.context.mode.get() != Mode::Plan || spec.declaration.is_read_only {
                return Ok(());
            }
            let failure = Failure::Denied(Mode::denied("calling a tool outside of the sandbox"));
            Err(ToolError::Failure { tool: name.to_owned(), failure })
        };
        check_mode()?;
        let mut terms = CallTerms::default();
        match tool.decision() {
            ToolDecision::Allow => {}
            ToolDecision::Deny => return Err(denied(tool, "it is denied", None)),
            ToolDecision::Ask => {
                terms = tool.terms(call.input).await;
                let answer = self.ask_outside(record, tool, call, input, budget, &terms).await?;
                let PersonAnswer { approval, said, .. } = answer;
                // The operator may have denied it while the user was deciding.
                if !approval.is_yes() || tool.decision() == ToolDecision::Deny {
                    return Err(denied(tool, "it is not allowed", said));
                }
                check_mode()?;
            }
        }
        record.begin_effect().await?;
        Ok((terms, PassedGate::after_checks()))
    }

    /// Returns whether the user allowed the call, now or for every call.
    async fn ask_outside(
        &self,
        record: &CallRecord,
        tool: &dyn OutsideTool,
        call: &ToolInvocation<'_>,
        input: &str,
        budget: Option<&Budget>,
        terms: &CallTerms,
    ) -> Result<PersonAnswer, ToolError> {
        let (spec, context) = (tool.spec(), &record.context);
        let &CallTerms { only_once, only_this_input, .. } = terms;
        if let Some(refusal) = &terms.refusal {
            let error = bounded(OutsideError::Failed(refusal.clone()));
            return Err(ToolError::Outside { tool: spec.name().to_owned(), error });
        }
        // An answer covers only what was shown. If the notes differ, for example on a machine without a fence, the user is asked
        // again.
        let input_digest = Digest::of([input, &terms.notes.join("\n")].join("\n").as_bytes());
        let grant = match only_this_input {
            true => spec.grant_of_input(&context.workspace, input_digest),
            false => spec.grant(&context.workspace),
        };
        if !only_once && StoredGrant::is_in(&self.store, &grant).await? {
            return Ok(Approval::Always.into());
        }
        let Some(approvals) = &context.approvals else { return Ok(Approval::No.into()) };
        let name = spec.name();
        let question = Question {
            agent: context.agent,
            asker: context.asker.clone(),
            subject: QuestionSubject::Tool(CalledTool {
                name: name.to_owned(),
                input: without_middle(&shown_input(tool, call), CalledTool::INPUT),
                input_digest,
                digest: spec.digest,
                is_destructive: spec.declaration.is_destructive,
                notes: terms.notes.clone(),
                only_this_input,
            }),
            chain: record.chain(),
            workspace: context.workspace.clone(),
            reason: None,
            only_once,
            grant: (!only_once).then(|| OfferedGrant {
                what: format!("{} call of {name}", if only_this_input { "exactly this" } else { "every" }),
                take_back: format!("patchbay grant forget {}", quoted(name)),
                scope: Some(format!("while its source and its declaration stay the same: {}", spec.digest)),
            }),
        };
        let shown = question.subject.shown_digest();
        let grant = StoredGrant::new(&self.store, grant, async { Ok(String::new()) });
        let answer = {
            // The caller's clock stands still while the user is asked.
            let _paused = budget.map(|budget| budget.clock.pause());
            record.ask(approvals, question, &self.question_permits, grant).await
        };
        let answer = answer.map_err(|no_room| ToolError::Failure {
            tool: name.to_owned(),
            failure: Failure::Unavailable(no_room.to_string()),
        })?;
        if answer.approval.is_yes() {
            record.note_approval(RecordedApproval {
                capability: format!("call:{name}"),
                answer: answer.approval.as_str().to_owned(),
                shown: Some(shown),
                by: context.principal.to_string(),
                client: answer.client.clone(),
            });
        }
        Ok(answer)
    }
}

/// Returns the whole input of a call as a question shows it.
fn shown_input(tool: &dyn OutsideTool, call: &ToolInvocation<'_>) -> String {
    text::clean_line(&tool.input_for_question(call.input))
}

fn denied(tool: &dyn OutsideTool, why: &'static str, said: Option<String>) -> ToolError {
    let OutsideDeclaration { name, advice, .. } = &tool.spec().declaration;
    let denial = Denial::OutsideTool { tool: name.clone(), why, advice: advice.clone() };
    ToolError::Failure { tool: name.clone(), failure: Failure::Denied(denial.with_reason(said)) }
}

/// Returns the error of a nested call that used up the time that its caller had `left`.
fn caller_late(left: Duration) -> OutsideError {
    OutsideError::Time { limit_ms: left.as_millis(), key: "the caller's remaining time".to_owned() }
}

/// The output that a call may have.
#[derive(Clone, Copy)]
struct OutputLimit {
    bytes: usize,
    key: &'static str,
}

impl OutputLimit {
    /// Returns the limit of any call, or the remaining `budget` of the caller if that is less.
    fn of(limit: usize, budget: Option<&Budget>) -> Self {
        match budget {
            Some(budget) if budget.output_bytes < limit => {
                Self { bytes: budget.output_bytes, key: "its share of the caller's remaining limits.output_bytes" }
            }
            _ => Self { bytes: limit, key: "limits.output_bytes" },
        }
    }
}

/// Shortens the message of a failure, because the output limit does not apply to it.
fn bounded(error: OutsideError) -> OutsideError {
    let cut = |words: String| without_middle(&words, FAILURE);
    match error {
        OutsideError::Failed(words) => OutsideError::Failed(cut(words)),
        OutsideError::Unavailable(words) => OutsideError::Unavailable(cut(words)),
        OutsideError::InvalidAnswer(words) => OutsideError::InvalidAnswer(cut(words)),
        other => other,
    }
}

/// Cleans an answer. Fails if it has more than `limit` bytes.
fn within(content: Vec<Content>, limit: OutputLimit) -> Result<Vec<Content>, OutsideError> {
    let OutputLimit { bytes: mut left, key } = limit;
    let mut cleaned = Vec::with_capacity(content.len());
    for piece in content {
        let piece = piece.cleaned();
        let over = || OutsideError::Output { limit: limit.bytes, key };
        left = left.checked_sub(size(&piece) + PIECE_BYTES).ok_or_else(over)?;
        cleaned.push(piece);
    }
    Ok(cleaned)
}

/// Length limit of a failure message, in characters.
const FAILURE: usize = 16 << 10;
/// The cost of a piece in addition to its bytes. This also bounds an answer of a million empty texts.
const PIECE_BYTES: usize = 32;

fn size(piece: &Content) -> usize {
    match piece {
        Content::Text(text) => text.len(),
        Content::Json(value) => value.to_string().len(),
        Content::Blob { media_type, data } => media_type.len() + data.len(),
        Content::Link { path, media_type } => path.len() + media_type.len(),
        Content::Other { name, value } => name.len() + value.len(),
    }
}

/// Passes partial output on, cleaned, until it has reached the size limit of an answer.
struct BoundedProgress<'a> {
    sink: &'a dyn ProgressSink,
    left: AtomicUsize,
}

impl ProgressSink for BoundedProgress<'_> {
    fn report(&self, text: &str) {
        let take = |left: usize| left.checked_sub(text.len() + PIECE_BYTES);
        if self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
            self.sink.report(&text::clean(text));
        }
    }
}

//! Runs the tool calls of one answer. Calls that only read run side by side; a call with effects runs alone, after all
//! calls before it have ended. Results become rows in the order of the calls. Called by `turn`.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use patchbay_core::{CallId, Code, EventKind, MessageKind, Outcome, ToolRecord, completion::ToolCall};
use patchbay_store::{NewMessage, RetainedAttachments, StoreError};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{
    Agent,
    inference::AgentInference,
    interrupted::{cut_off, interrupted},
    repeats::Repeats,
    toolbox::{ToolAnswer, Toolbox},
    turn::{Turn, store_failed},
};

/// The answer of a tool after its binary content was stored.
struct StoredAnswer {
    shown: String,
    /// The result for the model.
    record: ToolRecord,
    /// Keeps the binary content in the store until a row names it.
    attachments: Option<RetainedAttachments>,
    /// Whether the tool has committed the row of its result.
    is_committed: bool,
}

/// Limit of the tool calls of an answer that run concurrently.
const AT_ONCE: usize = 8;

impl Agent {
    /// Runs the calls of an answer and commits their results. Cancelling the turn cancels all of them. Returns whether the turn
    /// ends with these calls, which is the case if a call that ends turns succeeded and no such call failed.
    ///
    /// # Errors
    /// The outcome of the turn, if it was cancelled, a result could not be committed, or the session stores no more results.
    pub(crate) async fn run_calls(
        &self,
        turn: &Turn,
        toolbox: &Toolbox,
        calls: Vec<(CallId, &ToolCall)>,
        repeats: &mut Repeats,
    ) -> Result<bool, Outcome> {
        let (mut ends, mut failed) = (false, false);
        let mut rest = &calls[..];
        while let Some(((first, call), after)) = rest.split_first() {
            let side_by_side = self.reading(turn, toolbox, rest).await;
            if side_by_side == 0 {
                let answer = self.run_call(turn, toolbox, *first, call).await?;
                if toolbox.ends_turn(call) {
                    ends = true;
                    failed |= answer.record.error.is_some();
                }
                self.commit_call(*first, call, answer, repeats).await?;
                rest = after;
                continue;
            }
            let (batch, after) = rest.split_at(side_by_side);
            self.run_side_by_side(turn, toolbox, batch, repeats).await?;
            rest = after;
        }
        self.place.results.check()?;
        Ok(ends && !failed)
    }

    /// Runs calls concurrently and commits their results in the order of the calls. If a call ends before an earlier
    /// one, its result waits in the store, where it survives a crash. If the turn is cancelled, the results of calls
    /// that have ended are committed.
    async fn run_side_by_side(
        &self,
        turn: &Turn,
        toolbox: &Toolbox,
        batch: &[(CallId, &ToolCall)],
        repeats: &mut Repeats,
    ) -> Result<(), Outcome> {
        let permits = Semaphore::new(AT_ONCE);
        let mut running = FuturesUnordered::new();
        for (index, (id, call)) in batch.iter().enumerate() {
            let permits = &permits;
            running.push(async move {
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                (index, self.run_call(turn, toolbox, *id, call).await)
            });
        }
        let mut ended = BTreeMap::new();
        let mut next = 0;
        let mut stopped = None;
        while let Some((index, answer)) = running.next().await {
            match answer {
                Ok(mut answer) => {
                    if index > next && stopped.is_none() && !answer.is_committed {
                        self.keep_result(batch[index].0, &mut answer).await?;
                    }
                    ended.insert(index, answer);
                }
                Err(outcome) => stopped = Some(outcome),
            }
            while stopped.is_none()
                && let Some(answer) = ended.remove(&next)
            {
                let (id, call) = batch[next];
                self.commit_call(id, call, answer, repeats).await?;
                next += 1;
            }
        }
        for (index, answer) in ended {
            let (id, call) = batch[index];
            self.commit_call(id, call, answer, repeats).await?;
        }
        stopped.map_or(Ok(()), Err)
    }

    /// Commits results that say that the calls of an answer were not run, because the answer was cut off.
    ///
    /// # Errors
    /// The outcome of the turn, if a result could not be committed.
    pub(crate) async fn refuse_calls(&self, calls: Vec<(CallId, &ToolCall)>) -> Result<(), Outcome> {
        for (id, call) in calls {
            let (shown, record) = cut_off(call);
            self.commit_result(id, shown, json!(record), None).await?;
        }
        Ok(())
    }

    /// Returns how many of the next calls only read and can run side by side.
    async fn reading(&self, turn: &Turn, toolbox: &Toolbox, calls: &[(CallId, &ToolCall)]) -> usize {
        // A single call runs alone anyway, so its grants need not be checked here.
        if calls.len() < 2 {
            return 0;
        }
        let inference = Arc::new(AgentInference::new(self, turn.cancel.clone()));
        let mut count = 0;
        for (_, call) in calls {
            let context = toolbox.context(&self.place, self.progress(&call.name), inference.clone());
            if !toolbox.only_reads(call, &context).await {
                break;
            }
            count += 1;
        }
        count
    }

    /// Runs a call and stores the binary content of its result. If the call was cancelled after its first effect, its result is
    /// committed, because the model must know that the call may have taken effect. A call is not run if the session stores no
    /// more results.
    async fn run_call(
        &self,
        turn: &Turn,
        toolbox: &Toolbox,
        id: CallId,
        call: &ToolCall,
    ) -> Result<StoredAnswer, Outcome> {
        if self.place.results.check().is_err() {
            let (shown, record) = self.place.results.not_run(call);
            return Ok(StoredAnswer { shown, record, attachments: None, is_committed: false });
        }
        let inference = Arc::new(AgentInference::new(self, turn.cancel.clone()));
        let context = toolbox.context(&self.place, self.progress(&call.name), inference);
        let called = self.unless_cancelled(turn, toolbox.call(id, self.id(), call, &context)).await;
        if called.is_err() && context.effect.is_set() {
            let (shown, record) = interrupted(call, Code::OutcomeUnknown);
            self.commit_result(id, shown, json!(record), None).await?;
        }
        self.store_blobs(call, called?).await
    }

    /// Counts a result and stores its binary content. A result that the session may not store is replaced by a failure.
    async fn store_blobs(&self, call: &ToolCall, answer: ToolAnswer) -> Result<StoredAnswer, Outcome> {
        let ToolAnswer { mut shown, mut record, mut blobs, is_committed } = answer;
        let data = serde_json::to_vec(&record).map_or(0, |data| data.len());
        let bytes = (shown.len() + data + blobs.iter().map(Vec::len).sum::<usize>()) as u64;
        if !self.place.results.take(bytes) && !is_committed {
            (shown, record) = self.place.results.refused(call, bytes);
            blobs.clear();
        }
        let attachments = match blobs.is_empty() {
            true => None,
            false => {
                let store = self.log.store().clone();
                let stored = move || store.store_attachments(blobs.iter().map(Vec::as_slice));
                let stored = tokio::task::spawn_blocking(stored).await;
                // A task that failed has stored nothing.
                let stored = stored.unwrap_or(Err(StoreError::BadRow("content of a result")));
                Some(stored.map_err(store_failed)?)
            }
        };
        Ok(StoredAnswer { shown, record, attachments, is_committed })
    }

    async fn keep_result(&self, id: CallId, answer: &mut StoredAnswer) -> Result<(), Outcome> {
        let StoredAnswer { shown, record, attachments, .. } = answer;
        let (agent, kind, data) = (self.id(), MessageKind::Tool, Some(json!(record)));
        let result = NewMessage { agent, kind, content: shown.clone(), data };
        let (log, attachments) = (&self.log, attachments.take());
        log.store().keep_result(log.hold(), id, result, attachments).await.map_err(store_failed)
    }

    async fn commit_call(
        &self,
        id: CallId,
        call: &ToolCall,
        answer: StoredAnswer,
        repeats: &mut Repeats,
    ) -> Result<(), Outcome> {
        let StoredAnswer { shown, record, attachments, is_committed } = answer;
        let repeated = repeats.notice(call, &record);
        if !is_committed {
            self.commit_result(id, shown, json!(record), attachments).await?;
        }
        if let Some(text) = repeated {
            self.log.publish(self.id(), EventKind::Notice { text });
        }
        Ok(())
    }
}

//! Runs the tool calls of one answer. Calls that only read run side by side; a call with effects runs alone, after all before it
//! have ended. Results become rows in the order of the calls. `turn` calls it.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use patchbay_core::{CallId, Code, EventKind, MessageKind, Outcome, completion::ToolCall};
use patchbay_store::NewMessage;
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

/// Number of calls of one answer that run at once.
const AT_ONCE: usize = 8;

impl Agent {
    /// Runs the calls of an answer and commits their results. Cancelling the turn cancels all of them.
    ///
    /// # Errors
    /// The outcome of the turn, if it was cancelled or a result could not be committed.
    pub(crate) async fn run_calls(
        &self,
        turn: &Turn,
        toolbox: &Toolbox,
        calls: Vec<(CallId, &ToolCall)>,
        repeats: &mut Repeats,
    ) -> Result<(), Outcome> {
        let mut rest = &calls[..];
        while let Some(((first, call), after)) = rest.split_first() {
            let side_by_side = self.reading(turn, toolbox, rest).await;
            if side_by_side == 0 {
                let answer = self.run_call(turn, toolbox, *first, call).await?;
                self.commit_call(*first, call, answer, repeats).await?;
                rest = after;
                continue;
            }
            let (batch, after) = rest.split_at(side_by_side);
            self.run_side_by_side(turn, toolbox, batch, repeats).await?;
            rest = after;
        }
        Ok(())
    }

    /// Runs calls at the same time and commits their results in the order of the calls. The result of a call that ends before an
    /// earlier one is kept in the store until then, so that it survives the process. If the turn is cancelled, the results of calls
    /// that have ended are committed.
    async fn run_side_by_side(
        &self,
        turn: &Turn,
        toolbox: &Toolbox,
        batch: &[(CallId, &ToolCall)],
        repeats: &mut Repeats,
    ) -> Result<(), Outcome> {
        let places = Semaphore::new(AT_ONCE);
        let mut running = FuturesUnordered::new();
        for (index, (id, call)) in batch.iter().enumerate() {
            let places = &places;
            running.push(async move {
                // The semaphore is never closed.
                let _place = places.acquire().await;
                (index, self.run_call(turn, toolbox, *id, call).await)
            });
        }
        let mut ended = BTreeMap::new();
        let mut next = 0;
        let mut stopped = None;
        while let Some((index, answer)) = running.next().await {
            match answer {
                Ok(answer) => {
                    if index > next && stopped.is_none() && !answer.is_committed {
                        self.keep_result(batch[index].0, &answer).await?;
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

    /// Commits that the calls of an answer were not run, because it was cut off.
    ///
    /// # Errors
    /// The outcome of the turn, if a result could not be committed.
    pub(crate) async fn refuse_calls(&self, calls: Vec<(CallId, &ToolCall)>) -> Result<(), Outcome> {
        for (id, call) in calls {
            let (shown, record) = cut_off(call);
            self.commit_result(id, shown, json!(record)).await?;
        }
        Ok(())
    }

    /// Returns how many of the next calls only read.
    async fn reading(&self, turn: &Turn, toolbox: &Toolbox, calls: &[(CallId, &ToolCall)]) -> usize {
        // A call that is alone needs no look at its grants.
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

    /// Runs a call. If it was cancelled after its first effect, its result is committed: the model must know that the call may
    /// have taken effect.
    async fn run_call(
        &self,
        turn: &Turn,
        toolbox: &Toolbox,
        id: CallId,
        call: &ToolCall,
    ) -> Result<ToolAnswer, Outcome> {
        let inference = Arc::new(AgentInference::new(self, turn.cancel.clone()));
        let context = toolbox.context(&self.place, self.progress(&call.name), inference);
        let called = self.unless_cancelled(turn, toolbox.call(id, self.id(), call, &context)).await;
        if called.is_err() && context.effect.is_set() {
            let (shown, record) = interrupted(call, Code::OutcomeUnknown);
            self.commit_result(id, shown, json!(record)).await?;
        }
        called
    }

    async fn keep_result(&self, id: CallId, answer: &ToolAnswer) -> Result<(), Outcome> {
        let ToolAnswer { shown, record, .. } = answer;
        let (agent, kind, data) = (self.id(), MessageKind::Tool, Some(json!(record)));
        let result = NewMessage { agent, kind, content: shown.clone(), data };
        self.log.store().keep_result(self.log.hold(), id, result).await.map_err(store_failed)
    }

    async fn commit_call(
        &self,
        id: CallId,
        call: &ToolCall,
        answer: ToolAnswer,
        repeats: &mut Repeats,
    ) -> Result<(), Outcome> {
        let ToolAnswer { shown, record, is_committed } = answer;
        let repeated = repeats.notice(call, &record);
        if !is_committed {
            self.commit_result(id, shown, json!(record)).await?;
        }
        if let Some(text) = repeated {
            self.log.publish(self.id(), EventKind::Notice { text });
        }
        Ok(())
    }
}

//! Has a model summarise the conversation of an agent: during a turn when the conversation has become long, or when the user
//! asks for it. `turn` and the session call it; `compaction` plans and words the request.

use patchbay_core::{
    Code, CompactionRecord, EventKind, MessageKind, Outcome, TurnCause,
    completion::{CompletionRequest, ToolChoice},
    text,
};
use patchbay_provider::{Choice, Completed, ModelInfo};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    Agent,
    compaction::{self, CompactionPlan},
    receive::SummarySink,
    toolbox::Toolbox,
    turn::Turn,
};

/// The size of a conversation before and after a summary, in estimated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

impl Agent {
    /// Summarises the whole conversation now, with `focus` in mind if it is not empty. `turn` is a turn that has not begun; no
    /// other one may run. Returns `None` if there is no answer to summarise.
    ///
    /// # Errors
    /// The outcome of a command that changed nothing.
    pub async fn compact_now(&self, turn: &Turn, focus: &str) -> Result<Option<Compacted>, Outcome> {
        let choice = self.chosen().effective(&*self.model).await?;
        let about = self.model.about(&choice).await;
        let toolbox = Toolbox::new(self.tools.clone(), turn.snapshot.clone(), &turn.internal);
        let like = CompletionRequest {
            model: choice.model.clone(),
            system: turn.system.clone(),
            messages: Vec::new(),
            tools: toolbox.declarations(),
            tool_choice: ToolChoice::Auto,
            thinking: choice.level,
            max_output_tokens: None,
        };
        let rows = self.rows().await?;
        let Some(plan) = compaction::plan_whole(&rows) else { return Ok(None) };
        // Both are estimated in the same way: a model's report includes the system context and the tools.
        let size = |rows: &_| compaction::estimate_messages(&self.read(rows, &choice, &about));
        let before = size(&rows);
        let notice = "The conversation is summarised.".to_owned();
        let failure = "the conversation could not be summarised: ";
        let request = SummaryRequest { like: &like, plan: &plan, focus, notice, failure };
        self.summarise(&turn.cancel, turn.cause, &choice, &about, request).await?;
        let after = size(&self.rows().await?);
        Ok(Some(Compacted { before, after }))
    }

    /// Summarises a conversation of `size` tokens that has become too long for its model.
    pub(crate) async fn compact(
        &self,
        turn: &Turn,
        choice: &Choice,
        about: &ModelInfo,
        like: &CompletionRequest,
        plan: &CompactionPlan<'_>,
        size: u64,
    ) -> Result<(), Outcome> {
        let window = about.context_window.unwrap_or(self.settings.context_window);
        let notice = format!("The conversation has some {size} of the model's {window} tokens: it is summarised.");
        let model = text::excerpt(&choice.model, 80);
        let failure = format!("the conversation has become too long for {model}, and could not be summarised: ");
        let request = SummaryRequest { like, plan, focus: "", notice, failure: &failure };
        self.summarise(&turn.cancel, turn.cause, choice, about, request).await
    }

    async fn summarise(
        &self,
        cancel: &CancellationToken,
        cause: TurnCause,
        choice: &Choice,
        about: &ModelInfo,
        request: SummaryRequest<'_>,
    ) -> Result<(), Outcome> {
        let SummaryRequest { like, plan, focus, notice, failure } = request;
        let window = about.context_window.unwrap_or(self.settings.context_window);
        self.log.publish(self.place.agent, EventKind::Notice { text: notice });
        let messages = self.read(plan.rows, choice, about).messages;
        let mut quiet = SummarySink::default();
        let request = compaction::request(messages, window, like, focus);
        let completed = {
            let _place = self.place_for_request(cancel, cause).await?;
            self.unless_cancelled(cancel, self.model.complete(choice, request, &mut quiet)).await?
        };
        self.spend(quiet.0.usage.total());
        let failed = |why: &str| {
            let message = format!(
                "{failure}{why} It is kept as it was; send your message again, or choose a model that reads more with /model."
            );
            Outcome::error(Code::CompactionFailed, message)
        };
        let usage = match completed {
            Ok(Completed { usage, .. }) => usage,
            Err(outcome) => return Err(failed(&outcome.message)),
        };
        let summary = quiet.0.text();
        if summary.trim().is_empty() {
            return Err(failed("its answer was empty."));
        }
        let data = CompactionRecord {
            keep_from: plan.keep_from,
            request: plan.request.clone(),
            provider: choice.provider.to_string(),
            model: choice.model.clone(),
            usage,
        };
        self.commit(self.row(MessageKind::Compaction, summary, json!(data))).await.map(drop)
    }
}

/// What is summarised, and how it is said.
struct SummaryRequest<'a> {
    /// A request of the turn, whose system context and tools are kept.
    like: &'a CompletionRequest,
    plan: &'a CompactionPlan<'a>,
    /// What the summary is to keep above all; may be empty.
    focus: &'a str,
    /// What the user is told first.
    notice: String,
    /// The beginning of an error.
    failure: &'a str,
}

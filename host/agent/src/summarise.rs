//! Requests a summary of an agent's conversation from a model: during a turn when the conversation has become long, or
//! when the user asks for it. `turn` and the session call it; `compaction` plans and words the request.

use patchbay_core::{
    Code, CompactionRecord, EventKind, MessageKind, Outcome,
    completion::{CompletionRequest, Finish, RequestHints, RequestPurpose, Stop, TokenUsage, ToolChoice},
    text,
};
use patchbay_provider::Completed;
use serde_json::json;

use crate::{
    Agent,
    answer_end::{RAW_CHARS, WHY_CHARS},
    attachments::leave_out_all,
    binding::{PrefixBinding, binding},
    compaction::{self, CompactionPlan, SummaryMessages},
    receive::SummarySink,
    shorten::shortened,
    skills_in_use::skills_in_use,
    spending::is_about_budget,
    toolbox::Toolbox,
    turn::{Round, Turn},
};

/// Maximum number of refused requests for one summary. Each request has at most half the tokens of the refused request
/// before it, or leaves out its images, so the last one has at most about a sixteenth of the first one's tokens.
const SUMMARY_REQUESTS: u32 = 6;

/// The size of a conversation before and after a summary, in estimated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Estimated tokens before the summary.
    pub before: u64,
    /// Estimated tokens after the summary.
    pub after: u64,
}

impl Agent {
    /// Summarises the whole conversation now, with `focus` in mind if it is not empty. `turn` is a turn that has not begun, and
    /// no other turn runs. Returns `None` if the conversation has no new answer.
    ///
    /// # Errors
    /// An outcome for the user. Nothing was changed.
    pub async fn compact_now(&self, turn: &Turn, focus: &str) -> Result<Option<Compacted>, Outcome> {
        let toolbox = Toolbox::of(self.tools.clone(), turn);
        let round = self.round(turn, &toolbox).await?;
        let like = self.bare_request(&round).await?;
        let rows = self.rows().await?;
        let Some(plan) = compaction::plan_whole(&rows) else { return Ok(None) };
        // Both sizes are estimated from the messages, because a model's report includes the system context and the tools.
        let size = async |rows: &_| compaction::estimate_messages(&self.read(rows, &round).await);
        let before = size(&rows).await;
        let request = SummaryRequest {
            like: &like,
            plan: &plan,
            focus,
            is_refused: false,
            notice: "The conversation was summarised.".to_owned(),
            failure: "the conversation could not be summarised".to_owned(),
            again: "try /compact again",
        };
        self.summarise(&round, request).await?;
        let after = size(&self.rows().await?).await;
        Ok(Some(Compacted { before, after }))
    }

    /// Summarises a conversation that has become too long for its model: `size` is its number of tokens, or `None`
    /// if the provider has refused it.
    pub(crate) async fn compact(
        &self,
        round: &Round<'_>,
        like: &CompletionRequest,
        plan: &CompactionPlan<'_>,
        size: Option<u64>,
    ) -> Result<(), Outcome> {
        let window = round.about.context_window.unwrap_or(self.settings.compaction.context_window);
        let model = text::excerpt(&round.choice.model, 80);
        let request = SummaryRequest {
            like,
            plan,
            focus: "",
            is_refused: size.is_none(),
            notice: match size {
                Some(size) => {
                    format!("The conversation uses about {size} of the model's {window} tokens; summarising it.")
                }
                None => format!("The conversation is longer than {model} can read; summarising it."),
            },
            failure: format!("the conversation has become too long for {model}, and could not be summarised"),
            again: "send your message again",
        };
        self.summarise(round, request).await
    }

    async fn summarise(&self, round: &Round<'_>, request: SummaryRequest<'_>) -> Result<(), Outcome> {
        let mut usage = TokenUsage::default();
        let summarised = self.store_summary(round, request, &mut usage).await;
        if summarised.is_err() {
            self.record_usage(&round.choice, usage);
        }
        summarised
    }

    /// Requests a summary and stores it. `usage` is set to the tokens of all requests for it.
    async fn store_summary(
        &self,
        round: &Round<'_>,
        request: SummaryRequest<'_>,
        usage: &mut TokenUsage,
    ) -> Result<(), Outcome> {
        let Round { turn, choice, about, .. } = round;
        let SummaryRequest { like, plan, focus, is_refused, notice, failure, again } = request;
        self.log.publish(self.place.agent, EventKind::Notice { text: notice });
        let failed = |why: &str| {
            let why = why.trim_end_matches('.');
            let advice =
                format!("It is kept as it was; {again}, or choose a model with a larger context window with /model.");
            Outcome::error(Code::CompactionFailed, format!("{failure}: {why}. {advice}"))
        };
        let mut conversation = self.read(plan.rows, round).await;
        let window = about.context_window.unwrap_or(self.settings.compaction.context_window);
        let instruction = compaction::instruction(window, focus);
        let mut room = window - window / 5;
        // Images make a request large, and a summary can do without them.
        if is_refused && !leave_out_all(&mut conversation.messages) {
            // Either the window is smaller than recorded, or the estimate is too low.
            room = room.min(compaction::estimate_messages(&conversation) / 2);
        }
        // The number of requests that were refused, the size of the last one, and why.
        let mut refused: Option<(u32, u64, String)> = None;
        let mut may_call = true;
        let summary = loop {
            let messages = conversation.messages.clone();
            let SummaryMessages { mut request, size, is_cut } = compaction::request(messages, room, like, &instruction);
            let requests = match &refused {
                Some((requests, before, why)) if *requests == SUMMARY_REQUESTS || size >= *before => {
                    return Err(failed(why));
                }
                Some((requests, ..)) => *requests,
                None => 0,
            };
            // After a cut, none of the answers has the prefix that it was made with.
            let PrefixBinding { bound_from, .. } = binding(&request, if is_cut { &[] } else { &conversation.answers });
            request.hints = RequestHints { bound_from: Some(bound_from), ..self.hints(RequestPurpose::Summary) };
            if !may_call {
                request.tool_choice = ToolChoice::None;
            }
            let mut quiet = SummarySink::new(self.retry_notice());
            let completed = self.send_summary_request(round, request, &mut quiet).await;
            let used = quiet.received.all_usage();
            self.spend(used);
            *usage = usage.plus(used);
            match judge(completed?, &quiet, may_call) {
                SummaryAnswer::Summary(summary) => break summary,
                SummaryAnswer::OnlyCalls => may_call = false,
                SummaryAnswer::Unusable(why) => return Err(failed(&why)),
                // A shorter conversation may fit.
                SummaryAnswer::TooLong(why) => {
                    refused = Some((requests + 1, size, why));
                    room = match leave_out_all(&mut conversation.messages) {
                        true => room.min(size.saturating_sub(1)),
                        false => room.min(size) / 2,
                    };
                }
                SummaryAnswer::Failed(outcome) => {
                    let for_models = outcome.for_models.as_deref().map(|why| failed(why).message);
                    return Err(Outcome { for_models, ..failed(&outcome.message) });
                }
            }
        };
        let most = compaction::summary_bytes(window);
        let summary = if summary.len() > most { shortened(&summary, most) } else { summary };
        let data = CompactionRecord {
            keep_from: plan.keep_from,
            requests_only: plan.requests_only,
            request: None,
            skills: skills_in_use(plan, &turn.snapshot),
            provider: choice.provider.to_string(),
            model: choice.model.clone(),
            usage: *usage,
        };
        self.commit(self.row(MessageKind::Compaction, summary, json!(data))).await.map(drop)
    }

    /// Sends a request as part of the turn.
    ///
    /// # Errors
    /// The outcome of a turn that was stopped, or that may send no more requests.
    async fn send_summary_request(
        &self,
        round: &Round<'_>,
        request: CompletionRequest,
        quiet: &mut SummarySink,
    ) -> Result<Result<Completed, Outcome>, Outcome> {
        let spender = self.spender();
        let asked = spender.complete(self.sending(round), request, quiet);
        match self.unless_cancelled(round.turn, asked).await? {
            Err(outcome) if is_about_budget(&outcome) => Err(outcome),
            completed => Ok(completed),
        }
    }
}

/// The result of a request for a summary.
enum SummaryAnswer {
    Summary(String),
    /// The model called tools instead. The next request forbids tool calls.
    OnlyCalls,
    /// Why the answer cannot be used. Another request would not help.
    Unusable(String),
    /// The provider refused the conversation as too long, and why.
    TooLong(String),
    Failed(Outcome),
}

/// Judges the answer to a request for a summary. `may_call` indicates whether the request allowed tool calls.
fn judge(completed: Result<Completed, Outcome>, quiet: &SummarySink, may_call: bool) -> SummaryAnswer {
    match completed {
        Ok(Completed { finish: Finish { stop: stop @ (Stop::EndTurn | Stop::ToolUse), .. }, .. }) => {
            let summary = quiet.received.text();
            // Text beside a call can be the announcement of the call, such as "Let me read the file".
            let is_summary = stop == Stop::EndTurn || !may_call;
            match is_summary && !summary.trim().is_empty() {
                true => SummaryAnswer::Summary(summary),
                false if may_call => SummaryAnswer::OnlyCalls,
                false => SummaryAnswer::Unusable("its answer was empty".to_owned()),
            }
        }
        // An incomplete summary would replace the whole conversation.
        Ok(Completed { finish, .. }) => SummaryAnswer::Unusable(unusable(&finish, quiet.received.why_ended.as_deref())),
        Err(outcome) if outcome.code == Code::ProviderContextWindow => SummaryAnswer::TooLong(outcome.message),
        Err(outcome) => SummaryAnswer::Failed(outcome),
    }
}

/// Returns why an answer with this end cannot be used as a summary.
fn unusable(finish: &Finish, why: Option<&str>) -> String {
    let ended = match finish.stop {
        Stop::MaxTokens => "the summary was cut off: it reached the model's output limit".to_owned(),
        Stop::ContextWindow => "the summary was cut off: the model's context window is full".to_owned(),
        Stop::Refusal => "the model refused".to_owned(),
        Stop::ContentFilter => "the provider's filter cut the summary off".to_owned(),
        Stop::EndTurn | Stop::ToolUse | Stop::Other => {
            format!("the answer ended with '{}'", text::excerpt(&finish.raw, RAW_CHARS))
        }
    };
    match why {
        Some(why) => format!("{ended} (the provider says: {})", text::excerpt(why, WHY_CHARS)),
        None => ended,
    }
}

/// The conversation to summarise, and the texts for the user.
struct SummaryRequest<'a> {
    /// A request of the turn, whose system context and tools are kept.
    like: &'a CompletionRequest,
    plan: &'a CompactionPlan<'a>,
    /// The subjects that the summary should keep above all; may be empty.
    focus: &'a str,
    /// Whether the provider has refused the conversation as too long.
    is_refused: bool,
    /// The notice that is shown to the user first.
    notice: String,
    /// The beginning of an error message.
    failure: String,
    /// Advice for the user after an error, such as `try /compact again`.
    again: &'static str,
}

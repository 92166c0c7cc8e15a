//! One small request that shows whether a model answers. The session makes it before it stores a model's name.

use patchbay_core::{
    Code, Outcome, Retrying,
    completion::{Block, CompletionRequest, Message, RequestPurpose, Role, StreamEvent, TokenUsage, ToolChoice},
};
use patchbay_provider::{Choice, Sink};
use tokio::sync::Notify;

use crate::{Agent, requests::RequestRank, spending::Sending};

/// Sends one request to the model of `choice`. Its tokens count for `caller`. It is not sent again if it fails.
///
/// # Errors
/// Why the model did not answer.
pub async fn try_model(caller: &Agent, choice: &Choice) -> Result<(), Outcome> {
    caller.place.requests.count()?;
    let request = CompletionRequest {
        model: choice.model.clone(),
        system: vec!["Reply with 'ok'.".to_owned()],
        messages: vec![Message { role: Role::User, parts: vec![Block::Text("hi".to_owned()).into()] }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        hints: caller.hints(RequestPurpose::Validation),
    };
    let failed = Notify::new();
    let mut sink = TrialSink { failed: &failed, usage: TokenUsage::default(), failure: None };
    let (about, spender) = (caller.model.about(choice).await, caller.spender());
    let sending = Sending { choice, about: &about, rank: RequestRank::Person, notice: None, tool: None };
    let tried = tokio::select! {
        biased;
        () = failed.notified() => None,
        completed = spender.complete(sending, request, &mut sink) => Some(completed),
    };
    caller.spend(sink.usage);
    caller.record_usage(choice, sink.usage);
    match tried {
        Some(Ok(_)) => Ok(()),
        Some(Err(outcome)) => Err(outcome),
        None => {
            let why = sink.failure.unwrap_or_default();
            Err(Outcome::error(Code::ModelValidationFailed, why))
        }
    }
}

/// Ends the request instead of letting it be sent again.
struct TrialSink<'a> {
    failed: &'a Notify,
    usage: TokenUsage,
    failure: Option<String>,
}

impl Sink for TrialSink<'_> {
    fn event(&mut self, event: StreamEvent) {
        if let StreamEvent::Usage(usage) = event {
            self.usage = usage;
        }
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.failure = Some(format!("{}: {}, {}.", retrying.what, retrying.provider, retrying.cause));
        self.failed.notify_one();
    }
}

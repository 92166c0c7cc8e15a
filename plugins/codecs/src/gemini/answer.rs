//! Converts the events of a response to events of the contract.

use std::collections::BTreeSet;

use patchbay_provider_sdk::{Block, BlockKind, CompletionRequest, Failure, Pair, ToolHead, Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{MADE_ID, error};
use crate::{
    failure::{cut, failure},
    stream::{Codec, Out},
};

/// The state of one answer that is being received.
#[derive(Debug)]
pub struct Gemini {
    /// The requested model, reported if the answer names none.
    model: String,
    started: bool,
    /// Ids of calls in the conversation and in this answer.
    ids: BTreeSet<String>,
    /// Number of the last created id.
    made: usize,
    /// The open block of text or thinking.
    open: Option<Open>,
    called: bool,
    usage: Option<Usage>,
    /// The finish reason, once it has arrived.
    reason: Option<String>,
    /// The explanation of the finish reason.
    message: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    index: u32,
    thought: bool,
}

/// One event. Unused fields are left out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<UsageMetadata>,
    model_version: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    id: Option<String>,
    name: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageMetadata {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

impl Gemini {
    /// Creates the state for the answer to `request`.
    pub fn new(request: &CompletionRequest) -> Self {
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        let ids: BTreeSet<_> = parts
            .filter_map(|part| match &part.block {
                Block::ToolCall(call) => Some(call.id.clone()),
                _ => None,
            })
            .collect();
        Self {
            model: request.model.clone(),
            started: false,
            made: ids.len(),
            ids,
            open: None,
            called: false,
            usage: None,
            reason: None,
            message: None,
        }
    }

    fn response(&mut self, response: Response<'_>, out: &mut Out) -> Result<(), serde_json::Error> {
        if let Some(error) = &response.error {
            out.fail(error::in_answer(error));
            return Ok(());
        }
        if !self.started {
            self.started = true;
            out.started(response.model_version.as_deref().unwrap_or(&self.model));
        }
        let candidate = response.candidates.into_iter().flatten().next();
        if let Some(candidate) = candidate {
            for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                self.part(part.get(), out)?;
            }
            self.reason = candidate.finish_reason.or(self.reason.take());
            if let Some(message) = candidate.finish_message {
                out.extra("finish-message", message.as_str());
                self.message = Some(message);
            }
        }
        if let Some(usage) = response.usage_metadata.map(Usage::from)
            && self.usage != Some(usage)
        {
            self.usage = Some(usage);
            out.usage(usage);
        }
        if let Some(PromptFeedback { block_reason: Some(reason), block_reason_message: message }) =
            response.prompt_feedback
        {
            let said = message.unwrap_or_else(|| format!("the prompt was blocked: {reason}"));
            out.fail(Failure { code: Some(reason), ..failure("content-filter", said) });
        }
        Ok(())
    }

    fn part(&mut self, raw: &str, out: &mut Out) -> Result<(), serde_json::Error> {
        let part: Part<'_> = serde_json::from_str(raw)?;
        let text = part.text.unwrap_or_default();
        if let Some(call) = part.function_call {
            self.close(out);
            self.called = true;
            let id = self.id(call.id);
            let index = out.start(BlockKind::ToolCall(ToolHead { id, name: call.name }));
            out.delta(index, call.args.map_or("{}", RawValue::get));
            out.end(index, part.thought_signature);
        } else if part.thought_signature.is_some() && text.is_empty() {
            // Not shown, but sent back unchanged.
            self.close(out);
            let index = out.start(BlockKind::Opaque(raw.to_owned()));
            out.end(index, None);
        } else if part.thought_signature.is_some() {
            // A signed part is never joined with an unsigned one.
            self.close(out);
            self.text(&text, part.thought == Some(true), out);
            if let Some(open) = self.open.take() {
                out.end(open.index, part.thought_signature);
            }
        } else if !text.is_empty() {
            self.text(&text, part.thought == Some(true), out);
        }
        Ok(())
    }

    /// Adds text or thinking to the open block, or to a new one if the kind differs.
    fn text(&mut self, text: &str, thought: bool, out: &mut Out) {
        let open = match self.open {
            Some(open) if open.thought == thought => open,
            _ => {
                self.close(out);
                let kind = if thought { BlockKind::Thinking } else { BlockKind::Text };
                *self.open.insert(Open { index: out.start(kind), thought })
            }
        };
        out.delta(open.index, text);
    }

    fn close(&mut self, out: &mut Out) {
        if let Some(open) = self.open.take() {
            out.end(open.index, None);
        }
    }

    /// Returns the API's id, or a new id if it is missing or already in use.
    fn id(&mut self, given: Option<String>) -> String {
        if let Some(id) = given.filter(|id| !id.is_empty())
            && self.ids.insert(id.clone())
        {
            return id;
        }
        loop {
            self.made += 1;
            let id = format!("{MADE_ID}{}", self.made);
            if self.ids.insert(id.clone()) {
                return id;
            }
        }
    }
}

impl Codec for Gemini {
    fn event(&mut self, _event: &str, data: &str, out: &mut Out) {
        let read = serde_json::from_str(data).and_then(|response| self.response(response, out));
        if let Err(error) = read {
            out.fail(failure("server", format!("an event of the response cannot be read: {error}")));
        }
    }

    fn end(&mut self, out: &mut Out) {
        match &self.reason {
            Some(reason) => {
                if let Some(failed) = failed(reason, self.called, self.message.as_deref()) {
                    return out.fail(failed);
                }
                let stop = stop(reason, self.called);
                out.finish(stop, reason);
            }
            None => out.fail(cut()),
        }
    }

    fn refused(&mut self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        error::refused(status, headers, body)
    }
}

/// Returns the failure for a finish reason that means that there is no answer (2026-11-23, `FinishReason` of the Python SDK
/// google-genai 3.4.0). Most of these failures disappear on a retry. After complete calls, most of these reasons are not failures.
fn failed(reason: &str, called: bool, message: Option<&str>) -> Option<Failure> {
    let (kind, words) = match reason {
        "MISSING_THOUGHT_SIGNATURE" => ("invalid-request", "a signature of the model's thinking is missing"),
        "PUP_LIMITED_DISABLED" => ("authentication", "the account is limited or disabled"),
        _ if called => return None,
        "MALFORMED_FUNCTION_CALL" => ("server", "the model's tool call was malformed"),
        "UNEXPECTED_TOOL_CALL" => ("server", "the model called a tool that does not exist"),
        "TOO_MANY_TOOL_CALLS" => ("server", "the model called too many tools"),
        "MALFORMED_RESPONSE" => ("server", "the model's answer was malformed"),
        "OTHER" => ("server", "the model stopped for a reason that the API does not name"),
        _ => return None,
    };
    let said = message.map_or_else(|| words.to_owned(), |message| format!("{words}: {message}"));
    Some(Failure { code: Some(reason.to_owned()), ..failure(kind, said) })
}

/// Converts a finish reason. With calls the answer ends as tool use, unless a filter cut it off.
fn stop(reason: &str, called: bool) -> &'static str {
    match reason {
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR"
        | "ESCALATION" => "content-filter",
        _ if called => "tool-use",
        "STOP" | "FUNCTION_CALL" => "end-turn",
        "MAX_TOKENS" => "max-tokens",
        _ => "other",
    }
}

impl From<UsageMetadata> for Usage {
    fn from(usage: UsageMetadata) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).saturating_add(b.unwrap_or(0));
        Self {
            input_tokens: sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
            // Google counts thinking tokens separately.
            output_tokens: sum(usage.candidates_token_count, usage.thoughts_token_count),
            thinking_tokens: usage.thoughts_token_count.unwrap_or(0),
            cache_read_tokens: usage.cached_content_token_count.unwrap_or(0),
            cache_write_tokens: 0,
        }
    }
}

//! The codec of Chat Completions, `POST {base}/chat/completions`, for OpenAI and the many compatible servers.
//!
//! Some servers return the model's thinking (`reasoning_content`, `reasoning`); it is not sent back to any of them.

mod calls;
mod request;
#[cfg(test)]
mod tests;

use patchbay_provider_sdk::{Action, Block, BlockKind, CompletionRequest, Failure, Pair, Usage};
use serde_json::Value;

use crate::failure::{cut, failure};
use crate::openai::{api_error, count, refused, text};
use crate::stream::{Codec, Out, Stream};

use calls::Calls;
pub use request::{LimitField, Settings};

/// Begins a completion.
pub fn begin(request: &CompletionRequest, settings: Settings) -> (Stream<Chat>, Vec<Action>) {
    Stream::begin(Chat::new(request), request::request(request, settings))
}

/// The state of one answer.
#[derive(Debug)]
pub struct Chat {
    started: bool,
    /// The open block of text or thinking.
    open: Option<(Speech, u32)>,
    calls: Calls,
    /// The reason for the end, after a chunk has reported it.
    reason: Option<String>,
    spoke: bool,
    refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    Thinking,
    Text,
    Refusal,
}

impl Chat {
    fn new(request: &CompletionRequest) -> Self {
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        let before = parts.filter(|part| matches!(part.block, Block::ToolCall(_))).count();
        Self { started: false, open: None, calls: Calls::new(before), reason: None, spoke: false, refused: false }
    }
}

impl Codec for Chat {
    fn event(&mut self, _: &str, data: &str, out: &mut Out) {
        match data.trim() {
            "" => return,
            "[DONE]" => return self.finish(out),
            _ => {}
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            out.fail(failure("server", "the answer holds a chunk that is not JSON"));
            return;
        };
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            out.fail(api_error(&chunk));
            return;
        }
        let model = text(&chunk, "model");
        if !model.is_empty() && !std::mem::replace(&mut self.started, true) {
            out.started(model);
        }
        // Only one answer was requested.
        let choices = chunk["choices"].as_array().into_iter().flatten();
        for choice in choices.filter(|choice| count(choice, "/index") == 0) {
            self.delta(&choice["delta"], out);
            if let Some(reason) = choice["finish_reason"].as_str() {
                self.reason = Some(reason.to_owned());
            }
        }
        usage(&chunk["usage"], out);
    }

    /// Ends the answer also if the server sends no `[DONE]`.
    fn end(&mut self, out: &mut Out) {
        if self.reason.is_some() {
            self.finish(out);
        } else {
            out.fail(cut());
        }
    }

    fn refused(&mut self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        refused(status, headers, body)
    }
}

impl Chat {
    fn delta(&mut self, delta: &Value, out: &mut Out) {
        // Servers that send both fields send the same text in them.
        let thinking = [text(delta, "reasoning_content"), text(delta, "reasoning")];
        let thinking = thinking.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        self.emit_text(Speech::Thinking, thinking, out);
        self.emit_text(Speech::Text, text(delta, "content"), out);
        self.emit_text(Speech::Refusal, text(delta, "refusal"), out);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.hush(out);
            self.calls.delta(call, &call["function"], out);
        }
        // The older form of a single call.
        if delta["function_call"].is_object() {
            self.hush(out);
            self.calls.delta(&Value::from(0), &delta["function_call"], out);
        }
    }

    fn emit_text(&mut self, speech: Speech, text: &str, out: &mut Out) {
        if text.is_empty() {
            return;
        }
        self.spoke |= speech == Speech::Text;
        self.refused |= speech == Speech::Refusal;
        let block = match self.open {
            Some((open, block)) if open == speech => block,
            _ => {
                self.hush(out);
                let kind = if speech == Speech::Thinking { BlockKind::Thinking } else { BlockKind::Text };
                let block = out.start(kind);
                self.open = Some((speech, block));
                block
            }
        };
        out.delta(block, text);
    }

    /// Ends the open block, so that the next text begins a new one.
    fn hush(&mut self, out: &mut Out) {
        if let Some((_, block)) = self.open.take() {
            out.end(block, None);
        }
    }

    fn finish(&mut self, out: &mut Out) {
        // Calls are complete only if the model ended the answer itself.
        let reason = self.reason.take();
        let reason = reason.as_deref().unwrap_or("[DONE]");
        let stop = match reason {
            "length" => "max-tokens",
            "content_filter" => "content-filter",
            // Some servers also send `stop` after calls.
            _ if self.calls.any() => "tool-use",
            _ if self.refused && !self.spoke => "refusal",
            "stop" | "[DONE]" => "end-turn",
            _ => "other",
        };
        self.hush(out);
        if stop == "tool-use" {
            self.calls.complete(out);
        }
        out.finish(stop, reason);
    }
}

fn usage(usage: &Value, out: &mut Out) {
    if usage.is_object() {
        out.usage(Usage {
            input_tokens: count(usage, "/prompt_tokens"),
            output_tokens: count(usage, "/completion_tokens"),
            thinking_tokens: count(usage, "/completion_tokens_details/reasoning_tokens"),
            cache_read_tokens: count(usage, "/prompt_tokens_details/cached_tokens"),
            cache_write_tokens: count(usage, "/prompt_tokens_details/cache_write_tokens"),
        });
    }
}

//! The codec of Chat Completions, `POST {base}/chat/completions`, for OpenAI and the many compatible servers.
//!
//! * `request` converts a completion into a request,
//! * `calls` assembles tool calls from their pieces,
//! * `reasoning` keeps thinking in the field in which it came, and sends it back in the same field,
//! * `tags` finds thinking in the text.

mod calls;
mod reasoning;
mod request;
mod tags;
#[cfg(test)]
mod tests;

use patchbay_provider_sdk::{Action, Block, BlockKind, CompletionRequest, Failure, Pair, Usage};
use serde_json::Value;

use crate::failure::{cut, failure};
use crate::openai::{api_error, count, refused, text};
use crate::stream::{Codec, Out, Stream};

use calls::Calls;
use reasoning::Received;
pub use request::{History, LimitField, Settings};
use tags::{Piece, Tags};

/// Begins a completion and returns its first actions.
pub fn begin(request: &CompletionRequest, settings: Settings) -> (Stream<Chat>, Vec<Action>) {
    Stream::begin_or_fail(Chat::new(request), request::request(request, settings))
}

/// The state of one answer that is being received.
#[derive(Debug)]
pub struct Chat {
    started: bool,
    /// The open block of text or thinking.
    open: Option<(Speech, u32)>,
    /// Thinking to send back with the open or the next thinking block.
    reasoning: Received,
    tags: Tags,
    calls: Calls,
    /// The finish reason, once a chunk has reported it.
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
        Self {
            started: false,
            open: None,
            reasoning: Received::default(),
            tags: Tags::default(),
            calls: Calls::new(before),
            reason: None,
            spoke: false,
            refused: false,
        }
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
            out.fail(failure("server", "the response contains a chunk that is not JSON"));
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
            // Some servers send an empty reason with each chunk (ollama/ollama#4357, sgl-project/sglang#3912).
            if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
                self.reason = Some(reason.to_owned());
            }
        }
        usage(&chunk["usage"], out);
    }

    /// Ends the answer even if the server sends no `[DONE]`.
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
        let thinking = self.reasoning.delta(delta);
        self.emit_text(Speech::Thinking, &thinking, out);
        match &delta["content"] {
            Value::Array(parts) => {
                for part in parts {
                    let thinking = self.reasoning.part(part);
                    self.emit_text(Speech::Thinking, &thinking, out);
                    self.content(text(part, "text"), out);
                }
            }
            content => self.content(content.as_str().unwrap_or_default(), out),
        }
        self.emit_text(Speech::Refusal, text(delta, "refusal"), out);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.hush(out);
            self.calls.delta(call, &call["function"], out);
        }
        // The older format, which has a single call.
        if delta["function_call"].is_object() {
            self.hush(out);
            self.calls.delta(&Value::from(0), &delta["function_call"], out);
        }
    }

    /// Adds text of the answer, which may contain thinking.
    fn content(&mut self, text: &str, out: &mut Out) {
        for piece in self.tags.push(text) {
            self.emit_piece(&piece, out);
        }
    }

    fn emit_piece(&mut self, piece: &Piece, out: &mut Out) {
        match piece {
            Piece::Thinking(text) => self.emit_text(Speech::Thinking, text, out),
            Piece::Text(text) => self.emit_text(Speech::Text, text, out),
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
                self.end_block(speech == Speech::Thinking, out);
                let kind = if speech == Speech::Thinking { BlockKind::Thinking } else { BlockKind::Text };
                let block = out.start(kind);
                self.open = Some((speech, block));
                block
            }
        };
        out.delta(block, text);
    }

    /// Ends the open block. The next text begins a new one.
    fn hush(&mut self, out: &mut Out) {
        if let Some(piece) = self.tags.finish() {
            self.emit_piece(&piece, out);
        }
        self.end_block(false, out);
    }

    /// Ends the open block. Thinking data without text gets an empty block, unless another thinking block follows.
    fn end_block(&mut self, thinking_follows: bool, out: &mut Out) {
        match self.open.take() {
            Some((Speech::Thinking, block)) => out.end(block, self.reasoning.take()),
            Some((_, block)) => out.end(block, None),
            None => {}
        }
        if !thinking_follows && let Some(data) = self.reasoning.take() {
            let block = out.start(BlockKind::Thinking);
            out.end(block, Some(data));
        }
    }

    fn finish(&mut self, out: &mut Out) {
        let reason = self.reason.take();
        self.hush(out);
        if let Some(failed) = reason.as_deref().and_then(failed) {
            return out.fail(failed);
        }
        let stop = match &reason {
            // A server may have its own name for the end of an answer with calls.
            Some(reason) => stop(reason).unwrap_or(match self.calls.any() && self.calls.are_whole() {
                true => "end-turn",
                false => "other",
            }),
            // Some servers end an answer without a reason (earendil-works/pi#6225), even if it broke off within a call.
            None if !self.calls.are_whole() => return out.fail(cut()),
            None => "end-turn",
        };
        let stop = match stop {
            // Calls are complete only if the model ended the answer itself. Some servers also send `stop` after calls.
            "end-turn" if self.calls.any() => "tool-use",
            "end-turn" if self.refused && !self.spoke => "refusal",
            stop => stop,
        };
        if stop == "tool-use" {
            self.calls.complete(out);
        }
        out.finish(stop, reason.as_deref().unwrap_or("[DONE]"));
    }
}

/// Converts a finish reason to the contract's value. `end-turn` means that the model ended the answer itself and
/// its calls can be run. Returns `None` for an unknown reason, because the answer may have been cut off.
///
/// The values that servers send (2026-11-24):
///
/// | values | server | source |
/// | --- | --- | --- |
/// | `stop`, `length`, `tool_calls`, `function_call`, `content_filter` | OpenAI, Azure, OpenRouter | Python SDK openai 3.54.0, `Choice`; openrouter.ai, "FinishReason" |
/// | `stop`, `length`, `tool_calls` | Ollama, llama.cpp, LM Studio | ollama/ollama#4235 and #5995; llama.cpp, `to_json_oaicompat_chat`; lmstudio-ai/lmstudio-bug-tracker#2335 |
/// | also `abort`, `error`, `repetition` | vLLM | vllm, `FINISH_REASON_STRINGS` |
/// | also `model_length`, `error` | Mistral | docs.mistral.ai, `FinishReason` |
/// | also `error` | OpenRouter | openrouter.ai, "Streaming" |
/// | also `insufficient_system_resource` | DeepSeek | api-docs.deepseek.com, "Create Chat Completion" |
/// | also `sensitive`, `network_error`, `model_context_window_exceeded` | GLM | docs.bigmodel.cn, "finish_reason"; earendil-works/pi#1868 |
/// | `STOP`, `MAX_TOKENS` | gateways to Gemini | QwenLM/qwen-code#9884 |
/// | `end_turn`, `tool_use`, `max_tokens` | gateways to Claude | aws-samples/bedrock-access-gateway#11, maximhq/bifrost#617 |
/// | `eos`, `eos_token`, `tool_call` | Together, TGI, MLX | openai/openai-dotnet#267, huggingface/text-generation-inference#2344, ml-explore/mlx-lm#782 |
fn stop(reason: &str) -> Option<&'static str> {
    let stop = match reason.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "function_call" | "end_turn" | "tool_use" | "eos" | "eos_token" | "tool_call" => {
            "end-turn"
        }
        "length" | "max_tokens" => "max-tokens",
        "model_length" | "model_context_window_exceeded" => "context-window",
        "content_filter" | "sensitive" => "content-filter",
        "abort" | "repetition" => "other",
        _ => return None,
    };
    Some(stop)
}

/// Returns the failure for a reason that does not come from the model: see [`stop`]. For a malformed call, Gemini
/// reports `function_call_filter: …` and omits the call (2026-11-23, its API reference).
fn failed(reason: &str) -> Option<Failure> {
    let word = reason.to_ascii_lowercase();
    let failed = ["error", "insufficient_system_resource", "network_error"].contains(&word.as_str())
        || word.starts_with("function_call_filter");
    failed.then(|| Failure {
        code: Some(reason.to_owned()),
        ..failure("server", format!("the server gave up the response: {reason}"))
    })
}

fn usage(usage: &Value, out: &mut Out) {
    if usage.is_object() {
        // OpenAI; DeepSeek; Kimi (2026-11-23, api-docs.deepseek.com, "Context Caching"; platform.moonshot.ai).
        let cached = ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"];
        out.usage(Usage {
            input_tokens: count(usage, "/prompt_tokens"),
            output_tokens: count(usage, "/completion_tokens"),
            thinking_tokens: count(usage, "/completion_tokens_details/reasoning_tokens"),
            cache_read_tokens: cached.map(|place| count(usage, place)).into_iter().max().unwrap_or(0),
            cache_write_tokens: count(usage, "/prompt_tokens_details/cache_write_tokens"),
        });
    }
}

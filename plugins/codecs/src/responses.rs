//! The codec of OpenAI Responses, `POST {base}/responses`.
//!
//! The server stores nothing (`store: false`): each request contains the whole conversation, including the model's
//! encrypted reasoning. A reasoning item becomes a thinking block even without a summary (its text is then empty),
//! because the block keeps the item's place. The block's opaque data is the unchanged item.

mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use patchbay_provider_sdk::{Action, BlockKind, CompletionRequest, Failure, HttpRequest, Pair, ToolHead, Usage};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::body::Json;
use crate::failure::failure;
use crate::openai::{api_error, count, refused, text};
use crate::options::Extra;
use crate::stream::{Codec, Out, Stream};

pub use request::Reasoning;

/// Begins a completion and returns its first actions.
pub fn begin(request: &CompletionRequest, reasoning: Reasoning) -> (Stream<Responses>, Vec<Action>) {
    let extra = match Extra::read(&request.options) {
        Ok(extra) => extra,
        Err(failure) => return Stream::begin_or_fail(Responses::default(), Err(failure)),
    };
    let mut body = request::body(request, reasoning);
    extra.merge(&mut body);
    let first = extra.with_headers(request::http(&body));
    Stream::begin(Responses { again: Some((body, reasoning)), extra, ..Responses::default() }, first)
}

/// The state of one answer that is being received.
#[derive(Debug, Default)]
pub struct Responses {
    /// The body and its reasoning, until the first event.
    again: Option<(Json, Reasoning)>,
    extra: Extra,
    started: bool,
    /// Open blocks by the index of the item and of the part in it; calls and thinking have no parts.
    open: BTreeMap<(u64, u64), Open>,
    /// The kinds of content that have arrived, which determine the finish reason.
    called: bool,
    spoke: bool,
    refused: bool,
}

#[derive(Debug)]
struct Open {
    block: u32,
    /// True if a delta has arrived. The end of the item then only repeats the text.
    has_text: bool,
    /// The part of the last thinking delta.
    part: u64,
}

impl Codec for Responses {
    fn event(&mut self, event: &str, data: &str, out: &mut Out) {
        // Not part of this API, but some servers send it at the end, as in Chat Completions.
        if data.trim() == "[DONE]" {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            out.fail(failure("server", "the response contains an event that is not JSON"));
            return;
        };
        self.again = None;
        let at = count(&value, "/output_index");
        let part = count(&value, "/content_index");
        match value.get("type").and_then(Value::as_str).unwrap_or(event) {
            "response.created" | "response.in_progress" => self.begun(&value["response"], out),
            "response.output_item.added" => self.item_added(at, &value["item"], out),
            "response.output_text.delta" => self.emit_text((at, part), false, text(&value, "delta"), out),
            "response.refusal.delta" => self.emit_text((at, part), true, text(&value, "delta"), out),
            "response.reasoning_summary_text.delta" => {
                self.think(at, count(&value, "/summary_index"), text(&value, "delta"), out);
            }
            // Unencrypted thoughts, from models that show them.
            "response.reasoning_text.delta" => self.think(at, part, text(&value, "delta"), out),
            "response.function_call_arguments.delta" => self.input(at, text(&value, "delta"), out),
            "response.output_item.done" => self.item_done(at, &value["item"], data, out),
            "response.completed" => self.completed(&value["response"], out),
            "response.incomplete" => incomplete(&value["response"], out),
            "response.failed" => {
                usage(&value["response"], out);
                out.fail(api_error(&value["response"]["error"]));
            }
            "error" => out.fail(api_error(&value)),
            _ => {}
        }
    }

    /// Sends the request again without the field that the server refused. This is the summary, which
    /// unverified organisations may not use (2026-11-23, OpenHands software-agent-sdk#987,
    /// openai-cookbook#2271: status 400, `param` is `reasoning.summary`), or the encrypted reasoning, which
    /// models without reasoning and some Azure deployments do not support (2026-11-24,
    /// pydantic/pydantic-ai#2915, earendil-works/pi#6228: status 400, `param` is `include`).
    fn retry_refused(&mut self, status: u16, body: &[u8]) -> Option<HttpRequest> {
        let (sent, reasoning) = self.again.as_mut().filter(|_| status == 400)?;
        let error: Value = serde_json::from_slice(body).ok()?;
        match text(&error["error"], "param") {
            "reasoning.summary" if reasoning.summary => request::drop_summary(sent, reasoning)?,
            "include" if reasoning.encrypted => request::drop_encrypted(sent, reasoning),
            _ => return None,
        }
        self.extra.merge(sent);
        Some(self.extra.with_headers(request::http(sent)))
    }

    fn refused(&mut self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        refused(status, headers, body)
    }
}

impl Responses {
    fn begun(&mut self, response: &Value, out: &mut Out) {
        let model = text(response, "model");
        if !model.is_empty() && !std::mem::replace(&mut self.started, true) {
            out.started(model);
        }
    }

    /// Returns the block at a position; starts it if necessary.
    fn block(&mut self, place: (u64, u64), kind: BlockKind, out: &mut Out) -> &mut Open {
        self.open.entry(place).or_insert_with(|| Open { block: out.start(kind), has_text: false, part: 0 })
    }

    fn item_added(&mut self, at: u64, item: &Value, out: &mut Out) {
        match text(item, "type") {
            "reasoning" => {
                self.block((at, 0), BlockKind::Thinking, out);
            }
            "function_call" => {
                self.called = true;
                let head = ToolHead { id: text(item, "call_id").to_owned(), name: text(item, "name").to_owned() };
                self.block((at, 0), BlockKind::ToolCall(head), out);
            }
            // The parts of a message are blocks. Other items are tools of the server, which are never requested.
            _ => {}
        }
    }

    fn emit_text(&mut self, place: (u64, u64), refusal: bool, text: &str, out: &mut Out) {
        if text.is_empty() {
            return;
        }
        if refusal {
            self.refused = true;
        } else {
            self.spoke = true;
        }
        let open = self.block(place, BlockKind::Text, out);
        open.has_text = true;
        out.delta(open.block, text);
    }

    fn think(&mut self, at: u64, part: u64, text: &str, out: &mut Out) {
        if text.is_empty() {
            return;
        }
        let open = self.block((at, 0), BlockKind::Thinking, out);
        if open.has_text && open.part != part {
            out.delta(open.block, "\n\n");
        }
        open.has_text = true;
        open.part = part;
        out.delta(open.block, text);
    }

    fn input(&mut self, at: u64, text: &str, out: &mut Out) {
        if let Some(open) = self.open.get_mut(&(at, 0)) {
            open.has_text |= !text.is_empty();
            out.delta(open.block, text);
        }
    }

    /// Handles the end of an item, which contains the whole item: emits everything that has not arrived as deltas.
    fn item_done(&mut self, at: u64, item: &Value, data: &str, out: &mut Out) {
        self.item_added(at, item, out);
        match text(item, "type") {
            "message" => self.message_done(at, item, out),
            "reasoning" => {
                let parts = ["summary", "content"].into_iter().flat_map(|list| item[list].as_array()).flatten();
                let whole: Vec<_> = parts.map(|part| text(part, "text")).collect();
                if !self.open.get(&(at, 0)).is_some_and(|open| open.has_text) {
                    self.think(at, 0, &whole.join("\n\n"), out);
                }
                // Without its encrypted content, the server could not use the item.
                let known = !text(item, "encrypted_content").is_empty();
                self.close((at, 0), known.then(|| raw_item(data)).flatten(), out);
            }
            "function_call" => {
                let complete = text(item, "status") != "incomplete";
                let whole = match text(item, "arguments") {
                    "" if complete => "{}",
                    arguments => arguments,
                };
                if !self.open.get(&(at, 0)).is_some_and(|open| open.has_text) {
                    self.input(at, whole, out);
                }
                self.close((at, 0), None, out);
            }
            _ => {}
        }
    }

    fn message_done(&mut self, at: u64, item: &Value, out: &mut Out) {
        for (part, content) in (0..).zip(item["content"].as_array().into_iter().flatten()) {
            let place = (at, part);
            if !self.open.get(&place).is_some_and(|open| open.has_text) {
                self.emit_text(place, false, text(content, "text"), out);
                self.emit_text(place, true, text(content, "refusal"), out);
            }
            // Data of a text block in addition to its text.
            let phase = item.get("phase").and_then(Value::as_str);
            self.close(place, phase.map(|phase| json!({"phase": phase}).to_string()), out);
        }
    }

    fn close(&mut self, place: (u64, u64), opaque: Option<String>, out: &mut Out) {
        if let Some(open) = self.open.remove(&place) {
            out.end(open.block, opaque);
        }
    }

    fn completed(&mut self, response: &Value, out: &mut Out) {
        self.begun(response, out);
        usage(response, out);
        let stop = match (self.called, self.refused && !self.spoke) {
            (true, _) => "tool-use",
            (false, true) => "refusal",
            (false, false) => "end-turn",
        };
        out.finish(stop, "completed");
    }
}

fn incomplete(response: &Value, out: &mut Out) {
    usage(response, out);
    let reason = text(&response["incomplete_details"], "reason");
    let stop = match reason {
        "max_output_tokens" => "max-tokens",
        "content_filter" => "content-filter",
        _ => "other",
    };
    out.finish(stop, if reason.is_empty() { "incomplete" } else { reason });
}

fn usage(response: &Value, out: &mut Out) {
    let usage = &response["usage"];
    if usage.is_object() {
        out.usage(Usage {
            input_tokens: count(usage, "/input_tokens"),
            output_tokens: count(usage, "/output_tokens"),
            thinking_tokens: count(usage, "/output_tokens_details/reasoning_tokens"),
            cache_read_tokens: count(usage, "/input_tokens_details/cached_tokens"),
            cache_write_tokens: count(usage, "/input_tokens_details/cache_write_tokens"),
        });
    }
}

/// Returns the unchanged item of an event, because a server may check every byte of encrypted data.
fn raw_item(data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        item: &'a RawValue,
    }
    serde_json::from_str::<Event>(data).ok().map(|event| event.item.get().to_owned())
}

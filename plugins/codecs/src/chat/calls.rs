//! Assembles tool calls from pieces. Servers differ: calls may or may not have an index; the id is in every piece,
//! only in the first, or in none; and a call arrives as a whole or character by character.

use std::borrow::Cow;

use patchbay_provider_sdk::{BlockKind, ToolHead};
use serde_json::{Value, json};

use crate::openai::text;
use crate::stream::Out;

/// The field of a call for the server's own data. It is also the only field of the data attached to the call.
const EXTRA: &str = "extra_content";

/// Returns the server's own data from the data attached to a call.
pub(super) fn extra(opaque: &str) -> Option<Value> {
    let data: Value = serde_json::from_str(opaque).ok()?;
    data.get(EXTRA).filter(|extra| extra.is_object()).cloned()
}

/// The calls of one answer, in the order of arrival.
#[derive(Debug)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Number of earlier calls in the conversation, for the ids of calls without an id.
    before: usize,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    /// The server's id; empty if there is none.
    id: String,
    /// Index of the block; `None` until the name has arrived.
    block: Option<u32>,
    /// The input that has arrived.
    input: String,
    /// Gemini's data, which must be sent back with the call: `extra_content.google.thought_signature` (2026-11-23,
    /// ai.google.dev, "Thought signatures", OpenAI compatibility).
    extra: Option<Value>,
}

impl Calls {
    pub(super) fn new(before: usize) -> Self {
        Self { calls: Vec::new(), before }
    }

    /// Returns true if there is a call with a name.
    pub(super) fn any(&self) -> bool {
        self.calls.iter().any(|call| call.block.is_some())
    }

    /// Returns true if the input of each call with a name is a whole JSON object. A call without input does not count as whole: a
    /// cut before the first byte of the input looks the same.
    pub(super) fn are_whole(&self) -> bool {
        let mut named = self.calls.iter().filter(|call| call.block.is_some());
        named.all(|call| matches!(serde_json::from_str(&call.input), Ok(Value::Object(_))))
    }

    /// Adds a piece of a call: `found` has its index and id, `function` its name and input.
    pub(super) fn delta(&mut self, found: &Value, function: &Value, out: &mut Out) {
        let (index, id, name) = (found.get("index").and_then(Value::as_u64), text(found, "id"), text(function, "name"));
        let at = self.find(index, id, name).unwrap_or_else(|| {
            self.calls.push(Call { index, id: id.to_owned(), block: None, input: String::new(), extra: None });
            self.calls.len() - 1
        });
        let ordinal = self.before + at;
        let extra = &found[EXTRA];
        let call = &mut self.calls[at];
        if extra.is_object() {
            call.extra = Some(extra.clone());
        }
        if call.block.is_none() && !name.is_empty() {
            if call.id.is_empty() {
                id.clone_into(&mut call.id);
            }
            let id = if call.id.is_empty() { format!("call_{ordinal}") } else { call.id.clone() };
            let block = out.start(BlockKind::ToolCall(ToolHead { id, name: name.to_owned() }));
            call.block = Some(block);
            // The input may arrive before the name.
            out.delta(block, call.input.as_str());
        }
        let input = input(function);
        call.input.push_str(&input);
        if let Some(block) = call.block {
            out.delta(block, input);
        }
    }

    /// Returns the call to which a piece belongs; `None` if it begins a new one.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            // Without an index, a piece with a name begins a call, unless its id is known.
            None if !id.is_empty() => match self.calls.iter().rposition(|call| call.id == id) {
                Some(at) => at,
                None if name.is_empty() => self.calls.len().checked_sub(1)?,
                None => return None,
            },
            None if name.is_empty() => self.calls.len().checked_sub(1)?,
            None => return None,
        };
        // Some servers send several complete calls with the same index.
        let other = !id.is_empty() && !name.is_empty() && !self.calls[at].id.is_empty() && self.calls[at].id != id;
        (!other).then_some(at)
    }

    /// Ends the calls of a complete answer. A call without input gets an empty object.
    pub(super) fn complete(&self, out: &mut Out) {
        for call in &self.calls {
            if let Some(block) = call.block {
                if call.input.is_empty() {
                    out.delta(block, "{}");
                }
                out.end(block, call.extra.as_ref().map(|extra| json!({ EXTRA: extra }).to_string()));
            }
        }
    }
}

/// Returns a piece of the input: a string, or from some servers the object itself.
fn input(function: &Value) -> Cow<'_, str> {
    match function.get("arguments") {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(object @ Value::Object(_)) => Cow::Owned(object.to_string()),
        _ => Cow::Borrowed(""),
    }
}

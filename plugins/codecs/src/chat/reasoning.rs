//! Thinking that is sent back to the server unchanged. Servers differ in the field:
//!
//! | field | server | source, checked 2026-11-23 |
//! | --- | --- | --- |
//! | `reasoning_content` | DeepSeek, Kimi, GLM, vLLM; required in turns with tools | api-docs.deepseek.com, "Thinking Mode" |
//! | `reasoning` | Cerebras, Groq, newer vLLM; they refuse the field above | QwenLM/qwen-code#11045 |
//! | `reasoning_details` | OpenRouter, MiniMax | openrouter.ai, "Reasoning Tokens"; langchain-ai/langchain#36400 |
//! | `content`, as a list | Mistral | docs.mistral.ai, "Reasoning" |
//!
//! A thinking block's data is a JSON object that contains only the field to send back.

use serde_json::{Map, Value, json};

use crate::body::Json;
use crate::openai::text;

/// DeepSeek's field. If one of the model's messages has it, all of them must.
pub(super) const DEEPSEEK: &str = "reasoning_content";

/// Fields that contain the thinking as one string.
const TEXTS: [&str; 2] = [DEEPSEEK, "reasoning"];

const DETAILS: &str = "reasoning_details";

/// The content field, which can be a list that includes thinking.
const CONTENT: &str = "content";

/// The thinking of one block while it arrives.
#[derive(Debug, Default)]
pub(super) struct Received {
    field: Option<&'static str>,
    text: String,
    details: Vec<Value>,
}

impl Received {
    /// Adds the thinking of a delta and returns the text to show.
    pub(super) fn delta(&mut self, delta: &Value) -> String {
        let details = delta[DETAILS].as_array().map(Vec::as_slice).unwrap_or_default();
        for detail in details {
            merge(&mut self.details, detail.clone());
        }
        // Servers that send both fields send the same text in them.
        let field = TEXTS.into_iter().find(|field| !text(delta, field).is_empty());
        match field {
            Some(field) => self.add(field, text(delta, field)),
            None => details.iter().flat_map(|detail| [text(detail, "text"), text(detail, "summary")]).collect(),
        }
    }

    /// Adds a part of a content list and returns the text to show; empty if the part is not thinking.
    pub(super) fn part(&mut self, part: &Value) -> String {
        let thinking: String = match &part["thinking"] {
            Value::String(thinking) => thinking.clone(),
            Value::Array(list) => list.iter().map(|inner| text(inner, "text")).collect(),
            _ => String::new(),
        };
        if thinking.is_empty() { thinking } else { self.add(CONTENT, &thinking) }
    }

    fn add(&mut self, field: &'static str, thinking: &str) -> String {
        self.field.get_or_insert(field);
        self.text.push_str(thinking);
        thinking.to_owned()
    }

    /// Returns the data of the block, and forgets it; `None` if there is nothing to send back.
    pub(super) fn take(&mut self) -> Option<String> {
        let Self { field, text, details } = std::mem::take(self);
        if !details.is_empty() {
            // The details contain the text, too.
            return Some(json!({ DETAILS: details }).to_string());
        }
        let field = field?;
        let value = match field {
            CONTENT => json!([{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]),
            _ => text.into(),
        };
        Some(json!({ field: value }).to_string())
    }
}

/// The thinking of one model message, to be sent back.
#[derive(Debug, Default)]
pub(super) struct Kept {
    text: Option<(&'static str, String)>,
    details: Vec<Value>,
    contents: Vec<Value>,
}

impl Kept {
    /// Adds the data of a thinking block. Data of another form is ignored.
    pub(super) fn add(&mut self, opaque: Option<&str>) {
        let Some(data) = opaque.and_then(|opaque| serde_json::from_str::<Map<String, Value>>(opaque).ok()) else {
            return;
        };
        for detail in data.get(DETAILS).and_then(Value::as_array).into_iter().flatten() {
            merge(&mut self.details, detail.clone());
        }
        self.contents.extend(data.get(CONTENT).and_then(Value::as_array).into_iter().flatten().cloned());
        for field in TEXTS {
            if let Some(more) = data.get(field).and_then(Value::as_str) {
                self.text.get_or_insert((field, String::new())).1.push_str(more);
            }
        }
    }

    /// Returns true if the thinking is in DeepSeek's field.
    pub(super) fn is_deepseek(&self) -> bool {
        self.text.as_ref().is_some_and(|(field, _)| *field == DEEPSEEK)
    }

    /// Adds the thinking and the content to a model's message. `everywhere` is true if each message must
    /// have DeepSeek's field.
    pub(super) fn put(self, message: &mut Json, content: Json, everywhere: bool) {
        if self.contents.is_empty() {
            message.put("content", content);
        } else {
            let mut list: Vec<Json> = self.contents.into_iter().map(Json::from).collect();
            if content != Json::Value(Value::Null) {
                list.push(crate::object! { "type": "text", "text": content });
            }
            message.put("content", list);
        }
        if !self.details.is_empty() {
            message.put(DETAILS, Value::from(self.details));
        } else if let Some((field, text)) = self.text {
            message.put(field, text);
        } else if everywhere {
            message.put(DEEPSEEK, "");
        }
    }
}

/// Adds a detail to a list. The pieces of one detail have the same type and index: their texts are joined, and the
/// last piece determines the other fields. Encrypted data arrives in one piece.
fn merge(list: &mut Vec<Value>, detail: Value) {
    let joined = ["text", "summary"].into_iter().find(|field| detail[*field].is_string());
    let (kind, index) = (text(&detail, "type").to_owned(), detail["index"].clone());
    let last = list.last_mut().filter(|last| {
        let is_piece = joined.is_some() || detail["signature"].is_string();
        is_piece && !kind.is_empty() && last["type"] == kind.as_str() && last["index"] == index
    });
    let Some(last) = last.and_then(Value::as_object_mut) else { return list.push(detail) };
    for (field, value) in detail.as_object().into_iter().flatten() {
        match (last.get_mut(field), value) {
            (_, Value::Null) => {}
            (Some(Value::String(before)), Value::String(more)) if Some(field.as_str()) == joined => {
                before.push_str(more);
            }
            _ => drop(last.insert(field.clone(), value.clone())),
        }
    }
}

//! The JSON of a stream's events. Unknown fields are ignored.

use patchbay_provider_sdk as sdk;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    MessageStart {
        message: Message,
    },
    ContentBlockStart {
        index: u64,
        content_block: Value,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Stop,
        #[serde(default)]
        usage: Usage,
    },
    MessageStop,
    Error {
        error: Error,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) usage: Usage,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub(super) enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Input {
        #[serde(default)]
        partial_json: String,
    },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
pub(super) struct Stop {
    pub(super) stop_reason: Option<String>,
    pub(super) stop_details: Option<StopDetails>,
}

#[derive(Deserialize)]
pub(super) struct StopDetails {
    pub(super) explanation: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Error {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    message: String,
}

/// Parses the body of a refusal, `{"type": "error", "error": {"type", "message"}}`, even in the shortened forms of proxies:
/// without the types, or with a string instead of the inner object. `None` if there is neither a type nor a message.
pub(super) fn refusal(body: &[u8]) -> Option<Error> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = error.as_str().map_or_else(|| word("message"), str::to_owned);
    let error = Error { kind: word("type"), message };
    (!error.kind.is_empty() || !error.message.is_empty()).then_some(error)
}

impl Error {
    /// Returns the API's code, if it has one.
    pub(super) fn code(&self) -> Option<String> {
        Some(self.kind.clone()).filter(|kind| !kind.is_empty())
    }

    /// Returns true if the account has run out of credit. A retry cannot help then. The API reports it as
    /// `billing_error`, or as an invalid request with this text (2026-11-23, `BillingError` of the Python SDK anthropic
    /// 2.12.0; the text as users of other clients report it).
    pub(super) fn is_credit_used_up(&self) -> bool {
        self.kind == "billing_error" || self.message.contains("credit balance is too low")
    }

    /// Returns the message, or the type if there is none.
    pub(super) fn words(self) -> String {
        if self.message.is_empty() { format!("the server reports '{}'", self.kind) } else { self.message }
    }
}

/// Token usage. Each event has only some fields; their values are totals since the beginning of the answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl Usage {
    pub(super) fn update(&mut self, more: Self) {
        self.input_tokens = more.input_tokens.or(self.input_tokens);
        self.output_tokens = more.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens = more.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = more.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.output_tokens_details = more.output_tokens_details.or(self.output_tokens_details.take());
    }

    /// Converts to the contract's usage. The API's `input_tokens` counts only the tokens after the last cache point.
    pub(super) fn total(&self) -> sdk::Usage {
        let cache_write_tokens = self.cache_creation_input_tokens.unwrap_or(0);
        let cache_read_tokens = self.cache_read_input_tokens.unwrap_or(0);
        let input = self.input_tokens.unwrap_or(0);
        sdk::Usage {
            input_tokens: input.saturating_add(cache_write_tokens).saturating_add(cache_read_tokens),
            output_tokens: self.output_tokens.unwrap_or(0),
            thinking_tokens: self
                .output_tokens_details
                .as_ref()
                .and_then(|details| details.thinking_tokens)
                .unwrap_or(0),
            cache_read_tokens,
            cache_write_tokens,
        }
    }
}

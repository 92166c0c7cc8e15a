//! The four wire formats of the bundled adapters: responses and errors of their servers, from the recordings of the codecs.
//! Use [`FORMATS`] in a test of a rule that applies to all of them.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{binary::Patchbay, guest::Guest, server::Server};

/// A wire format and a bundled provider that uses it.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The provider's name, such as `anthropic`.
    pub provider: &'static str,
    /// A model of the provider, as an argument of `/model`.
    pub model: &'static str,
    /// The environment variable with the provider's key.
    pub variable: &'static str,
    /// The header that carries the key, up to the key itself.
    pub header: &'static str,
    path: &'static str,
    /// The folder in `plugins/codecs/recordings`.
    folder: &'static str,
    /// The name of the recording with a tool call.
    pub call: &'static str,
    /// The name of the recording with twelve tool calls.
    pub wide_call: &'static str,
    /// The name of the recording with thinking.
    pub thinking: &'static str,
    /// The name of the recording with an error after some text.
    pub error: &'static str,
    /// The error code in that recording.
    pub error_code: &'static str,
}

/// The key that [`Format::home`] sets for the provider.
pub const KEY: &str = "s3ntinel+of/the=provider~key";

/// The format of Anthropic Messages.
pub const ANTHROPIC: Format = Format {
    provider: "anthropic",
    model: "claude-sonnet-4-5/low",
    variable: "ANTHROPIC_API_KEY",
    header: "x-api-key: ",
    path: "",
    folder: "messages",
    call: "tool_call",
    wide_call: "wide_tool_calls",
    thinking: "thinking",
    error: "error_after_text",
    error_code: "provider_server",
};

/// The format of OpenAI Responses.
pub const OPENAI: Format = Format {
    provider: "openai",
    model: "o3/low",
    variable: "OPENAI_API_KEY",
    header: "authorization: Bearer ",
    path: "/v1",
    folder: "responses",
    call: "tool-call",
    wide_call: "wide-tool-calls",
    thinking: "thinking",
    error: "error",
    error_code: "provider_rate_limit",
};

/// The format of the Google Gemini API.
pub const GOOGLE: Format = Format {
    provider: "google",
    model: "gemini-2.5-pro/low",
    variable: "GOOGLE_API_KEY",
    header: "x-goog-api-key: ",
    path: "",
    folder: "gemini",
    call: "call",
    wide_call: "wide_calls",
    thinking: "thoughts",
    error: "error_after_text",
    error_code: "provider_server",
};

/// OpenAI Chat Completions, as local servers offer them.
pub const CHAT: Format = Format {
    provider: "openai-compatible",
    model: "openai-compatible:local-1",
    variable: "LOCAL_API_KEY",
    header: "authorization: Bearer ",
    path: "/v1",
    folder: "chat",
    call: "tool-call",
    wide_call: "wide-tool-calls",
    thinking: "thinking",
    error: "error",
    error_code: "provider_server",
};

/// All four formats.
pub const FORMATS: [Format; 4] = [ANTHROPIC, OPENAI, GOOGLE, CHAT];

impl Format {
    fn file(&self, name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/codecs/recordings").join(self.folder);
        let path = folder.join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The body of a recorded response. Its tool calls name `weather__now`.
    pub fn body(&self, recording: &str) -> Vec<u8> {
        let bytes = self.file(&format!("{recording}.sse"));
        let Ok(text) = String::from_utf8(bytes.clone()) else { return bytes };
        text.replace("files__read", "weather__now").replace("web__weather", "weather__now").into_bytes()
    }

    /// The result of a recorded response's events: `text`, `thinking`, `tool_calls` and `usage`.
    pub fn expected(&self, recording: &str) -> Value {
        let fixture: Value = serde_json::from_slice(&self.file(&format!("{recording}.json"))).expect("JSON");
        let events = fixture["events"].as_array().expect("events");
        let blocks = || events.iter().map(|event| event.pointer("/signed/part").unwrap_or(event));
        let joined = |kind: &str| blocks().filter_map(|block| block[kind].as_str()).collect::<String>();
        let calls: Vec<_> = blocks().filter_map(|block| block.get("tool_call")).collect();
        let usage = events.iter().find_map(|event| event.get("usage"));
        json!({"text": joined("text"), "thinking": joined("thinking"), "tool_calls": calls, "usage": usage})
    }

    /// The text of the recording `text`.
    pub fn recorded_text(&self) -> String {
        self.expected("text")["text"].as_str().expect("a text").to_owned()
    }

    /// A recorded response with its head.
    pub fn answer(&self, recording: &str) -> Vec<u8> {
        event_stream(&self.body(recording))
    }

    /// A response that streams `texts`, one event each. The strings are already escaped for JSON.
    pub fn answer_with(&self, texts: &[&str]) -> Vec<u8> {
        let recorded = String::from_utf8(self.body("text")).expect("UTF-8");
        let line = |value: &Value| format!("data: {value}\n\n");
        let all = |event: String| -> String {
            texts.iter().map(|text| event.replace("\"PIECE\"", &format!("\"{text}\""))).collect()
        };
        let within_recorded = |first: &str, next: &str, delta: Value| {
            let start = recorded.find(&format!("event: {first}")).expect("a delta");
            let stop = recorded.find(&format!("event: {next}")).expect("a stop");
            format!("{}{}{}", &recorded[..start], all(line(&delta)), &recorded[stop..])
        };
        let body = match self.folder {
            "messages" => {
                let delta = json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "text_delta", "text": "PIECE"}});
                within_recorded("content_block_delta", "content_block_stop", delta)
            }
            "responses" => {
                let delta = json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
                    "delta": "PIECE"});
                within_recorded("response.output_text.delta", "response.output_text.done", delta)
            }
            "gemini" => {
                let part = json!({"candidates": [{"content": {"parts": [{"text": "PIECE"}], "role": "model"}}]});
                let end = json!({"candidates": [{"content": {"parts": [], "role": "model"}, "finishReason": "STOP"}]});
                all(line(&part)) + &line(&end)
            }
            _ => all(chat_event(&json!({"content": "PIECE"}), &Value::Null)) + &chat_end("stop"),
        };
        event_stream(body.as_bytes())
    }

    /// An error response of this format. `wait` is the retry delay in seconds; 0 means one millisecond.
    pub fn refusal(&self, status: u16, message: &str, wait: Option<u32>) -> Vec<u8> {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        let word = match status {
            400 => "INVALID_ARGUMENT",
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            _ => "UNAVAILABLE",
        };
        // Clients ignore a delay of zero.
        let seconds = |wait: u32| if wait == 0 { "0.001".to_owned() } else { wait.to_string() };
        let (headers, body) = match self.folder {
            "messages" => (
                wait.map(|wait| format!("retry-after: {}\r\n", seconds(wait))),
                json!({"type": "error", "error": {"type": kind, "message": message}}),
            ),
            "gemini" => {
                let delay = wait.map(|wait| format!("{}s", seconds(wait)));
                let info = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
                let details = if wait.is_some() { vec![info] } else { Vec::new() };
                (None, json!({"error": {"code": status, "message": message, "status": word, "details": details}}))
            }
            folder => {
                let headers = wait.map(|wait| match (folder, wait) {
                    (_, 0) => "retry-after-ms: 1\r\n".to_owned(),
                    ("responses", wait) => {
                        format!("x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: {wait}s\r\n")
                    }
                    (_, wait) => format!("retry-after-ms: {}\r\n", wait * 1000),
                });
                (headers, json!({"error": {"message": message, "type": kind, "code": null}}))
            }
        };
        let body = body.to_string();
        let headers = headers.unwrap_or_default();
        let head =
            format!("HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}");
        format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    /// The table of `config.toml` that directs the provider to `server`.
    pub fn table(&self, server: &Server) -> String {
        let Self { provider, variable, path, .. } = self;
        let mut table = format!("[providers.{provider}]\norigin = \"http://{}{path}\"\n", server.host());
        if self.folder == "chat" {
            table += &format!("env = \"{variable}\"\n");
        }
        table
    }

    /// Creates a home as it is after an installation, with the provider at `server` and its key [`KEY`]. `more` is appended to
    /// `config.toml`.
    pub fn plain_home(&self, server: &Server, more: &str) -> Patchbay {
        let mut patchbay = Patchbay::new();
        patchbay.set(self.variable, KEY);
        patchbay.write("home/config/config.toml", format!("{}{more}", self.table(server)));
        patchbay
    }

    /// Like [`Format::plain_home`], with the tool `weather__now`, which echoes its input.
    pub fn home(&self, server: &Server, more: &str) -> Patchbay {
        let patchbay = self.plain_home(server, more);
        let tools = vec![("now".into(), "The weather".into(), r#"{"type":"object"}"#.into())];
        let weather = Guest { tools, ..Guest::default() };
        patchbay.write("home/config/skills/weather.wasm", weather.packaged("---\nsummary: Weather\n---\n"));
        patchbay
    }
}

/// A [`CHAT`] response with tool calls: `calls` is an array of name and input pairs.
pub fn chat_calls(calls: &Value) -> Vec<u8> {
    let calls = calls.as_array().expect("an array").iter().enumerate().map(|(index, call)| {
        let function = json!({"name": call[0], "arguments": call[1].to_string()});
        json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": function})
    });
    let body = chat_event(&json!({"tool_calls": calls.collect::<Vec<_>>()}), &Value::Null);
    event_stream((body + &chat_end("tool_calls")).as_bytes())
}

/// A [`CHAT`] event. `end` is the finish reason, or null.
pub fn chat_event(delta: &Value, end: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
    format!("data: {}\n\n", json!({"id": "c", "model": "local-1", "choices": [choice]}))
}

/// The last events of a [`CHAT`] response. `reason` is the finish reason, such as `stop`.
pub fn chat_end(reason: &str) -> String {
    chat_event(&json!({}), &json!(reason)) + "data: [DONE]\n\n"
}

/// A response with server-sent events whose body ends when the connection closes.
pub fn event_stream(body: &[u8]) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n", body].concat()
}

/// A response with server-sent events that ends before its declared length.
pub fn truncated_event_stream(body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len() + 9);
    [head.as_bytes(), body].concat()
}

//! Converts between the contract's types and this crate's.

use std::{collections::BTreeSet, time::Duration};

use patchbay_core::{
    completion::{
        Blob, Block, BlockKind, CompletionRequest, FailureKind, Finish, Message, Part, Piece, Role, Stop, StreamEvent,
        ThinkingLevel, TokenUsage, ToolChoice,
    },
    text::{self, TextCleaner},
};

use super::{Action, AdapterFailure, AdapterRequest, BodyPiece, Input, RetryHint};
use crate::{Auth, Failure, RequestedPlacement, bindings::adapter::patchbay::provider::types as wit};

/// Converts a completion request, and returns its blobs, indexed by id.
pub(super) fn request(request: CompletionRequest, options: &[(String, String)]) -> (wit::CompletionRequest, Vec<Blob>) {
    let mut blobs = Vec::new();
    let request = wit::CompletionRequest {
        model: request.model,
        system: request.system,
        messages: request.messages.into_iter().map(|said| message(said, &mut blobs)).collect(),
        tools: request
            .tools
            .into_iter()
            .map(|tool| wit::Tool { name: tool.name, description: tool.description, input_schema: tool.input_schema })
            .collect(),
        tool_choice: match request.tool_choice {
            ToolChoice::Auto => wit::ToolChoice::Auto,
            ToolChoice::None => wit::ToolChoice::None,
            ToolChoice::Required => wit::ToolChoice::Required,
            ToolChoice::Named(name) => wit::ToolChoice::Named(name),
        },
        thinking: request.thinking.map(ThinkingLevel::as_str).map(str::to_owned),
        max_output_tokens: request.max_output_tokens,
        options: pairs(options),
    };
    (request, blobs)
}

/// Converts names and values.
pub(super) fn pairs(pairs: &[(String, String)]) -> Vec<wit::Pair> {
    pairs.iter().map(|(name, value)| wit::Pair { name: name.clone(), value: value.clone() }).collect()
}

fn message(message: Message, blobs: &mut Vec<Blob>) -> wit::Message {
    let role = match message.role {
        Role::User => wit::Role::User,
        Role::Assistant => wit::Role::Assistant,
    };
    let part = |Part { block, opaque }| wit::Part { block: self::block(block, blobs), opaque };
    wit::Message { role, parts: message.parts.into_iter().map(part).collect() }
}

fn block(block: Block, blobs: &mut Vec<Blob>) -> wit::Block {
    match block {
        Block::Text(text) => wit::Block::Text(text),
        Block::Blob(blob) => wit::Block::Blob(held(blob, blobs)),
        Block::Thinking(text) => wit::Block::Thinking(text),
        Block::ToolCall(call) => {
            wit::Block::ToolCall(wit::ToolCall { id: call.id, name: call.name, input: call.input })
        }
        Block::ToolResult(result) => {
            let piece = |piece| match piece {
                Piece::Text(text) => wit::Piece::Text(text),
                Piece::Blob(blob) => wit::Piece::Blob(held(blob, blobs)),
            };
            let content = result.content.into_iter().map(piece).collect();
            let (call_id, name, is_error) = (result.call_id, result.name, result.is_error);
            wit::Block::ToolResult(wit::ToolResult { call_id, name, content, is_error })
        }
        Block::Opaque(opaque) => wit::Block::Opaque(opaque),
    }
}

/// Adds a blob and returns its reference for the adapter.
fn held(blob: Blob, blobs: &mut Vec<Blob>) -> wit::BlobRef {
    let held = wit::BlobRef {
        // A conversation with more blobs does not fit into memory.
        id: u32::try_from(blobs.len()).unwrap_or(u32::MAX),
        media_type: blob.media_type.clone(),
        name: blob.name.clone(),
        size: blob.data.len() as u64,
    };
    blobs.push(blob);
    held
}

impl From<Input> for wit::Input {
    fn from(input: Input) -> Self {
        match input {
            Input::Head { status, headers } => {
                let headers = headers.into_iter().map(|(name, value)| wit::Pair { name, value }).collect();
                Self::ResponseHead(wit::ResponseHead { status, headers })
            }
            Input::Chunk(bytes) => Self::BodyChunk(bytes),
            Input::End => Self::BodyEnd,
            Input::TransportFailed { kind, message } => {
                Self::TransportFailed(wit::TransportFailure { kind: kind.as_str().to_owned(), message })
            }
            Input::Timer => Self::Timer,
        }
    }
}

/// Length limit of a word of the API, such as a stop reason, in characters.
const WORD_CHARS: usize = 200;
/// Maximum characters of a failure's message, or of an extra value.
const MESSAGE_CHARS: usize = 2_000;
/// Maximum bytes of a tool call's id. A longer one is rejected, because it must be returned unchanged.
const ID_BYTES: usize = 512;
/// Size limit of a request's method, path and query together, in bytes.
const PATH_BYTES: usize = 16 << 10;
/// Maximum number of a request's headers.
const HEADERS: usize = 100;
/// Size limit of a request's headers together, in bytes.
const HEADER_BYTES: usize = 64 << 10;
/// Maximum number of credentials in one request.
const CREDENTIALS: usize = 8;
/// Maximum tokens in each field of a response's usage, far more than any response has. With this limit, nine billion responses can
/// be added before the counts of a session overflow the integers of the database.
const USAGE_TOKENS: u64 = 1_000_000_000;

/// Converts an action of an adapter. Cleans texts and limits sizes.
pub(super) fn action(action: wit::Action, deltas: &mut Deltas) -> Result<Action, Failure> {
    Ok(match action {
        wit::Action::Send(request) => Action::Send(send(request)?),
        wit::Action::WaitMs(ms) => Action::Wait(Duration::from_millis(ms.into())),
        wit::Action::Emit(event) => Action::Emit(deltas.event(event)?),
        wit::Action::Finish(finish) => {
            Action::Finish(Finish { stop: Stop::from_word(&finish.stop), raw: word(&finish.raw) })
        }
        wit::Action::Fail(failure) => Action::Fail(self::failure(failure)),
    })
}

/// Converts a failure. Cleans texts and limits their length.
pub(super) fn failure(failure: wit::Failure) -> AdapterFailure {
    AdapterFailure {
        kind: FailureKind::from_word(&failure.kind),
        message: text::excerpt(&failure.message, MESSAGE_CHARS),
        http_status: failure.http_status.filter(|status| (100..1000).contains(status)),
        code: failure.code.as_deref().map(word),
        retry: match failure.retry {
            wit::Retry::Never => RetryHint::Never,
            wit::Retry::Backoff => RetryHint::Backoff,
            wit::Retry::AfterMs(ms) => RetryHint::After(Duration::from_millis(ms)),
        },
    }
}

/// Converts a request, and limits its size.
pub(super) fn send(request: wit::HttpRequest) -> Result<AdapterRequest, Failure> {
    let wit::HttpRequest { method, path_and_query, headers, auth: credentials, body } = request;
    at_most("bytes of method, path and query", method.len() + path_and_query.len(), PATH_BYTES)?;
    at_most("headers", headers.len(), HEADERS)?;
    let size = headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    at_most("bytes of headers", size, HEADER_BYTES)?;
    at_most("credentials", credentials.len(), CREDENTIALS)?;
    let auth = |auth: wit::Auth| {
        let placement = match auth.placement {
            wit::Placement::Header(wit::Pair { name, value }) => RequestedPlacement::Header { name, prefix: value },
            wit::Placement::Query(name) => RequestedPlacement::Query(name),
        };
        Auth { credential: auth.credential, placement }
    };
    let piece = |piece| match piece {
        wit::BodyPiece::Bytes(bytes) => BodyPiece::Bytes(bytes),
        wit::BodyPiece::BlobBase64(id) => BodyPiece::BlobBase64(id),
    };
    Ok(AdapterRequest {
        method,
        path_and_query,
        headers: headers.into_iter().map(|header| (header.name, header.value)).collect(),
        auth: credentials.into_iter().map(auth).collect(),
        body: body.into_iter().map(piece).collect(),
    })
}

fn at_most(what: &str, count: usize, limit: usize) -> Result<(), Failure> {
    if count > limit {
        let message = format!("a request with {count} {what}; the limit is {limit}");
        return Err(Failure::InvalidOutput(message));
    }
    Ok(())
}

fn word(word: &str) -> String {
    text::excerpt(word, WORD_CHARS)
}

/// State from earlier events that is needed to clean later ones.
#[derive(Default)]
pub(super) struct Deltas {
    /// Blocks whose deltas are JSON. JSON is cleaned when it is complete and parsed, because
    /// escapes can contain any character.
    raw: BTreeSet<u32>,
    /// The block of the last delta and its cleaner: a line end or a joined emoji may continue in the next delta.
    cleaner: (u32, TextCleaner),
    /// Whether an excessive usage was logged. Each response logs it at most once.
    has_logged_usage: bool,
}

impl Deltas {
    fn event(&mut self, event: wit::Event) -> Result<StreamEvent, Failure> {
        Ok(match event {
            wit::Event::Started(model) => StreamEvent::Started(word(&model)),
            wit::Event::BlockStart(wit::BlockStart { index, kind }) => {
                StreamEvent::BlockStart { index, kind: self.start(index, kind)? }
            }
            wit::Event::BlockDelta(wit::BlockDelta { index, text }) => {
                StreamEvent::BlockDelta { index, text: self.delta(index, text) }
            }
            wit::Event::BlockEnd(wit::BlockEnd { index, opaque }) => {
                self.raw.remove(&index);
                StreamEvent::BlockEnd { index, opaque }
            }
            wit::Event::Usage(usage) => StreamEvent::Usage(self.usage(usage)),
            wit::Event::Extra(wit::Pair { name, value }) => {
                StreamEvent::Extra { name: word(&name), value: text::excerpt(&value, MESSAGE_CHARS) }
            }
        })
    }

    /// Converts a usage. Each field is limited to [`USAGE_TOKENS`].
    fn usage(&mut self, usage: wit::Usage) -> TokenUsage {
        let wit::Usage { input_tokens, output_tokens, thinking_tokens, cache_read_tokens, cache_write_tokens } = usage;
        let mut bounded = |tokens: u64| {
            if tokens > USAGE_TOKENS && !std::mem::replace(&mut self.has_logged_usage, true) {
                tracing::warn!("the adapter reported {tokens} tokens for one answer; {USAGE_TOKENS} are counted");
            }
            tokens.min(USAGE_TOKENS)
        };
        TokenUsage {
            input: bounded(input_tokens),
            output: bounded(output_tokens),
            thinking: bounded(thinking_tokens),
            cache_read: bounded(cache_read_tokens),
            cache_write: bounded(cache_write_tokens),
        }
    }

    fn start(&mut self, index: u32, kind: wit::BlockKind) -> Result<BlockKind, Failure> {
        Ok(match kind {
            wit::BlockKind::Text => BlockKind::Text,
            wit::BlockKind::Thinking => BlockKind::Thinking,
            wit::BlockKind::ToolCall(wit::ToolHead { id, name }) => {
                if id.len() > ID_BYTES || id != text::clean_line(&id) {
                    let id = text::excerpt(&id, 80);
                    let message = format!("invalid tool call id '{id}': use one line of at most {ID_BYTES} bytes");
                    return Err(Failure::InvalidOutput(message));
                }
                self.raw.insert(index);
                BlockKind::ToolCall { id, name: word(&name) }
            }
            wit::BlockKind::Opaque(opaque) => BlockKind::Opaque(opaque),
        })
    }

    fn delta(&mut self, index: u32, text: String) -> String {
        if self.raw.contains(&index) {
            return text;
        }
        if self.cleaner.0 != index {
            self.cleaner = (index, TextCleaner::default());
        }
        self.cleaner.1.clean(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(action: wit::Action) -> Result<Action, Failure> {
        super::action(action, &mut Deltas::default())
    }

    fn request() -> wit::HttpRequest {
        let header = wit::Pair { name: "accept".into(), value: "text/event-stream".into() };
        let placement = wit::Placement::Header(wit::Pair { name: "authorization".into(), value: "Bearer ".into() });
        wit::HttpRequest {
            method: "POST".into(),
            path_and_query: "/chat?a=b".into(),
            headers: vec![header],
            auth: vec![wit::Auth { credential: "acme".into(), placement }],
            body: vec![wit::BodyPiece::Bytes(b"{".to_vec()), wit::BodyPiece::BlobBase64(3)],
        }
    }

    #[test]
    fn adapter_request_is_unchanged_within_bounds() {
        let placement = RequestedPlacement::Header { name: "authorization".into(), prefix: "Bearer ".into() };
        let expected = AdapterRequest {
            method: "POST".into(),
            path_and_query: "/chat?a=b".into(),
            headers: vec![("accept".into(), "text/event-stream".into())],
            auth: vec![Auth { credential: "acme".into(), placement }],
            body: vec![BodyPiece::Bytes(b"{".to_vec()), BodyPiece::BlobBase64(3)],
        };
        assert_eq!(read(wit::Action::Send(request())), Ok(Action::Send(expected)));
        let header = request().headers.remove(0);
        let large = wit::Pair { value: "v".repeat(64 << 10), ..header.clone() };
        for (broken, words) in [
            (wit::HttpRequest { headers: vec![header; 101], ..request() }, "101 headers; the limit is 100"),
            (wit::HttpRequest { headers: vec![large], ..request() }, "65542 bytes of headers; the limit is 65536"),
            (wit::HttpRequest { path_and_query: "/".repeat(20_000), ..request() }, "20004 bytes of method, path and"),
            (
                wit::HttpRequest { auth: vec![request().auth.remove(0); 9], ..request() },
                "9 credentials; the limit is 8",
            ),
        ] {
            let failure = read(wit::Action::Send(broken)).unwrap_err().to_string();
            assert!(
                failure.starts_with(&format!("the component returned an invalid result: a request with {words}")),
                "{failure}"
            );
        }
    }

    #[test]
    fn api_names_are_cleaned_and_cut() {
        let finish = wit::Finish { stop: "paused".into(), raw: "p\u{1b}[2J\nq".into() };
        let expected = Finish { stop: Stop::Other, raw: "p[2J q".into() };
        assert_eq!(read(wit::Action::Finish(finish)), Ok(Action::Finish(expected)));
        let failure = wit::Failure {
            kind: "rate-limit".into(),
            message: "m".repeat(3_000),
            http_status: Some(7),
            code: Some("c".repeat(300)),
            retry: wit::Retry::AfterMs(1_500),
        };
        let Ok(Action::Fail(failure)) = read(wit::Action::Fail(failure)) else { panic!("no failure") };
        assert_eq!((failure.kind, failure.http_status), (FailureKind::RateLimit, None));
        assert_eq!((failure.message.chars().count(), failure.code.unwrap().chars().count()), (2_001, 201));
        assert_eq!(failure.retry, RetryHint::After(Duration::from_millis(1_500)));
    }

    #[test]
    fn usage_is_bounded() {
        let usage = wit::Usage {
            input_tokens: u64::MAX,
            output_tokens: i64::MAX.unsigned_abs(),
            thinking_tokens: 7,
            cache_read_tokens: USAGE_TOKENS,
            cache_write_tokens: USAGE_TOKENS + 1,
        };
        let expected = TokenUsage {
            input: USAGE_TOKENS,
            output: USAGE_TOKENS,
            thinking: 7,
            cache_read: USAGE_TOKENS,
            cache_write: USAGE_TOKENS,
        };
        let expected = Action::Emit(StreamEvent::Usage(expected));
        assert_eq!(read(wit::Action::Emit(wit::Event::Usage(usage))), Ok(expected));
    }

    /// The id is returned to the API unchanged, because a changed id would name another call.
    #[test]
    fn tool_call_id_is_a_short_line() {
        let start = |id: &str| {
            let kind = wit::BlockKind::ToolCall(wit::ToolHead { id: id.into(), name: "run\n".into() });
            read(wit::Action::Emit(wit::Event::BlockStart(wit::BlockStart { index: 1, kind })))
        };
        let kind = BlockKind::ToolCall { id: "call_1".into(), name: "run".into() };
        assert_eq!(start("call_1"), Ok(Action::Emit(StreamEvent::BlockStart { index: 1, kind })));
        for id in ["a\u{200b}", "a\nb", &"i".repeat(513)] {
            let failure = start(id).unwrap_err().to_string();
            assert!(failure.ends_with(": use one line of at most 512 bytes"), "{failure}");
        }
    }
}

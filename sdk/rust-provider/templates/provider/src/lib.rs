//! The adapter of the provider `{{name}}`: turns a completion request into an HTTP request, and the response into events.
//!
//! It has no network and no key. The host sends the requests that `begin` and `resume` return, and fills in the credential.

use patchbay_provider_sdk::*;

/// One completion by a server that receives text and streams text back.
struct Streamed {
    /// The beginning of a character that is not complete yet.
    rest: Vec<u8>,
}

impl Adapter for Streamed {
    fn describe() -> Manifest {
        Manifest {
            name: "{{name}}".into(),
            display_name: "{{name}}".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            model_prefixes: vec!["{{name}}-".into()],
            models: vec![],
            default_base_url: Some("https://api.example.com/v1".into()),
            credentials: vec![Credential {
                id: "api-key".into(),
                scheme: "api-key".into(),
                env: Some("{{IDENT}}_API_KEY".into()),
                obtain_url: Some("https://example.com/keys".into()),
                extra: vec![],
            }],
            extra: vec![],
        }
    }

    fn explain_thinking(_: &str, _: Option<&str>) -> ThinkingPlan {
        ThinkingPlan { description: vec!["Thinking: off".into()], warning: None }
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let mut prompt = request.system.join("\n\n");
        for message in request.messages {
            let role = if message.role == Role::User { "User" } else { "Assistant" };
            for part in message.parts {
                if let Block::Text(text) = part.block {
                    prompt += &format!("\n\n{role}: {text}");
                }
            }
        }
        let pair = |name: &str, value: &str| Pair { name: name.into(), value: value.into() };
        let send = HttpRequest {
            method: "POST".into(),
            path_and_query: format!("/say?model={}", request.model),
            headers: vec![pair("content-type", "text/plain; charset=utf-8")],
            // The host appends the key to this, if there is one.
            auth: vec![Auth {
                credential: "api-key".into(),
                placement: Placement::Header(pair("authorization", "Bearer ")),
            }],
            body: vec![BodyPiece::Bytes(prompt.into_bytes())],
        };
        (Self { rest: vec![] }, vec![Action::Send(send)])
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        match input {
            Input::ResponseHead(ResponseHead { status: 200, .. }) => {
                vec![Action::Emit(Event::BlockStart(BlockStart { index: 0, kind: BlockKind::Text }))]
            }
            Input::ResponseHead(ResponseHead { status, .. }) => {
                let (kind, retry) = match status {
                    401 | 403 => ("authentication", Retry::Never),
                    404 => ("not-found", Retry::Never),
                    429 => ("rate-limit", Retry::Backoff),
                    500.. => ("server", Retry::Backoff),
                    _ => ("invalid-request", Retry::Never),
                };
                vec![fail(kind, format!("the server returned {status}"), Some(status), retry)]
            }
            Input::BodyChunk(bytes) => {
                vec![Action::Emit(Event::BlockDelta(BlockDelta { index: 0, text: self.text(&bytes) }))]
            }
            Input::BodyEnd => vec![
                Action::Emit(Event::BlockEnd(BlockEnd { index: 0, opaque: None })),
                Action::Finish(Finish { stop: "end-turn".into(), raw: "end of body".into() }),
            ],
            Input::TransportFailed(failure) => vec![fail("network", failure.message, None, Retry::Backoff)],
            Input::Timer => vec![], // This adapter never starts a timer.
        }
    }
}

impl Streamed {
    /// Returns the complete characters so far: chunks may end within a character.
    fn text(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let whole = match str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        String::from_utf8_lossy(&self.rest.drain(..whole).collect::<Vec<_>>()).into_owned()
    }
}

fn fail(kind: &str, message: String, http_status: Option<u16>, retry: Retry) -> Action {
    Action::Fail(Failure { kind: kind.into(), message, http_status, code: None, retry })
}

provider!(Streamed);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_characters_are_joined() {
        let mut adapter = Streamed { rest: vec![] };
        let texts: Vec<_> = "a\u{e9}\u{1f980}".bytes().map(|byte| adapter.text(&[byte])).collect();
        assert_eq!(texts.concat(), "a\u{e9}\u{1f980}");
    }
}

//! Recognises refusals of conversations that are longer than the model can read. Each API words them differently,
//! usually without a code. [`Out::fail`](crate::stream::Out::fail) checks every failure, which lets the host
//! summarise the conversation and try again.

use patchbay_provider_sdk::{Failure, Retry};

/// The code of such a failure, unless the API's own code is [`API_CODE`].
pub const CODE: &str = "context_window";

/// The code that OpenAI and many compatible servers use. It is kept, because the host knows it, too.
const API_CODE: &str = "context_length_exceeded";

/// Other codes, from llama.cpp, gateways and Zhipu (2026-11-23, earendil-works/pi#129, open-octo/octo-agent#2124).
const OTHER_CODES: [&str; 4] =
    ["exceed_context_size_error", "context_window_exceeded", "model_context_window_exceeded", "1261"];

/// Parts of messages in lower case; all parts of one entry must occur (2026-11-23, from the issue threads earendil-works/pi#129,
/// #4943 and #5677, docker/docker-agent#569, lmstudio-ai/lmstudio-bug-tracker#546, openclaw/openclaw#64196,
/// open-octo/octo-agent#2124, iamclancyliang/pi-go#37).
const WORDS: [&[&str]; 17] = [
    // Anthropic; Ollama leaves out "is".
    &["prompt is too long"],
    &["prompt too long"],
    &["exceed context limit"],
    // OpenAI; MiniMax uses another order.
    &["context window", "exceed"],
    // OpenAI, vLLM, DeepSeek, Mistral, OpenRouter, LiteLLM.
    &["maximum context length"],
    // xAI.
    &["maximum prompt length"],
    // Groq.
    &["reduce the length of the messages"],
    // Google.
    &["input token count", "exceeds the maximum"],
    // llama.cpp.
    &["exceeds the available context size"],
    &["context size has been exceeded"],
    // LM Studio.
    &["greater than the context length"],
    &["the model is loaded with context length"],
    // Together.
    &["longer than the model's context length"],
    // Kimi.
    &["exceeded model token limit"],
    // Bedrock.
    &["input is too long for requested model"],
    // Poolside, through OpenRouter.
    &["exceeds the maximum allowed input length"],
    // Zhipu.
    &["prompt exceeds max length"],
];

/// The status of a request that is too large in bytes, for example because of many images, and Anthropic's name for it (2026-11-24,
/// platform.claude.com, "Errors").
const TOO_LARGE: (u16, &str) = (413, "request_too_large");

/// Returns `failure` as an invalid request with a code that the host knows, if it reports a conversation that
/// is too long, in tokens or in bytes.
pub(crate) fn recognised(failure: Failure) -> Failure {
    // Limits on tokens per minute are worded similarly.
    if matches!(failure.kind.as_str(), "rate-limit" | "authentication" | "content-filter" | "network" | "timeout") {
        return failure;
    }
    let code = failure.code.as_deref().unwrap_or_default();
    let message = failure.message.to_lowercase();
    let is_said = || WORDS.iter().any(|words| words.iter().all(|word| message.contains(word)));
    let is_too_large = failure.http_status == Some(TOO_LARGE.0) || code == TOO_LARGE.1;
    if !is_too_large && code != API_CODE && !OTHER_CODES.contains(&code) && !is_said() {
        return failure;
    }
    let code = if code == API_CODE { API_CODE } else { CODE };
    Failure { kind: "invalid-request".to_owned(), code: Some(code.to_owned()), retry: Retry::Never, ..failure }
}

/// Returns the kind and the code of the failure for a refused request, for the tests of the codecs.
#[cfg(test)]
pub(crate) fn refused<C: crate::stream::Codec>(
    mut stream: crate::stream::Stream<C>,
    status: u16,
    body: &serde_json::Value,
) -> (String, Option<String>) {
    use patchbay_provider_sdk::{Action, Input, ResponseHead};

    let head = Input::ResponseHead(ResponseHead { status, headers: Vec::new() });
    let inputs = [head, Input::BodyChunk(body.to_string().into_bytes()), Input::BodyEnd];
    let mut actions: Vec<_> = inputs.into_iter().flat_map(|input| stream.resume(input)).collect();
    match actions.pop() {
        Some(Action::Fail(failure)) => (failure.kind, failure.code),
        other => panic!("{actions:?} {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::failure;

    #[test]
    fn words_of_the_apis_are_recognised() {
        for message in [
            "prompt is too long: 205000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or \
             `max_tokens` and try again",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the \
             messages, 8192 in the completion). Please reduce the length of the messages or completion.",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "Input length (265330) exceeds model's maximum context length (262144).",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            "request (66202 tokens) exceeds the available context size (65536 tokens), try increasing it",
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context \
             length of only 32768 tokens, which is not enough.",
            "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
            "Input is too long for requested model.",
            "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
            "prompt too long; exceeded max context length by 100918 tokens",
            "invalid params, context window exceeds limit",
        ] {
            for kind in ["invalid-request", "server", "unknown"] {
                let found = recognised(failure(kind, message));
                assert_eq!(found.code.as_deref(), Some(CODE), "{message}");
                assert_eq!(
                    (found.kind.as_str(), found.retry, found.message.as_str()),
                    ("invalid-request", Retry::Never, message)
                );
            }
        }
    }

    #[test]
    fn codes_are_recognised_and_openais_is_kept() {
        let with = |code: &str| Failure { code: Some(code.to_owned()), ..failure("invalid-request", "too much") };
        assert_eq!(recognised(with(API_CODE)).code.as_deref(), Some(API_CODE));
        for code in OTHER_CODES {
            assert_eq!(recognised(with(code)).code.as_deref(), Some(CODE));
        }
    }

    #[test]
    fn requests_that_are_too_large_are_recognised() {
        let large = || failure("invalid-request", "Request exceeds the maximum size");
        for failure in [
            Failure { http_status: Some(413), ..large() },
            Failure { http_status: Some(413), code: Some("too_large".to_owned()), ..large() },
            Failure { code: Some("request_too_large".to_owned()), ..large() },
        ] {
            assert_eq!(recognised(failure).code.as_deref(), Some(CODE));
        }
    }

    #[test]
    fn other_failures_stay() {
        for (kind, message) in [
            ("rate-limit", "This model's maximum context length"),
            ("rate-limit", "Too many tokens, please wait before trying again."),
            ("invalid-request", "Request exceeds the maximum size"),
            ("invalid-request", "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens"),
            ("network", "the response ended before it was complete"),
            ("server", "Overloaded"),
        ] {
            assert_eq!(recognised(failure(kind, message)), failure(kind, message));
        }
    }
}

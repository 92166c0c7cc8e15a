//! The adapter of the provider `openai-compatible`: Chat Completions for servers that the operator configures, such as
//! Ollama, llama.cpp, vLLM and LM Studio.
//!
//! The operator's options:
//!
//! * `max-tokens-field`: the server's name for the limit of an answer, `max_tokens` (the default, which all servers
//!   know) or `max_completion_tokens`,
//! * `reasoning`: `effort` (the default) sends thinking levels as `reasoning_effort`; `off` sends none, for servers
//!   that refuse the field.
//! * `reasoning-history`: `keep` (the default) sends the model's thinking back in its original field, as DeepSeek and others
//!   require; `drop` sends none, for servers that reject their own field.
//! * `cache-key`: `send` sends a key for the session as `prompt_cache_key`, which helps a service to find its cache; `off` is the
//!   default.
//! * `cache`: `anthropic` makes a server such as OpenRouter cache Claude's prompts; `off` is the default.
#![deny(missing_docs)]

mod catalogue;
mod levels;

use patchbay_codecs::chat::{self, Chat, History, LimitField, Settings};
use patchbay_codecs::failure::failure;
use patchbay_codecs::models;
use patchbay_codecs::openai::{CREDENTIAL, one_of};
use patchbay_codecs::stream::Stream;
use patchbay_codecs::thinking::plan;
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, LevelPlan, Manifest, Pair, Thinking, ThinkingPlan, provider,
};

/// The adapter of one completion; empty if the operator's options are invalid.
pub struct OpenaiCompatible(Option<Stream<Chat>>);

impl Adapter for OpenaiCompatible {
    fn describe() -> Manifest {
        Manifest {
            name: "openai-compatible".to_owned(),
            display_name: "OpenAI-compatible".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: Vec::new(),
            models: Vec::new(),
            default_base_url: None,
            // Many of these servers need no key: the host leaves out a credential that is not configured.
            credentials: vec![Credential {
                id: CREDENTIAL.to_owned(),
                scheme: "api-key".to_owned(),
                env: None,
                obtain_url: None,
                extra: Vec::new(),
            }],
            extra: vec![
                Pair { name: "requires-origin".to_owned(), value: "true".to_owned() },
                // If the operator has set this option, the host tells the user that levels are not sent.
                Pair { name: "thinking-off-option".to_owned(), value: "reasoning=off".to_owned() },
            ],
        }
    }

    fn explain_thinking(_: &str, level: Option<&str>) -> ThinkingPlan {
        levels::effort(level, None).1
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        match settings(&request) {
            Ok(settings) => {
                let (stream, actions) = chat::begin(&request, settings);
                (Self(Some(stream)), actions)
            }
            Err(message) => (Self(None), vec![Action::Fail(failure("invalid-request", message))]),
        }
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.as_mut().map(|stream| stream.resume(input)).unwrap_or_default()
    }
}

provider!(OpenaiCompatible);

impl Thinking for OpenaiCompatible {
    fn explain(_: &str, level: Option<&str>, options: &[Pair]) -> LevelPlan {
        if one_of(options, "reasoning", ["effort", "off"]) == Ok(Some("off")) && level.is_some() {
            let warning = "Thinking levels are not sent: option 'reasoning' of this provider is 'off'".to_owned();
            let plan = ThinkingPlan { warning: Some(warning), ..plan("Thinking: provider default") };
            return models::level_plan(plan, None, options);
        }
        let facts = models::facts(options);
        models::level_plan(levels::effort(level, facts.as_ref()).1, levels::effective(level, facts.as_ref()), options)
    }
}

patchbay_provider_sdk::thinking!(OpenaiCompatible);

/// Reads the settings from the request and the operator's options. Other options are ignored.
fn settings(request: &CompletionRequest) -> Result<Settings, String> {
    let option = |name: &str, values| one_of(&request.options, name, values);
    let limit = match option("max-tokens-field", ["max_tokens", "max_completion_tokens"])? {
        Some("max_completion_tokens") => LimitField::MaxCompletionTokens,
        _ => LimitField::MaxTokens,
    };
    let effort = match option("reasoning", ["effort", "off"])? {
        Some("off") => None,
        _ => levels::effort(request.thinking.as_deref(), models::facts(&request.options).as_ref()).0,
    };
    let history = match option("reasoning-history", ["keep", "drop"])? {
        Some("drop") => History::Drop,
        _ => History::Keep,
    };
    let cache = option("cache", ["off", "anthropic"])? == Some("anthropic");
    let cache_key = option("cache-key", ["off", "send"])? == Some("send");
    Ok(Settings { effort, limit, history, cache, cache_key })
}

#[cfg(test)]
mod tests {
    use patchbay_provider_sdk::{BodyPiece, Retry, ToolChoice};

    use super::*;

    fn begin(level: Option<&str>, options: &[(&str, &str)]) -> (OpenaiCompatible, Vec<Action>) {
        let pair = |(name, value): &(&str, &str)| Pair { name: (*name).to_owned(), value: (*value).to_owned() };
        OpenaiCompatible::begin(CompletionRequest {
            model: "qwen3".to_owned(),
            system: Vec::new(),
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            thinking: level.map(str::to_owned),
            max_output_tokens: Some(7),
            options: options.iter().map(pair).collect(),
        })
    }

    fn sent(level: Option<&str>, options: &[(&str, &str)]) -> String {
        let (_, actions) = begin(level, options);
        let [Action::Send(request)] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!((request.path_and_query.as_str(), request.auth.len()), ("/chat/completions", 1));
        let [BodyPiece::Bytes(bytes)] = request.body.as_slice() else { panic!("{request:?}") };
        String::from_utf8(bytes.clone()).expect("UTF-8")
    }

    #[test]
    fn manifest_has_no_url_and_no_models() {
        let manifest = OpenaiCompatible::describe();
        assert!(manifest.models.is_empty() && manifest.model_prefixes.is_empty());
        assert_eq!(manifest.default_base_url, None);
        let extra: Vec<_> = manifest.extra.iter().map(|pair| (pair.name.as_str(), pair.value.as_str())).collect();
        assert_eq!(extra, [("requires-origin", "true"), ("thinking-off-option", "reasoning=off")]);
        let [credential] = manifest.credentials.as_slice() else { panic!("{manifest:?}") };
        assert_eq!((credential.id.as_str(), &credential.env, &credential.obtain_url), ("api-key", &None, &None));
    }

    #[test]
    fn options_change_the_request() {
        let (older, newer) = (r#""max_tokens":7"#, r#""max_completion_tokens":7"#);
        let effort = r#""reasoning_effort":"medium""#;
        for (options, limit, with_effort) in [
            (&[][..], older, true),
            (&[("max-tokens-field", "max_tokens"), ("reasoning", "effort")], older, true),
            (&[("max-tokens-field", "max_completion_tokens"), ("other", "x")], newer, true),
            (&[("reasoning", "off")], older, false),
        ] {
            let body = sent(Some("med"), options);
            assert!(body.contains(limit), "{options:?}: {body}");
            assert_eq!(body.contains(effort), with_effort, "{options:?}: {body}");
        }
        let cached = r#""cache_control":{"type":"ephemeral"}"#;
        assert!(sent(None, &[("cache", "anthropic")]).contains(cached));
        let key = ("host:cache-key", "k1");
        assert!(sent(None, &[("cache-key", "send"), key]).contains(r#""prompt_cache_key":"k1""#));
        assert!(!sent(None, &[key]).contains("prompt_cache_key"));
        assert!(!sent(None, &[("cache", "off")]).contains("cache_control"));
        assert!(!sent(None, &[]).contains("cache_control"));
        assert!(!sent(Some("none"), &[]).contains("effort"));
        assert!(!sent(None, &[]).contains("effort"));
    }

    #[test]
    fn invalid_option_is_an_error() {
        for (option, message) in [
            (
                ("max-tokens-field", "maxTokens"),
                "option 'max-tokens-field' of this provider must be 'max_tokens' or 'max_completion_tokens', not 'maxTokens'",
            ),
            (("cache", "on"), "option 'cache' of this provider must be 'off' or 'anthropic', not 'on'"),
            (("reasoning", "on"), "option 'reasoning' of this provider must be 'effort' or 'off', not 'on'"),
        ] {
            let (mut adapter, actions) = begin(None, &[option]);
            let [Action::Fail(failure)] = actions.as_slice() else { panic!("{actions:?}") };
            assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("invalid-request", message));
            assert_eq!(failure.retry, Retry::Never);
            assert!(adapter.resume(Input::Timer).is_empty());
        }
    }

    #[test]
    fn thinking_is_described_by_its_effort() {
        let plan = OpenaiCompatible::explain_thinking("qwen3", Some("med"));
        assert_eq!(plan.description, ["Thinking: medium effort"]);
        assert_eq!(OpenaiCompatible::explain_thinking("qwen3", None).description, ["Thinking: provider default"]);
    }

    #[test]
    fn facts_and_options_decide_what_is_shown_and_sent() {
        let facts = ("host:model-facts", r#"{"efforts": ["low"]}"#);
        let explain = |level, options: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| Pair { name: (*name).to_owned(), value: (*value).to_owned() };
            <OpenaiCompatible as Thinking>::explain("m", level, &options.iter().map(pair).collect::<Vec<_>>())
        };
        let plan = explain(Some("high"), &[facts]);
        assert_eq!((plan.effective.as_deref(), plan.warning.is_some()), (Some("low"), true));
        assert!(sent(Some("high"), &[facts]).contains(r#""reasoning_effort":"low""#));
        assert_eq!(explain(Some("max"), &[]).effective.as_deref(), Some("max"));
        let plan = explain(Some("high"), &[("reasoning", "off"), facts]);
        assert_eq!((plan.effective, &plan.description[..]), (None, &["Thinking: provider default".to_owned()][..]));
    }
}

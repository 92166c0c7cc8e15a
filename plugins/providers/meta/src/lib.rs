//! The adapter of the provider `meta`: Chat Completions, which the Llama API supports in addition to its own format.
#![deny(missing_docs)]

use patchbay_codecs::chat::{self, Chat, Settings};
use patchbay_codecs::openai::{CREDENTIAL, by_effort};
use patchbay_codecs::stream::Stream;
use patchbay_provider_sdk::{Action, Adapter, CompletionRequest, Credential, Input, Manifest, ThinkingPlan, provider};

/// The adapter of one completion.
pub struct Meta(Stream<Chat>);

impl Adapter for Meta {
    fn describe() -> Manifest {
        Manifest {
            name: "meta".to_owned(),
            display_name: "Meta".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: vec!["llama-".to_owned()],
            models: Vec::new(),
            default_base_url: Some("https://api.llama.com/compat/v1".to_owned()),
            credentials: vec![Credential {
                id: CREDENTIAL.to_owned(),
                scheme: "api-key".to_owned(),
                env: Some("LLAMA_API_KEY".to_owned()),
                obtain_url: Some("https://llama.developer.meta.com".to_owned()),
                extra: Vec::new(),
            }],
            extra: Vec::new(),
        }
    }

    fn explain_thinking(_: &str, level: Option<&str>) -> ThinkingPlan {
        by_effort(level).1
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let (effort, _) = by_effort(request.thinking.as_deref());
        let (stream, actions) = chat::begin(&request, Settings { effort, ..Settings::default() });
        (Self(stream), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.resume(input)
    }
}

provider!(Meta);

#[cfg(test)]
mod tests {
    use patchbay_provider_sdk::{BodyPiece, ToolChoice};

    use super::*;

    #[test]
    fn manifest_has_url_and_credential() {
        let manifest = Meta::describe();
        assert_eq!((manifest.name.as_str(), manifest.display_name.as_str()), ("meta", "Meta"));
        assert_eq!(manifest.model_prefixes, ["llama-"]);
        assert!(manifest.models.is_empty() && manifest.extra.is_empty());
        assert_eq!(manifest.default_base_url.as_deref(), Some("https://api.llama.com/compat/v1"));
        assert_eq!(manifest.credentials[0].env.as_deref(), Some("LLAMA_API_KEY"));
        assert_eq!(manifest.credentials[0].obtain_url.as_deref(), Some("https://llama.developer.meta.com"));
    }

    #[test]
    fn shown_setting_equals_sent_setting() {
        for (level, line, effort) in [
            (Some("high"), "Thinking: high effort", Some("high")),
            (Some("none"), "Thinking: provider default", None),
            (None, "Thinking: provider default", None),
        ] {
            assert_eq!(Meta::explain_thinking("llama-4", level).description, [line]);
            let (_, actions) = Meta::begin(CompletionRequest {
                model: "llama-4".to_owned(),
                system: Vec::new(),
                messages: Vec::new(),
                tools: Vec::new(),
                tool_choice: ToolChoice::Auto,
                thinking: level.map(str::to_owned),
                max_output_tokens: Some(7),
                options: Vec::new(),
            });
            let [Action::Send(request)] = actions.as_slice() else { panic!("{actions:?}") };
            assert_eq!(request.path_and_query, "/chat/completions");
            let [BodyPiece::Bytes(bytes)] = request.body.as_slice() else { panic!("{request:?}") };
            let body = String::from_utf8(bytes.clone()).expect("UTF-8");
            assert!(body.contains(r#""max_completion_tokens":7"#), "{body}");
            match effort {
                Some(effort) => assert!(body.contains(&format!(r#""reasoning_effort":"{effort}""#)), "{body}"),
                None => assert!(!body.contains("effort"), "{body}"),
            }
        }
    }
}

//! The adapter of the provider `xai`: xAI's variant of the Responses API.
#![deny(missing_docs)]

use patchbay_codecs::openai::{CREDENTIAL, by_effort};
use patchbay_codecs::responses::{self, Reasoning, Responses};
use patchbay_codecs::stream::Stream;
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, Manifest, Pair, ThinkingPlan, provider,
};

/// The adapter of one completion.
pub struct Xai(Stream<Responses>);

impl Adapter for Xai {
    fn describe() -> Manifest {
        Manifest {
            name: "xai".to_owned(),
            display_name: "xAI".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: vec!["grok-".to_owned()],
            models: Vec::new(),
            default_base_url: Some("https://api.x.ai/v1".to_owned()),
            credentials: vec![Credential {
                id: CREDENTIAL.to_owned(),
                scheme: "api-key".to_owned(),
                env: Some("XAI_API_KEY".to_owned()),
                obtain_url: Some("https://console.x.ai".to_owned()),
                extra: Vec::new(),
            }],
            extra: vec![Pair { name: "api-label".to_owned(), value: "Responses API".to_owned() }],
        }
    }

    fn explain_thinking(_: &str, level: Option<&str>) -> ThinkingPlan {
        by_effort(level).1
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let (effort, _) = by_effort(request.thinking.as_deref());
        // All models reason except those whose name says otherwise.
        let encrypted = !request.model.contains("non-reasoning");
        let (stream, actions) = responses::begin(&request, Reasoning { effort, encrypted });
        (Self(stream), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.resume(input)
    }
}

provider!(Xai);

#[cfg(test)]
mod tests {
    use patchbay_provider_sdk::{BodyPiece, ToolChoice};

    use super::*;

    fn sent(model: &str, level: Option<&str>) -> String {
        let (_, actions) = Xai::begin(CompletionRequest {
            model: model.to_owned(),
            system: Vec::new(),
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            thinking: level.map(str::to_owned),
            max_output_tokens: None,
            options: Vec::new(),
        });
        let [Action::Send(request)] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!(request.path_and_query, "/responses");
        let [BodyPiece::Bytes(bytes)] = request.body.as_slice() else { panic!("{request:?}") };
        String::from_utf8(bytes.clone()).expect("UTF-8")
    }

    #[test]
    fn manifest_has_url_and_credential() {
        let manifest = Xai::describe();
        assert_eq!((manifest.name.as_str(), manifest.display_name.as_str()), ("xai", "xAI"));
        assert_eq!(manifest.model_prefixes, ["grok-"]);
        assert!(manifest.models.is_empty());
        assert_eq!(manifest.default_base_url.as_deref(), Some("https://api.x.ai/v1"));
        assert_eq!(manifest.credentials[0].env.as_deref(), Some("XAI_API_KEY"));
        assert_eq!(manifest.credentials[0].obtain_url.as_deref(), Some("https://console.x.ai"));
        assert_eq!(manifest.extra[0].value, "Responses API");
    }

    #[test]
    fn shown_setting_equals_sent_setting() {
        for (level, line, effort) in [
            (Some("low"), "Thinking: low effort", Some("low")),
            (Some("med"), "Thinking: medium effort", Some("medium")),
            (Some("high"), "Thinking: high effort", Some("high")),
            (Some("none"), "Thinking: provider default", None),
            (None, "Thinking: provider default", None),
        ] {
            let plan = Xai::explain_thinking("grok-4.7", level);
            assert_eq!((plan.description, plan.warning.is_some()), (vec![line.to_owned()], level == Some("none")));
            let body = sent("grok-4.7", level);
            match effort {
                Some(effort) => assert!(body.contains(&format!(r#""effort":"{effort}""#)), "{body}"),
                None => assert!(!body.contains("effort"), "{body}"),
            }
            assert!(body.contains("reasoning.encrypted_content"), "{body}");
        }
        assert!(!sent("grok-4.20-non-reasoning", None).contains("include"));
    }
}

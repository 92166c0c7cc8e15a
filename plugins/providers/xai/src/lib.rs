//! The adapter of the provider `xai`: xAI's variant of the Responses API.
//!
//! `patchbay_codecs::responses` implements the wire format. This crate contains the manifest and the thinking levels of
//! each model (`thinking`).
#![deny(missing_docs)]

mod catalogue;
mod thinking;

use patchbay_codecs::models;
use patchbay_codecs::openai::CREDENTIAL;
use patchbay_codecs::responses::{self, Responses};
use patchbay_codecs::stream::Stream;
use patchbay_codecs::thinking::Level;
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, LevelPlan, Manifest, Models, Pair, Thinking, ThinkingPlan,
    provider,
};

/// The dated table of models.
const TABLE: &str = include_str!("../models.json");

/// The adapter of one completion.
pub struct Xai(Stream<Responses>);

impl Adapter for Xai {
    fn describe() -> Manifest {
        Manifest {
            name: "xai".to_owned(),
            display_name: "xAI".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: vec!["grok-".to_owned()],
            models: models::table(TABLE),
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

    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan {
        thinking::thinking(model, level).1
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let (reasoning, _) = thinking::thinking(&request.model, request.thinking.as_deref());
        let (stream, actions) = responses::begin(&request, reasoning);
        (Self(stream), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.resume(input)
    }
}

provider!(Xai);

impl Thinking for Xai {
    fn explain(model: &str, level: Option<&str>, options: &[Pair]) -> LevelPlan {
        let (reasoning, plan) = thinking::thinking(model, level);
        models::level_plan(plan, reasoning.effort.and_then(Level::of_word), options)
    }
}

patchbay_provider_sdk::thinking!(Xai);

impl Models for Xai {
    fn facts(model: &str, _: &[Pair]) -> String {
        models::unlisted(TABLE, model, |level| Self::explain_thinking(model, Some(level)))
    }
}

patchbay_provider_sdk::models!(Xai);

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
        let first: Vec<_> = manifest.models[..3].iter().map(|model| model.id.as_str()).collect();
        assert_eq!(first, ["grok-4.7", "grok-4.3", "grok-build-0.1"]);
        assert_eq!(manifest.default_base_url.as_deref(), Some("https://api.x.ai/v1"));
        assert_eq!(manifest.credentials[0].env.as_deref(), Some("XAI_API_KEY"));
        assert_eq!(manifest.credentials[0].obtain_url.as_deref(), Some("https://console.x.ai"));
        assert_eq!(manifest.extra[0].value, "Responses API");
    }

    #[test]
    fn table_has_the_levels_that_are_sent() {
        models::check_levels(&Xai::describe().models, Xai::explain_thinking);
    }

    #[test]
    fn shown_setting_equals_sent_setting() {
        let always = Some("This model does not support disabling thinking");
        let unset = Some("The thinking of this model cannot be set");
        let no_xhigh = Some("This model has no level xhigh; high is sent instead");
        let no_max = Some("This model has no level max; xhigh is sent instead");
        let never = Some("This model does not support thinking");
        for (model, level, line, warning, effort) in [
            ("grok-4.7", Some("low"), "Thinking: low effort", None, Some("low")),
            ("grok-4.7", Some("med"), "Thinking: medium effort", None, Some("medium")),
            ("grok-4.7", Some("high"), "Thinking: high effort", None, Some("high")),
            ("grok-4.7", Some("none"), "Thinking: low effort (minimum)", always, Some("low")),
            ("grok-4.7", None, "Thinking: provider default", None, None),
            ("grok-4.7", Some("xhigh"), "Thinking: xhigh effort", None, Some("xhigh")),
            ("grok-4.7", Some("max"), "Thinking: xhigh effort", no_max, Some("xhigh")),
            ("grok-4.6", Some("xhigh"), "Thinking: high effort", no_xhigh, Some("high")),
            ("grok-4.3", Some("xhigh"), "Thinking: high effort", no_xhigh, Some("high")),
            ("grok-4.3", Some("none"), "Thinking: off", None, Some("none")),
            ("grok-4.3", Some("high"), "Thinking: high effort", None, Some("high")),
            ("grok-4.20-reasoning", Some("high"), "Thinking: provider default", unset, None),
            ("grok-4.20-0309-reasoning", Some("none"), "Thinking: provider default", always, None),
            ("grok-4", Some("low"), "Thinking: provider default", unset, None),
            ("grok-code-fast-1", None, "Thinking: provider default", None, None),
            ("grok-4.20-non-reasoning", Some("low"), "Thinking: off", never, None),
            ("grok-4.20-non-reasoning", Some("none"), "Thinking: off", None, None),
        ] {
            let plan = Xai::explain_thinking(model, level);
            assert_eq!(plan.description, [line], "{model} {level:?}");
            assert_eq!(plan.warning.as_deref(), warning, "{model} {level:?}");
            let body = sent(model, level);
            match effort {
                Some(effort) => assert!(body.contains(&format!(r#""effort":"{effort}""#)), "{body}"),
                None => assert!(!body.contains("effort"), "{body}"),
            }
            assert_eq!(body.contains("reasoning.encrypted_content"), !model.contains("non-reasoning"), "{body}");
        }
        assert!(!sent("grok-4.20-non-reasoning", None).contains("include"));
    }
}

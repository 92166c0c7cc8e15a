//! The adapter of the provider `meta`: Muse models through the Meta Model API, which has the format of OpenAI
//! Responses. It also has the prefix `llama-`, unless another provider claims that prefix: its models were shut down
//! with the Llama API, so requests to them fail until Meta serves such a model again.
//!
//! Meta recommends Responses: the reasoning of its Chat Completions is empty for external callers and could not be
//! sent back between tool calls (2026-11-23: dev.meta.ai, "Reasoning", quoted in deepnoodle-ai/dive#279, which ran
//! it; promptfoo and ai-sdk.dev, "Meta"). The Llama API, which this adapter used before, ended on 2026-07-06
//! (2026-11-23: promptfoo.dev, "Meta").
//!
//! This crate contains the manifest, the dated table of models (`models.json`), and the thinking levels (`thinking`).
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
    ToolChoice, provider,
};

/// The dated table of models.
const TABLE: &str = include_str!("../models.json");

/// The prefix of the models of the Llama API. Other services have models with such names, too, so a provider that the
/// operator configures or allows for this prefix takes precedence.
const LLAMA: &str = "llama-";
/// A model of the table. All models of the Llama API ended together with it.
const ENDED: &str = "Llama-3.3-70B-Instruct";

/// The adapter of one completion.
pub struct Meta(Stream<Responses>);

impl Adapter for Meta {
    fn describe() -> Manifest {
        Manifest {
            name: "meta".to_owned(),
            display_name: "Meta".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: vec![LLAMA.to_owned(), "muse-".to_owned()],
            models: models::table(TABLE),
            default_base_url: Some("https://api.meta.ai/v1".to_owned()),
            credentials: vec![Credential {
                id: CREDENTIAL.to_owned(),
                scheme: "api-key".to_owned(),
                env: Some("MODEL_API_KEY".to_owned()),
                obtain_url: Some("https://dev.meta.ai".to_owned()),
                extra: Vec::new(),
            }],
            extra: vec![
                Pair { name: "api-label".to_owned(), value: "Responses API".to_owned() },
                Pair { name: "yielding-prefix".to_owned(), value: LLAMA.to_owned() },
            ],
        }
    }

    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan {
        thinking::thinking(model, level).1
    }

    fn begin(mut request: CompletionRequest) -> (Self, Vec<Action>) {
        // The API accepts only the choice `auto` (2026-11-23, ocaml.org, chatoyant.provider `Meta`).
        match std::mem::replace(&mut request.tool_choice, ToolChoice::Auto) {
            ToolChoice::None => request.tools.clear(),
            ToolChoice::Auto | ToolChoice::Required | ToolChoice::Named(_) => {}
        }
        let (reasoning, _) = thinking::thinking(&request.model, request.thinking.as_deref());
        let (stream, actions) = responses::begin(&request, reasoning);
        (Self(stream), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.resume(input)
    }
}

provider!(Meta);

impl Thinking for Meta {
    fn explain(model: &str, level: Option<&str>, options: &[Pair]) -> LevelPlan {
        let (reasoning, plan) = thinking::thinking(model, level);
        models::level_plan(plan, reasoning.effort.and_then(Level::of_word), options)
    }
}

patchbay_provider_sdk::thinking!(Meta);

impl Models for Meta {
    fn facts(model: &str, _: &[Pair]) -> String {
        let explain = |level: &str| Self::explain_thinking(model, Some(level));
        match model.starts_with(LLAMA) {
            true => models::unlisted_ended(TABLE, model, ENDED, explain),
            false => models::unlisted(TABLE, model, explain),
        }
    }
}

patchbay_provider_sdk::models!(Meta);

#[cfg(test)]
mod tests {
    use patchbay_provider_sdk::{BodyPiece, Tool};

    use super::*;

    fn request(model: &str, level: Option<&str>) -> CompletionRequest {
        CompletionRequest {
            model: model.to_owned(),
            system: Vec::new(),
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            thinking: level.map(str::to_owned),
            max_output_tokens: None,
            options: Vec::new(),
        }
    }

    fn sent(request: CompletionRequest) -> String {
        let (_, actions) = Meta::begin(request);
        let [Action::Send(request)] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!(request.path_and_query, "/responses");
        let [BodyPiece::Bytes(bytes)] = request.body.as_slice() else { panic!("{request:?}") };
        String::from_utf8(bytes.clone()).expect("UTF-8")
    }

    #[test]
    fn manifest_has_url_and_credential() {
        let manifest = Meta::describe();
        assert_eq!((manifest.name.as_str(), manifest.display_name.as_str()), ("meta", "Meta"));
        assert_eq!(manifest.model_prefixes, ["llama-", "muse-"]);
        let first: Vec<_> = manifest.models[..3].iter().map(|model| model.id.as_str()).collect();
        assert_eq!(first, ["muse-spark-1.3", "muse-wonder-1.0", "muse-ember-1.0"]);
        assert_eq!(manifest.default_base_url.as_deref(), Some("https://api.meta.ai/v1"));
        assert_eq!(manifest.credentials[0].env.as_deref(), Some("MODEL_API_KEY"));
        assert_eq!(manifest.credentials[0].obtain_url.as_deref(), Some("https://dev.meta.ai"));
    }

    #[test]
    fn table_has_the_levels_that_are_sent() {
        models::check_levels(&Meta::describe().models, Meta::explain_thinking);
    }

    #[test]
    fn shown_setting_equals_sent_setting() {
        let always = Some("This model does not support disabling thinking");
        let no_max = Some("This model has no level max; xhigh is sent instead");
        for (model, level, line, warning, effort) in [
            ("muse-spark-1.3", None, "Thinking: provider default", None, None),
            ("muse-spark-1.3", Some("none"), "Thinking: minimal effort (minimum)", always, Some("minimal")),
            ("muse-spark-1.3", Some("med"), "Thinking: medium effort", None, Some("medium")),
            ("muse-spark-1.3", Some("max"), "Thinking: max effort", None, Some("max")),
            ("muse-spark-1.1", Some("max"), "Thinking: xhigh effort", no_max, Some("xhigh")),
            ("muse-spark-1.3-contributor", Some("max"), "Thinking: xhigh effort", no_max, Some("xhigh")),
            ("muse-ember-1.0", Some("xhigh"), "Thinking: xhigh effort", None, Some("xhigh")),
            ("llama-4", None, "Thinking: off", None, None),
            ("llama-4", Some("none"), "Thinking: off", None, None),
            ("llama-4", Some("high"), "Thinking: off", Some("This model does not support thinking"), None),
        ] {
            let plan = Meta::explain_thinking(model, level);
            assert_eq!((&plan.description[..], plan.warning.as_deref()), (&[line.to_owned()][..], warning), "{model}");
            let body = sent(request(model, level));
            match effort {
                Some(effort) => assert!(body.contains(&format!(r#""effort":"{effort}""#)), "{body}"),
                None => assert!(!body.contains("effort"), "{body}"),
            }
            assert!(body.contains(r#""store":false"#), "{body}");
            assert_eq!(body.contains("reasoning.encrypted_content"), model.starts_with("muse-"), "{body}");
        }
    }

    #[test]
    fn unlisted_llama_models_ended_with_the_llama_api() {
        let facts = |model| serde_json::from_str::<serde_json::Value>(&Meta::facts(model, &[])).expect("JSON");
        let ended = serde_json::json!({"status": "retired", "retires-on": "2026-07-06", "successor": "muse-spark-1.3"});
        for model in ["llama-4", "llama-3.3-70b"] {
            assert_eq!(facts(model)["lifecycle"], ended, "{model}");
        }
        assert_eq!(facts("muse-spark-9").get("lifecycle"), None);
    }

    #[test]
    fn tool_choice_is_always_auto() {
        for (choice, tools) in [
            (ToolChoice::Auto, true),
            (ToolChoice::None, false),
            (ToolChoice::Required, true),
            (ToolChoice::Named("a".to_owned()), true),
        ] {
            let tool = Tool { name: "a".to_owned(), description: String::new(), input_schema: "{}".to_owned() };
            let body =
                sent(CompletionRequest { tools: vec![tool], tool_choice: choice, ..request("muse-spark-1.3", None) });
            assert_eq!(body.contains(r#""tool_choice":"auto""#), tools, "{body}");
            assert_eq!(body.contains("tool_choice"), tools, "{body}");
        }
    }
}

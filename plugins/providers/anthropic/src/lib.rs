//! The adapter of the provider `anthropic`: the Messages API of <https://api.anthropic.com>.
//!
//! [`patchbay_codecs::messages`] implements the wire format. This crate contains the manifest, the dated table of
//! models (`models.json`), and the thinking levels of each model (`thinking`).
#![deny(missing_docs)]

mod catalogue;
mod thinking;

use patchbay_codecs::messages::{Messages, is_forced};
use patchbay_codecs::models;
use patchbay_codecs::stream::Stream;
use patchbay_codecs::thinking::Level;
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, LevelPlan, Manifest, Models, Pair, Thinking, ThinkingPlan,
    provider,
};

use thinking::Known;

/// The dated table of models.
const TABLE: &str = include_str!("../models.json");

/// The adapter of one completion.
#[derive(Debug)]
pub struct Anthropic(Stream<Messages>);

impl Adapter for Anthropic {
    fn describe() -> Manifest {
        Manifest {
            name: "anthropic".to_owned(),
            display_name: "Anthropic".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: vec!["claude-".to_owned()],
            models: models::table(TABLE),
            default_base_url: Some("https://api.anthropic.com".to_owned()),
            credentials: vec![Credential {
                id: "api-key".to_owned(),
                scheme: "api-key".to_owned(),
                env: Some("ANTHROPIC_API_KEY".to_owned()),
                obtain_url: Some("https://console.anthropic.com/settings/keys".to_owned()),
                extra: Vec::new(),
            }],
            extra: Vec::new(),
        }
    }

    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan {
        thinking::explain(&Known::of(model, None), level)
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let level = request.thinking.as_deref().and_then(Level::parse);
        let forced = is_forced(&request);
        let facts = models::facts(&request.options);
        let known = Known::of(&request.model, facts.as_ref());
        let settings = thinking::settings(&known, level, forced, request.max_output_tokens);
        let (stream, actions) = Messages::begin(&request, settings);
        (Self(stream), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.resume(input)
    }
}

provider!(Anthropic);

impl Thinking for Anthropic {
    fn explain(model: &str, level: Option<&str>, options: &[Pair]) -> LevelPlan {
        let facts = models::facts(options);
        let known = Known::of(model, facts.as_ref());
        models::level_plan(thinking::explain(&known, level), known.effective(level), options)
    }
}

impl Models for Anthropic {
    fn facts(model: &str, _: &[Pair]) -> String {
        models::unlisted(TABLE, model, |level| Self::explain_thinking(model, Some(level)))
    }
}

patchbay_provider_sdk::thinking!(Anthropic);
patchbay_provider_sdk::models!(Anthropic);

#[cfg(test)]
mod tests;

//! The adapter of the provider `openai`: the Responses API.
//!
//! `patchbay_codecs::responses` implements the wire format. This crate contains the manifest and the thinking levels of
//! each family of models (`thinking`).
//!
//! The operator's option `summary`: `auto` (the default) requests summaries of the model's reasoning for
//! display; `off` requests none. OpenAI refuses them to unverified organisations, in which case the
//! codec repeats the request without them.
#![deny(missing_docs)]

mod catalogue;
mod thinking;

use patchbay_codecs::failure::failure;
use patchbay_codecs::models;
use patchbay_codecs::openai::{CREDENTIAL, one_of};
use patchbay_codecs::responses::{self, Responses};
use patchbay_codecs::stream::Stream;
use patchbay_codecs::thinking::Level;
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, LevelPlan, Manifest, Models, Pair, Thinking, ThinkingPlan,
    provider,
};

/// The dated table of models.
const TABLE: &str = include_str!("../models.json");

/// The adapter of one completion; empty if the operator's options are invalid.
pub struct Openai(Option<Stream<Responses>>);

impl Adapter for Openai {
    fn describe() -> Manifest {
        Manifest {
            name: "openai".to_owned(),
            display_name: "OpenAI".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: ["gpt-", "o1", "o3", "o4"].map(str::to_owned).to_vec(),
            models: models::table(TABLE),
            default_base_url: Some("https://api.openai.com/v1".to_owned()),
            credentials: vec![Credential {
                id: CREDENTIAL.to_owned(),
                scheme: "api-key".to_owned(),
                env: Some("OPENAI_API_KEY".to_owned()),
                obtain_url: Some("https://platform.openai.com/api-keys".to_owned()),
                extra: Vec::new(),
            }],
            extra: vec![Pair { name: "api-label".to_owned(), value: "Responses API".to_owned() }],
        }
    }

    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan {
        thinking::thinking(model, level, None).plan
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let facts = models::facts(&request.options);
        let thinking = thinking::thinking(&request.model, request.thinking.as_deref(), facts.as_ref());
        let mut reasoning = thinking.reasoning;
        match one_of(&request.options, "summary", ["auto", "off"]) {
            Ok(summary) => {
                reasoning.summary = summary != Some("off");
                let (stream, actions) = responses::begin(&request, reasoning);
                (Self(Some(stream)), actions)
            }
            Err(message) => (Self(None), vec![Action::Fail(failure("invalid-request", message))]),
        }
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.as_mut().map(|stream| stream.resume(input)).unwrap_or_default()
    }
}

provider!(Openai);

impl Thinking for Openai {
    fn explain(model: &str, level: Option<&str>, options: &[Pair]) -> LevelPlan {
        let facts = models::facts(options);
        let thinking::Thinking { reasoning, plan } = thinking::thinking(model, level, facts.as_ref());
        models::level_plan(plan, reasoning.effort.and_then(Level::of_word), options)
    }
}

patchbay_provider_sdk::thinking!(Openai);

impl Models for Openai {
    fn facts(model: &str, _: &[Pair]) -> String {
        match thinking::is_known(model) {
            true => models::unlisted(TABLE, model, |level| Self::explain_thinking(model, Some(level))),
            // The levels of a model whose family is unknown would be a guess.
            false => models::unknown(TABLE),
        }
    }
}

patchbay_provider_sdk::models!(Openai);

#[cfg(test)]
mod tests;

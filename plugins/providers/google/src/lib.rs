//! The adapter of the provider `google`: Gemini models.
//!
//! [`patchbay_codecs::gemini`] implements the wire format. This crate contains the manifest and the thinking levels of
//! each model (`thinking`).
#![deny(missing_docs)]

mod catalogue;
mod thinking;

use patchbay_codecs::{
    gemini::{self, Dialect, Gemini},
    models,
    stream::Stream,
};
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, LevelPlan, Manifest, Models, Pair, Thinking, ThinkingPlan,
    provider,
};

/// The name of the provider, and of its only credential.
const NAME: &str = "google";

/// The dated table of models.
const TABLE: &str = include_str!("../models.json");

/// Accepted media types besides text.
const MEDIA: [&str; 7] =
    ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "text/plain"];

/// The adapter of one completion.
pub struct Google {
    stream: Stream<Gemini>,
}

impl Adapter for Google {
    fn describe() -> Manifest {
        Manifest {
            name: NAME.to_owned(),
            display_name: "Google".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: vec!["gemini-".to_owned()],
            models: models::table(TABLE),
            default_base_url: Some("https://generativelanguage.googleapis.com".to_owned()),
            credentials: vec![Credential {
                id: NAME.to_owned(),
                scheme: "api-key".to_owned(),
                env: Some("GOOGLE_API_KEY".to_owned()),
                obtain_url: Some("https://aistudio.google.com/app/apikey".to_owned()),
                // The name that AI Studio hands out. Google's SDK reads both, `GOOGLE_API_KEY` first (2026-11-23,
                // ai.google.dev, "Using Gemini API keys").
                extra: vec![Pair { name: "env-also".to_owned(), value: "GEMINI_API_KEY".to_owned() }],
            }],
            extra: Vec::new(),
        }
    }

    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan {
        thinking::explain(model, level, None)
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let facts = models::facts(&request.options);
        let dialect = Dialect {
            credential: NAME,
            thinking: thinking::setting(&request.model, request.thinking.as_deref(), facts.as_ref()),
            signed_calls: thinking::signs_calls(&request.model),
        };
        let (stream, actions) = Stream::begin_or_fail(Gemini::new(&request), gemini::request(&request, dialect));
        (Self { stream }, actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.stream.resume(input)
    }
}

provider!(Google);

impl Thinking for Google {
    fn explain(model: &str, level: Option<&str>, options: &[Pair]) -> LevelPlan {
        let facts = models::facts(options);
        let plan = thinking::explain(model, level, facts.as_ref());
        models::level_plan(plan, thinking::effective(model, level, facts.as_ref()), options)
    }
}

impl Models for Google {
    fn facts(model: &str, _: &[Pair]) -> String {
        models::unlisted(TABLE, model, |level| Self::explain_thinking(model, Some(level)))
    }
}

patchbay_provider_sdk::thinking!(Google);
patchbay_provider_sdk::models!(Google);

#[cfg(test)]
mod tests;

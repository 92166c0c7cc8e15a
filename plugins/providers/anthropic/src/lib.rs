//! The adapter of the provider `anthropic`: the Messages API of <https://api.anthropic.com>.
//!
//! [`patchbay_codecs::messages`] has the wire format. This crate has the manifest, and in `thinking` the thinking
//! levels of each model.
#![deny(missing_docs)]

mod thinking;

use patchbay_codecs::messages::{Messages, is_forced};
use patchbay_codecs::stream::Stream;
use patchbay_codecs::thinking::Level;
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, Manifest, Model, ThinkingPlan, provider,
};

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
            models: vec![
                model("claude-sonnet-4-5", "normal", &["none", "low", "med", "high"]),
                model("claude-opus-4-5", "large", &[]),
                model("claude-haiku-4-5", "small", &[]),
            ],
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
        thinking::explain(model, level.and_then(Level::parse))
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let level = request.thinking.as_deref().and_then(Level::parse);
        let forced = is_forced(&request);
        let settings = thinking::settings(&request.model, level, forced, request.max_output_tokens);
        let (stream, actions) = Messages::begin(&request, settings);
        (Self(stream), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.0.resume(input)
    }
}

provider!(Anthropic);

fn model(id: &str, size: &str, levels: &[&str]) -> Model {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
    Model {
        id: id.to_owned(),
        size: size.to_owned(),
        suggested_levels: words(levels),
        input_media: words(&["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]),
        context_window: Some(200_000),
        deprecated: false,
        extra: Vec::new(),
    }
}

#[cfg(test)]
mod tests;

//! The adapter of the provider `google`: Gemini models.
//!
//! [`patchbay_codecs::gemini`] has the wire format. This crate has the manifest, and in `thinking` the thinking levels
//! of each model.
#![deny(missing_docs)]

mod thinking;

use patchbay_codecs::{
    gemini::{self, Dialect, Gemini},
    stream::Stream,
};
use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Credential, Input, Manifest, Model, ThinkingPlan, provider,
};

/// The name of the provider, and of its only credential.
const NAME: &str = "google";

/// The context window of Gemini 2.5 in tokens.
const CONTEXT_WINDOW: u64 = 1_048_576;

/// The models: id, size, suggested levels.
const MODELS: [(&str, &str, &[&str]); 2] =
    [("gemini-2.5-pro", "normal", &["none", "low", "med", "high"]), ("gemini-2.5-flash", "small", &[])];

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
            models: MODELS.map(model).to_vec(),
            default_base_url: Some("https://generativelanguage.googleapis.com".to_owned()),
            credentials: vec![Credential {
                id: NAME.to_owned(),
                scheme: "api-key".to_owned(),
                env: Some("GOOGLE_API_KEY".to_owned()),
                obtain_url: Some("https://aistudio.google.com/app/apikey".to_owned()),
                extra: Vec::new(),
            }],
            extra: Vec::new(),
        }
    }

    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan {
        thinking::explain(model, level)
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let dialect = Dialect {
            credential: NAME,
            thinking: thinking::setting(&request.model, request.thinking.as_deref()),
            signed_calls: thinking::signs_calls(&request.model),
        };
        let (stream, actions) = Stream::begin(Gemini::new(&request), gemini::request(&request, dialect));
        (Self { stream }, actions)
    }

    fn resume(&mut self, input: Input) -> Vec<Action> {
        self.stream.resume(input)
    }
}

provider!(Google);

fn model((id, size, levels): (&str, &str, &[&str])) -> Model {
    Model {
        id: id.to_owned(),
        size: size.to_owned(),
        suggested_levels: levels.iter().map(|level| (*level).to_owned()).collect(),
        input_media: MEDIA.map(str::to_owned).to_vec(),
        context_window: Some(CONTEXT_WINDOW),
        deprecated: false,
        extra: Vec::new(),
    }
}

#[cfg(test)]
mod tests;

//! `/usage`: lists the tokens that the session's models have used.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome, completion::TokenUsage, text};
use patchbay_store::{ModelUsage, StoreError};
use serde_json::json;

use super::{BuiltIn, EffectFuture};
use crate::lines::LineContext;

pub(crate) struct UsageCommand;

static SPEC: Spec = Spec {
    name: "usage",
    argument: Argument::None,
    summary: "List the tokens that this session has used, by model",
    completion: Completion::None,
};

impl BuiltIn for UsageCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            let listed = usage(line).await;
            listed.unwrap_or_else(|error| Outcome::error(error.code(), format_args!("{error}."))).into()
        })
    }
}

async fn usage(line: &LineContext) -> Result<Outcome, StoreError> {
    let session = &line.session;
    let by_model = session.log().store().usage(session.id()).await?;
    let all = session.log().budget().used();
    let total = by_model.iter().fold(TokenUsage::default(), |sum, of| sum.plus(of.usage));
    let mut lines: Vec<String> = by_model.iter().map(shown).collect();
    // Requests without a row: those of skills, trials of models, and answers of which nothing came.
    let others = all.saturating_sub(total.total());
    if others > 0 {
        lines.push(format!("Other requests: {} tokens", text::with_commas(others)));
    }
    lines.push(format!("In all: {} tokens", text::with_commas(all)));
    let models: Vec<_> = by_model
        .iter()
        .map(|ModelUsage { provider, model, usage }| json!({"provider": provider, "model": model, "usage": usage}))
        .collect();
    let data = json!({"models": models, "other": others, "total": all});
    Ok(Outcome::ok(Code::UsageListed, lines.join("\n")).with_data(data))
}

fn shown(of: &ModelUsage) -> String {
    let ModelUsage { provider, model, usage } = of;
    let TokenUsage { input, output, cache_read, cache_write, .. } = *usage;
    let [input, output, read, written] = [input, output, cache_read, cache_write].map(text::with_commas);
    let name = text::clean_line(&format!("{provider}/{model}"));
    format!("{name}: {input} in, {output} out, {read} read from the cache, {written} written to it")
}

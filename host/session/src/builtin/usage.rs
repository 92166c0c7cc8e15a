//! `/usage`: lists the tokens used by each of the session's models, and their cost where prices are known.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome, completion::TokenUsage, text};
use patchbay_store::{ModelUsage, StoreError};
use rust_decimal::Decimal;
use serde_json::json;

use super::{BuiltIn, CommandKind};
use crate::{Session, line::context::LineContext, recording, spent};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "usage",
            argument: Argument::None,
            summary: "List the tokens that this session has used, by model, and what they cost",
            completion: Completion::None,
        },
        |line, _| {
            Box::pin(async move {
                let listed = usage(line).await;
                listed.unwrap_or_else(|error| Outcome::error(error.code(), format_args!("{error}."))).into()
            })
        },
    )
};

async fn usage(line: &LineContext) -> Result<Outcome, StoreError> {
    let session = &line.session;
    let by_model = session.log().usage().await?;
    let counted = session.log().budget().used();
    let total = by_model.iter().fold(TokenUsage::default(), |sum, of| sum.plus(of.usage));
    let mut costs = Vec::new();
    for of in &by_model {
        costs.push(cost(session, of).await);
    }
    let mut lines: Vec<String> = by_model.iter().zip(&costs).map(|(of, cost)| shown(of, cost.as_ref())).collect();
    // Tokens without a model. A request that was cut off before the provider reported its usage counts with an estimate, and
    // earlier builds stored no model for the requests of skills.
    let others = counted.saturating_sub(total.uncached());
    if others > 0 {
        lines.push(format!("Other requests: {} tokens", text::with_commas(others)));
    }
    let is_whole = others == 0 && costs.iter().all(Option::is_some);
    let sum = in_all(costs.iter().flatten(), is_whole).map(|sum| format!(", {sum}")).unwrap_or_default();
    if by_model.len() > 1 {
        lines.push(format!("All models: {}", tokens(total)));
    }
    let all = total.total().saturating_add(others);
    let uncached = match total.cache_read {
        0 => String::new(),
        read => format!(" ({} without those read from the cache)", text::with_commas(all.saturating_sub(read))),
    };
    lines.push(format!("Total: {} tokens{uncached}{sum}", text::with_commas(all)));
    let spent = spent::report(session, line.agent.budget()).await?;
    lines.extend(spent.iter().flat_map(|spent| spent.lines.iter().cloned()));
    lines.extend(recording::line(session.log().store(), session.id(), session.host.records()).await?);
    let models: Vec<_> = by_model
        .iter()
        .zip(&costs)
        .map(|(ModelUsage { provider, model, usage }, cost)| {
            let cost = cost.as_ref().map(|cost| json!({"currency": cost.currency, "amount": cost.amount.to_string()}));
            json!({"provider": provider, "model": model, "usage": usage, "cost": cost})
        })
        .collect();
    let mut data = json!({"models": models, "usage": total, "other": others, "total": all, "counted": counted});
    if let Some(spent) = spent {
        data["spending"] = spent.data;
    }
    Ok(Outcome::ok(Code::UsageListed, lines.join("\n")).with_data(data))
}

/// The cost of a model's tokens.
struct Cost {
    currency: String,
    amount: Decimal,
    /// Whether long requests have other prices, which the amount ignores.
    is_estimate: bool,
}

/// Returns the cost of a model's tokens at its current prices, or `None` if they are unknown.
async fn cost(session: &Session, of: &ModelUsage) -> Option<Cost> {
    let provider = of.provider.parse().ok()?;
    let prices = session.host.providers.model(&provider, &of.model).await?.prices?;
    let is_estimate = !prices.tiers.is_empty();
    Some(Cost { amount: prices.estimate(of.usage)?, currency: prices.currency, is_estimate })
}

/// Returns the sum of costs, or `None` if their currencies differ. `is_whole` is false if the cost of some tokens is unknown.
fn in_all<'a>(costs: impl Iterator<Item = &'a Cost>, is_whole: bool) -> Option<String> {
    let costs: Vec<_> = costs.collect();
    let currency = &costs.first()?.currency;
    if costs.iter().any(|cost| cost.currency != *currency) {
        return None;
    }
    let amount = costs.iter().try_fold(Decimal::ZERO, |sum, cost| sum.checked_add(cost.amount))?;
    let is_estimate = costs.iter().any(|cost| cost.is_estimate);
    let sum = money(&Cost { currency: currency.clone(), amount, is_estimate });
    Some(if is_whole { sum } else { format!("at least {sum}") })
}

fn money(cost: &Cost) -> String {
    let about = if cost.is_estimate { "about " } else { "" };
    format!("{about}{:.4} {}", cost.amount.round_dp(4), cost.currency)
}

fn shown(of: &ModelUsage, cost: Option<&Cost>) -> String {
    let ModelUsage { provider, model, usage } = of;
    let name = text::clean_line(&format!("{provider}/{model}"));
    let cost = cost.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    format!("{name}: {}{cost}", tokens(*usage))
}

fn tokens(usage: TokenUsage) -> String {
    let TokenUsage { input, output, cache_read, cache_write, .. } = usage;
    let [input, output, read, written] = [input, output, cache_read, cache_write].map(text::with_commas);
    format!("{input} in, {output} out, {read} read from the cache, {written} written to it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(amount: &str, currency: &str, is_estimate: bool) -> Cost {
        Cost { currency: currency.to_owned(), amount: amount.parse().unwrap(), is_estimate }
    }

    #[test]
    fn costs_are_summed_in_one_currency() {
        let (one, other) = (cost("0.00125", "USD", false), cost("1.5", "USD", true));
        assert_eq!(money(&one), "0.0012 USD");
        assert_eq!(in_all([&one].into_iter(), true).unwrap(), "0.0012 USD");
        assert_eq!(in_all([&one, &other].into_iter(), false).unwrap(), "at least about 1.5012 USD");
        assert_eq!(in_all([&one, &cost("1", "EUR", false)].into_iter(), true), None);
        assert_eq!(in_all([].into_iter(), true), None);
    }
}

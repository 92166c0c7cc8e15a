//! Formats the cost of model requests for `/usage` and `patchbay usage`.

use std::cmp::Reverse;

use patchbay_core::{AgentId, Money, SessionId, text};
use patchbay_store::{BudgetSettings, SpendingRow, SpentMoney, StoreError, utc_date};
use serde_json::{Value, json};

use crate::Session;

/// Maximum number of rows that `/usage` lists.
const ROWS: usize = 20;

/// The cost of a session, as lines for the user and as data for programs.
pub(crate) struct SpentReport {
    pub(crate) lines: Vec<String>,
    pub(crate) data: Value,
}

/// Returns the cost of the session so far; `None` if it has cost nothing and no budget is set.
pub(crate) async fn report(session: &Session, budget: &BudgetSettings) -> Result<Option<SpentReport>, StoreError> {
    let store = session.log().store();
    let spending = store.spending(session.id()).await?;
    if !budget.is_set() && spending.session.total() == Money::ZERO {
        return Ok(None);
    }
    let mut rows = store.spending_rows(Some(session.id()), None).await?;
    let data = json!({
        "session": money(spending.session, budget.session),
        "today": money(spending.today, budget.day),
        "day": utc_date(spending.day),
        "rows": rows.iter().map(spending_object).collect::<Vec<_>>(),
    });
    let mut lines = vec![format!("This session: {}", of_budget(spending.session, budget.session))];
    if budget.day.is_some() {
        let (day, today) = (utc_date(spending.day), of_budget(spending.today, budget.day));
        lines.push(format!("All sessions on {day} (UTC): {today}"));
    }
    rows.sort_by_key(|row| Reverse(row.money.total()));
    lines.extend(rows.iter().take(ROWS).map(|row| format!("  {}", spending_line(row, false))));
    if let Some(more) = rows.len().checked_sub(ROWS).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more: patchbay usage"));
    }
    Ok(Some(SpentReport { lines, data }))
}

/// Describes an amount, the amount reserved in addition, and the budget.
fn of_budget(money: SpentMoney, budget: Option<Money>) -> String {
    let reserved = match money.reserved {
        Money::ZERO => String::new(),
        reserved => format!(" and {reserved} USD reserved"),
    };
    let budget = budget.map(|budget| format!(", of {budget} USD")).unwrap_or_default();
    format!("{} USD spent{reserved}{budget}", money.spent)
}

fn money(money: SpentMoney, budget: Option<Money>) -> Value {
    json!({"spent": money.spent, "reserved": money.reserved, "budget": budget})
}

/// Formats a row of the ledger for the user. `with_session` adds the row's session.
pub fn spending_line(row: &SpendingRow, with_session: bool) -> String {
    let short = |id: &str, short: Option<String>| short.unwrap_or_else(|| text::excerpt(id, 8));
    let session = short(&row.session, row.session.parse::<SessionId>().ok().map(|id| id.short()));
    let agent = short(&row.agent, row.agent.parse::<AgentId>().ok().map(|id| id.short()));
    let session = if with_session { format!("session {session}, ") } else { String::new() };
    let model = text::clean_line(&format!("{}/{}", row.provider, row.model));
    let requests = if row.requests == 1 { "1 request".to_owned() } else { format!("{} requests", row.requests) };
    let mut line = format!(
        "{}, {session}agent {agent}, {}, {model}: {requests}, {}",
        utc_date(row.day),
        text::clean_line(&row.tool),
        of_budget(row.money, None),
    );
    if row.assumed > Money::ZERO {
        line += &format!(", of which {} USD is assumed: the usage was not reported", row.assumed);
    }
    if row.unpriced > 0 {
        line += &format!(", {} of unknown price", row.unpriced);
    }
    line
}

/// Returns a row of the ledger as JSON, for programs.
pub fn spending_object(row: &SpendingRow) -> Value {
    json!({
        "day": utc_date(row.day),
        "session": row.session,
        "agent": row.agent,
        "tool": text::clean_line(&row.tool),
        "provider": text::clean_line(&row.provider),
        "model": text::clean_line(&row.model),
        "requests": row.requests,
        "unpriced": row.unpriced,
        "spent": row.money.spent,
        "reserved": row.money.reserved,
        "assumed": row.assumed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_names_what_is_assumed_or_unknown() {
        let mut row = SpendingRow {
            day: 20_784,
            session: SessionId::random().to_string(),
            agent: "not an id".to_owned(),
            tool: "web__read".to_owned(),
            provider: "demo".to_owned(),
            model: "demo-1".to_owned(),
            requests: 1,
            unpriced: 0,
            money: SpentMoney { spent: Money::from_nanos(12_500_000), reserved: Money::ZERO },
            assumed: Money::ZERO,
        };
        let line = "2026-11-27, agent not an i…, web__read, demo/demo-1: 1 request, 0.0125 USD spent";
        assert_eq!(spending_line(&row, false), line);
        row.requests = 3;
        row.unpriced = 2;
        row.money.reserved = Money::from_nanos(Money::NANOS);
        row.assumed = row.money.spent;
        let end = ": 3 requests, 0.0125 USD spent and 1.00 USD reserved, of which 0.0125 USD is assumed: the usage was not \
                   reported, 2 of unknown price";
        assert!(spending_line(&row, true).ends_with(end), "{}", spending_line(&row, true));
        assert!(spending_line(&row, true).starts_with("2026-11-27, session "));
    }
}

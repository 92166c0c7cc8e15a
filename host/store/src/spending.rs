//! The cost of requests to models, and how much may still be spent: `[budget]` of `config.toml`. The most that a
//! request can cost is reserved in the transaction that begins it, and settled when it has ended. If the process dies first,
//! the whole reservation counts, so a crash can only make the total too high. Called by `agent`.

use patchbay_core::{AgentId, Money, SessionId};
use rusqlite::{Connection, Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Hold, Store, StoreError, database::rows, reservations};

/// How much models may cost. `[budget]` in `config.toml` sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSettings {
    /// Spending limit of one session in US dollars, such as `"2.00"`, for the requests of all its agents and tools. Without it, a
    /// session has no limit.
    pub session: Option<Money>,
    /// Spending limit of one day in US dollars, such as `"20.00"`, for all sessions of this home together. A day begins at midnight
    /// UTC. Without it, a day has no limit.
    pub day: Option<Money>,
}

impl BudgetSettings {
    /// Whether there is a limit.
    pub fn is_set(&self) -> bool {
        self.session.is_some() || self.day.is_some()
    }
}

/// A request that is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRequest {
    /// The agent that sends it.
    pub agent: AgentId,
    /// The tool that requests the inference, or the kind of request.
    pub tool: String,
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Whether the price is known. Otherwise all offers are zero.
    pub is_priced: bool,
    /// The most that it can cost with each possible limit on the size of its answer, the largest first.
    pub offers: Vec<Money>,
}

/// The money reserved for one request. Settle it when the request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedMoney {
    id: i64,
    /// The index of the offer that was chosen.
    pub offer: usize,
}

/// The money spent and reserved in a session or on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentMoney {
    /// The cost of requests that have ended.
    pub spent: Money,
    /// The amount reserved for requests under way, and for requests of processes that died.
    pub reserved: Money,
}

/// The money spent and reserved in a session and on the current day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// The amounts of the session.
    pub session: SpentMoney,
    /// The amounts of all sessions on this day.
    pub today: SpentMoney,
    /// The day, in days since 1970 in UTC.
    pub day: i64,
}

/// A ceiling of [`BudgetSettings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// The budget of one session.
    Session,
    /// The budget of all sessions on one day, in UTC.
    Day,
}

/// A request that could cost more than is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// The ceiling that it would exceed.
    pub ceiling: Ceiling,
    /// The amount of the ceiling.
    pub most: Money,
    /// The amount that the smallest offer needs.
    pub needed: Money,
    /// The amounts before this request.
    pub so_far: Spending,
}

/// The cost of the requests with one purpose, on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendingRow {
    /// The day, in days since 1970 in UTC.
    pub day: i64,
    /// The session, which may have been removed.
    pub session: String,
    /// The agent's UUID.
    pub agent: String,
    /// The tool that requested the inference, or the kind of request.
    pub tool: String,
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Number of requests, including those under way.
    pub requests: u64,
    /// Number of these requests with an unknown price.
    pub unpriced: u64,
    /// The cost, and the reserved amount.
    pub money: SpentMoney,
    /// The part of the cost that is assumed: the reserved amounts of requests whose usage never became known.
    pub assumed: Money,
}

impl SpentMoney {
    /// Returns the sum.
    pub fn total(self) -> Money {
        self.spent.plus(self.reserved)
    }
}

impl Spending {
    /// Returns how much may still be spent under both ceilings; `None` without a ceiling.
    pub fn left(&self, budget: &BudgetSettings) -> Option<Money> {
        let left = |ceiling: Option<Money>, used: SpentMoney| ceiling.map(|ceiling| ceiling.minus(used.total()));
        [left(budget.session, self.session), left(budget.day, self.today)].into_iter().flatten().min()
    }

    /// Returns the index of the offer to reserve: the largest that takes at most half of the remaining budget, because
    /// other requests must be able to spend, too. If no offer is that small, the smallest offer is chosen.
    fn choose(&self, budget: &BudgetSettings, offers: &[Money]) -> Result<usize, OverBudget> {
        let (Some(left), Some(smallest)) = (self.left(budget), offers.last()) else { return Ok(0) };
        if let Some(offer) = offers.iter().position(|offer| *offer <= left.half()) {
            return Ok(offer);
        }
        if *smallest <= left {
            return Ok(offers.len() - 1);
        }
        let over = |ceiling: Option<Money>, used: SpentMoney| {
            ceiling.filter(|ceiling| *smallest > ceiling.minus(used.total()))
        };
        let (ceiling, most) = match (over(budget.session, self.session), over(budget.day, self.today)) {
            (Some(most), _) => (Ceiling::Session, most),
            (None, most) => (Ceiling::Day, most.unwrap_or_default()),
        };
        Err(OverBudget { ceiling, most, needed: *smallest, so_far: *self })
    }
}

/// Returns a day as `YYYY-MM-DD`. `day` is in days since 1970.
pub fn utc_date(day: i64) -> String {
    let seconds = day.saturating_mul(DAY_MS / 1_000);
    jiff::Timestamp::from_second(seconds).unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// Returns the day of a date such as `2026-11-27`, in days since 1970 in UTC; `None` if it is invalid.
pub fn day_of(date: &str) -> Option<i64> {
    let day = date.parse::<jiff::civil::Date>().ok().filter(|_| date.len() == 10)?;
    let midnight = day.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(midnight.timestamp().as_second().div_euclid(DAY_MS / 1_000))
}

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

const SUMS: &str = "(SELECT coalesce(sum(amount), 0) FROM spending WHERE session = ?1), \
    (SELECT coalesce(sum(amount), 0) FROM reservations WHERE session = ?1), \
    (SELECT coalesce(sum(amount), 0) FROM spending WHERE day = ?2), \
    (SELECT coalesce(sum(amount), 0) FROM reservations WHERE day = ?2)";

fn sums(connection: &Connection, session: SessionId, day: i64) -> Result<Spending, StoreError> {
    let mut query = connection.prepare_cached(&format!("SELECT {SUMS}"))?;
    Ok(query.query_row(params![session.to_string(), day], |row| {
        let spent = |at| Ok::<_, rusqlite::Error>(SpentMoney { spent: money(row, at)?, reserved: money(row, at + 1)? });
        Ok(Spending { session: spent(0)?, today: spent(2)?, day })
    })?)
}

fn money(row: &Row<'_>, column: usize) -> rusqlite::Result<Money> {
    row.get(column).map(Money::from_nanos)
}

impl Store {
    /// Reserves the most that a request can cost. The request may be sent if this succeeds. It counts for the current day.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error. The inner error means that too little is left.
    pub async fn reserve(
        &self,
        hold: &Hold,
        budget: BudgetSettings,
        request: NewRequest,
    ) -> Result<Result<ReservedMoney, OverBudget>, StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        self.database
            .write(move |connection| {
                let write = hold.begin_write(connection, &source, 0, 0)?;
                let day = write.unix_ms.div_euclid(DAY_MS);
                let NewRequest { agent, tool, provider, model, is_priced, offers } = request;
                let offer = match sums(connection, write.session, day)?.choose(&budget, &offers) {
                    Ok(offer) => offer,
                    Err(over) => return Ok(Err(over)),
                };
                let amount = offers.get(offer).copied().unwrap_or_default().min(Money::MOST).nanos();
                let (session, agent) = (write.session.to_string(), agent.to_string());
                connection
                    .prepare_cached(
                        "INSERT INTO reservations (day, session, agent, tool, provider, model, priced, amount) \
                         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    )?
                    .execute(params![day, session, agent, tool, provider, model, is_priced, amount])?;
                Ok(Ok(ReservedMoney { id: connection.last_insert_rowid(), offer }))
            })
            .await
    }

    /// Ends a reservation with the actual cost; without a known cost, the whole amount counts as spent. Queues the write. If the
    /// write is lost, the reservation stays and counts.
    pub fn settle_spending(&self, reservation: ReservedMoney, cost: Option<Money>) {
        self.database
            .write_now("the cost of a request", move |connection| reservations::end(connection, reservation.id, cost));
    }

    /// Returns the money spent and reserved in a session and on the current day.
    ///
    /// # Errors
    /// A database error.
    pub async fn spending(&self, session: SessionId) -> Result<Spending, StoreError> {
        let day = self.source.unix_ms().div_euclid(DAY_MS);
        self.database.read(|connection| sums(connection, session, day))
    }

    /// Returns the cost of requests by day, session, agent, tool, provider and model, sorted in that order. `session` and
    /// `day` select requests; `None` selects all.
    ///
    /// # Errors
    /// A database error.
    pub async fn spending_rows(
        &self,
        session: Option<SessionId>,
        day: Option<i64>,
    ) -> Result<Vec<SpendingRow>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT day, session, agent, tool, provider, model, sum(requests), sum(unpriced), sum(spent), \
                 sum(reserved), sum(assumed) FROM ( \
                 SELECT day, session, agent, tool, provider, model, requests, unpriced, amount AS spent, 0 AS reserved, \
                 assumed FROM spending UNION ALL \
                 SELECT day, session, agent, tool, provider, model, 1, 1 - priced, 0, amount, 0 FROM reservations) \
                 WHERE session = coalesce(?1, session) AND day = coalesce(?2, day) \
                 GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6";
            rows(connection, sql, params![session.map(|session| session.to_string()), day], |row| {
                Ok(SpendingRow {
                    day: row.get(0)?,
                    session: row.get(1)?,
                    agent: row.get(2)?,
                    tool: row.get(3)?,
                    provider: row.get(4)?,
                    model: row.get(5)?,
                    requests: row.get::<_, i64>(6)?.cast_unsigned(),
                    unpriced: row.get::<_, i64>(7)?.cast_unsigned(),
                    money: SpentMoney { spent: money(row, 8)?, reserved: money(row, 9)? },
                    assumed: money(row, 10)?,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests;

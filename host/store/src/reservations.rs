//! Ends reservations of money for requests, which turns them into spending. Called by `spending` and `hold`.

use patchbay_core::{Money, SessionId};
use rusqlite::{Connection, params};

use crate::StoreError;

/// Ends a reservation with its actual cost; with `None`, the whole amount counts as spent. Does nothing if it has already ended.
pub(crate) fn end(connection: &Connection, id: i64, cost: Option<Money>) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO spending SELECT day, session, agent, tool, provider, model, 1, 1 - priced, \
             coalesce(?2, amount), iif(?2 IS NULL, amount, 0) FROM reservations WHERE id = ?1 \
             ON CONFLICT DO UPDATE SET requests = requests + 1, unpriced = unpriced + excluded.unpriced, \
             amount = amount + excluded.amount, assumed = assumed + excluded.assumed",
        )?
        .execute(params![id, cost.map(|cost| cost.min(Money::MOST).nanos())])?;
    connection.prepare_cached("DELETE FROM reservations WHERE id = ?")?.execute([id])?;
    Ok(())
}

/// Ends the reservations of a session after its process has died or lost the session.
pub(crate) fn end_abandoned(connection: &Connection, session: SessionId) -> Result<(), StoreError> {
    let mut query = connection.prepare_cached("SELECT id FROM reservations WHERE session = ?")?;
    let abandoned = query.query_map([session.to_string()], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    abandoned.into_iter().try_for_each(|id| end(connection, id, None))
}

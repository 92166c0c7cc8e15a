//! `patchbay usage`: prints what requests to models have cost in this home. `main` calls it.

use std::process::ExitCode;

use patchbay_core::{Money, text};
use patchbay_session::{Host, spending_line, spending_object};

use crate::{CliError, args::Usage, out::say};

pub(crate) async fn run(host: &Host, arguments: &Usage) -> Result<ExitCode, CliError> {
    let rows = host.store().spending_rows(None, arguments.day.map(|Day(day)| day)).await?;
    if arguments.json {
        rows.iter().for_each(|row| say!("{}", spending_object(row)));
        return Ok(ExitCode::SUCCESS);
    }
    rows.iter().for_each(|row| say!("{}", spending_line(row, true)));
    let sum = |of: fn(&patchbay_store::SpendingRow) -> Money| rows.iter().map(of).fold(Money::ZERO, Money::plus);
    let (spent, reserved) = (sum(|row| row.money.spent), sum(|row| row.money.reserved));
    let requests = match rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.requests)) {
        1 => "1 request".to_owned(),
        requests => format!("{} requests", text::with_commas(requests)),
    };
    let reserved = if reserved == Money::ZERO { String::new() } else { format!(" and {reserved} USD reserved") };
    say!("In all: {requests}, {spent} USD spent{reserved}");
    Ok(ExitCode::SUCCESS)
}

/// A day, in days since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day(i64);

impl std::str::FromStr for Day {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let date = written.parse::<jiff::civil::Date>().ok().filter(|_| written.len() == 10);
        let midnight = date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
        let day = midnight.map(|midnight| Self(midnight.timestamp().as_second().div_euclid(86_400)));
        day.ok_or_else(|| format!("'{}' is not a day: write it as in 2026-11-27", text::excerpt(written, 40)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates_in_utc() {
        for (written, day) in [("1970-01-01", 0), ("2026-11-27", 20_784), ("1969-12-31", -1)] {
            assert_eq!((written.parse(), patchbay_store::utc_date(day)), (Ok(Day(day)), written.to_owned()));
        }
        for written in ["", "today", "2026-11-31", "27.11.2026", "20261127", "2026-11-27T10:00"] {
            assert!(written.parse::<Day>().unwrap_err().starts_with(&format!("'{written}' is not a day")));
        }
    }
}

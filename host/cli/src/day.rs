//! Days on the command line, such as `--day 2026-11-27`.

use std::str::FromStr;

use patchbay_core::text;

/// A day in UTC, as the number of days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day(pub(crate) i64);

impl FromStr for Day {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let day = patchbay_store::day_of(written).map(Self);
        day.ok_or_else(|| format!("'{}' is not a day: write it as in 2026-11-27", text::excerpt(written, 40)))
    }
}

/// Returns a time in seconds since 1970 as date and minute.
pub(crate) fn minute(unix_s: i64) -> String {
    jiff::Timestamp::from_second(unix_s).unwrap_or_default().strftime("%Y-%m-%d %H:%M").to_string()
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

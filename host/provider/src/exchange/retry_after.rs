//! Converts the header `Retry-After` from a date to seconds, because adapters have no clock. Called by
//! `pending_request` for each response head.

use std::time::SystemTime;

use httpdate::parse_http_date;

/// Replaces a date in `retry-after` with the number of seconds until then, rounded up; 0 if the date has passed. The
/// current time is the server's, from the header `date`, or `now` without that header. Header names must be in lower
/// case.
pub(super) fn date_to_seconds(headers: &mut [(String, String)], now: SystemTime) {
    let date = |value: &str| parse_http_date(value.trim()).ok();
    let sent = headers.iter().find(|(name, _)| name == "date").and_then(|(_, value)| date(value));
    for (_, value) in headers.iter_mut().filter(|(name, _)| name == "retry-after") {
        if let Some(until) = date(value) {
            let left = until.duration_since(sent.unwrap_or(now)).unwrap_or_default();
            *value = left.as_millis().div_ceil(1000).to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the converted header. The local time is half a second after 07:28:00.
    fn seconds(value: &str, date: Option<&str>) -> String {
        let now = parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap() + Duration::from_millis(500);
        let mut headers: Vec<_> = date.map(|date| ("date".to_owned(), date.to_owned())).into_iter().collect();
        headers.push(("retry-after".to_owned(), value.to_owned()));
        date_to_seconds(&mut headers, now);
        headers.pop().unwrap().1
    }

    #[test]
    fn date_becomes_seconds() {
        // The three forms of RFC 9110, 5.6.7.
        assert_eq!(seconds("Wed, 21 Oct 2026 07:29:00 GMT", None), "60");
        assert_eq!(seconds("Wednesday, 21-Oct-26 07:28:01 GMT", None), "1");
        assert_eq!(seconds("Wed Oct 21 08:28:00 2026", None), "3600");
        assert_eq!(seconds("Wed, 21 Oct 2026 07:00:00 GMT", None), "0");
    }

    #[test]
    fn clock_of_the_server_is_preferred() {
        let date = "Wed, 21 Oct 2026 09:00:00 GMT";
        assert_eq!(seconds("Wed, 21 Oct 2026 09:00:07 GMT", Some(date)), "7");
        assert_eq!(seconds("Wed, 21 Oct 2026 07:28:09 GMT", Some("now")), "9");
    }

    #[test]
    fn other_values_stay() {
        for value in ["20", "0", "soon", "", "Wed, 99 Oct 2026 07:29:00 GMT"] {
            assert_eq!(seconds(value, None), value);
        }
    }
}

//! Times of day as people and machines read them: RFC 3339, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// To the second, which is never later than the time that it stands for.
#[must_use]
pub fn seconds(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}Z", to_the_second(since.as_secs()))
}

/// To the millisecond.
#[must_use]
pub fn milliseconds(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}Z", to_the_second(since.as_secs()), since.subsec_millis())
}

/// A time in any zone, with or without a fraction; `None` when the text is none.
#[must_use]
pub fn parse(text: &str) -> Option<SystemTime> {
    let stamp: prost_types::Timestamp = text.parse().ok()?;
    SystemTime::try_from(stamp).ok()
}

fn to_the_second(since: u64) -> String {
    let (days, second) = (since / 86_400, since % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// The day that is so many days after 1970-01-01, in the Gregorian calendar: by eras of 400 years
/// whose years begin in March, so that the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_as_the_rfc_says() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (1_793_577_599_999, "2026-11-01T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let at = UNIX_EPOCH + Duration::from_millis(ms);
            assert_eq!(milliseconds(at), text);
            assert_eq!(seconds(at), format!("{}Z", &text[..19]));
            assert_eq!(parse(text), Some(at));
        }
    }

    #[test]
    fn zones_are_read_and_nonsense_is_not() {
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(UNIX_EPOCH));
        for text in ["", "tomorrow", "2026-13-01T00:00:00Z", "12"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

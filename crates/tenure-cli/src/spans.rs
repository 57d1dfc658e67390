//! Lengths of time as people say them.

use std::time::{Duration, SystemTime};

/// A length of time in its two largest units: `12 s`, `3 min 5 s`, `2 h`, `4 d 1 h`.
pub(crate) fn span(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{} ms", time.as_millis());
    }
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let seconds = time.as_secs();
    let at = units.iter().position(|(_, unit)| seconds >= *unit).unwrap_or(units.len() - 1);
    let (name, unit) = units[at];
    let text = format!("{} {name}", seconds / unit);
    match units.get(at + 1).map(|(name, smaller)| (name, seconds % unit / smaller)) {
        Some((name, rest)) if rest > 0 => format!("{text} {rest} {name}"),
        _ => text,
    }
}

/// How long before `now` that was, in words; clocks of two machines may say that it was not.
pub(crate) fn ago(then: SystemTime, now: SystemTime) -> String {
    match now.duration_since(then) {
        Ok(since) if since >= Duration::from_secs(1) => format!("{} ago", span(since)),
        _ => "just now".into(),
    }
}

/// Whole milliseconds, for JSON.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whole nanoseconds, for histories and samples.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_units_are_enough() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (12_400, "12 s"),
            (60_000, "1 min"),
            (185_000, "3 min 5 s"),
            (7_200_000, "2 h"),
            (7_205_000, "2 h"),
            (349_200_000, "4 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn what_lies_ahead_is_now() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(ago(at(100), at(112)), "12 s ago");
        assert_eq!(ago(at(112), at(100)), "just now");
    }
}

//! Durations as people write them: `10s`, `500ms`, `1h30m`.

use std::fmt;
use std::time::Duration;

const UNITS: &[(&str, u64)] =
    &[("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)];

/// Why a text is no duration. It says how to write one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// There is nothing.
    Empty,
    /// A unit without a number, or a number that is none.
    NoNumber,
    /// A number without a unit.
    NoUnit,
    /// A unit that does not exist.
    UnknownUnit,
    /// The same unit twice, or a larger one behind a smaller one.
    Order,
    /// More than fits.
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty: write it like 10s",
            Self::NoNumber => "a number and a unit are needed, as in 500ms, 10s, 2m or 1h30m",
            Self::NoUnit => "a number needs a unit: ms, s, m or h, as in 10s",
            Self::UnknownUnit => "the units are ms, s, m and h, as in 500ms, 10s, 2m or 1h30m",
            Self::Order => "units go from large to small and each once, as in 1h30m",
            Self::TooLong => "it is too long",
        })
    }
}

impl std::error::Error for DurationError {}

/// Reads a duration: numbers with units, from large to small; a number may have a fraction.
///
/// # Errors
/// When the text is none. A number without a unit is none: nobody could tell what it means.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let (mut rest, mut total, mut smaller) = (text, 0, UNITS);
    while !rest.is_empty() {
        let (number, tail) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, tail) = split(tail, |c| !c.is_ascii_digit() && c != '.');
        let whole_and_part = number_of(number)?;
        if unit.is_empty() {
            return Err(DurationError::NoUnit);
        }
        let Some(at) = smaller.iter().position(|(name, _)| *name == unit) else {
            let is_known = UNITS.iter().any(|(name, _)| *name == unit);
            return Err(if is_known { DurationError::Order } else { DurationError::UnknownUnit });
        };
        let nanos = in_nanos(whole_and_part, smaller[at].1).ok_or(DurationError::TooLong)?;
        total = nanos.checked_add(total).ok_or(DurationError::TooLong)?;
        smaller = &smaller[at + 1..];
        rest = tail;
    }
    Ok(Duration::from_nanos(total))
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// The digits before the point and those behind it.
fn number_of(text: &str) -> Result<(&str, &str), DurationError> {
    let (whole, part) = match text.split_once('.') {
        Some((_, "")) => return Err(DurationError::NoNumber),
        Some(both) => both,
        None => (text, ""),
    };
    if whole.is_empty() || part.contains('.') {
        return Err(DurationError::NoNumber);
    }
    Ok((whole, part))
}

/// Exactly, in integers; what is less than a nanosecond is cut off.
fn in_nanos((whole, part): (&str, &str), unit: u64) -> Option<u64> {
    let mut total = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let mut worth = unit;
    for digit in part.bytes() {
        worth /= 10;
        total = total.checked_add(u64::from(digit - b'0') * worth)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("0s", 0),
            ("10s", 10_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1m30s250ms", 90_250),
            ("1.5s", 1_500),
            ("0.25h", 900_000),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("0.0015ms"), Ok(Duration::from_nanos(1500)));
    }

    #[test]
    fn what_is_none_is_refused() {
        for (text, error) in [
            ("", DurationError::Empty),
            ("10", DurationError::NoUnit),
            ("0", DurationError::NoUnit),
            ("1h30", DurationError::NoUnit),
            ("s", DurationError::NoNumber),
            ("-1s", DurationError::NoNumber),
            (" 1s", DurationError::NoNumber),
            (".5s", DurationError::NoNumber),
            ("1.s", DurationError::NoNumber),
            ("1.2.3s", DurationError::NoNumber),
            ("10 s", DurationError::UnknownUnit),
            ("1d", DurationError::UnknownUnit),
            ("1S", DurationError::UnknownUnit),
            ("30m1h", DurationError::Order),
            ("1s2s", DurationError::Order),
            ("99999999999h", DurationError::TooLong),
            ("999999999999999999999s", DurationError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn a_bare_number_is_told_the_units() {
        let text = parse("10").unwrap_err().to_string();
        for unit in ["ms", "s", "m", "h"] {
            assert!(text.contains(unit), "{text}");
        }
    }
}

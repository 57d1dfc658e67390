//! Durations as Go writes them: `1h30m`, `1.5s`, `-20us`.

use std::time::Duration;

/// A duration, or `None` for one that is zero or negative: then the caller's default holds.
///
/// # Errors
/// When Go would not take it either, or it is longer than Go's longest.
pub(super) fn parse(text: &str) -> Result<Option<Duration>, String> {
    let wrong = || format!("time: invalid duration {text:?}");
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let nanos = if rest == "0" { 0 } else { nanos(rest).ok_or_else(wrong)? };
    Ok((!is_negative && nanos > 0).then(|| Duration::from_nanos(nanos)))
}

fn nanos(mut rest: &str) -> Option<u64> {
    let mut total = 0_u64;
    loop {
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c))?);
        let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        total = total.checked_add(part(number, unit_in_nanos(unit)?)?)?;
        rest = tail;
        if rest.is_empty() {
            return Some(total).filter(|total| i64::try_from(*total).is_ok());
        }
    }
}

fn is_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn unit_in_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter, as in Go.
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A number with a fraction in it or not, of that unit.
fn part(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let mut total = whole.checked_mul(unit)?;
    let mut worth = unit;
    for digit in fraction.bytes() {
        worth /= 10;
        total = total.checked_add(u64::from(digit - b'0') * worth)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_takes_is_taken() {
        for (text, micros) in [
            ("10s", 10_000_000),
            ("1h30m", 5_400_000_000),
            ("1.5s", 1_500_000),
            (".5s", 500_000),
            ("1.s", 1_000_000),
            ("+2ms", 2_000),
            ("7us", 7),
            ("7µs", 7),
            ("3000ns", 3),
            ("1s1h", 3_601_000_000),
        ] {
            assert_eq!(parse(text), Ok(Some(Duration::from_micros(micros))), "{text}");
        }
    }

    #[test]
    fn zero_and_less_is_the_default() {
        for text in ["0", "0s", "-0", "-1h", "0.0ms"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in ["", "-", "1", "s", ".s", "1 s", "1d", "1s2", "1.2.3s", "1e3s", "ms", "1S"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("99999999999h").is_err());
        assert!(parse("2562048h").is_err(), "longer than Go's longest");
    }
}

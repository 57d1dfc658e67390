//! Lengths of time within limits, as people write them.

use std::time::Duration;

use tenure::Limits;
use tenure_api::duration::parse;

/// Reads the ttl of a lease, within the limits that every store keeps.
///
/// # Errors
/// When the text is no duration, or one beyond the limits.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse(text).map_err(|error| error.to_string())?;
    let Limits { ttl_min, ttl_max, .. } = Limits::default();
    if ttl < ttl_min || ttl > ttl_max {
        let hours = ttl_max.as_secs() / 3600;
        return Err(format!("a ttl is {}ms to {hours}h", ttl_min.as_millis()));
    }
    Ok(ttl)
}

/// Reads a length of time that is more than none.
///
/// # Errors
/// When the text is no duration, or none at all.
pub(crate) fn parse_some(text: &str) -> Result<Duration, String> {
    let time = parse(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("it must be longer than 0".into()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_has_limits() {
        assert_eq!(parse_ttl("2s"), Ok(Duration::from_secs(2)));
        for text in ["0s", "99ms", "25h"] {
            assert_eq!(parse_ttl(text), Err("a ttl is 100ms to 24h".into()), "{text}");
        }
    }

    #[test]
    fn none_is_not_some() {
        assert_eq!(parse_some("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_some("0s"), Err("it must be longer than 0".into()));
    }
}

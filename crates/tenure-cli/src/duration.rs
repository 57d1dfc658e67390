//! The ttl of a lease, as people write it.

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
}

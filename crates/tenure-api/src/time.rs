//! Durations and timestamps as protocol buffers have them.

use std::time::{Duration, SystemTime};

/// A duration for the wire. One that is too long for it becomes the longest that is not.
#[must_use]
pub fn to_wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Less than 10^9.
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// A duration from the wire; `None` when it is negative or malformed.
#[must_use]
pub fn from_wire(duration: &prost_types::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok()?;
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// A point in time for the wire.
#[must_use]
pub fn stamp(at: SystemTime) -> prost_types::Timestamp {
    at.into()
}

/// A point in time from the wire; the epoch where it is malformed, since it is for people only.
#[must_use]
pub fn unstamp(at: prost_types::Timestamp) -> SystemTime {
    SystemTime::try_from(at).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_come_back_as_they_were() {
        for duration in [Duration::ZERO, Duration::from_millis(1500), Duration::new(7, 999_999_999)]
        {
            assert_eq!(from_wire(&to_wire(duration)), Some(duration));
        }
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (1, 1_000_000_000)] {
            assert_eq!(from_wire(&prost_types::Duration { seconds, nanos }), None);
        }
    }
}

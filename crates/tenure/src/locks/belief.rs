//! How long a holder may believe in its lease.

use std::time::Duration;

use crate::clock::Moment;
use crate::store::Timing;

const FLOOR: Duration = Duration::from_millis(2);

/// What is taken off a lease for clocks that run at different rates and for the time that a check
/// and its use are apart: 1 % and 2 ms, or 10 % and 2 ms where an observer times the lease.
pub(crate) fn margin(ttl: Duration, timing: Timing) -> Duration {
    let share = match timing {
        Timing::Store => ttl / 100,
        Timing::Observer => ttl / 10,
    };
    share + FLOOR
}

/// When belief ends for an answer that granted `remaining`: counted from *before* the question was
/// sent, because the store's time began to run somewhere between question and answer.
pub(crate) fn belief_until(sent: Moment, remaining: Duration, timing: Timing) -> Moment {
    (sent + remaining).before(margin(remaining, timing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn belief_ends_before_the_lease() {
        let sent = Moment::from_nanos(1_000);
        let ttl = Duration::from_secs(10);
        for (timing, margin) in [(Timing::Store, 102), (Timing::Observer, 1002)] {
            let until = belief_until(sent, ttl, timing);
            assert_eq!((sent + ttl).since(until), Duration::from_millis(margin));
        }
    }
}

//! A boot clock that runs a little fast or slow: what is promised is promised for clocks that
//! differ by no more than a bound, and leases are measured with this one.

use std::time::SystemTime;

use tenure::clock::{Clock, Moment, Sleep, SystemClock};

/// The rate of a clock that is right.
const TRUE: u64 = 1000;

/// The machine's boot clock, at another rate since this was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkewedClock {
    start: Moment,
    /// In thousandths of the rate that it should have.
    rate: u64,
}

impl SkewedClock {
    /// A clock that is right now, and runs at so many thousandths of its rate.
    pub(crate) fn new(rate: u64) -> Self {
        Self { start: SystemClock.now(), rate }
    }

    /// What it shows when the machine's own shows `real`.
    fn at(self, real: Moment) -> Moment {
        let start = self.start.as_nanos();
        let passed = real.as_nanos().saturating_sub(start);
        Moment::from_nanos(start.saturating_add(scaled(passed, self.rate, TRUE)))
    }

    /// The first moment of the machine's own at which it shows `at`, or later.
    fn real(self, at: Moment) -> Moment {
        let start = self.start.as_nanos();
        let passed = at.as_nanos().saturating_sub(start);
        Moment::from_nanos(start.saturating_add(scaled(passed, TRUE, self.rate)).saturating_add(1))
    }
}

fn scaled(nanos: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(nanos) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Clock for SkewedClock {
    fn now(&self) -> Moment {
        self.at(SystemClock.now())
    }

    fn wall(&self) -> SystemTime {
        SystemClock.wall()
    }

    fn sleep_until(&self, at: Moment) -> Sleep {
        SystemClock.sleep_until(self.real(at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_runs_at_its_rate() {
        for (rate, shown) in [(1000, 10_000), (996, 9_960), (1020, 10_200)] {
            let clock = SkewedClock::new(rate);
            let later = clock.at(clock.start + Duration::from_secs(10));
            assert_eq!(later.since(clock.start), Duration::from_millis(shown));
        }
    }

    #[test]
    fn a_sleep_is_never_early() {
        for rate in [980, 996, 1000, 1004, 1020] {
            let clock = SkewedClock::new(rate);
            for nanos in [0, 1, 7, 999, 1_000_001, 2_000_000_003] {
                let at = clock.start + Duration::from_nanos(nanos);
                let (woken, before) =
                    (clock.real(at), clock.real(at).before(Duration::from_nanos(3)));
                assert!(clock.at(woken) >= at, "{rate} {nanos}");
                assert!(nanos < 7 || clock.at(before) < at, "{rate} {nanos}");
            }
        }
    }
}

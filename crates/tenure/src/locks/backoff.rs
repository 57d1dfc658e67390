//! How long to wait before looking again when no notification comes.

use std::time::Duration;

use crate::error::Result;
use crate::locks::options::invalid;
use crate::random::{Random, fraction};
use crate::store::{StoreInfo, Timing};

const BASE_MIN: Duration = Duration::from_millis(1);

/// With the usual jitter, no pause is longer than 0.6 s.
const UNCALLED_CAP: Duration = Duration::from_millis(400);

/// Pauses that double from `base` to `cap`, each with up to `jitter` of itself on top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first pause: 250 ms.
    pub base: Duration,
    /// The longest pause before jitter: 5 s, or 400 ms where nothing else tells of a change.
    pub cap: Duration,
    /// The share of a pause that is added at random, 0.0 to 1.0: 0.5.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(250), cap: Duration::from_secs(5), jitter: 0.5 }
    }
}

impl Backoff {
    /// What suits a store. Where waiters time the leases and nobody calls them, a dead holder's key
    /// is free a ttl after its last write was seen, and a pause is how late that may be: 0.6 s at
    /// the most, so that it is taken over within a second of its ttl.
    pub(crate) fn suited_to(info: &StoreInfo) -> Self {
        let usual = Self::default();
        match info.timing {
            Timing::Observer if !info.capabilities.wakes => Self { cap: UNCALLED_CAP, ..usual },
            Timing::Observer | Timing::Store => usual,
        }
    }

    /// The pause after the `attempt`-th look, counted from 1.
    pub(crate) fn pause(&self, attempt: u32, random: &dyn Random) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let pause = self.base.saturating_mul(1 << doublings).min(self.cap);
        pause + pause.mul_f64(self.jitter * fraction(random))
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.base < BASE_MIN || self.base > self.cap {
            return Err(invalid(format!(
                "{BASE_MIN:?} <= poll base <= poll cap must hold, but base is {:?} and cap is {:?}",
                self.base, self.cap
            )));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(invalid(format!("poll jitter must be 0.0 to 1.0, it is {}", self.jitter)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;
    use crate::store::Capabilities;

    #[test]
    fn only_who_times_leases_and_is_never_called_looks_often() {
        for (timing, wakes, longest) in [
            (Timing::Observer, false, 600),
            (Timing::Observer, true, 7500),
            (Timing::Store, false, 7500),
        ] {
            let capabilities = Capabilities { wakes, ..Capabilities::default() };
            let info = StoreInfo::new("test", timing, capabilities, Vec::new());
            let backoff = Backoff::suited_to(&info);
            assert_eq!(backoff.cap.mul_f64(1.0 + backoff.jitter).as_millis(), longest);
            assert_eq!(backoff.base, Backoff::default().base);
        }
    }

    #[test]
    fn pauses_double_up_to_the_cap_and_jitter_only_adds() {
        let backoff = Backoff::default();
        for (attempt, base) in [(1, 250), (2, 500), (3, 1000), (5, 4000), (6, 5000), (99, 5000)] {
            let base = Duration::from_millis(base);
            for _ in 0..20 {
                let pause = backoff.pause(attempt, &SystemRandom);
                assert!(pause >= base && pause <= base.mul_f64(1.5), "{attempt}: {pause:?}");
            }
        }
    }
}

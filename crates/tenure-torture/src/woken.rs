//! A release wakes who waits for it, in another process.

use std::time::Duration;

use tenure_check::History;
use tenure_check::history::{Answer, Claim, Returned};
use tenure_check::stay::Stay;

use crate::job::nanos;

/// Within which time someone who waits has the key, after a release was answered.
const WOKEN_WITHIN: Duration = Duration::from_millis(150);

/// For how long one must have waited before, to be known to listen.
const SETTLED: Duration = Duration::from_millis(50);

/// How slow anything may be about that time for it to count as quiet.
const SLOW_MAX: Duration = Duration::from_millis(100);

/// So few releases say nothing.
const RELEASES_MIN: usize = 30;

/// Finds that more than a quarter of the releases that someone waited for, in quiet times, left
/// the key to nobody for longer than it takes to be woken.
///
/// Only for stores that wake.
pub(crate) fn check(history: &History, stay: &Stay<'_>, slack: Duration) -> Vec<String> {
    let (mut all, mut late) = (0, 0);
    for claims in history.by_key().into_values() {
        for claim in &claims {
            let (Some((_, fence)), Some((asked, Returned::Released { at }))) =
                (claim.grant(), claim.release)
            else {
                continue;
            };
            let is_slow = stay.slack(asked, at) > nanos(slack + SLOW_MAX);
            let release = Release { worker: claim.worker, fence, asked, at };
            if is_slow || !claims.iter().any(|waiter| release.is_awaited(history, waiter)) {
                continue;
            }
            all += 1;
            late += usize::from(!claims.iter().any(|next| release.is_followed(next)));
        }
    }
    let is_broken = all >= RELEASES_MIN && late * 4 > all;
    let text = || format!("{late} of {all} releases woke nobody within {WOKEN_WITHIN:?}");
    is_broken.then(text).into_iter().collect()
}

struct Release {
    worker: u64,
    fence: u64,
    asked: u64,
    at: u64,
}

impl Release {
    fn until(&self) -> u64 {
        self.at.saturating_add(nanos(WOKEN_WITHIN))
    }

    /// Whether one of another process waited for it, and all was well with both.
    fn is_awaited(&self, history: &History, waiter: &Claim) -> bool {
        let from = self.asked.saturating_sub(nanos(SETTLED));
        let until = waiter.answer.at().unwrap_or(0);
        let is_quiet = |worker| history.paused(worker, from, self.until()) == 0;
        waiter.worker != self.worker
            && waiter.asked <= from
            && until >= self.at
            && (until > self.until() || waiter.grant().is_some())
            && is_quiet(waiter.worker)
            && is_quiet(self.worker)
    }

    /// Whether this is a claim that got the key in time.
    fn is_followed(&self, next: &Claim) -> bool {
        match next.answer {
            Answer::Granted { at, fence } => fence > self.fence && at <= self.until(),
            // Some may have got it and were not told.
            Answer::None | Answer::Failed { unknown: true, .. } => {
                next.asked <= self.until() && next.answer.at().is_none_or(|at| at >= self.asked)
            }
            Answer::Held { .. } | Answer::Failed { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_check::{Options, Record, What};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Worker 1 gives a key back a hundred times while worker 2 waits, which has it so much later.
    fn found(later: u64) -> usize {
        let waiter = 2;
        let mut records = Vec::new();
        for n in 1..=100 {
            let start = n * 5_000 * MS;
            let mut note = |worker, at: u64, what| {
                let (claim, key) = (n, "k".to_owned());
                records.push(Record { worker, claim, key, at: start + at * MS, what });
            };
            let asked = |wait| What::Asked { ttl: 10_000 * MS, wait: Some(wait * MS) };
            note(1, 0, asked(0));
            note(1, 1, What::Granted { fence: 2 * n });
            note(waiter, 10, asked(2_000));
            note(1, 200, What::ReleaseAsked);
            note(1, 202, What::Released);
            note(waiter, 202 + later, What::Granted { fence: 2 * n + 1 });
            note(waiter, 900, What::ReleaseAsked);
            note(waiter, 901, What::Released);
        }
        let (history, options) = (History::new(records), Options::default());
        check(&history, &Stay::new(&history, &options), options.slack).len()
    }

    #[test]
    fn who_waits_is_woken() {
        assert_eq!(found(5), 0);
        assert_eq!(found(400), 1);
    }
}

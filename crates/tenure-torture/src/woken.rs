//! A release wakes those who wait for it in another process, three in four of them at the least.

use std::time::Duration;

use tenure_check::History;
use tenure_check::history::{Answer, Claim, Returned};

use crate::job::nanos;

/// Within which time one who waits has the key at the least, after a release was answered; and so
/// many times what an answer takes, where that is longer.
const WOKEN_WITHIN: (Duration, u64) = (Duration::from_millis(60), 4);

/// The first look of one that is not woken comes no earlier than 250 ms after it began to wait:
/// where being woken may take nearly as long, nothing can be told.
const TOO_SLOW: Duration = Duration::from_millis(200);

/// For how long one must have waited before, to be known to listen.
const SETTLED: Duration = Duration::from_millis(50);

/// So few releases say nothing.
const RELEASES_MIN: usize = 30;

/// Finds that of the keys that went from a release to one who waited in another process, in quiet
/// times, more than a quarter went there later than it takes to be woken. Who waited in vain, while
/// the key was free for as long as that, was not woken either.
///
/// Only for stores that wake; `None` where they were too slow, or too few waited, to tell.
pub(crate) fn check(history: &History) -> Option<Vec<String>> {
    let bound = nanos(WOKEN_WITHIN.0).max(usual_answer(history).saturating_mul(WOKEN_WITHIN.1));
    if bound > nanos(TOO_SLOW) {
        return None;
    }
    let mut times = Vec::new();
    for claims in history.by_key().into_values() {
        let (mut grants, mut others): (Vec<&Claim>, Vec<&Claim>) =
            claims.into_iter().partition(|claim| claim.grant().is_some());
        grants.sort_by_key(|claim| claim.grant().map(|(_, fence)| fence));
        times.extend(grants.windows(2).filter_map(|two| handed_over(history, two[0], two[1])));
        others.retain(|claim| claim.wait != Some(0));
        times.extend(missed(history, &grants, &others).filter(|time| *time > bound));
    }
    let (all, late) = (times.len(), times.iter().filter(|time| **time > bound).count());
    if all < RELEASES_MIN {
        return None;
    }
    let bound = Duration::from_nanos(bound);
    let text =
        || format!("{late} of {all} who waited were not woken by a release within {bound:?}");
    Some((late * 4 > all).then(text).into_iter().collect())
}

/// What an answer without a wait takes: the median.
pub(crate) fn usual_answer(history: &History) -> u64 {
    let at_once = history.claims.iter().filter(|claim| claim.wait == Some(0));
    let mut times: Vec<u64> =
        at_once.filter_map(|claim| Some(claim.answer.at()?.saturating_sub(claim.asked))).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// How long it took from the release of a key to the grant to one that waited for it, in another
/// process; `None` where that is not what happened, or not all was well with both.
fn handed_over(history: &History, from: &Claim, to: &Claim) -> Option<u64> {
    let (granted, _) = to.grant()?;
    slept(history, from, to, granted)
}

/// How long each key was free that somebody waited for in vain, from a release to the end of the
/// wait.
fn missed<'a>(
    history: &'a History,
    grants: &'a [&Claim],
    waiters: &'a [&Claim],
) -> impl Iterator<Item = u64> + 'a {
    waiters.iter().filter_map(move |waiter| {
        let Answer::Held { at } = waiter.answer else { return None };
        let granted_by = |claim: &&Claim| claim.grant().is_some_and(|(granted, _)| granted <= at);
        let next = grants.partition_point(granted_by);
        let last = grants[..next].last()?;
        // One that may have it by then without knowing says nothing.
        let is_taken = grants.get(next).is_some_and(|claim| claim.asked <= at);
        (!is_taken).then(|| slept(history, last, waiter, at))?
    })
}

/// How long after a release one that waited for it in another process was answered; `None` where
/// it did not, or not all was well with both.
fn slept(history: &History, from: &Claim, to: &Claim, answered: u64) -> Option<u64> {
    let Some((asked, Returned::Released { at })) = from.release else { return None };
    let listens_by = to.asked.saturating_add(nanos(SETTLED));
    let is_quiet = |worker| history.paused(worker, to.asked, answered.max(at)) == 0;
    let is_awaited = to.wait != Some(0) && to.worker != from.worker && listens_by <= asked;
    let is_well = is_awaited && is_quiet(from.worker) && is_quiet(to.worker);
    is_well.then(|| answered.saturating_sub(at))
}

#[cfg(test)]
mod tests {
    use tenure_check::{Record, What};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Worker 1 gives a key back a hundred times while worker 2 waits, which is told so much later
    /// that it has it, or that it is held.
    fn found(later: u64, is_granted: bool) -> usize {
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
            if is_granted {
                note(waiter, 202 + later, What::Granted { fence: 2 * n + 1 });
                note(waiter, 900, What::ReleaseAsked);
                note(waiter, 901, What::Released);
            } else {
                note(waiter, 202 + later, What::Held);
            }
        }
        check(&History::new(records)).map_or(0, |found| found.len())
    }

    #[test]
    fn who_waits_is_woken() {
        assert_eq!((found(5, true), found(300, true)), (0, 1));
        assert_eq!((found(5, false), found(300, false)), (0, 1));
    }
}

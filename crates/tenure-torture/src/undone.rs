//! What nobody was told of is undone: a key is not held for long by a claim without an answer.

use std::time::Duration;

use tenure_check::history::{Answer, Claim, Returned};
use tenure_check::stay::Stay;
use tenure_check::{History, Options};

use crate::job::nanos;

/// How long after a doubt has come up, and while the store is there, it may last.
const MARGIN: Duration = Duration::from_millis(1500);

/// Finds answers that a key is held at a time at which nobody could hold it: whoever had been
/// granted it had given it back, and whoever lives and was not answered had time enough to give
/// back what it may have got.
///
/// Only for stores that time leases themselves.
pub(crate) fn check(history: &History, options: &Options) -> Vec<String> {
    let stay = Stay::new(history, options);
    let mut found = Vec::new();
    for (key, claims) in history.by_key() {
        let span = |claim: &&Claim| Some((claim.asked, until(history, options, claim, &stay)?));
        let mut spans: Vec<(u64, u64)> = claims.iter().filter_map(span).collect();
        spans.sort_unstable();
        // The latest end of all spans up to each.
        let mut ends = Vec::with_capacity(spans.len());
        for (_, end) in &spans {
            ends.push(ends.last().map_or(*end, |last: &u64| *end.max(last)));
        }
        for claim in claims {
            let (Answer::Held { at }, Some(0)) = (claim.answer, claim.wait) else { continue };
            if history.paused(claim.worker, claim.asked, at) > 0 {
                continue;
            }
            let begun = spans.partition_point(|(from, _)| *from <= at);
            let last = begun.checked_sub(1).map_or(0, |place| ends[place]);
            if last < claim.asked {
                let since = Duration::from_nanos(claim.asked - last);
                found.push(format!(
                    "worker {} was told that {key} is held, {since:?} after the last who could \
                     hold it",
                    claim.worker
                ));
            }
        }
    }
    found
}

/// Until when a claim may hold its key at the latest; `None` where it never did.
fn until(history: &History, options: &Options, claim: &Claim, stay: &Stay<'_>) -> Option<u64> {
    let killed = history.killed(claim.worker);
    let orphaned = |killed: u64| {
        let length = claim.ttl.saturating_add(nanos(MARGIN));
        stay.lapse(stay.landed(claim.worker, killed), length, claim.worker)
    };
    let doubted = |at: u64| {
        let undone = history.awake_for(claim.worker, at, nanos(MARGIN));
        let undone = undone.saturating_add(lateness(options, at, undone));
        match killed {
            Some(killed) if killed <= undone => orphaned(killed),
            _ => undone,
        }
    };
    match (claim.answer, claim.release, killed) {
        (Answer::Held { .. } | Answer::Failed { unknown: false, .. }, ..) => None,
        (Answer::Granted { .. }, Some((_, Returned::Released { at })), _) => Some(at),
        (Answer::Granted { .. }, Some((_, Returned::Lost { at })), _) => {
            Some(stay.rearmed(at.saturating_add(claim.ttl), claim.ttl))
        }
        (Answer::Granted { .. }, Some((asked, Returned::Unknown)), _) => Some(doubted(asked)),
        (Answer::Failed { at, .. }, ..) => Some(doubted(at)),
        (answer, _, Some(killed)) if answer.at().is_none_or(|at| at <= killed) => {
            Some(orphaned(killed))
        }
        (Answer::Granted { .. } | Answer::None, ..) => Some(u64::MAX),
    }
}

/// By how much the machine was late in that time, and nobody could give anything back.
fn lateness(options: &Options, from: u64, until: u64) -> u64 {
    let overlaps = |(at, late): &&(u64, u64)| *at >= from && at.saturating_sub(*late) <= until;
    options.lags.iter().filter(overlaps).map(|(_, late)| late).sum()
}

#[cfg(test)]
mod tests {
    use tenure_check::{Record, What};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn record(worker: u64, claim: u64, at: u64, what: What) -> Record {
        Record { worker, claim, key: "k".into(), at: at * SECOND, what }
    }

    fn asked() -> What {
        What::Asked { ttl: 10 * SECOND, wait: Some(0) }
    }

    /// Worker 1 is not answered at 2 s, and worker 2 finds the key held then.
    fn found(then: u64, more: Vec<Record>) -> usize {
        found_with(then, more, &Options::default())
    }

    fn found_with(then: u64, more: Vec<Record>, options: &Options) -> usize {
        let mut records = vec![
            record(1, 1, 1, asked()),
            record(1, 1, 2, What::Failed { kind: "Unknown".into(), unknown: true }),
            record(2, 1, then, asked()),
            record(2, 1, then, What::Held),
        ];
        records.extend(more);
        check(&History::new(records), options).len()
    }

    #[test]
    fn a_doubt_is_settled_in_time() {
        assert_eq!(found(3, Vec::new()), 0);
        assert_eq!(found(4, Vec::new()), 1);
    }

    #[test]
    fn a_machine_that_stands_still_settles_nothing() {
        let still = |at: u64, late: u64| {
            let options =
                Options { lags: vec![(at * SECOND, late * SECOND)], ..Options::default() };
            found_with(5, Vec::new(), &options)
        };
        assert_eq!(still(4, 2), 0);
        assert_eq!(still(4, 1), 1);
        assert_eq!(still(9, 5), 1);
    }

    #[test]
    fn whoever_was_killed_or_stopped_cannot_settle_it() {
        assert_eq!(found(9, vec![record(1, 0, 3, What::Killed)]), 0);
        let stopped = vec![record(1, 0, 3, What::Paused), record(1, 0, 8, What::Resumed)];
        assert_eq!(found(8, stopped.clone()), 0);
        assert_eq!(found(9, stopped), 1);
    }

    #[test]
    fn whoever_holds_holds() {
        let granted = vec![record(3, 1, 3, asked()), record(3, 1, 4, What::Granted { fence: 1 })];
        assert_eq!(found(90, granted), 0);
    }
}

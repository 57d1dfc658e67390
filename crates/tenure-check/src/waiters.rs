//! Nobody waits too long, no orphan outlives its ttl, and every outcome is known.

use std::time::Duration;

use crate::history::{Answer, Claim, Faults, History};
use crate::verdict::{Checker, Options, Verdict, Violation};

/// Finds claims whose answer came later than the wait allowed, claims that were never answered
/// although nobody killed the worker, and keys that stayed held after their holder was killed
/// while someone waited for them.
///
/// # What is allowed for
/// The time that a worker was stopped for is not its own: whoever waits meanwhile may wait so much
/// longer. A store that is slow is slow for waiters too: the longest that an answer without a wait
/// took is added to the slack, up to a bound past which the store itself is to blame. A key that
/// one may hold who was never answered proves nothing.
pub fn check(history: &History, options: &Options, verdict: &mut Verdict) {
    let slack = options.slack_nanos().saturating_add(slowest(history));
    for (key, claims) in history.by_key() {
        let mut report = |text: String, at: u64| {
            let checker = Checker::Waiters;
            verdict.violations.push(Violation { checker, key: key.to_owned(), text, at });
        };
        for claim in &claims {
            if let Some(text) = late(history, claim, slack) {
                report(text, claim.asked);
            }
        }
        for orphan in &claims {
            let found = orphaned(history, orphan, &claims, slack).or_else(|| {
                (!options.is_observed).then(|| overstayed(history, orphan, &claims, slack))?
            });
            if let Some((text, at)) = found {
                report(text, at);
            }
        }
    }
}

/// How long an answer may take and still excuse others.
const SLOWNESS_MAX: u64 = 5_000_000_000;

/// The longest that it took to answer a claim that did not wait.
fn slowest(history: &History) -> u64 {
    let at_once = history.claims.iter().filter(|claim| claim.wait == Some(0));
    let took = at_once.filter_map(|claim| {
        let at = claim.answer.at()?;
        Some((at - claim.asked).saturating_sub(paused(history, claim.worker, claim.asked, at)))
    });
    took.max().unwrap_or(0).min(SLOWNESS_MAX)
}

fn paused(history: &History, worker: u64, from: u64, until: u64) -> u64 {
    history.faults.get(&worker).map_or(0, |faults| faults.paused(from, until))
}

/// When a worker has been awake for so long since `from`.
fn awake_for(history: &History, worker: u64, from: u64, length: u64) -> u64 {
    let mut until = from.saturating_add(length);
    let pauses = history.faults.get(&worker).into_iter().flat_map(|faults| &faults.pauses);
    for (begin, end) in pauses.filter(|(_, end)| *end > from) {
        let begin = (*begin).max(from);
        if begin >= until {
            break;
        }
        until = until.saturating_add(end.saturating_sub(begin));
    }
    until
}

fn late(history: &History, claim: &Claim, slack: u64) -> Option<String> {
    let Claim { worker, asked, wait, answer, .. } = claim;
    let killed = history.faults.get(worker).and_then(|faults| faults.killed);
    let until = match (*answer, killed) {
        (Answer::None, None) => {
            return Some(format!("worker {worker} asked for it and was never answered"));
        }
        (Answer::None, Some(killed)) => killed,
        (Answer::Granted { at, .. } | Answer::Held { at } | Answer::Failed { at, .. }, _) => at,
    };
    let took = until.saturating_sub(*asked);
    let took = took.saturating_sub(paused(history, *worker, *asked, until));
    let wait = (*wait)?;
    (took > wait.saturating_add(slack)).then(|| {
        let (took, wait) = (Duration::from_nanos(took), Duration::from_nanos(wait));
        format!("worker {worker} would wait for {wait:?} and was not answered for {took:?}")
    })
}

/// A grant whose worker was killed before it gave it back.
struct Abandoned {
    granted: u64,
    fence: u64,
    killed: u64,
}

fn abandoned(history: &History, claim: &Claim) -> Option<Abandoned> {
    let (granted, fence) = claim.grant()?;
    let killed = history.faults.get(&claim.worker)?.killed?;
    claim.release.is_none().then_some(Abandoned { granted, fence, killed })
}

/// Whether someone waited in vain for the key of one that was killed.
fn orphaned(
    history: &History,
    orphan: &Claim,
    claims: &[&Claim],
    slack: u64,
) -> Option<(String, u64)> {
    let Abandoned { granted, fence, killed } = abandoned(history, orphan)?;
    claims.iter().find_map(|waiter| {
        // One that times the lease itself begins when it begins to wait.
        let from = killed.max(waiter.asked).max(granted);
        let longest = orphan.ttl.saturating_add(slack);
        let free_by = awake_for(history, waiter.worker, from, longest);
        let answered = waiter.answer.at().unwrap_or_else(|| gone(history, waiter.worker));
        let waited = waiter.asked <= free_by && answered > free_by;
        let taken = |other: &&Claim| match other.answer {
            Answer::Granted { at, fence: other } => other > fence && at <= free_by,
            Answer::None | Answer::Failed { unknown: true, .. } => {
                other.asked != waiter.asked && other.asked <= free_by && may_hold(other, granted)
            }
            Answer::Held { .. } | Answer::Failed { .. } => false,
        };
        let in_vain = waited && !claims.iter().any(taken);
        in_vain.then(|| {
            let Claim { worker, .. } = orphan;
            let text = format!(
                "worker {worker} was killed with fence {fence}, and worker {} waited {:?} for it",
                waiter.worker,
                Duration::from_nanos(answered - from)
            );
            (text, free_by)
        })
    })
}

/// Whether a claim without a known answer may hold the key at some time after `granted`.
fn may_hold(claim: &Claim, granted: u64) -> bool {
    claim.answer.at().is_none_or(|at| at.saturating_add(claim.ttl) >= granted)
}

/// Whether someone was told that a key is held long after the last who could hold it was killed.
fn overstayed(
    history: &History,
    orphan: &Claim,
    claims: &[&Claim],
    slack: u64,
) -> Option<(String, u64)> {
    let Abandoned { granted, fence, killed } = abandoned(history, orphan)?;
    // Nothing that was asked for after the next grant says anything about this lease.
    let later = claims.iter().filter(|other| other.grant().is_some_and(|(_, next)| next > fence));
    let next = later.map(|other| other.asked).min().unwrap_or(u64::MAX);
    // Those who were never answered may have held it after that.
    let mut held_until = killed.max(granted);
    claims.iter().filter(|claim| claim.asked < next).find_map(|claim| {
        let longest = orphan.ttl.saturating_add(slack);
        let free_by = awake_for(history, claim.worker, held_until, longest);
        match claim.answer {
            Answer::None => held_until = held_until.max(gone(history, claim.worker)),
            Answer::Failed { at, unknown: true } => held_until = held_until.max(at),
            Answer::Held { at } if claim.asked > free_by && at < next => {
                let after = Duration::from_nanos(claim.asked - held_until);
                let Claim { worker, .. } = orphan;
                let text = format!(
                    "worker {worker} was killed with fence {fence}, and {after:?} later worker {} \
                     was told that it is held",
                    claim.worker
                );
                return Some((text, claim.asked));
            }
            Answer::Held { .. } | Answer::Granted { .. } | Answer::Failed { .. } => {}
        }
        None
    })
}

/// When a worker was gone, or the history ended.
fn gone(history: &History, worker: u64) -> u64 {
    let killed = history.faults.get(&worker).and_then(|Faults { killed, .. }| *killed);
    killed.unwrap_or_else(|| history.end())
}

#[cfg(test)]
mod tests {
    use crate::record::What;
    use crate::sample::{Sample, TTL, found};
    use crate::verdict::Checker::Waiters;

    #[test]
    fn answers_in_time_are_well() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1);
        sample.asked(2, "k", 30, 2 * TTL).next(2, 40 + 2 * TTL, What::Held);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }

    #[test]
    fn a_waiter_that_is_answered_late_is_found_unless_it_was_paused() {
        let mut sample = Sample::default();
        sample.asked(2, "k", 30, TTL).next(2, 30 + 3 * TTL, What::Held);
        let text = "worker 2 would wait for 1µs and was not answered for 3µs";
        assert_eq!(found(&sample, Waiters), [text]);
        sample.note(2, 0, "", 100, What::Paused);
        sample.note(2, 0, "", 100 + 2 * TTL, What::Resumed);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }

    #[test]
    fn a_slow_store_is_slow_for_waiters_too() {
        let mut sample = Sample::default();
        sample.asked(2, "k", 30, TTL).next(2, 30 + 3 * TTL, What::Held);
        sample.granted(3, "other", 10, 10 + 2 * TTL, 1);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }

    #[test]
    fn an_outcome_that_nobody_knows_is_found_unless_the_worker_was_killed() {
        let mut sample = Sample::default();
        sample.asked(2, "k", 30, TTL);
        let text = "worker 2 asked for it and was never answered";
        assert_eq!(found(&sample, Waiters), [text]);
        sample.killed(2, 50);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }

    /// Worker 1 is killed while it holds; worker 2 waits, and is granted the key at `granted`.
    fn takeover(granted: u64) -> Sample {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        sample.asked(2, "k", 50, 10 * TTL).next(2, granted, What::Granted { fence: 2 });
        sample
    }

    #[test]
    fn an_orphan_that_is_taken_over_within_its_ttl_is_well() {
        assert_eq!(found(&takeover(100 + TTL), Waiters), [""; 0]);
    }

    #[test]
    fn an_orphan_that_outlives_its_ttl_is_found() {
        let text = "worker 1 was killed with fence 1, and worker 2 waited 3µs for it";
        assert_eq!(found(&takeover(100 + 3 * TTL), Waiters), [text]);
    }

    #[test]
    fn a_waiter_that_was_stopped_may_wait_so_much_longer_and_no_more() {
        let mut sample = takeover(100 + 3 * TTL);
        sample.note(2, 0, "", 200, What::Paused);
        sample.note(2, 0, "", 200 + 2 * TTL, What::Resumed);
        assert_eq!(found(&sample, Waiters), [""; 0]);
        let mut sample = takeover(100 + 5 * TTL);
        sample.note(2, 0, "", 200, What::Paused);
        sample.note(2, 0, "", 200 + 2 * TTL, What::Resumed);
        assert_eq!(found(&sample, Waiters).len(), 1);
    }

    #[test]
    fn an_orphan_that_one_without_an_answer_may_have_taken_proves_nothing() {
        let mut sample = takeover(100 + 3 * TTL);
        sample.asked(3, "k", 150, 0);
        sample.next(3, 160, What::Failed { kind: "Unknown".into(), unknown: true });
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }

    #[test]
    fn an_orphan_that_another_took_over_is_well() {
        let mut sample = takeover(100 + 3 * TTL);
        sample.granted(3, "k", 100 + TTL, 110 + TTL, 2);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }

    #[test]
    fn an_orphan_that_is_said_to_be_held_for_too_long_is_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        sample.held(2, "k", 200, 210).held(2, "k", 100 + TTL, 110 + TTL);
        assert_eq!(found(&sample, Waiters), [""; 0]);
        sample.held(2, "k", 100 + 3 * TTL, 110 + 3 * TTL);
        let text = "worker 1 was killed with fence 1, and 3µs later worker 2 was told that it is \
                    held";
        assert_eq!(found(&sample, Waiters), [text]);
        // Where those who ask time the lease, it proves nothing.
        let options = crate::Options { is_observed: true, ..crate::sample::options() };
        assert!(crate::check(&sample.history(), &options).is_good());
    }

    #[test]
    fn an_orphan_may_have_been_taken_over_by_one_that_was_never_answered() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        sample.asked(3, "k", 100 + 2 * TTL, 0).killed(3, 110 + 2 * TTL);
        sample.held(2, "k", 100 + 3 * TTL, 110 + 3 * TTL);
        assert_eq!(found(&sample, Waiters), [""; 0]);
        sample.held(2, "k", 100 + 5 * TTL, 110 + 5 * TTL);
        assert_eq!(found(&sample, Waiters).len(), 1);
    }

    #[test]
    fn an_orphan_that_nobody_waits_for_is_well() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        sample.granted(2, "k", 10 * TTL, 10 * TTL + 10, 2);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }
}

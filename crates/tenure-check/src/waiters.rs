//! Nobody waits too long, no orphan outlives its ttl, and every claim is answered.

use std::time::Duration;

use crate::history::{Answer, Claim, History};
use crate::stay::Stay;
use crate::verdict::{Checker, Options, Verdict, Violation};

/// Finds claims whose answer came later than the wait allowed, claims that were never answered
/// although nobody killed the worker, and keys that stayed held after their holder was killed, or
/// while it stood still, while someone waited for them.
///
/// # What is allowed for
/// The time that a worker was stopped for is not its own: its claim may be answered so much later,
/// and so much later it has timed a lease, where those who ask do. A store that is slow is slow for
/// waiters too ([`Stay::slack`]), but nobody is excused by its own slowness, unless it was stopped
/// meanwhile and had to make its connections anew. What a worker had sent before it was killed may
/// land while its way to the store was not well, and one that was never answered may have held the
/// key for a ttl, unless all that it had sent had landed when the next was granted the key.
pub fn check(history: &History, options: &Options, verdict: &mut Verdict) {
    let stay = Stay::new(history, options);
    for (key, claims) in history.by_key() {
        let mut report = |text: String, at: u64| {
            let checker = Checker::Waiters;
            verdict.violations.push(Violation { checker, key: key.to_owned(), text, at });
        };
        for claim in &claims {
            if let Some(text) = late(history, claim, &stay) {
                report(text, claim.asked);
            }
        }
        let orphans = claims.iter().flat_map(|claim| abandoned(history, options, claim, &stay));
        for orphan in orphans {
            let found = orphaned(history, &orphan, &claims, &stay)
                .or_else(|| (!options.is_observed).then(|| overstayed(&orphan, &claims, &stay))?);
            if let Some((text, at)) = found {
                report(text, at);
            }
        }
    }
}

fn late(history: &History, claim: &Claim, stay: &Stay<'_>) -> Option<String> {
    let Claim { worker, asked, wait, answer, .. } = claim;
    let until = match (*answer, history.killed(*worker)) {
        (Answer::None, None) => {
            return Some(format!("worker {worker} asked for it and was never answered"));
        }
        (Answer::None, Some(killed)) => killed,
        (Answer::Granted { at, .. } | Answer::Held { at } | Answer::Failed { at, .. }, _) => at,
    };
    let paused = history.paused(*worker, *asked, until);
    let took = until.saturating_sub(*asked).saturating_sub(paused);
    let wait = (*wait)?;
    // One that was stopped meanwhile may find its connections given up, and is slow alone.
    let slack = match paused {
        0 => stay.slack_for(claim, until),
        _ => stay.slack(*asked, until),
    };
    (took > wait && took > wait.saturating_add(slack)).then(|| {
        let (took, wait) = (Duration::from_nanos(took), Duration::from_nanos(wait));
        format!("worker {worker} would wait for {wait:?} and was not answered for {took:?}")
    })
}

/// A grant whose worker was killed or stopped before it gave it back.
struct Abandoned<'a> {
    claim: &'a Claim,
    fence: u64,
    /// When nobody else can have had the key: it was granted, and not taken by force.
    sole: u64,
    /// The last moment at which the worker can have prolonged it.
    last: u64,
    /// When nothing was under way any more that it had sent.
    landed: u64,
    /// When the worker went on, if it did.
    until: u64,
    /// What became of the worker.
    how: &'static str,
}

fn abandoned<'a>(
    history: &History,
    options: &Options,
    claim: &'a Claim,
    stay: &Stay<'_>,
) -> Vec<Abandoned<'a>> {
    let Some((granted, fence)) = claim.grant() else { return Vec::new() };
    let is_forced = history.is_forced(&claim.key, fence);
    let sole = if is_forced { claim.asked } else { granted };
    let returned = claim.release.map_or(u64::MAX, |(asked, _)| asked);
    let killed = history.killed(claim.worker).filter(|_| claim.release.is_none()).map(|killed| {
        let last = killed.max(granted);
        let landed = stay.landed(claim.worker, last);
        Abandoned { claim, fence, sole, last, landed, until: u64::MAX, how: "killed" }
    });
    let stops = options.stops.get(&claim.worker).into_iter().flatten();
    let stopped = stops.filter(|(from, until)| granted <= *from && *until <= returned);
    let stopped = stopped.map(|&(from, until)| Abandoned {
        claim,
        fence,
        sole,
        last: from,
        landed: from,
        until,
        how: "stopped",
    });
    killed.into_iter().chain(stopped).collect()
}

/// Whether someone waited in vain for the key of one that was killed or stopped.
fn orphaned(
    history: &History,
    orphan: &Abandoned<'_>,
    claims: &[&Claim],
    stay: &Stay<'_>,
) -> Option<(String, u64)> {
    let Abandoned { claim: Claim { worker, ttl, .. }, fence, last, landed, until, how, .. } =
        orphan;
    // One that was stopped meanwhile may have had it since it asked.
    let got = |claim: &&Claim| {
        let (at, next) = claim.grant()?;
        let was_stopped = history.paused(claim.worker, claim.asked, at) > 0;
        (next > *fence).then_some(if was_stopped { claim.asked } else { at })
    };
    let mut later: Vec<(u64, &Claim)> =
        claims.iter().filter_map(|claim| Some((got(claim)?, *claim))).collect();
    later.sort_unstable_by_key(|(at, _)| *at);
    claims.iter().find_map(|waiter| {
        let taken = later.iter().find(|(_, other)| !is_same(other, waiter));
        let taken = taken.map_or(u64::MAX, |(at, _)| *at);
        let answered = waiter.answer.at().unwrap_or_else(|| history.gone(waiter.worker));
        if answered <= last.saturating_add(*ttl) || waiter.asked >= taken {
            return None;
        }
        let over = stay.over(*landed, *ttl, waiter);
        let over = after_doubts(over, orphan.sole, waiter, claims, stay);
        let free_by = stay.noticed(over, waiter);
        let in_vain = waiter.asked <= free_by && answered > free_by && taken > free_by;
        (in_vain && free_by < *until).then(|| {
            let text = format!(
                "worker {worker} was {how} with fence {fence}, and worker {} waited {:?} for it",
                waiter.worker,
                Duration::from_nanos(answered - (*last).max(waiter.asked))
            );
            (text, free_by)
        })
    })
}

fn is_same(one: &Claim, other: &Claim) -> bool {
    (one.worker, one.asked) == (other.worker, other.asked)
}

/// When a key is free for sure, with all who were never answered and may have had it before that.
/// Whatever had landed by `sole` was over when the orphan was granted the key.
fn after_doubts(
    free_by: u64,
    sole: u64,
    waiter: &Claim,
    claims: &[&Claim],
    stay: &Stay<'_>,
) -> u64 {
    let mut free_by = free_by;
    for other in claims {
        if other.asked > free_by {
            break;
        }
        let is_other = !is_same(other, waiter);
        let landing = stay.landing(other).filter(|landing| is_other && *landing > sole);
        if let Some(landing) = landing {
            free_by = free_by.max(stay.outlasts(other, landing, waiter));
        }
    }
    free_by
}

/// Whether someone was told that a key is held long after the last who could hold it was killed or
/// stopped.
fn overstayed(orphan: &Abandoned<'_>, claims: &[&Claim], stay: &Stay<'_>) -> Option<(String, u64)> {
    let Abandoned { claim: Claim { worker, ttl, .. }, fence, last, landed, until, how, .. } =
        orphan;
    // Nothing that was asked for after the next grant says anything about this lease.
    let later = claims.iter().filter(|other| other.grant().is_some_and(|(_, next)| next > *fence));
    let next = later.map(|other| other.asked).min().unwrap_or(u64::MAX);
    let length = ttl.saturating_add(stay.slack(*last, last.saturating_add(*ttl)));
    // Those who were never answered may have held it after that: how long all up to each of them.
    let mut doubts: Vec<(u64, u64)> = Vec::new();
    for (asked, until) in claims.iter().filter_map(|claim| Some((claim.asked, stay.doubt(claim)?)))
    {
        let before = doubts.last().map_or(0, |(_, until)| *until);
        doubts.push((asked, until.max(before)));
    }
    claims.iter().take_while(|claim| claim.asked < next).find_map(|claim| {
        let Answer::Held { at } = claim.answer else { return None };
        let doubts = &doubts[..doubts.partition_point(|(asked, _)| *asked <= at)];
        let doubted = doubts.last().map_or(0, |(_, until)| *until);
        if claim.asked <= last.saturating_add(*ttl).max(doubted) || at >= next {
            return None;
        }
        let free_by = stay.lapse(*landed, length, claim.worker);
        (claim.asked > free_by && at < *until).then(|| {
            let after = Duration::from_nanos(claim.asked - last);
            let text = format!(
                "worker {worker} was {how} with fence {fence}, and {after:?} later worker {} \
                 was told that it is held",
                claim.worker
            );
            (text, claim.asked)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::What;
    use crate::sample::{Sample, TTL, found, options};
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
        sample.granted(4, "another", 10, 10 + 2 * TTL, 1);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }

    #[test]
    fn an_answer_that_alone_is_slow_excuses_others_and_not_itself() {
        let mut sample = Sample::default();
        sample.asked(2, "k", 30, TTL).next(2, 30 + 3 * TTL, What::Held);
        sample.granted(3, "other", 10, 10 + 2 * TTL, 1);
        let text = "worker 3 would wait for 0ns and was not answered for 2µs";
        assert_eq!(found(&sample, Waiters), [text]);
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
    fn a_waiter_that_was_stopped_may_be_late_by_a_moment_and_no_more() {
        let mut sample = takeover(200 + 2 * TTL + TTL / 2);
        sample.note(2, 0, "", 200, What::Paused);
        sample.note(2, 0, "", 200 + 2 * TTL, What::Resumed);
        assert_eq!(found(&sample, Waiters), [""; 0]);
        let mut sample = takeover(200 + 3 * TTL);
        sample.note(2, 0, "", 200, What::Paused);
        sample.note(2, 0, "", 200 + 2 * TTL, What::Resumed);
        assert_eq!(found(&sample, Waiters).len(), 1);
    }

    #[test]
    fn an_orphan_that_one_without_an_answer_may_have_taken_may_stay_for_another_ttl() {
        let doubted = |granted| {
            let mut sample = takeover(granted);
            sample.asked(3, "k", 1_000, 0);
            sample.next(3, 1_100, What::Failed { kind: "Unknown".into(), unknown: true });
            found(&sample, Waiters).len()
        };
        assert_eq!(doubted(100 + 2 * TTL), 0);
        assert_eq!(doubted(100 + 4 * TTL), 1);
    }

    #[test]
    fn one_that_was_killed_before_its_answer_excuses_no_orphan_for_good() {
        let mut sample = takeover(100 + 9 * TTL);
        sample.asked(3, "k", 40, 0).killed(3, 60);
        assert_eq!(found(&sample, Waiters).len(), 1);
    }

    /// What is found where those who ask time the leases themselves.
    fn observed(sample: &Sample) -> usize {
        let options = Options { is_observed: true, ..options() };
        crate::check(&sample.history(), &options).of(Waiters).count()
    }

    #[test]
    fn what_had_landed_before_the_orphan_was_granted_the_key_excuses_nothing() {
        let doubted = |asked, answered| {
            let mut sample = takeover(100 + 9 * TTL);
            sample.asked(3, "k", asked, 0);
            sample.next(3, answered, What::Failed { kind: "Unknown".into(), unknown: true });
            sample.killed(3, answered + 1);
            sample
        };
        assert_eq!(observed(&doubted(1, 5)), 1);
        // What was under way for as long as the network was broken may have come after it.
        let mut late = doubted(1, 5);
        late.note(3, 0, "", 2, What::Paused);
        late.note(3, 0, "", 8 * TTL, What::Resumed);
        assert_eq!(observed(&late), 0);
    }

    #[test]
    fn one_that_waits_times_the_lease_of_whoever_was_never_answered() {
        let doubted = |granted| {
            let mut sample = takeover(granted);
            sample.asked(3, "k", 1_000, 0).killed(3, 1_100);
            observed(&sample)
        };
        assert_eq!(doubted(100 + 2 * TTL), 0);
        assert_eq!(doubted(100 + 4 * TTL), 1);
    }

    #[test]
    fn a_lease_that_a_request_under_way_prolonged_is_no_orphan() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        sample.held(2, "k", 100 + 3 * TTL, 110 + 3 * TTL);
        assert_eq!(found(&sample, Waiters).len(), 1);
        // The way of the one that was killed was not well, and what it had sent was late.
        sample.note(1, 0, "", 90, What::Paused);
        sample.note(1, 0, "", 100 + 2 * TTL, What::Resumed);
        assert_eq!(found(&sample, Waiters), [""; 0]);
        // What was wrong later, and not for the one that was told, changes nothing.
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        sample.held(2, "k", 100 + 3 * TTL, 110 + 3 * TTL);
        sample.note(1, 0, "", 200, What::Paused);
        sample.note(1, 0, "", 200 + 2 * TTL, What::Resumed);
        assert_eq!(found(&sample, Waiters).len(), 1);
    }

    #[test]
    fn one_that_was_never_answered_may_have_had_a_longer_ttl() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        let asked = What::Asked { ttl: 5 * TTL, wait: Some(0) };
        sample.note(3, 1, "k", 100 + TTL, asked);
        sample.killed(3, 110 + TTL);
        sample.held(2, "k", 100 + 5 * TTL, 110 + 5 * TTL);
        assert_eq!(found(&sample, Waiters), [""; 0]);
        sample.held(2, "k", 100 + 8 * TTL, 110 + 8 * TTL);
        assert_eq!(found(&sample, Waiters).len(), 1);
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
        let options = Options { is_observed: true, ..options() };
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

    /// Worker 1 holds and is stopped at 100; worker 2 waits and is told at `told` that it has it.
    fn stopped(until: u64, told: u64, more: impl FnOnce(&mut Sample)) -> usize {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1);
        sample.note(1, 0, "", 100, What::Paused);
        sample.note(1, 0, "", until, What::Resumed);
        sample.asked(2, "k", 50, 10 * TTL).next(2, told, What::Granted { fence: 2 });
        more(&mut sample);
        let stops = [(1, vec![(100, until)])].into();
        let options = Options { stops, ..options() };
        let mut verdict = Verdict::default();
        check(&sample.history(), &options, &mut verdict);
        verdict.violations.len()
    }

    #[test]
    fn one_that_stands_still_prolongs_nothing() {
        assert_eq!(stopped(9 * TTL, 100 + TTL, |_| ()), 0);
        assert_eq!(stopped(9 * TTL, 100 + 3 * TTL, |_| ()), 1);
        // One that goes on in time may.
        assert_eq!(stopped(TTL, 100 + 3 * TTL, |_| ()), 0);
    }

    #[test]
    fn one_that_was_stopped_itself_may_have_been_granted_the_key_unheard() {
        let took = |sample: &mut Sample| {
            sample.granted(3, "k", 200, 7 * TTL, 3);
            sample.note(3, 0, "", 300, What::Paused);
            sample.note(3, 0, "", 7 * TTL, What::Resumed);
        };
        assert_eq!(stopped(9 * TTL, 8 * TTL, took), 0);
    }

    #[test]
    fn a_lease_that_was_given_back_is_no_orphan() {
        let given_back = |sample: &mut Sample| {
            sample.released(1, 30, 40);
        };
        assert_eq!(stopped(9 * TTL, 100 + 3 * TTL, given_back), 0);
    }

    #[test]
    fn an_orphan_that_nobody_waits_for_is_well() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).killed(1, 100);
        sample.granted(2, "k", 10 * TTL, 10 * TTL + 10, 2);
        assert_eq!(found(&sample, Waiters), [""; 0]);
    }
}

//! No two believe in the same key at once.

use std::time::Duration;

use crate::history::{Claim, History};
use crate::verdict::{Checker, Verdict, Violation};

struct Belief<'a> {
    claim: &'a Claim,
    from: u64,
    until: u64,
    fence: u64,
}

/// Finds two workers whose guards said, at one moment, that they hold the same key.
///
/// A belief lasts from the answer that granted it to the last moment at which the guard was asked
/// and said yes: it was at least that long, so whatever is found did happen. Where the lease with
/// the smaller fence was ended by force before the other began to believe, that is told apart: the
/// guard cannot know before its next renewal. But a ttl later it must, whether it was told or not.
pub fn check(history: &History, verdict: &mut Verdict) {
    for (key, claims) in history.by_key() {
        let mut beliefs: Vec<Belief<'_>> = claims.into_iter().filter_map(belief).collect();
        beliefs.sort_by_key(|belief| (belief.from, belief.until));
        let mut lasting: Vec<Belief<'_>> = Vec::new();
        for belief in beliefs {
            lasting.retain(|before| before.until > belief.from);
            for before in &lasting {
                let violation = overlap(key, before, &belief);
                if is_robbed(history, key, before, &belief) {
                    verdict.forced.push(violation);
                } else {
                    verdict.violations.push(violation);
                }
            }
            lasting.push(belief);
        }
    }
}

/// Whether the one of two that was granted first had lost its lease by force when both began to
/// believe, and not too long before it ceased to.
fn is_robbed(history: &History, key: &str, one: &Belief<'_>, other: &Belief<'_>) -> bool {
    let first = if one.fence < other.fence { one } else { other };
    let forced = history.forced.get(&(key.to_owned(), first.fence));
    forced.is_some_and(|forced| {
        let is_first = forced.from <= one.from.max(other.from);
        is_first && first.until <= forced.unnoticed(first.claim.ttl)
    })
}

fn belief(claim: &Claim) -> Option<Belief<'_>> {
    let ((from, fence), until) = (claim.grant()?, claim.believed?);
    (until >= from).then_some(Belief { claim, from, until, fence })
}

fn overlap(key: &str, before: &Belief<'_>, after: &Belief<'_>) -> Violation {
    let by = Duration::from_nanos(before.until.min(after.until) - after.from);
    let text = format!(
        "worker {} (fence {}) and worker {} (fence {}) both believed in it for {by:?}",
        before.claim.worker, before.fence, after.claim.worker, after.fence
    );
    Violation { checker: Checker::Beliefs, key: key.to_owned(), text, at: after.from }
}

#[cfg(test)]
mod tests {
    use crate::record::What;
    use crate::sample::{Sample, TTL, found};
    use crate::verdict::Checker::Beliefs;

    #[test]
    fn one_after_the_other_is_well() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 50);
        sample.granted(2, "k", 30, 51, 2).believed(2, 90);
        sample.granted(3, "other", 30, 35, 3).believed(3, 90);
        // Granted, but by then it did not believe any more: it was paused in between.
        sample.granted(4, "k", 60, 70, 3);
        assert_eq!(found(&sample, Beliefs), [""; 0]);
    }

    #[test]
    fn two_at_once_are_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 2_000);
        sample.granted(2, "k", 30, 500, 2).believed(2, 9_000);
        let text = "worker 1 (fence 1) and worker 2 (fence 2) both believed in it for 1.5µs";
        assert_eq!(found(&sample, Beliefs), [text]);
    }

    #[test]
    fn one_within_a_longer_one_is_found_and_so_is_the_next() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 500);
        sample.granted(2, "k", 30, 100, 2).believed(2, 150);
        sample.granted(3, "k", 30, 300, 3).believed(3, 350);
        let texts = found(&sample, Beliefs);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[1].contains("worker 1 ") && texts[1].contains("worker 3 "), "{texts:?}");
    }

    #[test]
    fn an_end_by_force_is_told_apart() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 200);
        sample.note(9, 0, "k", 90, What::Forced { fence: 1 });
        sample.granted(2, "k", 30, 100, 2).believed(2, 300);
        assert_eq!(found(&sample, Beliefs), [""; 0]);
        assert_eq!(sample.verdict().forced.len(), 1);
    }

    #[test]
    fn a_force_that_came_later_or_hit_the_other_is_no_excuse() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 200);
        sample.granted(2, "k", 30, 100, 2).believed(2, 300);
        sample.note(9, 0, "k", 110, What::Forced { fence: 1 });
        sample.note(9, 0, "k", 90, What::Forced { fence: 2 });
        assert_eq!(found(&sample, Beliefs).len(), 1);
    }

    #[test]
    fn a_guard_that_believes_for_longer_than_a_ttl_after_a_force_is_found() {
        let until = |believed| {
            let mut sample = Sample::default();
            sample.granted(1, "k", 10, 20, 1).believed(1, believed);
            sample.note(9, 0, "k", 80, What::Forced { fence: 1 });
            sample.note(9, 0, "k", 90, What::Forced { fence: 1 });
            sample.granted(2, "k", 30, 100, 2).believed(2, 300);
            found(&sample, Beliefs).len()
        };
        assert_eq!((until(90 + TTL), until(91 + TTL)), (0, 1));
    }

    #[test]
    fn two_within_one_that_was_ended_by_force_are_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 900);
        sample.note(9, 0, "k", 90, What::Forced { fence: 1 });
        sample.granted(2, "k", 30, 100, 2).believed(2, 300);
        sample.granted(3, "k", 30, 200, 3).believed(3, 400);
        let texts = found(&sample, Beliefs);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("worker 2 ") && texts[0].contains("worker 3 "), "{texts:?}");
        assert_eq!(sample.verdict().forced.len(), 2);
    }
}

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
/// and said yes: it was at least that long, so whatever is found did happen. Where the lease of the
/// one that believed too long was ended by force, that is told apart: the guard cannot know before
/// its next renewal.
pub fn check(history: &History, verdict: &mut Verdict) {
    for (key, claims) in history.by_key() {
        let mut beliefs: Vec<Belief<'_>> = claims.into_iter().filter_map(belief).collect();
        beliefs.sort_by_key(|belief| (belief.from, belief.until));
        let mut longest: Option<Belief<'_>> = None;
        for belief in beliefs {
            let Some(before) = longest.take() else {
                longest = Some(belief);
                continue;
            };
            if belief.from < before.until {
                let violation = overlap(key, &before, &belief);
                if history.is_forced(key, before.fence) || history.is_forced(key, belief.fence) {
                    verdict.forced.push(violation);
                } else {
                    verdict.violations.push(violation);
                }
            }
            longest = Some(if belief.until > before.until { belief } else { before });
        }
    }
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
    use crate::sample::{Sample, found};
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
}

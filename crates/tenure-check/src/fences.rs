//! Fences grow in the order of real time, and none comes twice.

use std::collections::BTreeMap;

use crate::history::{Claim, History};
use crate::verdict::{Checker, Verdict, Violation};

struct Grant {
    worker: u64,
    asked: u64,
    at: u64,
    fence: u64,
}

/// Finds grants of a key whose fence is not greater than that of a grant which was answered before
/// they were asked for, and fences that were granted twice.
///
/// Two grants that were asked for at the same time say nothing about each other: only
/// [`linear`](crate::linear) can order them.
pub fn check(history: &History, verdict: &mut Verdict) {
    for (key, claims) in history.by_key() {
        let grants: Vec<Grant> = claims.into_iter().filter_map(grant).collect();
        let mut report = |text: String, at: u64| {
            let checker = Checker::Fences;
            verdict.violations.push(Violation { checker, key: key.to_owned(), text, at });
        };
        twice(&grants, &mut report);
        backwards(&grants, &mut report);
    }
}

fn grant(claim: &Claim) -> Option<Grant> {
    let (at, fence) = claim.grant()?;
    Some(Grant { worker: claim.worker, asked: claim.asked, at, fence })
}

fn twice(grants: &[Grant], report: &mut impl FnMut(String, u64)) {
    let mut seen = BTreeMap::new();
    for grant in grants {
        if let Some(worker) = seen.insert(grant.fence, grant.worker) {
            let Grant { worker: other, fence, at, .. } = grant;
            report(format!("fence {fence} was granted to workers {worker} and {other}"), *at);
        }
    }
}

/// `grants` are in the order in which they were asked for.
fn backwards(grants: &[Grant], report: &mut impl FnMut(String, u64)) {
    let mut answered: Vec<&Grant> = grants.iter().collect();
    answered.sort_by_key(|grant| grant.at);
    let mut answered = answered.into_iter().peekable();
    let mut highest: Option<&Grant> = None;
    for grant in grants {
        while let Some(earlier) = answered.next_if(|earlier| earlier.at < grant.asked) {
            if highest.is_none_or(|highest| earlier.fence > highest.fence) {
                highest = Some(earlier);
            }
        }
        if let Some(earlier) = highest.filter(|highest| highest.fence > grant.fence) {
            let Grant { worker, fence, at, .. } = grant;
            let text = format!(
                "fence {fence} was granted to worker {worker} after fence {} to worker {}",
                earlier.fence, earlier.worker
            );
            report(text, *at);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sample::{Sample, found};
    use crate::verdict::Checker::Fences;

    #[test]
    fn fences_that_grow_are_well() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 5).granted(2, "k", 30, 40, 6);
        // Another key has fences of its own.
        sample.granted(3, "other", 50, 60, 5);
        assert_eq!(found(&sample, Fences), [""; 0]);
    }

    #[test]
    fn at_the_same_time_either_may_be_first() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 40, 6).granted(2, "k", 20, 30, 5);
        assert_eq!(found(&sample, Fences), [""; 0]);
    }

    #[test]
    fn a_fence_that_goes_back_is_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 6).granted(2, "k", 30, 40, 7).granted(3, "k", 50, 60, 5);
        assert_eq!(
            found(&sample, Fences),
            ["fence 5 was granted to worker 3 after fence 7 to worker 2"]
        );
    }

    #[test]
    fn a_fence_that_comes_twice_is_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 40, 6).granted(2, "k", 20, 30, 6);
        assert_eq!(found(&sample, Fences), ["fence 6 was granted to workers 1 and 2"]);
    }
}

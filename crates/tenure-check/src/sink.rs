//! A resource that checks the fence, and that it let nothing stale through.

use std::collections::BTreeMap;

use crate::history::{History, Write};
use crate::verdict::{Checker, Verdict, Violation};

/// What a sink makes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It takes it.
    Accepted,
    /// It is stale: a write with this greater fence was there before.
    Refused {
        /// The greatest fence that it has seen.
        highest: u64,
    },
}

/// The rule of a fenced resource: whatever has seen the fence `highest` takes no smaller one.
#[must_use]
pub const fn offer(highest: u64, fence: u64) -> Offered {
    if fence < highest { Offered::Refused { highest } } else { Offered::Accepted }
}

/// A fenced sink in memory: the greatest fence of each key.
#[derive(Clone, Debug, Default)]
pub struct Sink(BTreeMap<String, u64>);

impl Sink {
    /// Offers a write.
    pub fn offer(&mut self, key: &str, fence: u64) -> Offered {
        let highest = self.0.entry(key.to_owned()).or_default();
        let offered = offer(*highest, fence);
        *highest = fence.max(*highest);
        offered
    }
}

/// Finds writes that a sink took although it had taken one with a greater fence before, writes
/// that it refused although it had not, and writes that were refused while their holder believed:
/// another had written under a greater fence, before the guard said that it no longer holds.
/// Counts what a sink without the check would have taken.
pub fn check(history: &History, verdict: &mut Verdict) {
    let holders = holders(history);
    let mut highest = BTreeMap::<&str, u64>::new();
    for write in &history.writes {
        let highest = highest.entry(&write.key).or_default();
        if let Some(text) = judged(history, &holders, write, *highest) {
            let (key, at) = (write.key.clone(), write.at);
            verdict.violations.push(Violation { checker: Checker::Sink, key, text, at });
        }
        if write.accepted {
            *highest = write.fence.max(*highest);
        } else {
            verdict.stale_refused += 1;
        }
    }
    verdict.stale_unfenced = history.unfenced.iter().filter(|(fence, over)| over > fence).count();
}

/// The last moment at which each guard said that it holds, by its key and fence, and its ttl.
type Holders<'a> = BTreeMap<(&'a str, u64), (u64, u64)>;

fn holders(history: &History) -> Holders<'_> {
    let granted = history.claims.iter().filter_map(|claim| {
        let (_, fence) = claim.grant()?;
        Some(((claim.key.as_str(), fence), (claim.believed?, claim.ttl)))
    });
    granted.collect()
}

/// What is wrong with a write to a sink that has taken `highest` before.
fn judged(history: &History, holders: &Holders<'_>, write: &Write, highest: u64) -> Option<String> {
    let Write { key, fence, at, .. } = write;
    if write.accepted {
        return (*fence < highest).then(|| {
            format!("a write with fence {fence} was accepted after one with fence {highest}")
        });
    }
    if *fence >= highest {
        return Some(format!("a write with fence {fence} was refused, and none had a greater one"));
    }
    let (believed, ttl) = holders.get(&(key.as_str(), *fence)).copied()?;
    let forced = history.forced.get(&(key.clone(), *fence));
    let unnoticed = forced.is_some_and(|forced| forced.from <= *at && *at <= forced.unnoticed(ttl));
    (believed > *at && !unnoticed).then(|| {
        let worker = write.worker;
        format!(
            "a write with fence {fence} was refused after one with fence {highest}, and its \
             holder, worker {worker}, still believed in it"
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::record::What::{Accepted, Forced, Refused, Unfenced};
    use crate::sample::{Sample, TTL, found};
    use crate::verdict::Checker::Sink;

    #[test]
    fn a_sink_that_refuses_what_is_stale_is_well() {
        let mut sample = Sample::default();
        sample.note(1, 0, "k", 10, Accepted { fence: 1 });
        sample.note(1, 0, "k", 20, Accepted { fence: 1 });
        sample.note(2, 0, "k", 30, Accepted { fence: 2 });
        sample.note(1, 0, "k", 40, Refused { fence: 1 });
        sample.note(1, 0, "other", 50, Accepted { fence: 1 });
        sample.note(2, 0, "k", 60, Unfenced { fence: 2, over: 1 });
        sample.note(1, 0, "k", 70, Unfenced { fence: 1, over: 2 });
        assert_eq!(found(&sample, Sink), [""; 0]);
        let verdict = sample.verdict();
        assert_eq!((verdict.stale_refused, verdict.stale_unfenced), (1, 1));
    }

    #[test]
    fn a_stale_write_that_was_accepted_is_found() {
        let mut sample = Sample::default();
        sample.note(2, 0, "k", 30, Accepted { fence: 2 });
        sample.note(1, 0, "k", 40, Accepted { fence: 1 });
        let text = "a write with fence 1 was accepted after one with fence 2";
        assert_eq!(found(&sample, Sink), [text]);
    }

    #[test]
    fn a_refusal_for_no_reason_is_found() {
        let mut sample = Sample::default();
        sample.note(2, 0, "k", 30, Accepted { fence: 2 });
        sample.note(3, 0, "k", 40, Refused { fence: 3 });
        let text = "a write with fence 3 was refused, and none had a greater one";
        assert_eq!(found(&sample, Sink), [text]);
    }

    #[test]
    fn a_holder_that_still_believed_was_refused_with_no_right() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 50);
        sample.note(2, 0, "k", 30, Accepted { fence: 2 });
        sample.note(1, 0, "k", 60, Refused { fence: 1 });
        assert_eq!(found(&sample, Sink), [""; 0]);
        sample.note(1, 0, "k", 40, Refused { fence: 1 });
        let texts = found(&sample, Sink);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("still believed"), "{texts:?}");
        sample.note(9, 0, "k", 25, Forced { fence: 1 });
        assert_eq!(found(&sample, Sink), [""; 0]);
        // But not for as long as it likes.
        sample.believed(1, 99 + TTL);
        sample.note(1, 0, "k", 26 + TTL, Refused { fence: 1 });
        assert_eq!(found(&sample, Sink).len(), 1);
    }
}

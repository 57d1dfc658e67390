//! A resource that checks the fence, and that it let nothing stale through.

use std::collections::BTreeMap;

use crate::history::History;
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

/// Finds writes that a sink took although a greater fence had written before, and writes that it
/// refused for no reason. Counts what a sink without the check would have taken.
pub fn check(history: &History, verdict: &mut Verdict) {
    let mut sink = Sink::default();
    for write in &history.writes {
        let (key, fence) = (&write.key, write.fence);
        let text = match (sink.offer(key, fence), write.accepted) {
            (Offered::Refused { highest }, true) => {
                format!("a write with fence {fence} was accepted after one with fence {highest}")
            }
            (Offered::Accepted, false) => {
                format!("a write with fence {fence} was refused, and none had a greater one")
            }
            (Offered::Refused { .. }, false) => {
                verdict.stale_refused += 1;
                continue;
            }
            (Offered::Accepted, true) => continue,
        };
        let (key, at) = (key.clone(), write.at);
        verdict.violations.push(Violation { checker: Checker::Sink, key, text, at });
    }
    verdict.stale_unfenced = history.unfenced.iter().filter(|(fence, over)| over > fence).count();
}

#[cfg(test)]
mod tests {
    use crate::record::What::{Accepted, Refused, Unfenced};
    use crate::sample::{Sample, found};
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
}

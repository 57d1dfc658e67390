//! What a run has to come to before it can be a card.

use std::collections::{BTreeMap, BTreeSet};

use tenure_check::{Record, What};

use crate::tally::Tally;

/// What a run has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    faults: usize,
    operations: u64,
    /// Of those, while nothing was wrong: what is excused is not judged.
    quiet: usize,
    stale: usize,
    /// Whether it has to be known that a store which wakes those who wait did so.
    wakes: bool,
}

/// What a run has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) faults: usize,
    /// Those that were answered.
    pub(crate) operations: u64,
    /// Stale writes that the counter without a fence took, of workers that had been stopped and
    /// whose lease nobody had ended by force.
    pub(crate) stale: usize,
    /// Operations that were answered while nothing was wrong, where that is known by now.
    pub(crate) quiet: Option<usize>,
    /// Whether the store wakes those who wait, and nobody could tell whether it did.
    pub(crate) slept: bool,
}

impl Reached {
    /// From what was written down, and the number of faults.
    pub(crate) fn new(records: &[Record], tally: &Tally, faults: usize) -> Self {
        let (operations, stale) = (tally.operations(), stale(records));
        Self { faults, operations, stale, ..Self::default() }
    }
}

/// How many stale writes came from nothing but a pause.
fn stale(records: &[Record]) -> usize {
    let mut granted = BTreeMap::<(&str, u64), u64>::new();
    let mut forced = BTreeSet::<(&str, u64)>::new();
    let mut paused = BTreeMap::<u64, Vec<u64>>::new();
    for record in records {
        let key = record.key.as_str();
        match record.what {
            What::Granted { fence } => drop(granted.insert((key, fence), record.at)),
            What::Forced { fence } => drop(forced.insert((key, fence))),
            What::Paused => paused.entry(record.worker).or_default().push(record.at),
            _ => {}
        }
    }
    let is_stale = |record: &&Record| {
        let What::Unfenced { fence, over } = record.what else { return false };
        let lease = (record.key.as_str(), fence);
        let since = granted.get(&lease).copied().unwrap_or(u64::MAX);
        let mut pauses = paused.get(&record.worker).into_iter().flatten();
        let was_stopped = pauses.any(|at| (since..record.at).contains(at));
        over > fence && was_stopped && !forced.contains(&lease)
    };
    records.iter().filter(is_stale).count()
}

impl Demand {
    /// What every card says of its store at the least.
    pub(crate) const CARD: Self =
        Self { faults: 300, operations: 200_000, quiet: 50_000, stale: 1, wakes: true };

    /// Without so much a run has tried out nothing.
    pub(crate) const LEAST: Self =
        Self { faults: 5, operations: 1_000, quiet: 100, stale: 0, wakes: false };

    /// What was not reached, one line for each.
    pub(crate) fn missed(self, reached: Reached) -> Vec<String> {
        let Reached { faults, operations, stale, quiet, slept } = reached;
        let mut missed = Vec::new();
        if faults < self.faults {
            missed.push(format!("{faults} faults, and not {}", self.faults));
        }
        if operations < self.operations {
            missed.push(format!("{operations} operations, and not {}", self.operations));
        }
        if let Some(quiet) = quiet.filter(|quiet| *quiet < self.quiet) {
            missed.push(format!("{quiet} operations in quiet, and not {}", self.quiet));
        }
        if stale < self.stale {
            missed.push("no stale write after a pause that a fence had to refuse".to_owned());
        }
        if self.wakes && slept {
            missed.push("nobody can tell whether those who waited were woken".to_owned());
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pause_counts() {
        let found = |between: &[(u64, What)]| {
            let record = |worker, at, what| Record { worker, claim: 0, key: "k".into(), at, what };
            let mut records = vec![record(1, 10, What::Granted { fence: 1 })];
            records.extend(between.iter().map(|(at, what)| record(1, *at, what.clone())));
            records.push(record(1, 90, What::Unfenced { fence: 1, over: 2 }));
            records.push(record(2, 95, What::Unfenced { fence: 3, over: 1 }));
            stale(&records)
        };
        assert_eq!(found(&[]), 0);
        assert_eq!(found(&[(50, What::Paused)]), 1);
        assert_eq!(found(&[(5, What::Paused)]), 0);
        assert_eq!(found(&[(50, What::Paused), (60, What::Forced { fence: 1 })]), 0);
    }

    #[test]
    fn what_is_missed_is_told() {
        let (operations, quiet) = (200_000, Some(50_000));
        let enough = Reached { faults: 300, operations, stale: 1, quiet, slept: false };
        assert!(Demand::CARD.missed(enough).is_empty());
        assert!(Demand::CARD.missed(Reached { quiet: None, ..enough }).is_empty());
        assert!(Demand::LEAST.missed(Reached { stale: 0, slept: true, ..enough }).is_empty());
        assert_eq!(Demand::LEAST.missed(Reached::default()).len(), 2);
        for (reached, told) in [
            (Reached { faults: 299, ..enough }, "299 faults, and not 300"),
            (Reached { operations: 5, ..enough }, "5 operations, and not 200000"),
            (Reached { quiet: Some(9), ..enough }, "9 operations in quiet, and not 50000"),
            (
                Reached { stale: 0, ..enough },
                "no stale write after a pause that a fence had to refuse",
            ),
            (
                Reached { slept: true, ..enough },
                "nobody can tell whether those who waited were woken",
            ),
        ] {
            assert_eq!(Demand::CARD.missed(reached), [told]);
        }
    }
}

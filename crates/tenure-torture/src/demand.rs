//! What a run has to come to before it can be a card.

use tenure_check::{Record, What};

use crate::tally::Tally;

/// What a run has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    faults: usize,
    operations: u64,
}

/// What a run has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) faults: usize,
    /// Those that the store answered.
    pub(crate) operations: u64,
    /// Stale writes that the counter without a fence took.
    pub(crate) stale: usize,
}

impl Reached {
    /// From what was written down, and the number of faults.
    pub(crate) fn new(records: &[Record], tally: &Tally, faults: usize) -> Self {
        let is_stale = |what: &What| matches!(what, What::Unfenced { fence, over } if over > fence);
        let stale = records.iter().filter(|record| is_stale(&record.what)).count();
        Self { faults, operations: tally.operations(), stale }
    }
}

impl Demand {
    /// What every card says of its store at the least.
    pub(crate) const CARD: Self = Self { faults: 300, operations: 200_000 };

    /// What was not reached, one line for each.
    pub(crate) fn missed(self, reached: Reached) -> Vec<String> {
        let Reached { faults, operations, stale } = reached;
        let mut missed = Vec::new();
        if faults < self.faults {
            missed.push(format!("{faults} faults, and not {}", self.faults));
        }
        if operations < self.operations {
            missed.push(format!("{operations} operations, and not {}", self.operations));
        }
        if stale == 0 {
            missed.push("no stale write that a fence had to refuse".to_owned());
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_told() {
        let enough = Reached { faults: 300, operations: 200_000, stale: 1 };
        assert!(Demand::CARD.missed(enough).is_empty());
        for (reached, told) in [
            (Reached { faults: 299, ..enough }, "299 faults, and not 300"),
            (Reached { operations: 5, ..enough }, "5 operations, and not 200000"),
            (Reached { stale: 0, ..enough }, "no stale write that a fence had to refuse"),
        ] {
            assert_eq!(Demand::CARD.missed(reached), [told]);
        }
    }
}

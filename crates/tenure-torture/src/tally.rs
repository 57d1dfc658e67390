//! How often workers did what.

use std::collections::BTreeMap;

use tenure_check::{Record, What};

use crate::deed::{Deed, Done};
use crate::turn::{ABANDONED, AGAIN};

/// Operations by kind, and by what came of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Counts what was written down.
    pub(crate) fn new(records: &[Record], deeds: &[Deed]) -> Self {
        let mut tally = Self::default();
        for name in records.iter().filter_map(|record| operation(&record.what)) {
            *tally.0.entry(name).or_default() += 1;
        }
        for name in deeds.iter().filter_map(|deed| other(&deed.what)) {
            *tally.0.entry(name).or_default() += 1;
        }
        tally
    }

    /// So many grants and nothing else, for tests.
    #[cfg(test)]
    pub(crate) fn of_grants(count: u64) -> Self {
        Self(BTreeMap::from([("acquire: granted", count)]))
    }

    /// All operations together: each was a question to the store, or could have been.
    pub(crate) fn operations(&self) -> u64 {
        self.0.values().sum()
    }

    /// How often each, in the order of their names.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// How many claims were granted.
    pub(crate) fn granted(&self) -> u64 {
        self.0.get("acquire: granted").copied().unwrap_or(0)
    }
}

fn operation(what: &What) -> Option<&'static str> {
    match what {
        What::Granted { .. } => Some("acquire: granted"),
        What::Held => Some("acquire: held by another"),
        What::Failed { kind, .. } if kind == ABANDONED => Some("acquire: abandoned"),
        What::Failed { kind, .. } if kind == AGAIN => Some("acquire: the same grant again"),
        What::Failed { unknown: true, .. } => Some("acquire: outcome unknown to the caller"),
        What::Failed { unknown: false, .. } => Some("acquire: refused by a store that was away"),
        What::Released => Some("release: done"),
        What::Lost => Some("release: lost before"),
        What::ReleaseFailed { .. } => Some("release: failed"),
        What::Dropped => Some("release: by dropping the guard"),
        _ => None,
    }
}

fn other(what: &Done) -> Option<&'static str> {
    match what {
        Done::Looked => Some("status: answered"),
        Done::LookFailed { .. } => Some("status: failed"),
        Done::Forced => Some("force-release: answered"),
        Done::ForceFailed { .. } => Some("force-release: failed"),
        Done::Renewed => Some("renew: done"),
        Done::ForceAsked | Done::Gone | Done::Again { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_and_questions_are_not() {
        let record = |what| Record { worker: 1, claim: 1, key: "k".into(), at: 1, what };
        let deed = |what| Deed { worker: 1, claim: 0, key: "k".into(), at: 1, what };
        let records = [
            record(What::Asked { ttl: 1, wait: None }),
            record(What::Granted { fence: 1 }),
            record(What::Believed),
            record(What::Released),
        ];
        let tally = Tally::new(&records, &[deed(Done::Looked), deed(Done::ForceAsked)]);
        assert_eq!(tally.operations(), 3);
        assert_eq!(tally.granted(), 1);
    }
}

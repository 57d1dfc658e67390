//! How often workers did what.

use std::collections::BTreeMap;

use tenure_check::{Record, What};

use crate::deed::{Deed, Done};
use crate::turn::{ABANDONED, AGAIN, UNKNOWN, UNTOLD};

/// Operations by kind, and by what came of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    answered: BTreeMap<&'static str, u64>,
    other: BTreeMap<String, u64>,
}

/// What one line counts as.
enum Entry {
    /// The store gave its word.
    Answered(&'static str),
    /// It did not, or refused, or nobody waited for it.
    Other(String),
}

impl Tally {
    /// Counts what was written down.
    pub(crate) fn new(records: &[Record], deeds: &[Deed]) -> Self {
        let mut tally = Self::default();
        let of_claims = records.iter().filter_map(|record| operation(&record.what));
        for entry in of_claims.chain(deeds.iter().filter_map(|deed| other(&deed.what))) {
            *match entry {
                Entry::Answered(name) => tally.answered.entry(name).or_default(),
                Entry::Other(name) => tally.other.entry(name).or_default(),
            } += 1;
        }
        tally
    }

    /// So many grants and nothing else, for tests.
    #[cfg(test)]
    pub(crate) fn of_grants(count: u64) -> Self {
        let answered = BTreeMap::from([("acquire: granted", count)]);
        Self { answered, ..Self::default() }
    }

    /// All operations that were answered.
    pub(crate) fn operations(&self) -> u64 {
        self.answered.values().sum()
    }

    /// How often each of those, in the order of their names.
    pub(crate) fn answered(&self) -> impl Iterator<Item = (&str, u64)> {
        self.answered.iter().map(|(name, count)| (*name, *count))
    }

    /// How often each of all others.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&str, u64)> {
        self.other.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// How many claims were granted.
    pub(crate) fn granted(&self) -> u64 {
        self.answered.get("acquire: granted").copied().unwrap_or(0)
    }
}

fn operation(what: &What) -> Option<Entry> {
    let other = |name: &str| Some(Entry::Other(name.to_owned()));
    match what {
        What::Granted { .. } => Some(Entry::Answered("acquire: granted")),
        What::Held => Some(Entry::Answered("acquire: held by another")),
        What::Failed { kind, .. } if kind == ABANDONED => other("acquire: abandoned"),
        What::Failed { kind, .. } if kind == AGAIN => {
            Some(Entry::Answered("acquire: the same grant again"))
        }
        What::Failed { kind, .. } => Some(failed("acquire", kind)),
        What::Released => Some(Entry::Answered("release: done")),
        What::Lost => Some(Entry::Answered("release: lost before")),
        What::ReleaseFailed { kind } if kind == UNTOLD => other("release: with the end of work"),
        What::ReleaseFailed { kind } => Some(failed("release", kind)),
        What::Dropped => other("release: by dropping the guard"),
        _ => None,
    }
}

fn other(what: &Done) -> Option<Entry> {
    match what {
        Done::Looked { .. } => Some(Entry::Answered("status: answered")),
        Done::LookFailed { kind } => Some(failed("status", kind)),
        Done::Forced { .. } => Some(Entry::Answered("force-release: answered")),
        Done::ForceFailed { kind } => Some(failed("force-release", kind)),
        Done::Renewed { .. } => Some(Entry::Answered("renew: done")),
        Done::RenewFailed { kind, .. } => Some(failed("renew", kind)),
        Done::LookAsked
        | Done::ForceAsked
        | Done::Gone
        | Done::Again { .. }
        | Done::Unheard
        | Done::Unasked
        | Done::Unsaid => None,
    }
}

fn failed(operation: &str, kind: &str) -> Entry {
    let why = match kind {
        "Unavailable" => "the store was away or could not work".to_owned(),
        UNKNOWN => "no answer, and the outcome unknown".to_owned(),
        "Denied" => "denied".to_owned(),
        other => format!("error of kind {other}"),
    };
    Entry::Other(format!("{operation}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: What) -> Record {
        Record { worker: 1, claim: 1, key: "k".into(), at: 1, what }
    }

    #[test]
    fn answers_are_counted_and_questions_are_not() {
        let deed = |what| Deed { worker: 1, claim: 0, key: "k".into(), at: 1, what };
        let records = [
            record(What::Asked { ttl: 1, wait: None }),
            record(What::Granted { fence: 1 }),
            record(What::Believed),
            record(What::Released),
        ];
        let deeds = [Done::LookAsked, Done::Looked { fence: None }, Done::ForceAsked].map(deed);
        let tally = Tally::new(&records, &deeds);
        assert_eq!(tally.operations(), 3);
        assert_eq!(tally.granted(), 1);
    }

    #[test]
    fn failures_are_told_by_their_kind_and_do_not_count() {
        let failed = |kind: &str, unknown| record(What::Failed { kind: kind.into(), unknown });
        let records = [
            record(What::Held),
            failed("Unavailable", false),
            failed("Unknown", true),
            failed("Denied", false),
            failed("Damaged", false),
            failed(ABANDONED, true),
            record(What::Dropped),
        ];
        let tally = Tally::new(&records, &[]);
        assert_eq!(tally.operations(), 1);
        let others: Vec<&str> = tally.others().map(|(name, _)| name).collect();
        let expected = [
            "acquire: abandoned",
            "acquire: denied",
            "acquire: error of kind Damaged",
            "acquire: no answer, and the outcome unknown",
            "acquire: the store was away or could not work",
            "release: by dropping the guard",
        ];
        assert_eq!(others, expected);
    }
}

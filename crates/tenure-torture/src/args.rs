//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::dice::Dice;
use crate::subject::{self, Subject};

/// Real stores under real faults, and a verdict on what was seen.
///
/// A run of 20 s or more has to come to a few faults and a thousand operations, and goes on for up
/// to three times its length until it has.
#[derive(Clone, Debug, Parser)]
#[command(name = "torture")]
pub(crate) struct Args {
    /// The stores, by name; every one, if none is named.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) store: Vec<String>,
    /// So many stores, chosen by the seed.
    #[arg(long, value_name = "COUNT", conflicts_with = "store")]
    pub(crate) stores: Option<usize>,
    /// How long to try out each store, in minutes: one, or eight with `--cards`.
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub(crate) minutes: Option<u64>,
    /// How long to try out each store, in seconds; with `--stores`, all of them together.
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Where all chance comes from; from the clock, if it is not given.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Write a guarantee card for each store into docs/guarantees. Each run goes on for up to
    /// three times its length until there were 300 faults, 200,000 operations that were answered,
    /// and a stale write of a worker that had been stopped; it fails if there were not, if fewer
    /// than 50,000 of the operations were answered while nothing was wrong, or if nobody could tell
    /// whether a store that wakes those who wait did so. Without `--store` the set-ups that must
    /// fail and the planted bugs are tried out as well.
    #[arg(long)]
    pub(crate) cards: bool,
    /// Try out the planted bugs whose name contains this instead, and what the checkers find; on
    /// the store that is named, and else each on its own.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["control", "stores", "minutes", "workers", "tasks"]
    )]
    pub(crate) planted: Option<String>,
    /// Try out only the set-ups that must fail.
    #[arg(long, conflicts_with_all = ["store", "stores", "minutes", "workers", "tasks"])]
    pub(crate) control: bool,
    /// Keep the histories, whatever was found in them.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Judge the history in this folder instead, which an earlier run has left there.
    #[arg(long, value_name = "FOLDER", exclusive = true)]
    pub(crate) judge: Option<PathBuf>,
    /// How many processes work at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    pub(crate) workers: usize,
    /// How many tasks each of them has.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) tasks: u64,
}

impl Args {
    /// The stores to try out.
    pub(crate) fn subjects(&self, seed: u64) -> Result<Vec<Subject>> {
        if let Some(count) = self.stores {
            ensure!(count > 0, "--stores 0: there must be one at the least");
            return Ok(some(count, seed));
        }
        if self.store.is_empty() {
            return Ok(subject::ALL.to_vec());
        }
        let named = |name: &String| {
            let known = || format!("no store {name:?}; there are {}", subject::names().join(", "));
            subject::named(name).with_context(known)
        };
        self.store.iter().map(named).collect()
    }

    /// How long to try out each store.
    pub(crate) fn length(&self) -> Duration {
        match (self.minutes, self.seconds, self.stores) {
            (_, Some(seconds), Some(stores)) => {
                Duration::from_secs(seconds) / u32::try_from(stores.max(1)).unwrap_or(1)
            }
            (_, Some(seconds), None) => Duration::from_secs(seconds),
            (Some(minutes), None, _) => Duration::from_secs(60 * minutes),
            (None, None, _) if self.cards => Duration::from_secs(480),
            (None, None, _) => Duration::from_secs(60),
        }
    }

    /// How long a control or a planted bug is tried out: a third of a minute, or as told in
    /// seconds where nothing else is.
    pub(crate) fn control_length(&self) -> Duration {
        let is_all = self.control || self.planted.is_some();
        Duration::from_secs(self.seconds.filter(|_| is_all).unwrap_or(20))
    }
}

/// So many stores, without any twice.
fn some(count: usize, seed: u64) -> Vec<Subject> {
    let mut left = subject::ALL.to_vec();
    let mut dice = Dice::part(seed, 0x57);
    let mut chosen = Vec::new();
    while chosen.len() < count && !left.is_empty() {
        let place = usize::try_from(dice.below(left.len() as u64)).unwrap_or(0);
        chosen.push(left.remove(place));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Args {
        Args::try_parse_from(["torture"].into_iter().chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn two_stores_share_the_time_and_are_chosen_by_the_seed() {
        let args = parsed("--seconds 60 --stores 2");
        assert_eq!(args.length(), Duration::from_secs(30));
        let names = |seed| {
            let subjects = args.subjects(seed).unwrap();
            subjects.iter().map(|subject| subject.name).collect::<Vec<_>>()
        };
        assert_eq!(names(3), names(3));
        assert!((0..20).any(|seed| names(seed) != names(3)));
        assert!((0..20).all(|seed| names(seed).len() == 2 && names(seed)[0] != names(seed)[1]));
    }

    #[test]
    fn stores_are_named_and_minutes_are_for_each() {
        let args = parsed("--store redis,file --minutes 7");
        assert_eq!(args.length(), Duration::from_secs(420));
        assert_eq!(args.subjects(1).unwrap().len(), 2);
        assert!(parsed("--store nothing").subjects(1).is_err());
        assert!(parsed("--stores 0").subjects(1).is_err());
        assert_eq!(parsed("--cards").length(), Duration::from_secs(480));
        assert_eq!(parsed("").subjects(1).unwrap().len(), subject::ALL.len());
    }

    #[test]
    fn stores_may_be_tried_out_for_longer_than_bugs() {
        let seconds = |line| parsed(line).control_length().as_secs();
        assert_eq!((seconds("--cards --seconds 300"), seconds("--planted --seconds 30")), (20, 30));
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        for line in [
            "--planted --control",
            "--planted --minutes 2",
            "--planted --workers 3",
            "--control --store redis",
            "--control --tasks 3",
            "--judge x --cards",
            "--judge x --seed 4",
            "--minutes 1 --seconds 2",
        ] {
            let words = ["torture"].into_iter().chain(line.split_whitespace());
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
        assert!(parsed("--planted late --store etcd").planted.is_some());
    }
}

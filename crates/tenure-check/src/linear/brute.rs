//! The same question answered without any cleverness: every order is tried. What the search leaves
//! out to be fast must not change its answer.

use std::collections::HashSet;

use super::{Hold, Kind, Op, Outcome, Search};
use crate::grown::{Dice, Garden};
use crate::history::{History, Look};
use crate::record::{Record, What};
use crate::sample::{TTL, options};
use crate::stay::Stay;
use crate::verdict::Options;

const SEEDS: u64 = 6_000;

/// So few that all their orders can be tried.
const OPS_MAX: usize = 8;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Lock {
    hold: Hold,
    fence: u64,
    /// Which ghosts have had the key already.
    ghosts: Vec<usize>,
}

/// What was tried and does not fit: what was left, and from which state on.
type Tried = HashSet<(Vec<usize>, Lock)>;

/// Whether some order of what is `left` fits, from this state on.
fn fits(search: &Search<'_>, left: &[usize], lock: Lock, tried: &mut Tried) -> bool {
    // Nothing that comes now can have its effect later than the first answer that is still to come.
    let Some(now) = left.iter().map(|op| search.ops[*op].answered).min() else { return true };
    if !tried.insert((left.to_vec(), lock.clone())) {
        return false;
    }
    left.iter().filter(|op| search.ops[**op].asked <= now).any(|op| {
        let rest: Vec<usize> = left.iter().copied().filter(|other| other != op).collect();
        by_themselves(search, lock.clone(), now)
            .into_iter()
            .filter_map(|lock| apply(search, lock, &search.ops[*op], now))
            .any(|lock| fits(search, &rest, lock, tried))
    })
}

/// The states that the lock can come to without an answer: a lease ends, and one that was never
/// answered takes effect and ends.
fn by_themselves(search: &Search<'_>, lock: Lock, now: u64) -> Vec<Lock> {
    let mut found = vec![lock];
    let mut place = 0;
    while let Some(lock) = found.get(place).cloned() {
        place += 1;
        let next: Vec<Lock> = match lock.hold {
            Hold::Lease(lease) if search.ends[lease] > now => continue,
            Hold::Lease(_) | Hold::Ghost(_) => vec![Lock { hold: Hold::Nobody, ..lock }],
            Hold::Nobody => (0..search.ghosts.len())
                .filter(|ghost| search.ghosts[*ghost].asked <= now && !lock.ghosts.contains(ghost))
                .map(|ghost| {
                    let mut ghosts = [&lock.ghosts[..], &[ghost]].concat();
                    ghosts.sort_unstable();
                    Lock { hold: Hold::Ghost(ghost), fence: lock.fence, ghosts }
                })
                .collect(),
        };
        for lock in next {
            if !found.contains(&lock) {
                found.push(lock);
            }
        }
    }
    found
}

fn apply(search: &Search<'_>, lock: Lock, op: &Op, now: u64) -> Option<Lock> {
    let mine = Hold::Lease(op.lease);
    match op.kind {
        Kind::Grant => {
            let (_, fence) = search.claims[op.lease].grant()?;
            let is_free = lock.hold == Hold::Nobody && fence > lock.fence;
            is_free.then_some(Lock { hold: mine, fence, ..lock })
        }
        Kind::Refusal => match lock.hold {
            Hold::Nobody => None,
            Hold::Ghost(ghost) => search.haunts(ghost, op).then_some(lock),
            Hold::Lease(_) => Some(lock),
        },
        Kind::Release => (lock.hold == mine).then_some(Lock { hold: Hold::Nobody, ..lock }),
        Kind::Loss => {
            let lingers = search.timed.is_some() && search.ends[op.lease] <= now;
            (lock.hold != mine || lingers).then_some(lock)
        }
        Kind::Look => (lock.hold == mine).then_some(lock),
        Kind::Stranger(fence) => match lock.hold {
            Hold::Ghost(ghost) if fence >= lock.fence && search.haunts(ghost, op) => {
                Some(Lock { fence, ..lock })
            }
            Hold::Nobody | Hold::Ghost(_) | Hold::Lease(_) => None,
        },
        Kind::Force => (lock.hold == mine).then_some(Lock { hold: Hold::Nobody, ..lock }),
        Kind::Vacancy => {
            let is_timed = match (lock.hold, &search.timed) {
                (Hold::Nobody, _) | (Hold::Ghost(_), Some(_)) => true,
                (Hold::Lease(lease), Some(timed)) => timed[lease] <= now,
                (Hold::Ghost(_) | Hold::Lease(_), None) => false,
            };
            is_timed.then_some(lock)
        }
    }
}

/// Changes something, whatever comes of it.
fn disturb(records: &mut [Record], dice: &mut Dice) {
    let place = dice.roll(records.len() as u64) as usize;
    let record = &mut records[place];
    match &mut record.what {
        What::Granted { fence } if dice.roll(2) == 0 => *fence = 1 + dice.roll(8),
        What::Granted { .. } => record.what = What::Held,
        What::Held if dice.roll(3) > 0 => {
            record.what = What::Failed { kind: "Unknown".into(), unknown: true };
        }
        What::Held => record.what = What::Granted { fence: 1 + dice.roll(8) },
        What::Released if dice.roll(2) == 0 => record.what = What::Lost,
        What::Released | What::ReleaseAsked => record.at += dice.roll(2 * TTL),
        _ => record.at = record.at.saturating_sub(dice.roll(TTL)),
    }
}

/// What some are told that look, whether it is true or not.
fn looks(history: &History, dice: &mut Dice) -> Vec<Look> {
    let end = history.end();
    let look = |_| {
        let asked = dice.roll(end.max(1));
        let (key, answered) = ("k".to_owned(), asked + dice.roll(60));
        let fence = (dice.roll(2) == 0).then(|| 1 + dice.roll(6));
        Look { key, asked, answered, fence, forces: dice.roll(2) == 0 }
    };
    (0..2).map(look).collect()
}

#[test]
fn the_search_says_what_all_orders_say() {
    let (mut fitting, mut broken) = (0, 0);
    for seed in 1..=SEEDS {
        let mut dice = Dice::new(seed);
        let mut records = Garden::new(seed, 2 + seed % 3).grow(6 + (seed % 8) as usize).records;
        for _ in 0..dice.roll(6) {
            if !records.is_empty() {
                disturb(&mut records, &mut dice);
            }
        }
        let mut history = History::new(records);
        if seed % 3 == 0 {
            history.looks = looks(&history, &mut dice);
        }
        for (key, claims) in history.by_key() {
            let options = Options { is_observed: seed % 4 == 0, ..options() };
            let stay = Stay::new(&history, &options);
            let search = Search::new(&history, key, &claims, &options, &stay);
            // A moved record may end before it begins: no history can say that.
            let is_sound = search.ops.iter().all(|op| op.asked <= op.answered);
            if !is_sound || search.ops.len() > OPS_MAX {
                continue;
            }
            let all: Vec<usize> = (0..search.ops.len()).collect();
            let start = Lock { hold: Hold::Nobody, fence: 0, ghosts: Vec::new() };
            let expected = fits(&search, &all, start, &mut Tried::new());
            let outcome = search.run();
            let found = matches!(outcome, Outcome::Fits);
            assert_eq!(found, expected, "seed {seed}: {claims:#?}");
            *if expected { &mut fitting } else { &mut broken } += 1;
        }
    }
    let enough = SEEDS / 10;
    assert!(fitting > enough && broken > enough, "{fitting} fit and {broken} do not");
}

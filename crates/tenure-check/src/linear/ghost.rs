//! Those who may have held the key and were never told.

use std::collections::{HashMap, HashSet};

use super::{Hold, State};
use crate::history::{Answer, Claim};
use crate::stay::Stay;

/// A claim that may have been granted without a word, once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ghost {
    /// Its place among all claims of the key.
    pub(super) lease: usize,
    pub(super) asked: u64,
    /// Until when it may have held the key.
    pub(super) until: u64,
}

impl Ghost {
    /// The ghost that a claim may be.
    pub(super) fn of(lease: usize, claim: &Claim, stay: &Stay<'_>) -> Option<Self> {
        // Whoever waits tries more than once, and an answer before the last may have been lost.
        let loses = stay.loses(claim);
        let (asked, until) = match claim.answer {
            Answer::Held { at } if loses => (claim.asked, stay.afterthought(claim, at)),
            Answer::Granted { at, .. } if loses => (claim.asked, at),
            Answer::Failed { at, unknown: false } if stay.came_late(claim, at) => {
                (claim.asked, stay.afterthought(claim, at))
            }
            _ => (claim.asked, stay.doubt(claim)?),
        };
        Some(Self { lease, asked, until })
    }
}

/// Of states that differ only in the ghosts that they have used, the most thrifty: whatever the
/// others lead to, they lead to as well. One that is free can still become a ghost's. A ghost that
/// has vanished before `earliest` is of no use to any question to come, and forgotten.
pub(super) fn thrifty(states: HashSet<State>, ghosts: &[Ghost], earliest: u64) -> HashSet<State> {
    let mut alike = HashMap::<(Hold, u64, Vec<usize>), Vec<Vec<usize>>>::new();
    for State { hold, fence, ghosts: mut used, placed } in states {
        let is_there = |ghost: &usize| ghosts[*ghost].until >= earliest;
        let hold = match hold {
            Hold::Ghost(ghost) if !is_there(&ghost) => Hold::Nobody,
            hold => hold,
        };
        used.retain(is_there);
        let all = alike.entry((hold, fence, placed)).or_default();
        if !all.iter().any(|other| is_within(other, &used)) {
            all.retain(|other| !is_within(&used, other));
            all.push(used);
        }
    }
    let is_free_for_less = |fence: u64, placed: &[usize], ghost: usize, used: &[usize]| {
        let free = alike.get(&(Hold::Nobody, fence, placed.to_vec()));
        let is_less = |other: &Vec<usize>| is_within(other, used) && !other.contains(&ghost);
        used.contains(&ghost) && free.is_some_and(|all| all.iter().any(is_less))
    };
    let mut left = HashSet::new();
    for ((hold, fence, placed), all) in &alike {
        for used in all {
            let is_needless = match hold {
                Hold::Ghost(ghost) => is_free_for_less(*fence, placed, *ghost, used),
                Hold::Nobody | Hold::Lease(_) => false,
            };
            if !is_needless {
                let (hold, fence) = (*hold, *fence);
                let (ghosts, placed) = (used.clone(), placed.clone());
                left.insert(State { hold, fence, ghosts, placed });
            }
        }
    }
    left
}

/// Whether all of the one are in the other; both are in order.
fn is_within(one: &[usize], other: &[usize]) -> bool {
    one.iter().all(|ghost| other.binary_search(ghost).is_ok())
}

//! The owners that this store has named, so that the server can be asked about them.
//!
//! Whether a claim that was never answered has been granted after all is seen by its owner, which
//! the server tells nobody. So the owners that may be on a key are kept here, and named with every
//! look at it: from before a claim is sent until it is known to have come to nothing, was released,
//! or must have ended by itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Moment;
use crate::key::Key;
use crate::owner::Owner;

/// How many are kept for one key. The server takes so many, and no more can matter: of one process
/// only the first in line asks.
const KEPT_MAX: usize = 64;
const SWEEP_FROM: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_key: HashMap<Key, Vec<Kept>>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Kept {
    owner: Owner,
    /// Claims that were granted or may yet be.
    open: u32,
    until: Moment,
}

impl Owners {
    /// One more claim of this owner is under way. It matters until then, unless it is closed.
    pub(super) fn open(&self, key: &Key, owner: &Owner, now: Moment, until: Moment) {
        let mut state = self.lock();
        state.sweep(now);
        let kept = state.by_key.entry(key.clone()).or_default();
        kept.retain(|kept| kept.until > now);
        match kept.iter_mut().find(|kept| kept.owner == *owner) {
            Some(kept) => (kept.open, kept.until) = (kept.open + 1, kept.until.max(until)),
            None => kept.push(Kept { owner: owner.clone(), open: 1, until }),
        }
        if kept.len() > KEPT_MAX
            && let Some(first) = (0..kept.len()).min_by_key(|index| kept[*index].until)
        {
            kept.swap_remove(first);
        }
    }

    /// What this owner has on the key stands until then, at the most.
    pub(super) fn prolong(&self, key: &Key, owner: &Owner, now: Moment, until: Moment) {
        let mut state = self.lock();
        let kept = state.by_key.get_mut(key);
        match kept.and_then(|kept| kept.iter_mut().find(|kept| kept.owner == *owner)) {
            Some(kept) => kept.until = kept.until.max(until),
            None => {
                drop(state);
                self.open(key, owner, now, until);
            }
        }
    }

    /// One claim of this owner is over: it was refused, or what it got was given back.
    pub(super) fn close(&self, key: &Key, owner: &Owner) {
        let mut state = self.lock();
        let Some(kept) = state.by_key.get_mut(key) else { return };
        if let Some(index) = kept.iter().position(|kept| kept.owner == *owner) {
            kept[index].open -= 1;
            if kept[index].open == 0 {
                kept.swap_remove(index);
            }
        }
        if kept.is_empty() {
            state.by_key.remove(key);
        }
    }

    /// Those that may be on the key.
    pub(super) fn of(&self, key: &Key, now: Moment) -> Vec<Owner> {
        let state = self.lock();
        let kept = state.by_key.get(key).into_iter().flatten();
        kept.filter(|kept| kept.until > now).map(|kept| kept.owner.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Those that were never closed are cleared away in time with those that come.
    fn sweep(&mut self, now: Moment) {
        if self.by_key.len() < self.sweep_at.max(SWEEP_FROM) {
            return;
        }
        self.by_key.retain(|_, kept| {
            kept.retain(|kept| kept.until > now);
            !kept.is_empty()
        });
        self.sweep_at = self.by_key.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Moment = Moment::from_nanos(0);

    fn later(seconds: u64) -> Moment {
        NOW + Duration::from_secs(seconds)
    }

    fn owner(text: &str) -> Owner {
        Owner::parse(text).unwrap()
    }

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    #[test]
    fn an_owner_is_kept_until_all_its_claims_are_over() {
        let owners = Owners::default();
        let (k, a) = (key("k"), owner("a"));
        owners.open(&k, &a, NOW, later(10));
        owners.open(&k, &a, NOW, later(20));
        owners.close(&k, &a);
        assert!(owners.of(&k, later(15)).contains(&a), "the other may yet be granted");
        owners.close(&k, &a);
        assert!(owners.of(&k, NOW).is_empty() && owners.lock().by_key.is_empty());
        owners.close(&k, &a);
    }

    #[test]
    fn an_owner_is_kept_no_longer_than_it_can_matter() {
        let owners = Owners::default();
        let (k, a) = (key("k"), owner("a"));
        owners.open(&k, &a, NOW, later(10));
        assert!(owners.of(&k, later(10)).is_empty());
        owners.prolong(&k, &a, later(5), later(30));
        assert_eq!(owners.of(&k, later(20)), [a]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (one_key, many) = (Owners::default(), Owners::default());
        for n in 0..5000 {
            one_key.open(&key("k"), &owner(&format!("o{n}")), NOW, later(10 + n));
            many.open(&key(&format!("k{n}")), &owner("a"), later(n), later(n + 1));
        }
        let kept = one_key.of(&key("k"), NOW);
        assert!(kept.len() == KEPT_MAX && kept.contains(&owner("o4999")), "{}", kept.len());
        assert!(many.lock().by_key.len() <= SWEEP_FROM, "{}", many.lock().by_key.len());
    }
}

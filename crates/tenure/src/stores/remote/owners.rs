//! The owners that this store has named, so that the server can be asked about them.
//!
//! Whether a claim that was never answered has been granted after all is seen by its owner, which
//! the server tells nobody. So the owners that may be on a key are kept here, and named with every
//! look at it: from before a claim is sent until it is known to have come to nothing, was released,
//! or must have ended by itself.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Moment;
use crate::key::Key;
use crate::owner::Owner;

const SWEEP_FROM: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_key: HashMap<Key, HashMap<Owner, Kept>>,
    /// How many there are, of all keys.
    count: usize,
    sweep_at: usize,
}

#[derive(Debug)]
struct Kept {
    /// Claims that were granted or may yet be.
    open: u32,
    until: Moment,
}

impl Owners {
    /// One more claim of this owner is under way. It matters until then, unless it is closed.
    pub(super) fn open(&self, key: &Key, owner: &Owner, now: Moment, until: Moment) {
        let mut state = self.lock();
        state.sweep(now);
        let kept = state.by_key.entry(key.clone()).or_default().entry(owner.clone());
        let is_new = matches!(kept, Entry::Vacant(_));
        let kept = kept.or_insert(Kept { open: 0, until });
        if kept.until <= now {
            kept.open = 0;
        }
        (kept.open, kept.until) = (kept.open + 1, kept.until.max(until));
        state.count += usize::from(is_new);
    }

    /// What this owner has on the key stands until then, at the most.
    pub(super) fn prolong(&self, key: &Key, owner: &Owner, now: Moment, until: Moment) {
        let mut state = self.lock();
        match state.by_key.get_mut(key).and_then(|kept| kept.get_mut(owner)) {
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
        let Some(of_key) = state.by_key.get_mut(key) else { return };
        let Some(kept) = of_key.get_mut(owner) else { return };
        kept.open -= 1;
        if kept.open > 0 {
            return;
        }
        of_key.remove(owner);
        if of_key.is_empty() {
            state.by_key.remove(key);
        }
        state.count -= 1;
    }

    /// Those that may be on the key.
    pub(super) fn of(&self, key: &Key, now: Moment) -> Vec<Owner> {
        let state = self.lock();
        let kept = state.by_key.get(key).into_iter().flatten();
        kept.filter(|(_, kept)| kept.until > now).map(|(owner, _)| owner.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Those that were never closed are cleared away in time with those that come.
    fn sweep(&mut self, now: Moment) {
        if self.count < self.sweep_at.max(SWEEP_FROM) {
            return;
        }
        self.by_key.retain(|_, kept| {
            kept.retain(|_, kept| kept.until > now);
            !kept.is_empty()
        });
        self.count = self.by_key.values().map(HashMap::len).sum();
        self.sweep_at = self.count * 2;
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
    fn none_is_forgotten_that_may_be_on_the_key() {
        let owners = Owners::default();
        for n in 0..5000 {
            owners.open(&key("k"), &owner(&format!("o{n}")), later(n), later(10_000 - n));
        }
        assert_eq!(owners.of(&key("k"), later(4999)).len(), 5000);
    }

    #[test]
    fn what_no_longer_matters_is_cleared_away() {
        let (one_key, many) = (Owners::default(), Owners::default());
        for n in 0..5000 {
            one_key.open(&key("k"), &owner(&format!("o{n}")), later(n), later(n + 1));
            many.open(&key(&format!("k{n}")), &owner("a"), later(n), later(n + 1));
        }
        for owners in [one_key, many] {
            let state = owners.lock();
            let count: usize = state.by_key.values().map(HashMap::len).sum();
            assert!(count == state.count && count <= SWEEP_FROM, "{count} of {}", state.count);
        }
    }
}

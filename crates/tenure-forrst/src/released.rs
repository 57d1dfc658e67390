//! Which locks were given back here not long ago, and by whom.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::Owner;
use tenure::clock::{Clock, Moment};

/// How long it is known.
const KNOWN_FOR: Duration = Duration::from_secs(10 * 60);

/// Of how many locks.
const KNOWN_MAX: usize = 10_000;

/// Keys and owners are kept as a number that only this process can make of them: an owner is a
/// secret, even one of the past.
#[derive(Debug)]
pub(crate) struct ReleasedLocks {
    clock: Arc<dyn Clock>,
    state: RandomState,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When each was given back the last time.
    at: HashMap<u64, Moment>,
    /// The same in order, with what has since been forgotten or given back again.
    order: VecDeque<(u64, Moment)>,
}

impl ReleasedLocks {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: RandomState::new(), known: Mutex::default() }
    }

    pub(crate) fn remember(&self, key: &str, owner: &Owner) {
        let (now, number) = (self.clock.now(), self.number(key, owner));
        let mut known = self.known();
        known.forget_before(now);
        known.at.insert(number, now);
        known.order.push_back((number, now));
    }

    /// This owner has taken this lock again.
    pub(crate) fn forget(&self, key: &str, owner: &Owner) {
        let number = self.number(key, owner);
        self.known().at.remove(&number);
    }

    /// Whether this owner has given back this lock.
    pub(crate) fn has(&self, key: &str, owner: &Owner) -> bool {
        let (now, number) = (self.clock.now(), self.number(key, owner));
        let mut known = self.known();
        known.forget_before(now);
        known.at.contains_key(&number)
    }

    fn number(&self, key: &str, owner: &Owner) -> u64 {
        self.state.hash_one((key, owner))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Forgets what is too old, and the oldest where there would be too many.
    fn forget_before(&mut self, now: Moment) {
        while let Some((number, at)) = self.order.front().copied()
            && (now.since(at) > KNOWN_FOR || self.order.len() >= KNOWN_MAX)
        {
            self.order.pop_front();
            if self.at.get(&number) == Some(&at) {
                self.at.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure::clock::SystemClock;

    use super::*;

    #[test]
    fn only_what_was_given_back_last_is_known() {
        let locks = ReleasedLocks::new(Arc::new(SystemClock));
        let (one, two) = (Owner::parse("one").unwrap(), Owner::parse("two").unwrap());
        locks.remember("k", &one);
        assert!(locks.has("k", &one) && !locks.has("k", &two) && !locks.has("l", &one));
        locks.forget("k", &one);
        assert!(!locks.has("k", &one));
        locks.remember("k", &one);
        for many in 0..KNOWN_MAX {
            locks.remember(&format!("k{many}"), &two);
        }
        assert!(!locks.has("k", &one) && locks.has("k9999", &two));
        assert!(locks.known().order.len() <= KNOWN_MAX);
    }
}

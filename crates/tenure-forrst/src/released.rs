//! Which locks were given back here not long ago, and by whom.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tenure::Owner;
use tenure::clock::{Clock, Moment};

/// How long it is known.
const KNOWN_FOR: Duration = Duration::from_secs(10 * 60);

/// Of how many locks.
const KNOWN_MAX: usize = 10_000;

/// Keys and owners are kept as digests: an owner is a secret, even one of the past.
#[derive(Debug)]
pub(crate) struct ReleasedLocks {
    clock: Arc<dyn Clock>,
    known: Mutex<VecDeque<([u8; 32], Moment)>>,
}

impl ReleasedLocks {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, known: Mutex::default() }
    }

    pub(crate) fn remember(&self, key: &str, owner: &Owner) {
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back((digest(key, owner), now));
    }

    /// This owner has taken this lock again.
    pub(crate) fn forget(&self, key: &str, owner: &Owner) {
        let digest = digest(key, owner);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(other, _)| *other != digest);
    }

    /// Whether this owner has given back this lock.
    pub(crate) fn has(&self, key: &str, owner: &Owner) -> bool {
        let (now, digest) = (self.clock.now(), digest(key, owner));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        while known.front().is_some_and(|(_, at)| now.since(*at) > KNOWN_FOR) {
            known.pop_front();
        }
        known.iter().any(|(other, _)| *other == digest)
    }
}

fn digest(key: &str, owner: &Owner) -> [u8; 32] {
    let mut hash = Sha256::new();
    // No key contains a zero byte: control characters are refused.
    hash.update(key);
    hash.update([0]);
    hash.update(owner.expose());
    hash.finalize().into()
}

//! What a worker was told of who holds each key.

use std::collections::BTreeMap;

use tenure::clock::{Clock, Moment, SystemClock};
use tenure::{Fence, Key, Lease};

/// All that the store has said, by its own names of the keys.
#[derive(Debug, Default)]
pub(crate) struct Words(BTreeMap<Key, Word>);

#[derive(Debug, Default)]
struct Word {
    /// When it last said that somebody holds the key.
    heard: Option<Moment>,
    /// The leases that it gave to this process, and until when they may last.
    own: BTreeMap<Fence, Moment>,
}

impl Words {
    /// The store has said that somebody holds the key.
    pub(crate) fn held(&mut self, key: &Key) {
        self.of(key).heard = Some(SystemClock.now());
    }

    /// It has given or prolonged a lease.
    pub(crate) fn granted(&mut self, key: &Key, lease: &Lease) {
        let until = SystemClock.now() + lease.remaining;
        self.of(key).own.insert(lease.fence, until);
    }

    /// A lease was given back, and was held until now.
    pub(crate) fn returned(&mut self, key: &Key, fence: Option<Fence>) {
        self.held(key);
        if let Some(fence) = fence {
            self.of(key).own.remove(&fence);
        }
    }

    /// Whether anything was said since then by which somebody holds the key, or was before, of a
    /// lease that lasted.
    pub(crate) fn tell(&self, key: &Key, since: Moment) -> bool {
        self.0.get(key).is_some_and(|word| {
            let lasts = word.own.values().any(|until| *until >= since);
            lasts || word.heard.is_some_and(|heard| heard >= since)
        })
    }

    fn of(&mut self, key: &Key) -> &mut Word {
        self.0.entry(key.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use tenure::{Holder, Owner};

    use super::*;

    fn lease(fence: u64, remaining: Duration) -> Lease {
        Lease {
            key: Key::new("k").unwrap(),
            owner: Owner::parse("o").unwrap(),
            holder: Holder::new("h").unwrap(),
            fence: Fence::new(fence),
            ttl: remaining,
            remaining,
            granted_at: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn what_was_heard_before_counts_only_while_a_lease_of_ours_lasts() {
        let (mut words, key) = (Words::default(), Key::new("k").unwrap());
        let start = SystemClock.now();
        assert!(!words.tell(&key, start));
        words.held(&key);
        assert!(words.tell(&key, start));
        let later = SystemClock.now() + Duration::from_secs(1);
        assert!(!words.tell(&key, later));
        words.granted(&key, &lease(7, Duration::from_secs(9)));
        assert!(words.tell(&key, later));
        words.returned(&key, Some(Fence::new(7)));
        assert!(words.tell(&key, start) && !words.tell(&key, later));
    }
}

//! What this process last saw under each key, and since when it has seen it unchanged.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Entry, Version};
use crate::clock::Moment;
use crate::key::Key;

/// More keys than a process usually locks. Beyond it the older half is forgotten, which costs a
/// read or delays a takeover and can do no other harm.
const KEYS_MAX: usize = 100_000;

/// What was seen under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    /// `None`: there was no entry.
    pub(super) entry: Option<Entry>,
    /// Since when it has been the same.
    pub(super) since: Moment,
}

impl Sighting {
    pub(super) fn version(&self) -> Option<&Version> {
        self.entry.as_ref().map(|entry| &entry.version)
    }
}

/// The last sightings, by key.
#[derive(Debug, Default)]
pub(super) struct Sightings(Mutex<HashMap<Key, Sighting>>);

impl Sightings {
    pub(super) fn get(&self, key: &Key) -> Option<Sighting> {
        self.lock().get(key).cloned()
    }

    /// Notes what was seen at `now`; returns it with the moment since when it has been the same.
    pub(super) fn note(&self, key: &Key, entry: Option<Entry>, now: Moment) -> Sighting {
        let version = entry.as_ref().map(|entry| &entry.version);
        let mut seen = self.lock();
        if let Some(same) = seen.get(key)
            && same.version() == version
        {
            return same.clone();
        }
        if seen.len() >= KEYS_MAX {
            forget_older_half(&mut seen);
        }
        let sighting = Sighting { entry, since: now };
        seen.insert(key.clone(), sighting.clone());
        sighting
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Sighting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_older_half(seen: &mut HashMap<Key, Sighting>) {
    let mut times: Vec<_> = seen.values().map(|sighting| sighting.since).collect();
    let middle = times.len() / 2;
    let median = *times.select_nth_unstable(middle).1;
    seen.retain(|_, sighting| sighting.since > median);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: &str) -> Option<Entry> {
        Some(Entry { version: Version { tag: tag.into(), revision: None }, body: Vec::new() })
    }

    #[test]
    fn the_first_sighting_of_a_version_counts() {
        let seen = Sightings::default();
        let key = Key::new("k").unwrap();
        let at = Moment::from_nanos;
        for (tag, now, since) in [("a", 1, 1), ("a", 5, 1), ("b", 6, 6), ("a", 7, 7), ("a", 9, 7)] {
            assert_eq!(seen.note(&key, entry(tag), at(now)).since, at(since), "{tag} at {now}");
        }
        assert_eq!(seen.get(&key).unwrap().since, at(7));
        assert_eq!(seen.note(&key, None, at(10)).since, at(10));
        assert_eq!(seen.note(&key, entry("a"), at(11)).since, at(11), "it was gone in between");
    }

    #[test]
    fn only_so_many_keys_are_remembered() {
        let seen = Sightings::default();
        let key = |n: u64| Key::new(&n.to_string()).unwrap();
        let count = u64::try_from(KEYS_MAX).unwrap() + 1;
        for n in 0..count {
            seen.note(&key(n), entry("a"), Moment::from_nanos(n));
        }
        assert!(seen.lock().len() <= KEYS_MAX);
        assert!(seen.get(&key(0)).is_none() && seen.get(&key(count - 1)).is_some());
    }
}

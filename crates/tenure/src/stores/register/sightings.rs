//! What this process last saw under each key, and since when it has seen it unchanged.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Entry, Version};
use crate::clock::Moment;
use crate::key::Key;
use crate::stores::cell::Cell;

/// More keys than a process usually locks. Beyond it, what nobody waits for is forgotten, which
/// costs a read and can do no other harm.
const KEYS_MAX: usize = 100_000;

/// Whoever waits for the end of a lease looks again when that has come, if not before. So after
/// this many ttls without a look, nobody does.
const UNUSED_TTLS: u32 = 2;

/// What was seen under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    /// `None`: there was no entry.
    pub(super) entry: Option<Entry>,
    /// Since when it has been the same.
    pub(super) since: Moment,
    used: Moment,
    /// That of the lease; `None`: no one held the key.
    ttl: Option<Duration>,
}

impl Sighting {
    fn new(entry: Option<Entry>, now: Moment) -> Self {
        let cell = entry.as_ref().and_then(|entry| Cell::decode(&entry.body).ok());
        let ttl = cell.and_then(|cell| cell.ttl());
        Self { entry, since: now, used: now, ttl }
    }

    pub(super) fn version(&self) -> Option<&Version> {
        self.entry.as_ref().map(|entry| &entry.version)
    }

    /// Whether someone may be waiting for the lease to end: for this, it matters since when it has
    /// been the same.
    fn may_be_awaited(&self, now: Moment) -> bool {
        self.ttl.is_some_and(|ttl| now.since(self.used) <= ttl.saturating_mul(UNUSED_TTLS))
    }
}

/// The last sightings, by key.
#[derive(Debug, Default)]
pub(super) struct Sightings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    seen: HashMap<Key, Sighting>,
    sweep_at: usize,
}

impl Sightings {
    /// What was last seen, looked at again at `now`.
    pub(super) fn get(&self, key: &Key, now: Moment) -> Option<Sighting> {
        let mut state = self.lock();
        let sighting = state.seen.get_mut(key)?;
        sighting.used = now;
        Some(sighting.clone())
    }

    /// Notes what was seen at `now`; returns it with the moment since when it has been the same.
    pub(super) fn note(&self, key: &Key, entry: Option<Entry>, now: Moment) -> Sighting {
        let mut state = self.lock();
        state.known(key, entry.as_ref(), now).unwrap_or_else(|| {
            state.sweep(now);
            let sighting = Sighting::new(entry, now);
            state.seen.insert(key.clone(), sighting.clone());
            sighting
        })
    }

    /// As [`note`](Self::note), for one of many that nobody asked for in particular: nothing is
    /// forgotten to remember it.
    pub(super) fn glance(&self, key: &Key, entry: Option<Entry>, now: Moment) -> Sighting {
        let mut state = self.lock();
        state.known(key, entry.as_ref(), now).unwrap_or_else(|| {
            let sighting = Sighting::new(entry, now);
            if state.seen.len() < KEYS_MAX || state.seen.contains_key(key) {
                state.seen.insert(key.clone(), sighting.clone());
            }
            sighting
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The sighting of this key, if it is of the same version.
    fn known(&mut self, key: &Key, entry: Option<&Entry>, now: Moment) -> Option<Sighting> {
        let version = entry.map(|entry| &entry.version);
        let same = self.seen.get_mut(key).filter(|same| same.version() == version)?;
        same.used = now;
        Some(same.clone())
    }

    /// Makes room, when there are many.
    fn sweep(&mut self, now: Moment) {
        if self.seen.len() >= self.sweep_at.max(KEYS_MAX) {
            self.seen.retain(|_, sighting| sighting.may_be_awaited(now));
            self.sweep_at = self.seen.len() * 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn entry(tag: &str) -> Option<Entry> {
        Some(Entry { version: Version { tag: tag.into(), revision: None }, body: Vec::new() })
    }

    fn leased(tag: &str) -> Option<Entry> {
        let lease = r#"{"owner":"o","holder":"h","ttl_ms":30000,"granted_at_ms":1}"#;
        let body = format!(r#"{{"v":1,"nonce":"n","fence":1,"lease":{lease}}}"#).into_bytes();
        entry(tag).map(|entry| Entry { body, ..entry })
    }

    fn key(n: usize) -> Key {
        Key::new(&n.to_string()).unwrap()
    }

    #[test]
    fn the_first_sighting_of_a_version_counts() {
        let seen = Sightings::default();
        let key = Key::new("k").unwrap();
        let at = Moment::from_nanos;
        for (tag, now, since) in [("a", 1, 1), ("a", 5, 1), ("b", 6, 6), ("a", 7, 7), ("a", 9, 7)] {
            assert_eq!(seen.note(&key, entry(tag), at(now)).since, at(since), "{tag} at {now}");
        }
        assert_eq!(seen.get(&key, at(9)).unwrap().since, at(7));
        assert_eq!(seen.note(&key, None, at(10)).since, at(10));
        assert_eq!(seen.note(&key, entry("a"), at(11)).since, at(11), "it was gone in between");
    }

    #[test]
    fn only_so_many_keys_are_remembered() {
        let seen = Sightings::default();
        let now = Moment::from_nanos(0);
        for n in 0..=KEYS_MAX {
            seen.note(&key(n), entry("a"), now);
        }
        assert!(seen.lock().seen.len() <= KEYS_MAX);
        assert!(seen.get(&key(0), now).is_none() && seen.get(&key(KEYS_MAX), now).is_some());
    }

    #[test]
    fn a_listing_takes_up_only_the_room_that_is_left() {
        let seen = Sightings::default();
        let now = Moment::from_nanos(0);
        seen.note(&key(0), entry("a"), now);
        for n in 0..=KEYS_MAX {
            seen.glance(&key(n), leased("b"), now);
        }
        assert_eq!(seen.lock().seen.len(), KEYS_MAX);
        assert_eq!(
            seen.get(&key(0), now).unwrap().version(),
            leased("b").as_ref().map(|b| &b.version)
        );
    }

    #[test]
    fn a_lease_is_remembered_for_as_long_as_someone_waits_for_its_end() {
        let seen = Sightings::default();
        let (awaited, left) = (Key::new("awaited").unwrap(), Key::new("left").unwrap());
        let start = Moment::from_nanos(0);
        seen.note(&left, leased("a"), start);
        let mut keys = 0..;
        // Whoever waits looks once in a ttl, among so many that come and go meanwhile.
        for round in 0..4 {
            let now = start + TTL * round;
            assert_eq!(seen.note(&awaited, leased("a"), now).since, start, "round {round}");
            for n in keys.by_ref().take(KEYS_MAX) {
                seen.note(&key(n), entry("a"), now);
            }
        }
        assert!(seen.get(&left, start + TTL * 4).is_none(), "nobody has looked for it");
    }
}

//! etcd leases without a key, kept for the next grant.
//!
//! To grant a lease costs etcd a write to its log; to refresh one does not. So a lease whose key
//! was certainly deleted is used again. One of which that is not certain is left to end by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Moment;

const MAX: usize = 64;

/// Which part of its ttl a lease must still have to be used again.
const RESERVE: u32 = 4;

/// A lease in the words of etcd: what a key hangs on, and ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EtcdLease {
    pub(super) id: i64,
    /// The seconds that were asked for; etcd may have given more.
    pub(super) asked: i64,
    /// What each refreshing gives it.
    pub(super) granted: Duration,
    /// It stands until then at the least, on our clock. Zero where nothing is known.
    pub(super) until: Moment,
    /// Granted to this store, which alone may use it again.
    pub(super) is_ours: bool,
}

impl EtcdLease {
    /// A lease that was found on a key.
    pub(super) fn found(id: i64) -> Self {
        let (granted, until) = (Duration::ZERO, Moment::from_nanos(0));
        Self { id, asked: 0, granted, until, is_ours: false }
    }
}

#[derive(Debug, Default)]
pub(super) struct Spares(Mutex<Vec<EtcdLease>>);

impl Spares {
    /// The one that was refreshed last, so that those in excess may end. Not one that is about to:
    /// a key that is written under it may be gone before the lease is refreshed.
    pub(super) fn take(&self, asked: i64, now: Moment) -> Option<EtcdLease> {
        let mut spares = self.lock();
        spares.retain(|spare| spare.until > now + spare.granted / RESERVE);
        let at = spares.iter().rposition(|spare| spare.asked == asked)?;
        Some(spares.remove(at))
    }

    /// Keeps it, or gives one back that is too many.
    pub(super) fn give(&self, spare: EtcdLease) -> Option<EtcdLease> {
        let mut spares = self.lock();
        spares.push(spare);
        (spares.len() > MAX).then(|| spares.remove(0))
    }

    pub(super) fn drain(&self) -> Vec<EtcdLease> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<EtcdLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(id: i64, asked: i64, until: u64) -> EtcdLease {
        let until = Moment::from_nanos(until);
        EtcdLease { asked, until, is_ours: true, ..EtcdLease::found(id) }
    }

    #[test]
    fn a_spare_is_of_the_same_ttl_and_alive() {
        let spares = Spares::default();
        for spare in [lease(1, 30, 9), lease(2, 5, 9), lease(3, 30, 5)] {
            assert!(spares.give(spare).is_none());
        }
        let now = Moment::from_nanos(5);
        assert_eq!(spares.take(30, now).map(|spare| spare.id), Some(1));
        assert_eq!(spares.take(30, now), None);
        assert_eq!(spares.drain().len(), 1);
    }

    #[test]
    fn a_spare_that_is_about_to_end_is_left_to() {
        let spares = Spares::default();
        let granted = Duration::from_nanos(400);
        for (id, until) in [(1, 1_101), (2, 1_100), (3, 1_001)] {
            assert!(spares.give(EtcdLease { granted, ..lease(id, 30, until) }).is_none());
        }
        let now = Moment::from_nanos(1_000);
        assert_eq!(spares.take(30, now).map(|spare| spare.id), Some(1));
        assert_eq!(spares.take(30, now), None);
    }

    #[test]
    fn there_are_never_too_many() {
        let spares = Spares::default();
        let too_many = (0..100).filter_map(|id| spares.give(lease(id, 1, 9))).count();
        assert_eq!((too_many, spares.drain().len()), (100 - MAX, MAX));
    }
}

//! The one rule of a lock: pure, without I/O, clock or task.
//!
//! Each verb takes the record that stands on a key and the present moment, and says what to change
//! and what to answer. A driver applies the change in one atomic step: to a map (`memory:`), to a
//! row in a transaction (`file:`), to a compare-and-swapped record. Stores that decide on their own
//! side say the same rule in their own language, and the conformance suite holds them to it.

use std::time::{Duration, SystemTime};

use crate::claim::{Attempt, Claim, Grant, Reentry, Released, Renewal, Renewed};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::owner::Owner;

/// What stands on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who holds it.
    pub owner: Owner,
    /// Who holds it, for people.
    pub holder: Holder,
    /// The number of the grant.
    pub fence: Fence,
    /// What each grant or renewal is good for.
    pub ttl: Duration,
    /// The first moment at which it no longer stands, on the deciding clock.
    pub deadline: Moment,
    /// When it was granted, for people.
    pub granted_at: SystemTime,
}

impl Record {
    /// Whether it still stands.
    #[must_use]
    pub fn is_live(&self, now: Moment) -> bool {
        now < self.deadline
    }

    /// This record as its owner sees it.
    #[must_use]
    pub fn lease(&self, key: &Key, now: Moment) -> Lease {
        Lease {
            key: key.clone(),
            owner: self.owner.clone(),
            fence: self.fence,
            ttl: self.ttl,
            holder: self.holder.clone(),
            granted_at: self.granted_at,
            remaining: self.deadline.since(now),
        }
    }

    /// This record as anyone may see it.
    #[must_use]
    pub fn status(&self, key: &Key, now: Moment) -> Status {
        self.lease(key, now).status()
    }

    /// This record with its full ttl ahead of it: what a store does that has lost track of time.
    #[must_use]
    pub fn rearmed(&self, now: Moment) -> Self {
        Self { deadline: now + self.ttl, ..self.clone() }
    }

    fn prolonged(&self, ttl: Duration, now: Moment) -> Self {
        // Never shorter: a delayed renewal must not cut what a later one has promised, and a store
        // that re-arms after a crash must find the longest promise.
        let deadline = self.deadline.max(now + ttl);
        Self { ttl: self.ttl.max(ttl), deadline, ..self.clone() }
    }

    fn is_of(&self, grant: &Grant) -> bool {
        self.owner == grant.owner && grant.fence.is_none_or(|fence| fence == self.fence)
    }
}

/// The moment of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// On the deciding clock.
    pub at: Moment,
    /// The time of day, kept for people.
    pub wall: SystemTime,
}

/// What to do to the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave it as it is.
    Keep,
    /// Put this in its place.
    Put(Record),
    /// Take it away.
    Remove,
}

/// Decides a claim. `next` is the fence that a new grant gets: greater than all earlier ones.
#[must_use]
pub fn acquire(
    standing: Option<&Record>,
    claim: &Claim,
    next: Fence,
    now: Now,
) -> (Change, Attempt) {
    let record = match standing.filter(|record| record.is_live(now.at)) {
        None => Record {
            owner: claim.owner.clone(),
            holder: claim.holder.clone(),
            fence: next,
            ttl: claim.ttl,
            deadline: now.at + claim.ttl,
            granted_at: now.wall,
        },
        Some(mine) if mine.owner == claim.owner && claim.reentry == Reentry::Adopt => {
            mine.prolonged(claim.ttl, now.at)
        }
        Some(other) => return (Change::Keep, Attempt::Held(other.status(&claim.key, now.at))),
    };
    let lease = record.lease(&claim.key, now.at);
    (Change::Put(record), Attempt::Granted(lease))
}

/// Decides a renewal.
#[must_use]
pub fn renew(standing: Option<&Record>, renewal: &Renewal, now: Now) -> (Change, Renewed) {
    let key = &renewal.grant.key;
    match standing.filter(|record| record.is_live(now.at)) {
        Some(mine) if mine.is_of(&renewal.grant) => {
            let record = mine.prolonged(renewal.ttl, now.at);
            let lease = record.lease(key, now.at);
            (Change::Put(record), Renewed::Renewed(lease))
        }
        other => (Change::Keep, Renewed::Lost(other.map(|record| record.status(key, now.at)))),
    }
}

/// Decides a release.
#[must_use]
pub fn release(standing: Option<&Record>, grant: &Grant, now: Now) -> (Change, Released) {
    match standing.filter(|record| record.is_live(now.at)) {
        Some(mine) if mine.is_of(grant) => {
            (Change::Remove, Released::Released(mine.status(&grant.key, now.at)))
        }
        other => {
            let other = other.map(|record| record.status(&grant.key, now.at));
            (Change::Keep, Released::NotHeld(other))
        }
    }
}

/// Decides a force-release.
#[must_use]
pub fn force_release(standing: Option<&Record>, key: &Key, now: Now) -> (Change, Option<Status>) {
    match standing.filter(|record| record.is_live(now.at)) {
        Some(record) => (Change::Remove, Some(record.status(key, now.at))),
        None => (Change::Keep, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Now {
        let at = Moment::from_nanos(seconds * 1_000_000_000);
        Now { at, wall: SystemTime::UNIX_EPOCH }
    }

    fn claim(owner: &str) -> Claim {
        Claim {
            key: Key::new("k").unwrap(),
            owner: Owner::parse(owner).unwrap(),
            ttl: TTL,
            holder: Holder::new("test").unwrap(),
            reentry: Reentry::Adopt,
        }
    }

    fn grant(owner: &str, fence: Option<u64>) -> Grant {
        let Claim { key, owner, .. } = claim(owner);
        Grant { key, owner, fence: fence.map(Fence::new) }
    }

    fn granted(owner: &str, fence: u64, now: Now) -> Record {
        match acquire(None, &claim(owner), Fence::new(fence), now) {
            (Change::Put(record), Attempt::Granted(_)) => record,
            other => panic!("a free key was not granted: {other:?}"),
        }
    }

    #[test]
    fn a_live_record_excludes_and_an_expired_one_does_not() {
        let held = granted("a", 1, at(0));
        let (change, reply) = acquire(Some(&held), &claim("b"), Fence::new(2), at(9));
        assert_eq!(change, Change::Keep);
        assert!(matches!(reply, Attempt::Held(s) if s.fence == Fence::new(1)));
        let (change, reply) = acquire(Some(&held), &claim("b"), Fence::new(2), at(10));
        assert!(matches!(change, Change::Put(r) if r.fence == Fence::new(2)));
        assert!(matches!(reply, Attempt::Granted(l) if l.remaining == TTL));
    }

    #[test]
    fn the_same_owner_gets_the_same_grant_unless_it_asked_for_refusal() {
        let held = granted("a", 1, at(0));
        let (change, _) = acquire(Some(&held), &claim("a"), Fence::new(2), at(4));
        let Change::Put(record) = change else { panic!("not adopted") };
        assert_eq!((record.fence, record.deadline), (Fence::new(1), at(14).at));
        let strict = Claim { reentry: Reentry::Refuse, ..claim("a") };
        let (change, reply) = acquire(Some(&held), &strict, Fence::new(2), at(4));
        assert!(change == Change::Keep && matches!(reply, Attempt::Held(_)));
    }

    #[test]
    fn a_renewal_prolongs_never_shortens_and_never_revives() {
        let held = granted("a", 1, at(0));
        let mut renewal = Renewal { grant: grant("a", Some(1)), ttl: TTL };
        let (change, _) = renew(Some(&held), &renewal, at(3));
        assert!(matches!(change, Change::Put(r) if r.deadline == at(13).at));
        renewal.ttl = Duration::from_secs(1);
        let (change, _) = renew(Some(&held), &renewal, at(3));
        assert!(matches!(change, Change::Put(r) if r.deadline == at(10).at));
        assert_eq!(renew(Some(&held), &renewal, at(10)), (Change::Keep, Renewed::Lost(None)));
        assert_eq!(renew(None, &renewal, at(3)), (Change::Keep, Renewed::Lost(None)));
    }

    #[test]
    fn only_the_very_grant_is_released() {
        let held = granted("a", 7, at(0));
        for (wrong, now) in
            [(grant("b", None), at(1)), (grant("a", Some(6)), at(1)), (grant("a", Some(7)), at(10))]
        {
            let (change, reply) = release(Some(&held), &wrong, now);
            assert_eq!(change, Change::Keep, "{wrong:?}");
            assert!(matches!(reply, Released::NotHeld(_)));
        }
        for right in [grant("a", None), grant("a", Some(7))] {
            assert_eq!(release(Some(&held), &right, at(1)).0, Change::Remove);
        }
    }

    #[test]
    fn force_says_whom_it_evicted() {
        let held = granted("a", 7, at(0));
        let key = Key::new("k").unwrap();
        let (change, evicted) = force_release(Some(&held), &key, at(1));
        assert_eq!((change, evicted.map(|s| s.fence.get())), (Change::Remove, Some(7)));
        assert_eq!(force_release(Some(&held), &key, at(10)), (Change::Keep, None));
    }

    #[test]
    fn rearming_gives_the_full_ttl() {
        assert_eq!(granted("a", 1, at(0)).rearmed(at(100).at).deadline, at(110).at);
    }
}

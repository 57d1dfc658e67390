//! What must hold at every step, and the books that it is checked with.
//!
//! The books stand outside of the server: a crash of the server does not touch them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tenure::claim::{Attempt, Grant, Renewed};
use tenure::clock::{Clock, Moment};
use tenure::rule::Record;
use tenure::{Guard, Owner};

use super::clock::{Node, SimClock, nanos};
use super::counters::Count;
use super::message::{Envelope, KEYS, Reply, Request, attempt_number, key_number};
use super::server::Applied;
use super::trace::{Log, Step};

/// Whoever may believe to hold a key.
#[derive(Debug)]
pub(crate) struct Believer {
    pub(crate) key: usize,
    pub(crate) fence: u64,
    pub(crate) node: Arc<Node>,
    pub(crate) probe: Probe,
}

/// How to ask a believer.
#[derive(Debug)]
pub(crate) enum Probe {
    /// By its guard.
    Guard(Weak<Guard>),
    /// By the clock: work under a guard that it only borrows, and that goes on at least until this
    /// moment, as it last saw.
    Work { clock: SimClock, until: Arc<AtomicU64> },
}

impl Believer {
    fn believes(&self) -> bool {
        !self.node.is_dead()
            && match &self.probe {
                Probe::Guard(guard) => guard.upgrade().is_some_and(|guard| guard.is_held()),
                Probe::Work { clock, until } => {
                    clock.now().as_nanos() < until.load(Ordering::Relaxed)
                }
            }
    }
}

/// A grant that the server made.
#[derive(Debug)]
struct Granted {
    key: usize,
    owner: Owner,
    /// When the request was sent that it was made, or last given again, for.
    sent: u64,
    /// By a request on its first and quick way: what the engine can be expected to know of.
    timely: bool,
    /// A client has heard of it.
    answered: bool,
}

/// How far an acquire is, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Asked for, or held.
    Open,
    /// Failed, cancelled or dropped: nothing may stay locked.
    Over,
    /// Over, and everything was said to be given back.
    Flushed,
    /// Left standing on purpose, or with a process that died.
    Left,
}

#[derive(Clone, Copy, Debug)]
struct Acquire {
    phase: Phase,
    ttl: u64,
}

#[derive(Debug, Default)]
struct KeyBook {
    fence_max: u64,
    sink_max: u64,
    /// The latest promise of the server: whose, and until when on its clock.
    promise: Option<(u64, Moment)>,
}

#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) log: Log,
    /// True time.
    pub(crate) now: u64,
    keys: [KeyBook; KEYS],
    grants: BTreeMap<u64, Granted>,
    acquires: BTreeMap<u64, Acquire>,
    believers: BTreeMap<u64, Believer>,
    forced: BTreeSet<u64>,
    removed: BTreeSet<u64>,
    /// What clients were given to release by themselves, and do not.
    handed_over: BTreeSet<u64>,
    next_number: u64,
}

impl Checker {
    pub(crate) fn new(verbose: bool) -> Self {
        Self {
            log: Log::new(verbose),
            now: 0,
            keys: [(); KEYS].map(|()| KeyBook::default()),
            grants: BTreeMap::new(),
            acquires: BTreeMap::new(),
            believers: BTreeMap::new(),
            forced: BTreeSet::new(),
            removed: BTreeSet::new(),
            handed_over: BTreeSet::new(),
            next_number: 0,
        }
    }

    pub(crate) fn violation(&mut self, text: &str) {
        self.log.violation(self.now, text);
    }

    fn require(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.violation(&text());
        }
    }

    pub(crate) fn step(&mut self, step: Step) {
        self.log.step(self.now, step);
    }

    pub(crate) fn count(&mut self, count: Count) {
        self.log.counters.add(count);
    }

    /// A number not used before.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn applied(&mut self, envelope: &Envelope, applied: &Applied) {
        let Some(key) = envelope.request.key().map(key_number) else { return };
        let Applied { before, after, reply, now, .. } = applied;
        match &envelope.request {
            Request::Acquire(_) => self.acquired(key, envelope, applied),
            Request::Renew(renewal) if before != after => {
                let same = same_grant(before.as_ref(), after.as_ref());
                self.require(same && is_of(before.as_ref(), &renewal.grant), || {
                    format!("a renewal of k{key} created, revived or changed a lease")
                });
            }
            Request::Release(grant) => self.released(key, grant, before.as_ref(), after.as_ref()),
            Request::Force(_) => {
                if let (Some(record), None) = (before, after) {
                    self.evicted(key, record.fence.get());
                }
            }
            _ => self.require(before == after, || format!("a read changed k{key}")),
        }
        if let Reply::Attempt(Attempt::Granted(lease)) | Reply::Renewed(Renewed::Renewed(lease)) =
            reply
        {
            self.keys[key].promise = Some((lease.fence.get(), *now + lease.remaining));
        }
        self.at_most_one(key);
    }

    fn acquired(&mut self, key: usize, envelope: &Envelope, applied: &Applied) {
        let Applied { before, after, now, .. } = applied;
        let (Request::Acquire(claim), Some(record)) = (&envelope.request, after) else { return };
        if before == after {
            return;
        }
        let fence = record.fence.get();
        let ttl = nanos(claim.ttl);
        let timely = !envelope.twice && self.now < envelope.sent + ttl / 10 * 9;
        if same_grant(before.as_ref(), after.as_ref()) {
            self.count(Count::GrantAdopted);
            if let Some(grant) = self.grants.get_mut(&fence) {
                grant.sent = grant.sent.max(envelope.sent);
                grant.timely &= timely;
            }
        } else {
            self.granted(key, fence, *now);
            if before.is_some() {
                self.count(Count::LeaseTakenOver);
            }
            let (owner, sent) = (claim.owner.clone(), envelope.sent);
            self.grants.insert(fence, Granted { key, owner, sent, timely, answered: false });
            let attempt = attempt_number(&record.holder);
            self.unwanted(key, attempt, timely);
            if let Some(attempt) = attempt.filter(|_| !timely) {
                // Its client cannot know of a try that is granted twice or after all hope, and
                // takes it for another: it is not blamed any more.
                self.acquires.remove(&attempt);
            }
        }
    }

    fn granted(&mut self, key: usize, fence: u64, now: Moment) {
        let newest = self.keys[key].fence_max;
        self.require(fence > newest, || {
            format!("k{key} was granted with fence {fence} after fence {newest}")
        });
        self.keys[key].fence_max = newest.max(fence);
        let believers = self.believing(key, Some(fence));
        self.require(believers.is_empty(), || {
            format!("k{key} was granted with fence {fence} while {believers:?} believed")
        });
        if let Some((other, until)) = self.keys[key].promise {
            let ended = now >= until || self.is_given_up(other);
            self.require(ended, || {
                let early = until.since(now);
                format!("the lease of k{key} with fence {other} ended {early:?} before its ttl")
            });
        }
    }

    /// A grant to an acquire that is over: its caller was told that nothing stays locked.
    fn unwanted(&mut self, key: usize, attempt: Option<u64>, timely: bool) {
        let Some(attempt) = attempt else { return };
        let Some(acquire) = self.acquires.get(&attempt) else { return };
        if acquire.phase == Phase::Open {
            return;
        }
        let is_flushed = acquire.phase == Phase::Flushed;
        self.count(Count::GrantUnwanted);
        self.require(!(timely && is_flushed), || {
            format!("k{key} was granted to acquire {attempt} after flush had returned")
        });
    }

    fn released(
        &mut self,
        key: usize,
        grant: &Grant,
        before: Option<&Record>,
        after: Option<&Record>,
    ) {
        let (Some(record), None) = (before, after) else { return };
        self.require(is_of(before, grant), || {
            format!("a release of k{key} took fence {} from another", record.fence)
        });
        let fence = record.fence.get();
        self.require(!self.handed_over.contains(&fence), || {
            format!("fence {fence} of k{key} was handed over, and then released")
        });
        self.removed.insert(fence);
        let over = attempt_number(&record.holder).and_then(|number| self.acquires.get(&number));
        if over.is_some_and(|acquire| acquire.phase == Phase::Over) {
            self.count(Count::CleanupReleased);
        }
    }

    /// A release whose comparison was some time ago deleted this.
    pub(crate) fn deleted(&mut self, grant: &Grant, record: Option<&Record>) {
        self.released(key_number(&grant.key), grant, record, None);
    }

    /// A restart prolonged a lease beyond what its client can know: if its acquire is over, it is
    /// not blamed for what still stands.
    pub(crate) fn rearmed(&mut self, record: &Record) {
        self.count(Count::LeaseRearmed);
        if let Some(attempt) = attempt_number(&record.holder) {
            self.acquires.remove(&attempt);
        }
    }

    fn evicted(&mut self, key: usize, fence: u64) {
        self.count(Count::Forced);
        if self.believing(key, None).contains(&fence) {
            self.count(Count::ForcedUnderGuard);
        }
        self.forced.insert(fence);
    }

    pub(crate) fn is_forced(&self, fence: u64) -> bool {
        self.forced.contains(&fence)
    }

    fn is_given_up(&self, fence: u64) -> bool {
        self.removed.contains(&fence) || self.forced.contains(&fence)
    }

    /// The fences of those who believe to hold the key. Force-release takes a lock from a guard
    /// that cannot know yet, so those are left out.
    fn believing(&self, key: usize, except: Option<u64>) -> Vec<u64> {
        let of_key = self.believers.values().filter(|believer| believer.key == key);
        of_key
            .filter(|believer| Some(believer.fence) != except)
            .filter(|believer| !self.forced.contains(&believer.fence))
            .filter(|believer| believer.believes())
            .map(|believer| believer.fence)
            .collect()
    }

    pub(crate) fn at_most_one(&mut self, key: usize) {
        let believing = self.believing(key, None);
        self.require(believing.len() <= 1, || format!("{believing:?} all believe to hold k{key}"));
    }

    pub(crate) fn believer(&mut self, believer: Believer) -> u64 {
        let number = self.number();
        self.believers.insert(number, believer);
        number
    }

    pub(crate) fn no_believer(&mut self, number: u64) {
        self.believers.remove(&number);
    }

    /// A client got a guard: the server must have said so.
    pub(crate) fn got(&mut self, key: usize, fence: u64, owner: &Owner) {
        self.count(Count::AcquireGranted);
        let known = self.grants.get(&fence);
        let is_granted = known.is_some_and(|grant| grant.key == key && grant.owner == *owner);
        if known.is_some_and(|grant| !grant.answered) {
            self.count(Count::AcquireFoundMine);
        }
        self.require(is_granted, || {
            format!("a guard of k{key} has fence {fence}, which the server did not grant to it")
        });
    }

    /// A client hears of a grant.
    pub(crate) fn answered(&mut self, fence: u64) {
        if let Some(grant) = self.grants.get_mut(&fence) {
            grant.answered = true;
        }
    }

    /// A client uses the resource, which accepts no fence smaller than the greatest it has seen.
    pub(crate) fn used(&mut self, key: usize, fence: u64, held: bool) {
        let is_stale = fence < self.keys[key].sink_max;
        if is_stale {
            self.count(Count::UseFenced);
            let is_excused = self.forced.contains(&fence);
            let newest = self.keys[key].sink_max;
            self.require(!held || is_excused, || {
                format!("k{key} was used with fence {fence} under is_held(), after fence {newest}")
            });
        } else {
            self.count(Count::UseAccepted);
            self.keys[key].sink_max = fence;
        }
        self.at_most_one(key);
    }

    /// A release returned `Ok`.
    pub(crate) fn gave_back(&mut self, key: usize, fence: u64, standing: Option<u64>) {
        self.count(Count::ReleaseOk);
        let is_removed = self.removed.contains(&fence) && standing != Some(fence);
        self.require(is_removed, || {
            format!("release of k{key} with fence {fence} returned Ok, but the lease stands")
        });
    }

    /// A client left this lease to its caller.
    pub(crate) fn handed_over(&mut self, fence: u64) {
        self.count(Count::HandedOver);
        self.handed_over.insert(fence);
    }

    pub(crate) fn began(&mut self, attempt: u64, ttl: u64) {
        self.acquires.insert(attempt, Acquire { phase: Phase::Open, ttl });
    }

    pub(crate) fn ended(&mut self, attempt: u64, phase: Phase) {
        if let Some(acquire) = self.acquires.get_mut(&attempt)
            && acquire.phase != Phase::Left
        {
            acquire.phase = phase;
        }
    }

    /// `flush` returned after this acquire was over. `standing` is a live lease of it.
    pub(crate) fn flushed(&mut self, attempt: u64, standing: Option<u64>) {
        let Some(acquire) = self.acquires.get(&attempt).copied() else { return };
        if acquire.phase != Phase::Over {
            return;
        }
        self.count(Count::Flushed);
        let grant = standing.and_then(|fence| self.grants.get(&fence));
        // One that its client must take for ended by itself may stand a little longer.
        let forgotten = grant
            .is_some_and(|grant| grant.timely && self.now < grant.sent + acquire.ttl / 100 * 98);
        self.require(!forgotten, || {
            format!("flush returned, but acquire {attempt} still holds fence {standing:?}")
        });
        self.ended(attempt, Phase::Flushed);
    }
}

fn same_grant(before: Option<&Record>, after: Option<&Record>) -> bool {
    before.zip(after).is_some_and(|(b, a)| b.fence == a.fence && b.owner == a.owner)
}

fn is_of(record: Option<&Record>, grant: &Grant) -> bool {
    record.is_some_and(|record| {
        record.owner == grant.owner && grant.fence.is_none_or(|fence| fence == record.fence)
    })
}

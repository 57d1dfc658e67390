//! The store's side: the one rule applied to a map, durable as the `file:` store is.
//!
//! Grants and releases are synced before they are answered, renewals are not. A crash goes back to
//! the last sync, and a restart re-arms every lease.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tenure::claim::{Attempt, Claim, Grant, ListQuery, Page, Released, Renewal, Renewed};
use tenure::clock::{Clock, Moment};
use tenure::rule::{self, Change, Now, Record};
use tenure::watch::WatchHub;
use tenure::{Fence, Holder, Key};

use super::clock::{Node, SimClock};
use super::message::{Reply, Request, key_number};
use super::mutant::Mutant;

/// How many states back a stale fail-over goes.
const STALE: usize = 3;

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    records: BTreeMap<Key, Record>,
    fence: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) clock: SimClock,
    pub(crate) node: Arc<Node>,
    /// The watches of each client process, by its seat.
    hubs: BTreeMap<usize, WatchHub>,
    pub(crate) is_up: bool,
    mutant: Option<Mutant>,
    state: State,
    synced: State,
    older: VecDeque<State>,
    fingerprint: Option<String>,
    applied: u64,
}

/// One decision of the server: what stood on the key, what stands now, what was answered.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) before: Option<Record>,
    pub(crate) after: Option<Record>,
    pub(crate) reply: Reply,
    pub(crate) now: Moment,
    /// The key was compared, and is to be deleted later ([`Mutant::ReleaseInTwoSteps`]).
    pub(crate) delete_later: bool,
}

impl Server {
    pub(crate) fn new(clock: SimClock, node: Arc<Node>, mutant: Option<Mutant>) -> Self {
        Self {
            clock,
            node,
            hubs: BTreeMap::new(),
            is_up: true,
            mutant,
            state: State::default(),
            synced: State::default(),
            older: VecDeque::new(),
            fingerprint: None,
            applied: 0,
        }
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The record on the key, live or not.
    pub(crate) fn standing(&self, key: &Key) -> Option<&Record> {
        self.state.records.get(key)
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Record> {
        let now = self.clock.now();
        self.state.records.values().filter(move |record| record.is_live(now))
    }

    /// The live record on the key with this number.
    pub(crate) fn live_on(&self, number: usize) -> Option<&Record> {
        let now = self.clock.now();
        let mut records = self.state.records.iter();
        let found = records.find(|(key, _)| key_number(key) == number);
        found.map(|(_, record)| record).filter(|record| record.is_live(now))
    }

    pub(crate) fn apply(&mut self, seat: usize, request: &Request) -> Applied {
        self.applied += 1;
        let now = Now { at: self.clock.now(), wall: self.clock.wall() };
        let key = request.key();
        let before = key.and_then(|key| self.standing(key)).cloned();
        let (mut change, reply) = self.decide(seat, request, before.as_ref(), now);
        let delete_later = self.has(Mutant::ReleaseInTwoSteps)
            && matches!((request, &change), (Request::Release(_), Change::Remove));
        if delete_later {
            change = Change::Keep;
        }
        if let Some(key) = key {
            let is_renewal = matches!(request, Request::Renew(_));
            self.change(key, before.as_ref(), change, is_renewal);
        }
        let after = key.and_then(|key| self.standing(key)).cloned();
        Applied { before, after, reply, now: self.clock.steady(), delete_later }
    }

    /// A new process on that seat: the watches of the one before are not its own.
    pub(crate) fn connect(&mut self, seat: usize) {
        self.hubs.insert(seat, WatchHub::default());
    }

    /// Wakes the watches of that seat's process.
    pub(crate) fn ring(&self, seat: usize, key: &Key) {
        if let Some(hub) = self.hubs.get(&seat) {
            hub.ring(key);
        }
    }

    /// Takes away whatever stands on the key.
    pub(crate) fn delete(&mut self, key: &Key) -> Option<Record> {
        let before = self.standing(key).cloned();
        self.change(key, before.as_ref(), Change::Remove, false);
        before
    }

    fn change(&mut self, key: &Key, before: Option<&Record>, change: Change, is_renewal: bool) {
        match change {
            Change::Keep => return,
            Change::Put(record) => {
                // A promise longer than the last synced one must not be lost with it.
                let longer = before.is_none_or(|before| before.ttl < record.ttl);
                self.state.fence = self.state.fence.max(record.fence.get());
                self.state.records.insert(key.clone(), record);
                if is_renewal && !longer {
                    return;
                }
            }
            Change::Remove => {
                self.state.records.remove(key);
            }
        }
        if self.has(Mutant::GrantBeforeSync) && !self.applied.is_multiple_of(8) {
            return;
        }
        let before_sync = std::mem::replace(&mut self.synced, self.state.clone());
        if self.has(Mutant::StaleFailover) {
            self.older.push_back(before_sync);
            while self.older.len() > STALE {
                self.older.pop_front();
            }
        }
    }

    fn decide(
        &mut self,
        seat: usize,
        request: &Request,
        standing: Option<&Record>,
        now: Now,
    ) -> (Change, Reply) {
        match request {
            Request::Acquire(claim) => self.acquire(standing, claim, now),
            Request::Renew(renewal) => self.renew(standing, renewal, now),
            Request::Release(grant) => self.release(standing, grant, now),
            Request::Force(key) => {
                let (change, evicted) = rule::force_release(standing, key, now);
                (change, Reply::Evicted(evicted))
            }
            Request::Inspect(key) => {
                let live = standing.filter(|record| record.is_live(now.at));
                (Change::Keep, Reply::Lease(live.map(|record| record.lease(key, now.at))))
            }
            Request::List(query) => (Change::Keep, Reply::Page(self.page(query, now.at))),
            Request::Watch(key) => {
                let hub = self.hubs.entry(seat).or_default();
                (Change::Keep, Reply::Watch(hub.watch(key)))
            }
            Request::Agree(pledge) => {
                let standing = self.fingerprint.get_or_insert_with(|| pledge.fingerprint.clone());
                (Change::Keep, Reply::Fingerprint(standing.clone()))
            }
        }
    }

    fn acquire(&self, standing: Option<&Record>, claim: &Claim, now: Now) -> (Change, Reply) {
        let ignored = self.has(Mutant::IgnoredCondition) && self.applied.is_multiple_of(8);
        let ended_early = |record: &&Record| {
            self.has(Mutant::EarlyExpiry)
                && record.owner != claim.owner
                && !record.is_live(now.at + record.ttl / 20)
        };
        let standing = standing.filter(|record| !ignored && !ended_early(record));
        let next = Fence::new(self.state.fence + 1);
        let (change, reply) = rule::acquire(standing, claim, next, now);
        (change, Reply::Attempt(reply))
    }

    fn renew(&self, standing: Option<&Record>, renewal: &Renewal, now: Now) -> (Change, Reply) {
        let (change, reply) = rule::renew(standing, renewal, now);
        if self.has(Mutant::RevivingRenewal) && matches!(reply, Renewed::Lost(None)) {
            let Renewal { grant, ttl } = renewal.clone();
            let (Some(fence), Ok(holder)) = (grant.fence, Holder::new("revived")) else {
                return (change, Reply::Renewed(reply));
            };
            let deadline = now.at + ttl;
            let record =
                Record { owner: grant.owner, holder, fence, ttl, deadline, granted_at: now.wall };
            let lease = record.lease(&grant.key, now.at);
            return (Change::Put(record), Reply::Renewed(Renewed::Renewed(lease)));
        }
        (change, Reply::Renewed(reply))
    }

    fn release(&self, standing: Option<&Record>, grant: &Grant, now: Now) -> (Change, Reply) {
        if self.has(Mutant::CarelessRelease)
            && let Some(record) = standing
        {
            let status = record.status(&grant.key, now.at);
            return (Change::Remove, Reply::Released(Released::Released(status)));
        }
        let (change, reply) = rule::release(standing, grant, now);
        (change, Reply::Released(reply))
    }

    fn page(&self, query: &ListQuery, now: Moment) -> Page {
        let from = match &query.after {
            Some(after) => Bound::Excluded(after.as_str()),
            None => Bound::Included(query.prefix.as_str()),
        };
        let mut live = self
            .state
            .records
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(&query.prefix))
            .filter(|(_, record)| record.is_live(now));
        let items = live.by_ref().take(query.limit).map(|(k, r)| r.status(k, now)).collect();
        Page::new(items, live.next().is_some())
    }

    /// The machine goes down; whether anything was lost with it.
    pub(crate) fn crash(&mut self) -> bool {
        self.is_up = false;
        let lost = self.state != self.synced;
        self.state = self.synced.clone();
        if let Some(old) = self.older.pop_front() {
            self.state = old;
            self.older.clear();
        }
        if self.has(Mutant::FenceRestart) {
            self.state.fence = 0;
        }
        self.synced = self.state.clone();
        lost
    }

    /// The machine is back. It cannot know how long it was away, so every lease gets its full ttl;
    /// returns those that were re-armed.
    pub(crate) fn restart(&mut self) -> Vec<Record> {
        let forgets = self.has(Mutant::NoRearm) || self.has(Mutant::GrantBeforeSync);
        if std::mem::replace(&mut self.is_up, true) || forgets {
            return Vec::new();
        }
        let now = self.clock.now();
        for record in self.state.records.values_mut() {
            *record = record.rearmed(now);
        }
        self.synced = self.state.clone();
        self.state.records.values().cloned().collect()
    }
}

/// Whether an answer says that the key has come free.
pub(crate) fn frees(reply: &Reply) -> bool {
    matches!(reply, Reply::Released(Released::Released(_)) | Reply::Evicted(Some(_)))
}

/// The fence that an answer is about; 0 when it is about none.
pub(crate) fn fence_of(reply: &Reply) -> u64 {
    let fence = match reply {
        Reply::Attempt(Attempt::Granted(lease)) | Reply::Renewed(Renewed::Renewed(lease)) => {
            Some(lease.fence)
        }
        Reply::Attempt(Attempt::Held(status)) | Reply::Released(Released::Released(status)) => {
            Some(status.fence)
        }
        Reply::Evicted(evicted) => evicted.as_ref().map(|status| status.fence),
        Reply::Lease(lease) => lease.as_ref().map(|lease| lease.fence),
        Reply::Renewed(Renewed::Lost(_))
        | Reply::Released(Released::NotHeld(_))
        | Reply::Page(_)
        | Reply::Watch(_)
        | Reply::Fingerprint(_) => None,
    };
    fence.map_or(0, Fence::get)
}

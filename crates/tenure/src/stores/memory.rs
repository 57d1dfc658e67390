//! `memory:`: locks within this process, the rule applied to a map.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::clock::{Clock, Moment};
use crate::error::Result;
use crate::fence::Fence;
use crate::finding::Finding;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::rule::{self, Change, Now, Record};
use crate::store::{Capabilities, Store, StoreInfo, Timing};
use crate::watch::{Watch, WatchHub};

/// How many expired records one change clears away, so that clearing keeps up with granting.
const SWEEP: usize = 4;

/// Locks that live and die with this value.
#[derive(Debug)]
pub struct MemoryStore {
    info: StoreInfo,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    watches: WatchHub,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<Key, Box<Record>>,
    by_deadline: BTreeSet<(Moment, Key)>,
    fence: u64,
    pledges: HashMap<String, String>,
}

impl MemoryStore {
    /// An empty store that expires leases by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let why = "locks and fences live in this process and end with it";
        let findings = vec![Finding::lowering("memory", why)];
        let info = StoreInfo::new("memory", Timing::Store, Capabilities::default(), findings);
        Self { info, clock, state: Mutex::default(), watches: WatchHub::default() }
    }

    fn now(&self) -> Now {
        Now { at: self.clock.now(), wall: self.clock.wall() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, key: &Key, change: Change) {
        match change {
            Change::Keep => {}
            Change::Put(record) => {
                self.forget_deadline(key);
                self.fence = self.fence.max(record.fence.get());
                self.by_deadline.insert((record.deadline, key.clone()));
                self.records.insert(key.clone(), Box::new(record));
            }
            Change::Remove => {
                self.forget_deadline(key);
                self.records.remove(key);
            }
        }
    }

    fn forget_deadline(&mut self, key: &Key) {
        if let Some(record) = self.records.get(key) {
            self.by_deadline.remove(&(record.deadline, key.clone()));
        }
    }

    fn sweep(&mut self, now: Moment) {
        for _ in 0..SWEEP {
            match self.by_deadline.first() {
                Some((deadline, key)) if *deadline <= now => {
                    let key = key.clone();
                    self.apply(&key, Change::Remove);
                }
                _ => return,
            }
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let now = self.now();
        let mut state = self.state();
        state.sweep(now.at);
        let next = Fence::new(state.fence + 1);
        let standing = state.records.get(&claim.key).map(|record| &**record);
        let (change, reply) = rule::acquire(standing, claim, next, now);
        state.apply(&claim.key, change);
        Ok(reply)
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let key = &renewal.grant.key;
        let now = self.now();
        let mut state = self.state();
        let standing = state.records.get(key).map(|record| &**record);
        let (change, reply) = rule::renew(standing, renewal, now);
        state.apply(key, change);
        Ok(reply)
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let now = self.now();
        let reply = {
            let mut state = self.state();
            let standing = state.records.get(&grant.key).map(|record| &**record);
            let (change, reply) = rule::release(standing, grant, now);
            state.apply(&grant.key, change);
            reply
        };
        if matches!(reply, Released::Released(_)) {
            self.watches.ring(&grant.key);
        }
        Ok(reply)
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let key = &eviction.key;
        let now = self.now();
        let evicted = {
            let mut state = self.state();
            let standing = state.records.get(key).map(|record| &**record);
            let (change, evicted) = rule::force_release(standing, key, now);
            state.apply(key, change);
            evicted
        };
        if evicted.is_some() {
            self.watches.ring(key);
        }
        Ok(evicted)
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        let now = self.clock.now();
        let state = self.state();
        let live = state.records.get(key).filter(|record| record.is_live(now));
        Ok(live.map(|record| record.lease(key, now)))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        let now = self.clock.now();
        let state = self.state();
        let from = match &query.after {
            Some(after) => Bound::Excluded(after.as_str()),
            None => Bound::Included(query.prefix.as_str()),
        };
        let mut live = state
            .records
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(&query.prefix))
            .filter(|(_, record)| record.is_live(now));
        let items = live.by_ref().take(query.limit).map(|(k, r)| r.status(k, now)).collect();
        Ok(Page::new(items, live.next().is_some()))
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        Ok(self.watches.watch(key))
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        let mut state = self.state();
        let standing = state.pledges.entry(pledge.namespace.to_string());
        Ok(standing.or_insert_with(|| pledge.fingerprint.clone()).clone())
    }
}

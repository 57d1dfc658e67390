//! The rule of a lock on etcd: look, decide, change; once more when someone was faster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::change::{Step, revoke, term, whole};
use super::client::Client;
use super::known::{Known, Standing};
use super::options::EtcdOptions;
use super::probe;
use super::spares::{EtcdLease, Spares};
use super::watcher::Watcher;
use super::wire::{KeyValue, LeaseTimeToLiveRequest, Op, PutRequest, RangeRequest, Target};
use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::rule::{self, Change, Now, Record};
use crate::store::{Store, StoreInfo};
use crate::stores::cell::Cell;
use crate::watch::Watch;

/// How often one call may find that someone was faster, or that the leader changed.
pub(super) const TRIES: u32 = 16;

/// How many leases are asked at once how long they have left.
const AT_ONCE: usize = 16;

/// A key that is there is held, however little its lease has left.
const AT_LEAST: Duration = Duration::from_millis(1);

/// Locks on etcd; see the [module](super).
#[derive(Debug)]
pub struct EtcdStore {
    info: StoreInfo,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) client: Arc<Client>,
    pub(super) prefix: String,
    pub(super) spares: Spares,
    pub(super) known: Known,
    watcher: Watcher,
}

impl EtcdStore {
    pub(super) async fn open(options: EtcdOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let client = Arc::new(Client::new(&options, Arc::clone(&clock))?);
        let info = probe::probe(&client, &*clock, &options.prefix).await?;
        let watcher =
            Watcher::start(Arc::clone(&client), Arc::clone(&clock), options.prefix.clone());
        Ok(Self {
            info,
            clock,
            client,
            prefix: options.prefix,
            spares: Spares::default(),
            known: Known::default(),
            watcher,
        })
    }

    fn now(&self) -> Now {
        Now { at: self.clock.now(), wall: self.clock.wall() }
    }

    pub(super) fn name(&self, key: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_bytes()].concat()
    }

    /// What a pair of etcd says. Its deadline is what is known of it here, or as far off as it can
    /// be: that it is there means that it is live.
    pub(super) fn standing(&self, key: &Key, pair: &KeyValue) -> Result<Standing> {
        let now = self.clock.now();
        if let Some(mut known) = self.known.get(key)
            && known.revision == pair.mod_revision
        {
            // It outlived what we know: someone else prolongs it.
            if known.record.deadline <= now {
                known.record.deadline = now + known.record.ttl;
            }
            return Ok(known);
        }
        let numbers = [pair.create_revision, pair.mod_revision].map(numbered);
        let [Some(fence), Some(_)] = numbers else {
            let text = "etcd does not say by which change the key was written";
            return Err(Error::new(ErrorKind::Damaged, text));
        };
        let record = Cell::decode(&pair.value)?.record(fence, |ttl| now + ttl)?;
        let record = record.ok_or_else(|| {
            let text = "the entry under this key names no holder: force-release the key";
            Error::new(ErrorKind::Damaged, text)
        })?;
        let lease = EtcdLease::found(pair.lease);
        Ok(Standing { record, revision: pair.mod_revision, lease })
    }

    /// The pair under a key, and the term in which a quorum confirmed it.
    pub(super) async fn look(&self, key: &Key, keys_only: bool) -> Result<(Option<KeyValue>, u64)> {
        let (key, range_end) = (self.name(key.as_str()), Vec::new());
        let range = RangeRequest { key, range_end, limit: 1, keys_only };
        let answer = self.client.call(range).await?;
        Ok((answer.kvs.into_iter().next(), term(answer.header)))
    }

    pub(super) async fn read(&self, key: &Key) -> Result<Option<Standing>> {
        let pair = self.look(key, false).await?.0;
        if pair.is_none() {
            self.known.forget(key);
        }
        pair.map(|pair| self.standing(key, &pair)).transpose()
    }

    /// Looks, decides and changes, until nobody comes in between. With the reply comes the fence,
    /// where that is known only since the change.
    ///
    /// What is known will do for a first try, because the change finds out if it is still so. An
    /// answer without a change needs a look of its own.
    async fn decide<R>(
        &self,
        key: &Key,
        mut standing: Option<Standing>,
        mut is_fresh: bool,
        verb: impl Fn(Option<&Record>, Now) -> (Change, R) + Send + Sync,
    ) -> Result<(R, Fence)> {
        for _ in 0..TRIES {
            let now = self.now();
            if let Some(Standing { record, .. }) = &mut standing {
                record.deadline = record.deadline.max(now.at + AT_LEAST);
            }
            let (change, reply) = verb(standing.as_ref().map(|standing| &standing.record), now);
            let step = match change {
                Change::Keep if is_fresh => return Ok((reply, Fence::new(0))),
                Change::Keep => Step::Other(self.read(key).await?),
                Change::Put(record) => self.put(key, standing.as_ref(), record).await?,
                Change::Remove => self.delete(key, standing).await?,
            };
            match step {
                Step::Done(done) => return Ok((reply, done.record.fence)),
                Step::Other(other) => (standing, is_fresh) = (other, true),
            }
        }
        Err(Error::unavailable(format!("others changed the key {TRIES} times in between")))
    }

    /// How long an etcd lease still stands, in whole seconds; at the most the ttl.
    async fn left(&self, standing: &Standing) -> Result<Duration> {
        if standing.lease.id == 0 {
            return Ok(standing.record.ttl);
        }
        let ask = LeaseTimeToLiveRequest { id: standing.lease.id };
        let answer = self.client.call(ask).await?;
        // A member that just ceases to lead says a huge number.
        let is_sane = answer.ttl <= answer.granted_ttl;
        Ok(if is_sane { whole(answer.ttl).min(standing.record.ttl) } else { Duration::ZERO })
    }

    async fn status(&self, key: Key, standing: Standing) -> Result<Status> {
        let remaining = self.left(&standing).await?;
        let status = standing.record.status(&key, self.clock.now());
        Ok(Status { remaining, ..status })
    }

    fn known_grant(&self, grant: &Grant) -> Option<Standing> {
        self.known.get(&grant.key).filter(|Standing { record, .. }| {
            record.owner == grant.owner && grant.fence.is_none_or(|fence| fence == record.fence)
        })
    }

    /// What is known of a grant, or else what etcd says; and whether that is fresh.
    async fn known_or_read(&self, grant: &Grant) -> Result<(Option<Standing>, bool)> {
        match self.known_grant(grant) {
            Some(known) => Ok((Some(known), false)),
            None => Ok((self.read(&grant.key).await?, true)),
        }
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        revoke(Arc::clone(&self.client), self.spares.drain());
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let verb =
            |standing: Option<&Record>, now| rule::acquire(standing, claim, Fence::new(0), now);
        // That the key is free is worth a try: the transaction says so if it is not.
        match self.decide(&claim.key, None, false, verb).await? {
            (Attempt::Granted(lease), fence) => Ok(Attempt::Granted(Lease { fence, ..lease })),
            (held, _) => Ok(held),
        }
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let (standing, is_fresh) = self.known_or_read(&renewal.grant).await?;
        let verb = |standing: Option<&Record>, now| rule::renew(standing, renewal, now);
        Ok(self.decide(&renewal.grant.key, standing, is_fresh, verb).await?.0)
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let (standing, is_fresh) = self.known_or_read(grant).await?;
        let verb = |standing: Option<&Record>, now| rule::release(standing, grant, now);
        Ok(self.decide(&grant.key, standing, is_fresh, verb).await?.0)
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let key = &eviction.key;
        let verb = |standing: Option<&Record>, now| rule::force_release(standing, key, now);
        match self.read(key).await {
            Ok(standing) => Ok(self.decide(key, standing, true, verb).await?.0),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                self.delete_damaged(key).await.map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        let mut last = None;
        for _ in 0..3 {
            let (pair, before) = self.look(key, false).await?;
            let Some(pair) = pair else { return Ok(None) };
            let standing = self.standing(key, &pair)?;
            let (left, (again, after)) =
                try_join(self.left(&standing), self.look(key, true)).await?;
            let is_same = again.is_some_and(|again| again.mod_revision == standing.revision);
            let lease = standing.record.lease(key, self.clock.now());
            if is_same && after <= before {
                return Ok(Some(Lease { remaining: left, ..lease }));
            }
            last = Some(Lease { remaining: Duration::ZERO, ..lease });
        }
        Ok(last)
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        let (begin, end) = (self.name(&query.prefix), past(self.name(&query.prefix)));
        let after = query.after.as_ref().map(|after| next(self.name(after.as_str())));
        let mut from = after.unwrap_or(begin);
        let limit = i64::try_from(query.limit.max(1)).unwrap_or(i64::MAX);
        loop {
            let (key, range_end) = (from.clone(), end.clone());
            let range = RangeRequest { key, range_end, limit, keys_only: false };
            let answer = self.client.call(range).await?;
            let mut leases = Vec::new();
            for pair in &answer.kvs {
                let name = pair.key.get(self.prefix.len()..).map(std::str::from_utf8);
                let Some(Ok(name)) = name else { continue };
                let key = Key::stored(name.to_owned());
                match self.standing(&key, pair) {
                    Ok(standing) => leases.push((key, standing)),
                    // Something that is not a lock may well stand in the same place.
                    Err(error) if error.kind() == ErrorKind::Damaged => {}
                    Err(error) if error.kind() == ErrorKind::Unsupported => {
                        tracing::warn!(key = key.as_str(), %error, "left out of a listing");
                    }
                    Err(error) => return Err(error),
                }
            }
            match answer.kvs.last().filter(|_| answer.more && leases.is_empty()) {
                Some(last) => from = next(last.key.clone()),
                None => {
                    let asked = leases.into_iter().map(|(key, lease)| self.status(key, lease));
                    let items = stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
                    return Ok(Page::new(items, answer.more));
                }
            }
        }
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.watcher.watch(key).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        let key = Key::stored(format!("t1-fingerprint/{}", pledge.namespace));
        let (name, value) = (self.name(key.as_str()), pledge.fingerprint.clone().into_bytes());
        let put = Op::Put(PutRequest { key: name, value, lease: 0 });
        let answer = self.client.call(self.txn(&key, Target::Create(0), put)).await?;
        let range = answer.responses.first().and_then(|response| response.range.as_ref());
        Ok(match range.and_then(|range| range.kvs.first()) {
            Some(pair) if !answer.succeeded => String::from_utf8_lossy(&pair.value).into_owned(),
            _ => pledge.fingerprint.clone(),
        })
    }
}

/// The first name after this one.
fn next(mut name: Vec<u8>) -> Vec<u8> {
    name.push(0);
    name
}

/// A change of etcd as a fence: none has the number 0.
pub(super) fn numbered(revision: i64) -> Option<Fence> {
    u64::try_from(revision).ok().filter(|number| *number > 0).map(Fence::new)
}

/// The first name after all that begin with this one.
fn past(mut name: Vec<u8>) -> Vec<u8> {
    while let Some(last) = name.pop() {
        if last < u8::MAX {
            name.push(last + 1);
            return name;
        }
    }
    // All names.
    vec![0]
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use super::{
        Arc, Client, Clock, EtcdOptions, EtcdStore, Known, Result, Spares, StoreInfo, Watcher,
    };
    use crate::clock::SystemClock;
    use crate::store::{Capabilities, Timing};

    /// A store that asks nobody, to read answers with. It must be made within a runtime.
    pub(in super::super) fn unopened() -> Result<EtcdStore> {
        let options = EtcdOptions::new("etcd://nobody")?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let client = Arc::new(Client::new(&options, Arc::clone(&clock))?);
        let info = StoreInfo::new("etcd", Timing::Store, Capabilities::default(), Vec::new());
        let prefix = options.prefix;
        let watcher = Watcher::start(Arc::clone(&client), Arc::clone(&clock), prefix.clone());
        let (spares, known) = (Spares::default(), Known::default());
        Ok(EtcdStore { info, clock, client, prefix, spares, known, watcher })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_range_is_past_all_that_begin_with_its_begin() {
        assert_eq!(past(b"ab/".to_vec()), b"ab0");
        assert_eq!(past(vec![1, 255]), [2]);
        assert_eq!(past(vec![255]), [0]);
        assert!(next(b"a".to_vec()) > b"a".to_vec() && next(b"a".to_vec()) < b"a\x01".to_vec());
    }
}

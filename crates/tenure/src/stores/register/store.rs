//! The rule applied to a register: look, decide, swap; once more when someone was faster.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::sightings::{Sighting, Sightings};
use super::{Entry, Expiry, Fences, Purpose, Register, Swap, Version, Write};
use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::clock::{Clock, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::random::Random;
use crate::rule::{self, Change, Now, Record};
use crate::store::{Store, StoreInfo};
use crate::stores::cell::Cell;
use crate::watch::Watch;

/// How often one call may find that someone was faster before it says so.
const TRIES: u32 = 16;

/// An entry that is there is live, however long ago it was seen first. Whoever waits for its end
/// looks again after this time, unless the register rings.
const AT_LEAST: Duration = Duration::from_millis(50);

/// A [`Store`] on a [`Register`].
pub struct RegisterStore {
    register: Arc<dyn Register>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    seen: Sightings,
}

impl fmt::Debug for RegisterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisterStore").field("register", &self.register).finish_non_exhaustive()
    }
}

/// What stands under a key, and which write it is of.
struct Standing {
    version: Option<Version>,
    /// The greatest fence that is known of this key.
    fence: Fence,
    record: Option<Record>,
}

impl Standing {
    /// The moment that it can be judged by. What has ended only since it was asked for may have
    /// been renewed since: an answer can be late.
    fn as_of(&self, asked: Option<Moment>, now: Moment) -> Moment {
        let stood = |asked: &Moment| self.record.as_ref().is_some_and(|it| it.is_live(*asked));
        let has_ended = self.record.as_ref().is_some_and(|record| !record.is_live(now));
        asked.filter(stood).filter(|_| has_ended).unwrap_or(now)
    }
}

/// A change in the words of a register.
struct Step {
    body: Vec<u8>,
    purpose: Purpose,
    is_grant: bool,
}

impl RegisterStore {
    /// A store on `register`. Where the register does not end leases, `clock` does.
    #[must_use]
    pub fn new(
        register: Arc<dyn Register>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self { register, clock, random, seen: Sightings::default() }
    }

    /// What is there, and when that was asked.
    async fn look(&self, key: &Key) -> Result<(Sighting, Moment)> {
        let asked = self.clock.now();
        let entry = self.register.read(key).await?;
        Ok((self.seen.note(key, entry, self.clock.now()), asked))
    }

    /// The same, where something else may be at hand that was not asked for.
    async fn look_anew(&self, key: &Key) -> Result<(Sighting, Option<Moment>)> {
        let (sighting, asked) = self.look(key).await?;
        Ok((sighting, Some(asked)))
    }

    fn standing(&self, sighting: Sighting, now: Moment) -> Result<Standing> {
        let nobody = |version| Standing { version, fence: Fence::new(0), record: None };
        // Where the register counts, an entry without a body has not lost its number.
        let may_be_empty = self.register.fences() == Fences::Revision;
        match sighting.entry {
            None => Ok(nobody(None)),
            Some(Entry { version, body }) if body.is_empty() && may_be_empty => {
                Ok(nobody(Some(version)))
            }
            Some(Entry { version, body }) => {
                let cell = Cell::decode(&body)?;
                let fence = cell.fence().or(version.revision.map(Fence::new));
                let fence = fence.ok_or_else(|| damaged("has lost its fence"))?;
                if fence == Fence::new(u64::MAX) {
                    return Err(damaged("has the greatest fence there is"));
                }
                let seen_for = |ttl| sighting.since + ttl;
                let record = cell.record(fence, |ttl| match self.register.expiry() {
                    Expiry::Observer => seen_for(ttl),
                    Expiry::Register => seen_for(ttl).max(now + AT_LEAST),
                })?;
                Ok(Standing { version: Some(version), fence, record })
            }
        }
    }

    fn live(&self, key: &Key, sighting: Sighting, asked: Moment) -> Result<Option<Lease>> {
        let now = self.clock.now();
        let standing = self.standing(sighting, now)?;
        let at = standing.as_of(Some(asked), now);
        let record = standing.record.filter(|record| record.is_live(at));
        Ok(record.map(|record| record.lease(key, at)))
    }

    /// `None`: there is nothing to write.
    fn step(&self, standing: &Standing, change: &Change) -> Result<Option<Step>> {
        Ok(match change {
            Change::Keep => None,
            Change::Put(record) => {
                let old = standing.record.as_ref().map(|old| old.fence);
                let is_grant = old != Some(record.fence);
                let by_revision = is_grant && self.register.fences() == Fences::Revision;
                let fence = (!by_revision).then_some(record.fence);
                let body = Cell::held(record, fence, self.nonce()?).encode()?;
                Some(Step { body, purpose: Purpose::Lease(record.ttl), is_grant })
            }
            Change::Remove => {
                let ttl = standing.record.as_ref().map_or(Duration::ZERO, |old| old.ttl);
                Some(self.freeing(standing.fence, ttl)?)
            }
        })
    }

    /// Frees a key that had this fence and was held for this ttl.
    fn freeing(&self, fence: Fence, ttl: Duration) -> Result<Step> {
        let body = match self.register.fences() {
            Fences::Counted => Cell::free(fence, self.nonce()?).encode()?,
            Fences::Revision => Vec::new(),
        };
        Ok(Step { body, purpose: Purpose::Free(ttl), is_grant: false })
    }

    /// Frees a key whose entry cannot be read.
    ///
    /// The count is lost with it. But a count grows by one with each grant, and here to as many as
    /// there have been microseconds since 1970: what is granted from now on is beyond all of it.
    async fn replace_damaged(&self, key: &Key) -> Result<()> {
        let changed = || Error::unavailable("others changed the entry in between");
        let (sighting, _) = self.look(key).await?;
        let version = sighting.version().cloned();
        match self.standing(sighting, self.clock.now()) {
            Err(error) if error.kind() == ErrorKind::Damaged => {}
            _ => return Err(changed()),
        }
        let time = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let fence = Fence::new(u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1));
        let step = self.freeing(fence, Duration::ZERO)?;
        self.swap(key, version.as_ref(), &step).await?.ok_or_else(changed)?;
        tracing::warn!(key = key.as_str(), "an entry that could not be read was replaced");
        Ok(())
    }

    /// Looks, decides and swaps, until nobody comes in between. With the reply comes the version
    /// of the write, when that was a new grant.
    ///
    /// What was seen last will do for a first try, because the swap finds out if it is still so.
    /// An answer without a swap needs a look of its own.
    async fn decide<R>(
        &self,
        key: &Key,
        verb: impl Fn(Option<&Record>, Fence, Now) -> (Change, R) + Send + Sync,
    ) -> Result<(R, Option<Version>)> {
        let (mut sighting, mut asked) = match self.seen.get(key, self.clock.now()) {
            Some(sighting) => (sighting, None),
            None => self.look_anew(key).await?,
        };
        for tries in 0..TRIES {
            let now = self.clock.now();
            let standing = match self.standing(sighting, now) {
                // What could not be read may have been moved away since.
                Err(_) if asked.is_none() => {
                    (sighting, asked) = self.look_anew(key).await?;
                    continue;
                }
                standing => standing?,
            };
            let now = Now { at: standing.as_of(asked, now), wall: self.clock.wall() };
            let next = Fence::new(standing.fence.get().saturating_add(1));
            let (change, reply) = verb(standing.record.as_ref(), next, now);
            let step = match self.step(&standing, &change)? {
                Some(step) => step,
                None if asked.is_some() => return Ok((reply, None)),
                None => {
                    (sighting, asked) = self.look_anew(key).await?;
                    continue;
                }
            };
            if let Some(version) = self.swap(key, standing.version.as_ref(), &step).await? {
                return Ok((reply, Some(version).filter(|_| step.is_grant)));
            }
            (sighting, asked) = self.look_anew(key).await?;
            if sighting.version() == standing.version.as_ref() {
                // Someone is being faster: what is in the way has not been made visible yet.
                self.clock.sleep_until(self.clock.now() + pause(tries)).await;
                (sighting, asked) = self.look_anew(key).await?;
            }
            if let Some(version) = own_write(&sighting, &step.body) {
                return Ok((reply, Some(version).filter(|_| step.is_grant)));
            }
        }
        Err(Error::unavailable(format!("others changed the key {TRIES} times in between")))
    }

    /// The version of the write, or `None` when someone was faster.
    async fn swap(
        &self,
        key: &Key,
        expected: Option<&Version>,
        step: &Step,
    ) -> Result<Option<Version>> {
        let write = Write { key, expected, body: &step.body, purpose: step.purpose };
        let Swap::Done(version) = self.register.swap(write).await? else { return Ok(None) };
        let entry = Entry { version: version.clone(), body: step.body.clone() };
        self.seen.note(key, Some(entry), self.clock.now());
        Ok(Some(version))
    }

    fn nonce(&self) -> Result<String> {
        let mut bytes = [0; 8];
        if !self.random.fill(&mut bytes) {
            return Err(Error::unavailable("the operating system gave no random bytes"));
        }
        Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
    }
}

fn damaged(how: &str) -> Error {
    let text = format!("the entry under this key {how}: force-release the key to replace it");
    Error::new(ErrorKind::Damaged, text)
}

/// How long to let a write settle that is known only by the conflict with it.
fn pause(tries: u32) -> Duration {
    Duration::from_millis(2 << tries.min(5))
}

/// The version of this very body, if it is what stands: a client library that sent it twice, or a
/// server that answered a conflict after all, met its own write.
fn own_write(sighting: &Sighting, body: &[u8]) -> Option<Version> {
    let entry = sighting.entry.as_ref()?;
    (!body.is_empty() && entry.body == body).then(|| entry.version.clone())
}

#[async_trait]
impl Store for RegisterStore {
    fn info(&self) -> &StoreInfo {
        self.register.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let verb = |standing: Option<&Record>, next, now| rule::acquire(standing, claim, next, now);
        let (attempt, granted) = self.decide(&claim.key, verb).await?;
        match (attempt, granted, self.register.fences()) {
            (Attempt::Granted(lease), Some(version), Fences::Revision) => {
                let fence = version.revision.map(Fence::new).ok_or_else(|| {
                    Error::new(ErrorKind::Damaged, "the store gave its write no number")
                })?;
                Ok(Attempt::Granted(Lease { fence, ..lease }))
            }
            (attempt, ..) => Ok(attempt),
        }
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let verb = |standing: Option<&Record>, _, now| rule::renew(standing, renewal, now);
        Ok(self.decide(&renewal.grant.key, verb).await?.0)
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let verb = |standing: Option<&Record>, _, now| rule::release(standing, grant, now);
        Ok(self.decide(&grant.key, verb).await?.0)
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let key = &eviction.key;
        let verb = |standing: Option<&Record>, _, now| rule::force_release(standing, key, now);
        match self.decide(key, verb).await {
            Ok((evicted, _)) => Ok(evicted),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                self.replace_damaged(key).await.map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        let (sighting, asked) = self.look(key).await?;
        self.live(key, sighting, asked)
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        let after = query.after.as_ref();
        let asked = self.clock.now();
        let listed = self.register.list(&query.prefix, after, query.limit).await?;
        let mut items = Vec::new();
        for (key, entry) in listed.entries {
            let sighting = self.seen.glance(&key, Some(entry), self.clock.now());
            match self.live(&key, sighting, asked) {
                Ok(lease) => items.extend(lease.map(|lease| lease.status())),
                // Something that is not a lock may well stand in the same place.
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    tracing::warn!(key = key.as_str(), %error, "left out of a listing");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Page { items, next: listed.next })
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.register.watch(key).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        let key = Key::stored(format!("t1-fingerprint/{}", pledge.namespace));
        for _ in 0..TRIES {
            let entry = self.register.read(&key).await?;
            if let Some(Entry { body, .. }) = entry.as_ref().filter(|entry| !entry.body.is_empty())
            {
                return Ok(String::from_utf8_lossy(body).into_owned());
            }
            // An empty one is the mark of a fingerprint that an operator has deleted.
            let expected = entry.as_ref().map(|entry| &entry.version);
            let body = pledge.fingerprint.as_bytes();
            let write = Write { key: &key, expected, body, purpose: Purpose::Note };
            if let Swap::Done(_) = self.register.swap(write).await? {
                return Ok(pledge.fingerprint.clone());
            }
        }
        Err(Error::unavailable("the fingerprint of the namespace comes and goes"))
    }
}

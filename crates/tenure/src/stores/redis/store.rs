//! The store itself: each verb is one script, and its answer read.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Value, from_redis_value};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::bell::{Bell, channel};
use super::dial::Dialer;
use super::error::unreachable;
use super::nodes::Nodes;
use super::options::{Address, RedisOptions};
use super::probe::probe;
use super::reply::Reply;
use super::script::{ACQUIRE, FORCE, INSPECT, RELEASE, RENEW, Script};
use super::slot::{Names, OWN, key_of, records_of, slot_of, tag_of};
use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Reentry, Released, Renewal, Renewed,
};
use crate::clock::{Clock, within};
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::owner::Owner;
use crate::random::SystemRandom;
use crate::store::{Capabilities, Store, StoreInfo, Timing};
use crate::watch::Watch;

/// How long opening may take in all.
const OPEN_WITHIN: Duration = Duration::from_secs(9);
/// How long the lock of the rehearsal would stand if this process died there and then.
const REHEARSAL_MS: &str = "10000";
/// How many keys one step of a listing looks at.
const SCAN_COUNT: usize = 1000;
/// How many leases of a page are read at the same time.
const READ_AT_ONCE: usize = 64;

/// Locks on Redis; see [the module](crate::stores::redis).
pub struct RedisStore {
    info: StoreInfo,
    nodes: Arc<Nodes>,
    bell: Bell,
    database: u32,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("options", self.nodes.dialer().options())
            .field("class", &self.info.class)
            .finish_non_exhaustive()
    }
}

impl RedisStore {
    pub(super) async fn open(options: RedisOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let opening = Self::connect(options, Arc::clone(&clock));
        within(&*clock, OPEN_WITHIN, Box::pin(opening)).await.unwrap_or_else(|_| {
            Err(Error::unavailable(format!("Redis could not be opened within {OPEN_WITHIN:?}")))
        })
    }

    async fn connect(options: RedisOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let database = options.database;
        let dialer = Arc::new(Dialer::new(options, Arc::clone(&clock))?);
        let nodes = Arc::new(Nodes::find(dialer).await?);
        let report = probe(&nodes).await?;
        let capabilities =
            Capabilities { shared: true, durable: report.durable, ..Capabilities::default() };
        let info = StoreInfo::new("redis", Timing::Store, capabilities, report.findings);
        let bell = Bell::new(Arc::clone(&nodes), clock);
        let store = Self { info, nodes, bell, database };
        store.rehearse().await?;
        Ok(store)
    }

    /// Takes and gives back a lock of its own on every node, so that a missing permission is found
    /// now, and not when the first lock is half taken; and that what imitates Redis is one.
    async fn rehearse(&self) -> Result<()> {
        let nodes = self.nodes.primaries_and_slots();
        let rehearsals = nodes.iter().map(|(address, slot)| self.rehearse_at(address, *slot));
        try_join_all(rehearsals).await.map(drop)
    }

    async fn rehearse_at(&self, address: &Address, slot: u16) -> Result<()> {
        let [one, two] = [Owner::generate(&SystemRandom)?, Owner::generate(&SystemRandom)?];
        let key = Key::stored(format!("{OWN}rehearsal:{{{}}}:{}", tag_of(slot), two.expose()));
        let (one, two) = (one.expose(), two.expose());
        let mut ear = self.nodes.dialer().listen(address).await?;
        ear.subscribe(self.channel(&key)).await.map_err(unreachable)?;
        let claim = |owner| [owner, REHEARSAL_MS, "rehearsal", "adopt"];
        let granted = self.write(&ACQUIRE, &key, &claim(&one)).await?;
        let refused = self.write(&ACQUIRE, &key, &claim(&two)).await?;
        let renewed = self.write(&RENEW, &key, &[&one, REHEARSAL_MS, ""]).await?;
        let seen = self.read(&key).await?;
        let released = self.write(&RELEASE, &key, &[&one, "", &self.channel(&key)]).await?;
        let said = [granted, refused, renewed, released].map(|reply| reply.verdict);
        if said != ["granted", "held", "renewed", "released"] || seen.is_none() {
            let text = format!("this does not decide about locks as Redis does: {said:?}");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        // A release does not fail because nobody may be told of it. So this is asked by itself.
        let mut publish = ::redis::cmd("PUBLISH");
        publish.arg(self.channel(&key)).arg("");
        let mut scan = ::redis::cmd("SCAN");
        scan.arg(0).arg("MATCH").arg(records_of(key.as_str())).arg("COUNT").arg(1);
        for command in [publish, scan, ::redis::cmd("PING")] {
            let answer = self.nodes.call_at(address, &command).await;
            answer.map_err(|fault| fault.explain(Effect::Read))?;
        }
        Ok(())
    }

    async fn write(&self, script: &Script, key: &Key, arguments: &[&str]) -> Result<Reply> {
        self.run(script, key, arguments, Effect::Write).await
    }

    async fn read(&self, key: &Key) -> Result<Option<Lease>> {
        Ok(self.run(&INSPECT, key, &[], Effect::Read).await?.lease)
    }

    async fn run(
        &self,
        script: &Script,
        key: &Key,
        arguments: &[&str],
        effect: Effect,
    ) -> Result<Reply> {
        let names = Names::of(key.as_str());
        let answer = self.nodes.run(script, key.as_str(), &names, arguments, effect).await?;
        Reply::read(key, answer)
    }

    fn channel(&self, key: &Key) -> String {
        channel(self.database, key.as_str())
    }

    /// Adds the keys of one node that the query is about, and keeps the `most` smallest.
    async fn scan(
        &self,
        address: &Address,
        query: &ListQuery,
        most: usize,
        keys: &mut BTreeSet<String>,
    ) -> Result<()> {
        let pattern = records_of(&query.prefix);
        let after = query.after.as_ref().map_or("", Key::as_str);
        let mut cursor = 0_u64;
        loop {
            let mut scan = ::redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_COUNT);
            let answer = self.nodes.call_at(address, &scan).await;
            let answer = answer.map_err(|fault| fault.explain(Effect::Read))?;
            let (next, found): (u64, Vec<Vec<u8>>) = from_redis_value(answer)
                .map_err(|error| Error::unavailable("SCAN answered oddly").caused_by(error))?;
            let found = found.iter().filter_map(|name| key_of(std::str::from_utf8(name).ok()?));
            for key in found.filter(|key| key.starts_with(&query.prefix) && *key > after) {
                keys.insert(key.to_owned());
                if keys.len() > most {
                    keys.pop_last();
                }
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

fn refuse_own(key: &Key) -> Result<()> {
    if key.as_str().starts_with(OWN) {
        let text = format!("a key on Redis must not begin with {OWN:?}: those are the store's own");
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// In whole milliseconds, and never less.
fn milliseconds(ttl: Duration) -> String {
    ttl.as_nanos().div_ceil(1_000_000).to_string()
}

fn number(fence: Option<Fence>) -> String {
    fence.map_or_else(String::new, |fence| fence.to_string())
}

fn status(lease: Option<Lease>) -> Option<Status> {
    lease.map(|lease| lease.status())
}

#[async_trait]
impl Store for RedisStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        refuse_own(&claim.key)?;
        let reentry = match claim.reentry {
            Reentry::Adopt => "adopt",
            Reentry::Refuse => "refuse",
        };
        let (owner, ttl) = (claim.owner.expose(), milliseconds(claim.ttl));
        let arguments = [&*owner, &*ttl, claim.holder.as_str(), reentry];
        attempt(self.write(&ACQUIRE, &claim.key, &arguments).await?, &claim.owner)
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let Grant { key, owner, fence } = &renewal.grant;
        refuse_own(key)?;
        let (owner, ttl, fence) = (owner.expose(), milliseconds(renewal.ttl), number(*fence));
        let reply = self.write(&RENEW, key, &[&owner, &ttl, &fence]).await?;
        match (&*reply.verdict, reply.lease) {
            ("renewed", Some(lease)) => Ok(Renewed::Renewed(lease)),
            ("lost", other) => Ok(Renewed::Lost(status(other))),
            _ => Err(senseless()),
        }
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let Grant { key, owner, fence } = grant;
        refuse_own(key)?;
        let arguments = [&*owner.expose(), &*number(*fence), &*self.channel(key)];
        let reply = self.write(&RELEASE, key, &arguments).await?;
        match (&*reply.verdict, reply.lease) {
            ("released", Some(lease)) => Ok(Released::Released(lease.status())),
            ("lost", other) => Ok(Released::NotHeld(status(other))),
            _ => Err(senseless()),
        }
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let key = &eviction.key;
        refuse_own(key)?;
        let reply = self.write(&FORCE, key, &[&self.channel(key)]).await?;
        Ok(status(reply.lease))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        refuse_own(key)?;
        self.read(key).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        let mut keys = BTreeSet::new();
        let most = query.limit.saturating_add(1);
        for address in self.nodes.primaries() {
            self.scan(&address, query, most, &mut keys).await?;
        }
        let more = keys.len() > query.limit;
        if more {
            keys.pop_last();
        }
        let next = keys.last().filter(|_| more).map(|key| Key::stored(key.clone()));
        let leases: Vec<Option<Lease>> = stream::iter(keys)
            .map(|key| async move { self.read(&Key::stored(key)).await })
            .buffered(READ_AT_ONCE)
            .try_collect()
            .await?;
        // What ended since the scan, or is another client's by now, has no fence or is gone.
        let live = leases.into_iter().flatten().filter(|lease| lease.fence.get() > 0);
        Ok(Page { items: live.map(|lease| lease.status()).collect(), next })
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        refuse_own(key)?;
        self.bell.watch(key).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        let name = format!("{OWN}fingerprint:{}", pledge.namespace);
        let slot = slot_of(name.as_bytes());
        let mut set = ::redis::cmd("SET");
        set.arg(&name).arg(&pledge.fingerprint).arg("NX");
        self.nodes.call(slot, &set).await.map_err(|fault| fault.explain(Effect::Write))?;
        let mut get = ::redis::cmd("GET");
        get.arg(&name);
        let standing = self.nodes.call(slot, &get).await;
        match standing.map_err(|fault| fault.explain(Effect::Read))? {
            Value::BulkString(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            _ => Err(Error::unavailable("the fingerprint of the namespace was removed meanwhile")),
        }
    }
}

/// What became of a claim of this owner. What is granted is its own, and has a number.
fn attempt(reply: Reply, owner: &Owner) -> Result<Attempt> {
    let is_grant = |lease: &Lease| lease.owner == *owner && lease.fence > Fence::new(0);
    match (&*reply.verdict, reply.lease) {
        ("granted", Some(lease)) if is_grant(&lease) => Ok(Attempt::Granted(lease)),
        ("held", Some(lease)) => Ok(Attempt::Held(lease.status())),
        _ => Err(senseless()),
    }
}

fn senseless() -> Error {
    Error::new(ErrorKind::Damaged, "the script on Redis answered what it never does")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_of_whoever_asked_and_has_a_number() {
        let told = |verdict: &str, record: Option<&str>| {
            let text = |text: &str| Value::BulkString(text.into());
            let record = record.map_or(Value::Nil, text);
            let answer = Value::Array(vec![text(verdict), text("me"), record, Value::Int(400)]);
            ["me", "another"].map(|owner| {
                let reply = Reply::read(&Key::new("k").unwrap(), answer.clone()).unwrap();
                attempt(reply, &Owner::parse(owner).unwrap()).ok()
            })
        };
        let record = Some("me\n7\n500\n2000000\nh");
        let [mine, anothers] = told("granted", record);
        assert!(matches!(mine, Some(Attempt::Granted(lease)) if lease.fence == Fence::new(7)));
        assert!(anothers.is_none());
        assert_eq!(told("granted", None), [None, None]);
        assert!(told("held", None).iter().all(|held| matches!(held, Some(Attempt::Held(_)))));
    }
}

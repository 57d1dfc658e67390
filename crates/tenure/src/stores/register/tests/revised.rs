//! The adapter over a register that numbers its writes, and holds what others put there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::super::{Entries, Entry, Expiry, Fences, Register, RegisterStore, Swap, Version, Write};
use crate::claim::{Attempt, Claim, Pledge, Reentry};
use crate::clock::{Clock, Moment, Sleep};
use crate::error::{ErrorKind, Result};
use crate::holder::Holder;
use crate::key::{Key, Namespace};
use crate::owner::Owner;
use crate::random::SystemRandom;
use crate::store::{Capabilities, Store, StoreInfo, Timing};
use crate::watch::Watch;

const TTL: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Fake {
    info: StoreInfo,
    entries: Mutex<BTreeMap<String, Entry>>,
    written: AtomicU64,
    /// So many swaps conflict with a write that nobody can read yet.
    conflicts: AtomicU64,
}

impl Fake {
    fn put(&self, key: &str, body: &[u8]) -> Version {
        let revision = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        let version = Version { tag: revision.to_string(), revision: Some(revision) };
        let entry = Entry { version: version.clone(), body: body.to_vec() };
        self.entries.lock().unwrap().insert(key.to_owned(), entry);
        version
    }

    fn remove(&self, key: &str) {
        self.entries.lock().unwrap().remove(key);
    }
}

#[async_trait]
impl Register for Fake {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn fences(&self) -> Fences {
        Fences::Revision
    }

    fn expiry(&self) -> Expiry {
        Expiry::Register
    }

    async fn read(&self, key: &Key) -> Result<Option<Entry>> {
        Ok(self.entries.lock().unwrap().get(key.as_str()).cloned())
    }

    async fn swap(&self, write: Write<'_>) -> Result<Swap> {
        let one_less = |left: u64| left.checked_sub(1);
        if self.conflicts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Ok(Swap::Conflict);
        }
        let standing = self.read(write.key).await?.map(|entry| entry.version);
        if standing.as_ref() != write.expected {
            return Ok(Swap::Conflict);
        }
        let version = self.put(write.key.as_str(), write.body);
        Ok(Swap::Done(version))
    }

    async fn list(&self, _: &str, _: Option<&Key>, _: usize) -> Result<Entries> {
        Ok(Entries::default())
    }

    async fn watch(&self, _: &Key) -> Result<Watch> {
        Ok(Watch::never())
    }
}

#[derive(Debug, Default)]
struct NapClock(AtomicU64);

impl Clock for NapClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    /// Sleeping is what makes the time pass.
    fn sleep_until(&self, at: Moment) -> Sleep {
        self.0.fetch_max(at.as_nanos(), Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

fn fake() -> (Arc<Fake>, Arc<NapClock>, RegisterStore) {
    let clock = Arc::new(NapClock::default());
    let info = StoreInfo::new("fake", Timing::Observer, Capabilities::default(), Vec::new());
    let register = Arc::new(Fake {
        info,
        entries: Mutex::default(),
        written: AtomicU64::new(0),
        conflicts: AtomicU64::new(0),
    });
    let store = RegisterStore::new(
        Arc::clone(&register) as _,
        Arc::clone(&clock) as _,
        Arc::new(SystemRandom),
    );
    (register, clock, store)
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

#[tokio::test]
async fn what_an_operator_moved_away_is_no_longer_damage() {
    let (register, _, store) = fake();
    register.put("k", b"not ours");
    for _ in 0..2 {
        let error = store.try_acquire(&claim("one")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
    register.remove("k");
    assert!(matches!(store.try_acquire(&claim("one")).await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn a_fingerprint_that_was_deleted_is_agreed_on_anew() {
    let (register, _, store) = fake();
    let pledge =
        |text: &str| Pledge { namespace: Namespace::default(), fingerprint: text.to_owned() };
    assert_eq!(store.agree(&pledge("one")).await.unwrap(), "one");
    assert_eq!(store.agree(&pledge("two")).await.unwrap(), "one");
    register.put("t1-fingerprint/default", b"");
    assert_eq!(store.agree(&pledge("two")).await.unwrap(), "two");
    assert_eq!(store.agree(&pledge("one")).await.unwrap(), "two");
}

#[tokio::test]
async fn a_conflict_with_what_is_not_to_be_seen_yet_is_waited_out() {
    let (register, clock, store) = fake();
    register.conflicts.store(10, Ordering::Relaxed);
    let granted = store.try_acquire(&claim("one")).await.unwrap();
    assert!(matches!(granted, Attempt::Granted(_)), "{granted:?}");
    let slept = clock.now().since(Moment::from_nanos(0));
    assert!(slept > Duration::from_millis(300), "slept {slept:?} only");
    register.conflicts.store(u64::MAX, Ordering::Relaxed);
    let error = store.try_acquire(&claim("one")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

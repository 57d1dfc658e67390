//! A register in memory that fails on command, and a clock that only the test moves.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::super::{Entries, Entry, Expiry, Fences, Register, Swap, Version, Write};
use crate::clock::{Clock, Moment, Sleep, SystemClock};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::{Capabilities, StoreInfo, Timing};
use crate::watch::Watch;

/// What becomes of a swap.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// Someone was faster, though nothing was written: a 409 of S3.
    Conflict,
    /// Written, and answered like a duplicate of itself.
    WrittenAndConflict,
    /// Written, and not answered.
    WrittenAndUnknown,
    /// Not answered, and not written.
    Unknown,
    /// Written, and answered this much later that nothing is known.
    WrittenAndLate(Duration),
}

pub(super) struct Shelf {
    info: StoreInfo,
    entries: Mutex<BTreeMap<Key, Entry>>,
    writes: AtomicU64,
    reads: AtomicUsize,
    pub(super) swaps: AtomicUsize,
    fates: Mutex<VecDeque<Fate>>,
    /// What happens between the next read and its answer.
    meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Shelf {
    pub(super) fn new() -> Arc<Self> {
        let capabilities = Capabilities { shared: true, wakes: false, ..Capabilities::default() };
        Arc::new(Self {
            info: StoreInfo::new("shelf", Timing::Observer, capabilities, Vec::new()),
            entries: Mutex::default(),
            writes: AtomicU64::new(0),
            reads: AtomicUsize::new(0),
            swaps: AtomicUsize::new(0),
            fates: Mutex::default(),
            meanwhile: Mutex::default(),
        })
    }

    /// Lets something happen after the next read, before it is answered.
    pub(super) fn meanwhile(&self, work: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(work));
    }

    /// What becomes of the next swaps.
    pub(super) fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.fates.lock().unwrap().extend(fates);
    }

    /// Reads and swaps since the last time.
    pub(super) fn cost(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::SeqCst), self.swaps.swap(0, Ordering::SeqCst))
    }

    pub(super) fn body(&self, key: &str) -> String {
        let entries = self.entries.lock().unwrap();
        String::from_utf8(entries[&Key::new(key).unwrap()].body.clone()).unwrap()
    }

    pub(super) fn put(&self, key: &str, body: &[u8]) {
        let entry = self.entry(body);
        self.entries.lock().unwrap().insert(Key::new(key).unwrap(), entry);
    }

    fn entry(&self, body: &[u8]) -> Entry {
        let tag = self.writes.fetch_add(1, Ordering::SeqCst).to_string();
        Entry { version: Version { tag, revision: None }, body: body.to_vec() }
    }

    fn write(&self, write: Write<'_>) -> Swap {
        let mut entries = self.entries.lock().unwrap();
        let standing = entries.get(write.key).map(|entry| &entry.version);
        if standing != write.expected {
            return Swap::Conflict;
        }
        let entry = self.entry(write.body);
        let version = entry.version.clone();
        entries.insert(write.key.clone(), entry);
        Swap::Done(version)
    }
}

#[async_trait]
impl Register for Shelf {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn fences(&self) -> Fences {
        Fences::Counted
    }

    fn expiry(&self) -> Expiry {
        Expiry::Observer
    }

    async fn read(&self, key: &Key) -> Result<Option<Entry>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let found = self.entries.lock().unwrap().get(key).cloned();
        let meanwhile = self.meanwhile.lock().unwrap().take();
        meanwhile.into_iter().for_each(|work| work());
        Ok(found)
    }

    async fn swap(&self, write: Write<'_>) -> Result<Swap> {
        self.swaps.fetch_add(1, Ordering::SeqCst);
        let fate = self.fates.lock().unwrap().pop_front();
        match fate {
            None => Ok(self.write(write)),
            Some(Fate::Conflict) => Ok(Swap::Conflict),
            Some(Fate::WrittenAndConflict) => {
                assert!(matches!(self.write(write), Swap::Done(_)));
                Ok(Swap::Conflict)
            }
            Some(Fate::WrittenAndUnknown) => {
                assert!(matches!(self.write(write), Swap::Done(_)));
                Err(Error::unknown("no answer"))
            }
            Some(Fate::Unknown) => Err(Error::unknown("no answer")),
            Some(Fate::WrittenAndLate(time)) => {
                assert!(matches!(self.write(write), Swap::Done(_)));
                SystemClock.sleep_until(SystemClock.now() + time).await;
                Err(Error::unknown("no answer"))
            }
        }
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Entries> {
        let entries = self.entries.lock().unwrap();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found = entries
            .range::<Key, _>((from, Bound::Unbounded))
            .filter(|(key, _)| key.as_str().starts_with(prefix))
            .map(|(key, entry)| (key.clone(), entry.clone()));
        let entries: Vec<_> = found.by_ref().take(limit).collect();
        let next = entries.last().filter(|_| found.next().is_some()).map(|(key, _)| key.clone());
        Ok(Entries { entries, next })
    }

    async fn watch(&self, _key: &Key) -> Result<Watch> {
        Ok(Watch::never())
    }
}

/// A clock that only the test moves.
#[derive(Debug, Default)]
pub(super) struct Hands(AtomicU64);

impl Hands {
    pub(super) fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1)
    }

    /// Sleeping is what makes the time pass, besides the hand.
    fn sleep_until(&self, at: Moment) -> Sleep {
        self.0.fetch_max(at.as_nanos(), Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }
}

//! How long a store takes to answer: what a case says about time is void where the store itself,
//! or the disk below it, was slow.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Key, Lease, Result, Status, Store};

/// Measures the answers of all stores that it is put around. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Stopwatch(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    slowest: Duration,
    next: u64,
    under_way: BTreeMap<u64, Moment>,
}

impl Stopwatch {
    pub(super) fn around(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Timed { inner, stopwatch: self.clone() })
    }

    /// How long the slowest answer took, or has taken so far.
    pub(super) fn slowest(&self) -> Duration {
        let (times, now) = (self.times(), SystemClock.now());
        let longest = times.under_way.values().map(|begun| now.since(*begun)).max();
        times.slowest.max(longest.unwrap_or_default())
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn measure<T>(&self, call: impl Future<Output = T>) -> T {
        let _lap = self.begin();
        call.await
    }

    fn begin(&self) -> Lap<'_> {
        let mut times = self.times();
        let number = times.next;
        times.next += 1;
        times.under_way.insert(number, SystemClock.now());
        Lap { stopwatch: self, number }
    }
}

/// One call, until it is answered or dropped.
struct Lap<'a> {
    stopwatch: &'a Stopwatch,
    number: u64,
}

impl Drop for Lap<'_> {
    fn drop(&mut self) {
        let mut times = self.stopwatch.times();
        if let Some(begun) = times.under_way.remove(&self.number) {
            times.slowest = times.slowest.max(SystemClock.now().since(begun));
        }
    }
}

#[derive(Debug)]
struct Timed {
    inner: Arc<dyn Store>,
    stopwatch: Stopwatch,
}

#[async_trait]
impl Store for Timed {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.stopwatch.measure(self.inner.try_acquire(claim)).await
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        self.stopwatch.measure(self.inner.renew(renewal)).await
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        self.stopwatch.measure(self.inner.release(grant)).await
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        self.stopwatch.measure(self.inner.force_release(eviction)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        self.stopwatch.measure(self.inner.inspect(key)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.stopwatch.measure(self.inner.list(query)).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.stopwatch.measure(self.inner.watch(key)).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.stopwatch.measure(self.inner.agree(pledge)).await
    }
}

#[cfg(test)]
mod tests {
    use tenure::Operation;
    use tenure::stores::memory::MemoryStore;

    use super::*;
    use crate::faults::{Fault, Faults};
    use crate::wait::bounded;

    #[tokio::test]
    async fn an_answer_that_never_comes_is_slow_and_stays_so() {
        let faults = Faults::new(Arc::new(MemoryStore::new(Arc::new(SystemClock))));
        let stopwatch = Stopwatch::default();
        let store = stopwatch.around(Arc::new(faults.clone()));
        let (key, enough) = (Key::new("k").unwrap(), Duration::from_millis(300));
        store.inspect(&key).await.unwrap();
        assert!(stopwatch.slowest() < enough, "{:?}", stopwatch.slowest());
        faults.next(Operation::Inspect, Fault::Hang);
        let asked = bounded("an answer", enough, async {
            let late = async {
                while stopwatch.slowest() < enough / 2 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::join!(store.inspect(&key), late)
        });
        assert!(asked.await.is_err());
        assert!(stopwatch.slowest() >= enough / 2, "{:?}", stopwatch.slowest());
    }
}

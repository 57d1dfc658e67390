//! Every future of the public API, dropped at every await point: no lock is left behind.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::clone_on_ref_ptr,
    clippy::async_yields_async
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use tenure::claim::ListQuery;
use tenure::clock::SystemClock;
use tenure::stores::memory::MemoryStore;
use tenure::{Guard, Locks, Store};
use tenure_testkit::faults::{Fault, Faults};
use tenure_testkit::halting::Halting;
use tenure_testkit::wait::{bounded, until};
use tokio::task::yield_now;

type Call = Pin<Box<dyn Future<Output = ()>>>;

/// More await points than any call has: reaching it means that a call never ends.
const POINTS_MAX: usize = 500;
/// Far less than the ttl of 30 s: what is left behind shows.
const SOON: Duration = Duration::from_secs(5);

struct Stage {
    store: Arc<MemoryStore>,
    faults: Faults,
    locks: Locks,
}

impl Stage {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let faults = Faults::new(Arc::new(Halting::new(store.clone())));
        let locks = Locks::builder().open_on(Arc::new(faults.clone())).await.unwrap();
        Self { store, faults, locks }
    }

    async fn is_empty(&self) -> bool {
        let query = ListQuery { prefix: String::new(), after: None, limit: 10 };
        self.store.list(&query).await.unwrap().items.is_empty() && self.locks.waiters("k") == 0
    }
}

/// Makes the call and drops it after its n-th poll, for every n until it ends by itself. Returns
/// how many await points it has.
async fn dropped_everywhere(what: &str, make: impl AsyncFn(Locks, Faults) -> Call) -> usize {
    for polls in 0..POINTS_MAX {
        let stage = Stage::new().await;
        let mut call = make(stage.locks.clone(), stage.faults.clone()).await;
        let ended = poll_times(&mut call, polls).await;
        drop(call);
        let place = format!("{what}, dropped after {polls} polls");
        bounded(&place, SOON, stage.locks.flush()).await.unwrap();
        until(&place, SOON, || async { Ok(stage.is_empty().await) }).await.unwrap();
        if ended {
            println!("{what}: {polls} await points");
            return polls;
        }
    }
    panic!("{what} never ends");
}

async fn poll_times(call: &mut Call, times: usize) -> bool {
    for _ in 0..times {
        let ended = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        if ended {
            return true;
        }
        // What the call waits for happens in other tasks.
        for _ in 0..8 {
            yield_now().await;
        }
    }
    false
}

fn call(future: impl Future<Output = ()> + 'static) -> Call {
    Box::pin(future)
}

async fn held(locks: &Locks) -> Guard {
    locks.lock("k").acquire().await.unwrap()
}

#[tokio::test]
async fn acquire() {
    let points = dropped_everywhere("acquire", async |locks, _| {
        call(async move { drop(locks.lock("k").acquire().await) })
    })
    .await;
    assert!(points >= 4, "the store was to halt: {points}");
}

#[tokio::test]
async fn acquire_that_waits() {
    let points = dropped_everywhere("acquire, held by another", async |locks, _| {
        let guard = held(&locks).await;
        call(async move {
            let request = locks.lock("k");
            let waiter = request.acquire();
            let holder = async {
                for _ in 0..20 {
                    yield_now().await;
                }
                guard.release().await.unwrap();
            };
            let (granted, ()) = tokio::join!(waiter, holder);
            granted.unwrap().release().await.unwrap();
        })
    })
    .await;
    assert!(points > 20, "it was to wait: {points}");
}

#[tokio::test]
async fn acquire_whose_reply_is_lost() {
    dropped_everywhere("acquire, reply lost", async |locks, faults| {
        faults.next(tenure::Operation::Acquire, Fault::ErrorAfter);
        call(async move { drop(locks.lock("k").acquire().await) })
    })
    .await;
}

#[tokio::test]
async fn try_acquire_and_run() {
    dropped_everywhere("try_acquire", async |locks, _| {
        call(async move { drop(locks.lock("k").try_acquire().await) })
    })
    .await;
    dropped_everywhere("run", async |locks, _| {
        call(async move { locks.lock("k").run(async |_| yield_now().await).await.unwrap() })
    })
    .await;
    dropped_everywhere("run_if_free", async |locks, _| {
        call(async move {
            let ran = locks.lock("k").run_if_free(async |_| yield_now().await).await.unwrap();
            assert!(ran.is_some());
        })
    })
    .await;
    dropped_everywhere("a wrapped function", async |locks, _| {
        let wrapped = locks.lock("k").wrap(async |_: &Guard, n: u8| {
            yield_now().await;
            n
        });
        call(async move { assert_eq!(wrapped.call(3).await.unwrap(), 3) })
    })
    .await;
}

#[tokio::test]
async fn a_guards_futures() {
    dropped_everywhere("Guard::release", async |locks, _| {
        let guard = held(&locks).await;
        call(async move { guard.release().await.unwrap() })
    })
    .await;
    dropped_everywhere("Guard::release, reply lost", async |locks, faults| {
        let guard = held(&locks).await;
        faults.next(tenure::Operation::Release, Fault::ErrorAfter);
        call(async move { drop(guard.release().await) })
    })
    .await;
    dropped_everywhere("Guard::lost and Guard::ending", async |locks, _| {
        let guard = held(&locks).await;
        call(async move {
            tokio::select! {
                _ = guard.lost() => panic!("lost"),
                _ = guard.ending(Duration::from_secs(1)) => panic!("ending"),
                () = async { for _ in 0..5 { yield_now().await } } => {}
            }
        })
    })
    .await;
}

#[tokio::test]
async fn calls_by_key_and_owner() {
    dropped_everywhere("Locks::renew and Locks::release", async |locks, _| {
        let lease = held(&locks).await.detach();
        // Dropped before it was sent, a release did not happen: the lease is still the caller's,
        // who has its owner and tries again.
        let again = GiveBack { locks: locks.clone(), owner: lease.owner.clone() };
        call(async move {
            locks.renew("k", &lease.owner, Duration::from_secs(30)).await.unwrap();
            locks.release("k", &lease.owner).await.unwrap();
            drop(again);
        })
    })
    .await;
    dropped_everywhere("Locks::force_release", async |locks, _| {
        let guard = held(&locks).await;
        call(async move {
            locks.force_release("k", "test").await.unwrap();
            drop(guard);
        })
    })
    .await;
}

struct GiveBack {
    locks: Locks,
    owner: tenure::Owner,
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        let (locks, owner) = (self.locks.clone(), self.owner.clone());
        tokio::spawn(async move { drop(locks.release("k", &owner).await) });
    }
}

#[tokio::test]
async fn reads() {
    dropped_everywhere("status, list, events, flush", async |locks, _| {
        let guard = held(&locks).await;
        call(async move {
            assert!(locks.is_locked("k").await.unwrap());
            let mut list = std::pin::pin!(locks.list(""));
            assert!(list.next().await.unwrap().is_ok());
            let mut events = std::pin::pin!(locks.events());
            guard.release().await.unwrap();
            assert!(events.next().await.is_some());
            locks.flush().await;
        })
    })
    .await;
}

#[tokio::test]
async fn open() {
    for polls in 0..POINTS_MAX {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let halting = Arc::new(Halting::new(store.clone()));
        let mut call: Call = Box::pin(async { drop(Locks::builder().open_on(halting).await) });
        let ended = poll_times(&mut call, polls).await;
        drop(call);
        // Whatever was left half-way does not stand in the way of the next.
        let locks = Locks::builder().open_on(store).await.unwrap();
        locks.lock("k").acquire().await.unwrap().release().await.unwrap();
        if ended {
            return;
        }
    }
    panic!("open never ends");
}

//! The engine on the in-process store: what callers see, without any fault.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use tenure::clock::{Clock, Moment, Sleep};
use tenure::{ErrorKind, EventKind, KeyPolicy, Locks, LostReason, Owner};
use tokio::sync::watch;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn memory() -> Locks {
    Locks::open("memory:").await.unwrap()
}

/// A clock that stands still until it is put forward.
#[derive(Debug)]
struct HandClock(watch::Sender<Moment>);

impl Clock for HandClock {
    fn now(&self) -> Moment {
        *self.0.borrow()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn sleep_until(&self, at: Moment) -> Sleep {
        let mut now = self.0.subscribe();
        Box::pin(async move { drop(now.wait_for(|now| *now >= at).await) })
    }
}

#[tokio::test]
async fn a_guard_excludes_until_it_is_released() {
    let locks = memory().await;
    let first = locks.lock("k").acquire().await.unwrap();
    assert!(first.is_held());
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    assert_eq!(
        locks.lock("k").wait(ms(20)).acquire().await.unwrap_err().kind(),
        ErrorKind::TimedOut
    );
    let fence = first.fence();
    first.release().await.unwrap();
    let second = locks.lock("k").try_acquire().await.unwrap().unwrap();
    assert!(second.fence() > fence);
}

#[tokio::test]
async fn dropping_a_guard_wakes_a_waiter() {
    let locks = memory().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("k").acquire().await.unwrap().fence() }
    });
    while locks.waiters("k") == 0 {
        tokio::task::yield_now().await;
    }
    let fence = guard.fence();
    drop(guard);
    assert!(waiter.await.unwrap() > fence);
}

#[tokio::test]
async fn keep_alive_outlives_the_ttl_and_without_it_the_guard_is_lost() {
    let locks = memory().await;
    let kept = locks.lock("kept").ttl(ms(1000)).acquire().await.unwrap();
    let left = locks.lock("left").ttl(ms(500)).keep_alive(false).acquire().await.unwrap();
    assert_eq!(left.lost().await, LostReason::Expired);
    assert!(!left.is_held());
    tokio::time::sleep(ms(800)).await;
    assert!(kept.is_held());
    let error = left.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.overrun().unwrap().by >= ms(790), "{error}");
    kept.release().await.unwrap();
}

#[tokio::test]
async fn max_hold_ends_the_guard() {
    let locks = memory().await;
    let guard = locks.lock("k").ttl(ms(150)).max_hold(ms(300)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
}

#[tokio::test]
async fn run_returns_the_value_and_releases_also_after_a_panic() {
    let locks = memory().await;
    let request = locks.lock("k");
    assert_eq!(request.run(async |guard| guard.fence().get()).await.unwrap(), 1);
    let panicked = tokio::spawn({
        let request = request.clone();
        async move { request.run(async |_| panic!("work failed")).await }
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(request.run_if_free(async |_| 7).await.unwrap(), Some(7));
    let held = request.acquire().await.unwrap();
    assert_eq!(request.run_if_free(async |_| 7).await.unwrap(), None);
    drop(held);
}

#[tokio::test]
async fn run_stops_work_when_the_lock_is_taken_away() {
    let locks = memory().await;
    let running = tokio::spawn({
        let locks = locks.clone();
        async move {
            locks.lock("k").ttl(ms(150)).run(async |_| std::future::pending::<()>().await).await
        }
    });
    while !locks.is_locked("k").await.unwrap() {
        tokio::task::yield_now().await;
    }
    locks.force_release("k", "test").await.unwrap().unwrap();
    let other = locks.lock("k").acquire().await.unwrap();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.overrun().unwrap().live_fence, Some(other.fence()));
}

#[tokio::test]
async fn a_guard_that_has_lost_its_lease_is_not_waited_for() {
    let hour = Duration::from_secs(3600);
    let poll = tenure::Backoff { base: hour, cap: hour, jitter: 0.0 };
    let locks = Locks::builder().poll(poll).open("memory:").await.unwrap();
    let lost = locks.lock("k").ttl(ms(200)).keep_alive(false).acquire().await.unwrap();
    let next = locks.lock("k").wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(next.fence() > lost.fence() && !lost.is_held());
}

#[tokio::test]
async fn a_wait_of_a_moment_ends_in_time_also_behind_a_guard_of_its_own_process() {
    let clock = Arc::new(HandClock(watch::Sender::new(Moment::from_nanos(0))));
    let locks = Locks::builder().clock(Arc::clone(&clock) as _).open("memory:").await.unwrap();
    let _held = locks.lock("k").holder("night shift").acquire().await.unwrap();
    let request = locks.lock("k").wait(ms(2));
    let waiter = tokio::spawn(async move { request.acquire().await });
    while locks.waiters("k") == 0 {
        tokio::task::yield_now().await;
    }
    clock.0.send_modify(|now| *now = *now + ms(2));
    let error = tokio::time::timeout(ms(5000), waiter).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("night shift"), "{error}");
}

#[tokio::test]
async fn a_guard_of_the_own_process_is_shown_to_a_waiter_once() {
    // Without a look at the store, and with many that find the same holder.
    for pause in [ms(3_600_000), ms(20)] {
        let poll = tenure::Backoff { base: pause, cap: pause, jitter: 0.0 };
        let locks = Locks::builder().poll(poll).open("memory:").await.unwrap();
        let held = locks.lock("k").holder("night shift").acquire().await.unwrap();
        let events = locks.events();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&seen);
        let request = locks.lock("k").wait(ms(200));
        let request = request.on_wait(move |now| shown.lock().unwrap().push(now.clone()));
        assert_eq!(request.acquire().await.unwrap_err().kind(), ErrorKind::TimedOut);
        let seen: Vec<_> =
            seen.lock().unwrap().iter().flat_map(|now| now.held_by.clone()).collect();
        assert_eq!(seen.iter().map(|status| status.fence).collect::<Vec<_>>(), [held.fence()]);
        assert!(seen[0].holder.as_str().ends_with("night shift"), "{seen:?}");
        drop((request, held, locks));
        let told: Vec<_> = events.map(|event| event.kind).collect().await;
        let contended = |kind: &&EventKind| matches!(kind, EventKind::Contended { .. });
        assert_eq!(told.iter().filter(contended).count(), 1, "{told:?}");
    }
}

#[tokio::test]
async fn whoever_stands_in_line_sees_it_move_and_who_holds_the_key() {
    let locks = memory().await;
    let held = locks.lock("k").holder("night shift").acquire().await.unwrap();
    let waiter = || {
        let request = locks.lock("k").wait(ms(30_000));
        tokio::spawn(async move { request.acquire().await })
    };
    let (first, second) = (waiter(), waiter());
    until(|| locks.waiters("k") == 2).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shown = Arc::clone(&seen);
    let request = locks.lock("k").wait(ms(30_000)).on_wait(move |now| {
        let holder = now.held_by.as_ref().map(|status| status.holder.to_string());
        shown.lock().unwrap().push((now.ahead, holder.unwrap_or_default()));
    });
    let last = tokio::spawn(async move { request.acquire().await });
    let told = |ahead, holder: &str| {
        let seen = seen.lock().unwrap();
        seen.iter().any(|(n, held_by)| *n == ahead && held_by.ends_with(holder))
    };
    until(|| told(2, "night shift")).await;
    held.release().await.unwrap();
    let next = first.await.unwrap().unwrap();
    until(|| told(1, "")).await;
    next.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    drop(last.await.unwrap().unwrap());
}

/// Waits until it is so, for a while.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(ms(10)).await;
    }
    panic!("it never is");
}

#[tokio::test]
async fn a_wrapped_function_runs_under_its_lock_every_time() {
    let locks = memory().await;
    let double = locks.lock("k").wrap(async |_: &tenure::Guard, n: u32| n * 2);
    assert_eq!(double.call(2).await.unwrap(), 4);
    assert_eq!(double.call(4).await.unwrap(), 8);
}

#[tokio::test]
async fn a_detached_lease_is_renewed_and_released_by_owner() {
    let locks = memory().await;
    let lease = locks.lock("k").acquire().await.unwrap().detach();
    let wrong = Owner::parse("someone else").unwrap();
    let error = locks.release("k", &wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongOwner);
    assert_eq!(locks.renew("k", &lease.owner, ms(60_000)).await.unwrap().fence, lease.fence);
    locks.release("k", &lease.owner).await.unwrap();
    let error = locks.release("k", &lease.owner).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn events_tell_the_story_without_owners_or_raw_keys() {
    let policy = KeyPolicy::hashed("0123456789abcdef").unwrap();
    let locks = Locks::builder().key_policy(policy).open("memory:").await.unwrap();
    let events = locks.events();
    let guard = locks.lock("customer-maria").acquire().await.unwrap();
    let owner = guard.owner().expose();
    assert!(locks.lock("customer-maria").try_acquire().await.unwrap().is_none());
    locks.force_release("customer-maria", "test").await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert!(!error.to_string().contains("maria"), "{error}");
    drop(locks);
    let told: Vec<_> = events.collect().await;
    assert!(matches!(told[0].kind, EventKind::Granted { .. }), "{told:?}");
    assert!(matches!(told[1].kind, EventKind::Contended { .. }), "{told:?}");
    assert!(matches!(told[2].kind, EventKind::Forced { .. }), "{told:?}");
    let text = format!("{told:?}");
    assert!(!text.contains("maria") && !text.contains(&owner), "{text}");
}

#[tokio::test]
async fn a_process_with_another_secret_is_refused() {
    let store =
        Arc::new(tenure::stores::memory::MemoryStore::new(Arc::new(tenure::clock::SystemClock)));
    let open = |policy| {
        let store = Arc::clone(&store) as Arc<dyn tenure::Store>;
        Locks::builder().key_policy(policy).open_on(store)
    };
    open(KeyPolicy::hashed("0123456789abcdef").unwrap()).await.unwrap();
    open(KeyPolicy::hashed("0123456789abcdef").unwrap()).await.unwrap();
    for other in [KeyPolicy::plain(), KeyPolicy::hashed("fedcba9876543210").unwrap()] {
        assert_eq!(open(other).await.unwrap_err().kind(), ErrorKind::Mismatch);
    }
}

#[tokio::test]
async fn listing_pages_through_all_keys_in_order() {
    let locks = memory().await;
    let mut guards = Vec::new();
    for n in 0..600 {
        guards.push(locks.lock(&format!("job/{n:04}")).acquire().await.unwrap());
    }
    guards.push(locks.lock("other").acquire().await.unwrap());
    let keys: Vec<_> =
        locks.list("job/").map(|status| status.unwrap().key.to_string()).collect().await;
    let expected: Vec<_> = (0..600).map(|n| format!("job/{n:04}")).collect();
    assert_eq!(keys, expected);
}

#[tokio::test]
async fn a_guard_that_shares_its_grant_is_told_before_that_is_released() {
    let locks = memory().await;
    let request = locks.lock("k").owner(Owner::parse("worker-7").unwrap());
    for release in [true, false] {
        let (one, two) = (request.acquire().await.unwrap(), request.acquire().await.unwrap());
        assert_eq!(one.fence(), two.fence());
        if release {
            two.release().await.unwrap();
        } else {
            drop(two);
            locks.flush().await;
        }
        assert!(!one.is_held(), "believes in what was released");
        assert_eq!(one.lost().await, LostReason::Refused);
        assert!(locks.lock("k").acquire().await.unwrap().fence() > one.fence());
        locks.flush().await;
    }
}

#[tokio::test]
async fn a_chosen_owner_is_not_given_what_it_is_giving_back() {
    let locks = memory().await;
    let request = locks.lock("k").owner(Owner::parse("worker-7").unwrap());
    let mut last = request.acquire().await.unwrap().fence();
    for _ in 0..50 {
        // The guard before was dropped, and its release may be anywhere on its way.
        let guard = request.acquire().await.unwrap();
        assert!(guard.is_held() && guard.fence() > last, "{:?} after {last}", guard.fence());
        last = guard.fence();
        drop(guard);
    }
    locks.flush().await;
    assert!(!locks.is_locked("k").await.unwrap());
}

#[tokio::test]
async fn lost_is_told_also_when_the_runtime_of_the_keeper_is_gone() {
    let elsewhere = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(memory())
    });
    let locks = elsewhere.join().unwrap();
    let guard = locks.lock("k").ttl(ms(300)).acquire().await.unwrap();
    let told = tokio::time::timeout(ms(5000), guard.lost()).await;
    assert_eq!(told.unwrap(), LostReason::Expired);
}

#[tokio::test]
async fn work_that_outlasts_its_lease_is_not_a_success() {
    let locks = memory().await;
    let request = locks.lock("k").ttl(ms(200)).keep_alive(false);
    // It blocks its thread, so that it cannot be stopped.
    let ran = request.run(async |_| std::thread::sleep(ms(400))).await;
    let error = ran.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.overrun().unwrap().by >= ms(150), "{error}");
}

#[tokio::test]
async fn the_last_watch_of_a_key_takes_its_topic_along_under_contention() {
    let hub = tenure::watch::WatchHub::default();
    let key = tenure::Key::new("k").unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (hub, key) = (hub.clone(), key.clone());
            std::thread::spawn(move || (0..20_000).for_each(|_| drop(hub.watch(&key))))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(hub.keys().is_empty());
}

#[tokio::test]
async fn a_watch_is_woken_by_a_release_of_its_key() {
    let locks = memory().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let mut watch = locks.watch("k").await.unwrap();
    guard.release().await.unwrap();
    let woken = tenure::clock::within(&tenure::clock::SystemClock, ms(10_000), watch.changed());
    assert!(woken.await.is_ok());
    assert!(!locks.is_locked("k").await.unwrap());
    assert_eq!(locks.watch("").await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_view_believes_no_longer_than_its_guard() {
    let locks = memory().await;
    let views = [
        {
            let guard = locks.lock("released").acquire().await.unwrap();
            let view = guard.view();
            assert!(view.is_held() && view.fence() == guard.fence());
            guard.release().await.unwrap();
            view
        },
        {
            let guard = locks.lock("detached").acquire().await.unwrap();
            let view = guard.view();
            drop(guard.detach());
            view
        },
        locks.lock("dropped").acquire().await.unwrap().view(),
    ];
    for view in views {
        assert!(!view.is_held() && view.remaining().is_zero(), "{view:?}");
    }
}

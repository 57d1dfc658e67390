//! Waiters are woken, in order, in time, and leave nothing behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure::{Backoff, ErrorKind, Guard, Locks, Operation, Status};
use tokio::task::JoinHandle;

use super::subject::{never_looks, quick};
use super::{Subject, group, ms};
use crate::faults::Fault;
use crate::wait::{bounded, until};

group!("waiting":
    a_release_wakes_without_a_look,
    a_forced_release_wakes_without_a_look,
    the_end_of_a_lease_wakes_without_a_notification,
    a_failure_does_not_hide_the_end_of_a_lease,
    a_store_that_fails_is_asked_again_soon_however_long_the_wait,
    the_wait_ends_in_time,
    a_store_that_fails_is_no_held_key_further_down_the_line,
    a_store_that_hangs_is_no_held_key_further_down_the_line,
    what_an_earlier_head_was_told_is_no_held_key_later,
    a_waiter_that_leaves_leaves_nothing_behind,
    first_come_first_served_within_a_process,
    a_hundred_waiters_are_all_served,
    a_waiter_sees_who_holds_the_key,
    a_slow_subscription_keeps_nobody_waiting,
    behind_a_dropped_guard_nobody_asks_before_it_is_given_back,
);

/// Longer than a hand-off takes, and far shorter than the hour until the next look.
const SOON: Duration = ms(5000);

fn waiter(locks: &Locks) -> JoinHandle<tenure::Result<Guard>> {
    let request = locks.lock("k").wait(ms(50_000));
    tokio::spawn(async move { request.acquire().await })
}

async fn waiting(locks: &Locks, count: usize) -> Result<()> {
    until("the waiters to stand in line", SOON, || async { Ok(locks.waiters("k") == count) }).await
}

async fn a_release_wakes_without_a_look(subject: Subject) -> Result<()> {
    woken_by(subject, async |_, guard| Ok(guard.release().await?)).await
}

async fn a_forced_release_wakes_without_a_look(subject: Subject) -> Result<()> {
    woken_by(subject, async |locks, _| {
        locks.force_release("k", "conformance").await?;
        Ok(())
    })
    .await
}

async fn woken_by(
    subject: Subject,
    free: impl AsyncFnOnce(Locks, Guard) -> Result<()>,
) -> Result<()> {
    let holder = subject.locks().await?;
    let builder = if subject.capabilities().await?.wakes { never_looks() } else { quick() };
    let (locks, calls) = subject.faulty_with(builder).await?;
    let guard = holder.lock("k").acquire().await?;
    let fence = guard.fence();
    let waiter = waiter(&locks);
    // It asks, subscribes, asks again, and then waits to be woken.
    until("the waiter to wait", SOON, || async { Ok(calls.answers(Operation::Acquire) >= 2) })
        .await?;
    free(holder, guard).await?;
    let woken = bounded("the waiter to be woken", SOON, waiter).await???;
    ensure!(woken.fence() > fence, "the fence did not grow");
    Ok(())
}

async fn the_end_of_a_lease_wakes_without_a_notification(subject: Subject) -> Result<()> {
    let (holder, locks) = (subject.locks().await?, subject.locks_with(never_looks()).await?);
    let dead = holder.lock("k").ttl(ms(500)).keep_alive(false).acquire().await?;
    let woken = bounded("the lease to end", SOON, waiter(&locks)).await???;
    ensure!(woken.fence() > dead.fence() && !dead.is_held());
    Ok(())
}

async fn a_failure_does_not_hide_the_end_of_a_lease(subject: Subject) -> Result<()> {
    let holder = subject.locks().await?;
    let (locks, faults) = subject.faulty_with(never_looks()).await?;
    let dead = holder.lock("k").ttl(ms(1500)).keep_alive(false).acquire().await?;
    // It asks, subscribes, and asks again.
    faults.next(Operation::Acquire, Fault::Delay(ms(0)));
    faults.next(Operation::Acquire, Fault::ErrorBefore);
    let woken = bounded("the lease to end", SOON, waiter(&locks)).await???;
    ensure!(woken.fence() > dead.fence() && !dead.is_held());
    ensure!(faults.struck(Operation::Acquire) == 2, "nothing has failed");
    Ok(())
}

async fn a_store_that_fails_is_asked_again_soon_however_long_the_wait(
    subject: Subject,
) -> Result<()> {
    let holder = subject.locks().await?;
    // Each look comes twice as late as the one before.
    let patient = quick().poll(Backoff { base: ms(20), cap: ms(3_600_000), jitter: 0.0 });
    let (locks, faults) = subject.faulty_with(patient).await?;
    let held = holder.lock("k").acquire().await?;
    let waiter = waiter(&locks);
    let looked = || async { Ok(faults.answers(Operation::Acquire) >= 7) };
    until("the waiter to look less and less", SOON, looked).await?;
    faults.always(Operation::Acquire, Fault::ErrorBefore);
    let asked = || async { Ok(faults.struck(Operation::Acquire) >= 20) };
    until("the waiter to ask again and again", SOON, asked).await?;
    faults.heal();
    held.release().await?;
    bounded("the waiter to go on", SOON, waiter).await???.release().await?;
    Ok(())
}

async fn the_wait_ends_in_time(subject: Subject) -> Result<()> {
    let (locks, other) = (subject.locks().await?, subject.locks_with(never_looks()).await?);
    let _held = locks.lock("k").acquire().await?;
    for wait in [ms(0), ms(300)] {
        let before = SystemClock.now();
        let error = other.lock("k").wait(wait).acquire().await.err().context("granted twice")?;
        let took = SystemClock.now().since(before);
        let kind = if wait.is_zero() { ErrorKind::Held } else { ErrorKind::TimedOut };
        ensure!(error.kind() == kind, "{error}");
        ensure!(took >= wait && took < wait + ms(2000), "waited {took:?} instead of {wait:?}");
    }
    ensure!(other.waiters("k") == 0, "one still stands in line");
    Ok(())
}

/// What one is told that waits for a short while behind another of its process, who asks for both.
async fn second_in_line(locks: &Locks) -> Result<ErrorKind> {
    ensure!(locks.waiters("k") > 0, "nobody stands before it");
    let outcome = locks.lock("k").wait(ms(50)).acquire().await;
    Ok(outcome.err().context("granted twice")?.kind())
}

async fn a_store_that_fails_is_no_held_key_further_down_the_line(subject: Subject) -> Result<()> {
    let holder = subject.locks().await?;
    let (locks, faults) = subject.faulty().await?;
    let held = holder.lock("k").acquire().await?;
    let head = waiter(&locks);
    waiting(&locks, 1).await?;
    let told = |kind| {
        let locks = &locks;
        until("the line to know how the store is", SOON, move || async move {
            Ok(second_in_line(locks).await? == kind)
        })
    };
    told(ErrorKind::TimedOut).await?;
    faults.always(Operation::Acquire, Fault::ErrorBefore);
    told(ErrorKind::Unavailable).await?;
    faults.heal();
    told(ErrorKind::TimedOut).await?;
    held.release().await?;
    bounded("the head to go on", SOON, head).await???.release().await?;
    Ok(())
}

async fn a_store_that_hangs_is_no_held_key_further_down_the_line(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.always(Operation::Acquire, Fault::Hang);
    let head = waiter(&locks);
    waiting(&locks, 1).await?;
    let told = second_in_line(&locks).await?;
    ensure!(told == ErrorKind::Unknown, "nobody was answered, and one was told {told:?}");
    faults.heal();
    bounded("the head to go on", SOON, head).await???.release().await?;
    Ok(())
}

async fn what_an_earlier_head_was_told_is_no_held_key_later(subject: Subject) -> Result<()> {
    let holder = subject.locks().await?;
    let (locks, faults) = subject.faulty().await?;
    let held = holder.lock("k").acquire().await?;
    let first = waiter(&locks);
    waiting(&locks, 1).await?;
    let second = waiter(&locks);
    waiting(&locks, 2).await?;
    held.release().await?;
    let guard = bounded("the first", SOON, first).await???;
    faults.always(Operation::Acquire, Fault::Hang);
    guard.release().await?;
    let asked = || async { Ok(faults.struck(Operation::Acquire) > 0) };
    until("the second to ask", SOON, asked).await?;
    let told = second_in_line(&locks).await?;
    ensure!(told == ErrorKind::Unknown, "the store hangs, and one was told {told:?}");
    faults.heal();
    bounded("the second", SOON, second).await???.release().await?;
    Ok(())
}

async fn a_waiter_that_leaves_leaves_nothing_behind(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let guard = locks.lock("k").acquire().await?;
    let waiters: Vec<_> = (0..3).map(|_| waiter(&locks)).collect();
    waiting(&locks, 3).await?;
    for waiter in &waiters {
        waiter.abort();
    }
    until("the line to be empty", SOON, || async { Ok(locks.waiters("k") == 0) }).await?;
    guard.release().await?;
    locks.flush().await;
    let next = locks.lock("k").try_acquire().await?;
    ensure!(next.is_some(), "one that left still holds the key");
    Ok(())
}

async fn first_come_first_served_within_a_process(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let guard = locks.lock("k").acquire().await?;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..10 {
        let (locks, order) = (locks.clone(), Arc::clone(&order));
        until("the one before to stand in line", SOON, || async { Ok(locks.waiters("k") == n) })
            .await?;
        let request = locks.lock("k");
        tasks.push(tokio::spawn(async move {
            let guard = request.acquire().await?;
            if let Ok(mut order) = order.lock() {
                order.push(n);
            }
            guard.release().await
        }));
    }
    waiting(&locks, 10).await?;
    guard.release().await?;
    for task in tasks {
        bounded("its turn to come", SOON, task).await???;
    }
    let order = order.lock().map(|order| order.clone()).unwrap_or_default();
    ensure!(order == (0..10).collect::<Vec<_>>(), "served in the order {order:?}");
    Ok(())
}

async fn a_hundred_waiters_are_all_served(subject: Subject) -> Result<()> {
    let builder = if subject.capabilities().await?.wakes { never_looks() } else { quick() };
    let (locks, faults) = subject.faulty_with(builder).await?;
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (request, inside) = (locks.lock("k"), Arc::clone(&inside));
            tokio::spawn(async move {
                let guard = request.acquire().await?;
                ensure!(inside.fetch_add(1, Ordering::SeqCst) == 0, "two at once");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await?;
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        bounded("every waiter to be served", ms(30_000), task).await???;
    }
    // The head asks, subscribes, asks again, is woken and asks: no one else asks anything.
    let asked = faults.calls(Operation::Acquire);
    ensure!(
        !subject.capabilities().await?.wakes || asked <= 400,
        "{asked} requests for 100 grants"
    );
    Ok(())
}

async fn a_waiter_sees_who_holds_the_key(subject: Subject) -> Result<()> {
    for builder in [quick(), quick().poll(Backoff::default())] {
        let (locks, other) = (subject.locks_with(builder).await?, subject.locks().await?);
        let guard = locks.lock("k").holder("night shift").acquire().await?;
        for waiter in [&locks, &other] {
            let held_by = shown_to(waiter).await?.context("not shown")?;
            ensure!(held_by.fence == guard.fence(), "{held_by:?}");
            ensure!(held_by.holder.as_str().ends_with("night shift"), "{held_by:?}");
        }
        guard.release().await?;
    }
    Ok(())
}

/// Who holds the key, as the first to wait for it is told.
async fn shown_to(locks: &Locks) -> Result<Option<Status>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let request = locks.lock("k").wait(ms(200)).on_wait({
        let seen = Arc::clone(&seen);
        move |waiting| {
            if let Ok(mut seen) = seen.lock() {
                seen.push(waiting.clone());
            }
        }
    });
    ensure!(request.acquire().await.is_err(), "granted twice");
    let seen = seen.lock().map(|seen| seen.clone()).unwrap_or_default();
    Ok(seen.first().and_then(|waiting| waiting.held_by.clone()))
}

async fn a_slow_subscription_keeps_nobody_waiting(subject: Subject) -> Result<()> {
    let builder = never_looks().operation_timeout(SOON * 4);
    let (locks, faults) = subject.faulty_with(builder).await?;
    faults.always(Operation::Watch, Fault::Hang);
    let guard = locks.lock("k").acquire().await?;
    let (fence, waiter) = (guard.fence(), waiter(&locks));
    until("the waiter to subscribe", SOON, || async { Ok(faults.calls(Operation::Watch) > 0) })
        .await?;
    guard.release().await?;
    let next = bounded("the guard's end to be told", SOON, waiter).await???;
    ensure!(next.fence() > fence, "the fence did not grow");
    Ok(())
}

async fn behind_a_dropped_guard_nobody_asks_before_it_is_given_back(
    subject: Subject,
) -> Result<()> {
    let (locks, faults) = subject.faulty_with(never_looks().operation_timeout(SOON * 4)).await?;
    faults.always(Operation::Watch, Fault::Hang);
    faults.next(Operation::Release, Fault::Delay(ms(200)));
    let guard = locks.lock("k").acquire().await?;
    let (fence, waiter) = (guard.fence(), waiter(&locks));
    until("the waiter to subscribe", SOON, || async { Ok(faults.calls(Operation::Watch) > 0) })
        .await?;
    let asked = faults.calls(Operation::Acquire);
    drop(guard);
    let next = bounded("the guard's end to be told", SOON, waiter).await???;
    ensure!(next.fence() > fence, "the fence did not grow");
    let asked = faults.calls(Operation::Acquire) - asked;
    ensure!(asked == 1, "asked {asked} times for one grant");
    Ok(())
}

//! What is measured, and how.

use std::sync::Arc;
use std::time::Duration;

use tenure::clock::{Clock, Moment, SystemClock};
use tenure::{Error, ErrorKind, Guard, Locks, Result};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::sample::Sample;
use crate::spans::nanos;

/// No lock here is waited for longer.
const WAIT: Duration = Duration::from_secs(30);

/// How many reads make a reference at the least.
const READS_MIN: usize = 20;

/// Looks at one free key.
pub(super) async fn round_trip(locks: &Locks, length: Duration) -> Result<Sample> {
    let (start, mut times) = (SystemClock.now(), Vec::new());
    while times.len() < READS_MIN || SystemClock.now() < start + length {
        let asked = SystemClock.now();
        locks.status("free").await?;
        times.push(since(asked));
    }
    Ok(Sample::new(times, SystemClock.now().since(start)))
}

/// Acquires and releases, one after the other.
pub(super) async fn cycle(locks: &Locks, length: Duration) -> Result<Sample> {
    let start = SystemClock.now();
    let times = cycles(locks.clone(), "cycle".into(), start + length).await?;
    Ok(Sample::new(times, SystemClock.now().since(start)))
}

async fn cycles(locks: Locks, key: String, end: Moment) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    while times.is_empty() || SystemClock.now() < end {
        let asked = SystemClock.now();
        locks.lock(&key).wait(WAIT).acquire().await?.release().await?;
        times.push(since(asked));
    }
    Ok(times)
}

/// Two connections pass one key to and fro: from the call that releases it to the other's grant.
/// How often is by the time that passes in hand-offs only.
pub(super) async fn hand_off(one: &Locks, other: &Locks, length: Duration) -> Result<Sample> {
    let start = SystemClock.now();
    let (mut holding, mut next) = (one.clone(), other.clone());
    let mut guard = holding.lock("hand-off").acquire().await?;
    let mut times = Vec::new();
    while times.is_empty() || SystemClock.now() < start + length {
        let (granted, took) = pass_on(guard, &next).await?;
        guard = granted;
        times.push(took);
        std::mem::swap(&mut holding, &mut next);
    }
    guard.release().await?;
    let elapsed = times.iter().sum();
    Ok(Sample::new(times, Duration::from_nanos(elapsed)))
}

/// The key goes over to the other, who waits for it already.
async fn pass_on(guard: Guard, next: &Locks) -> Result<(Guard, u64)> {
    let waits = Arc::new(Notify::new());
    let seen = Arc::clone(&waits);
    let request = next.lock("hand-off").wait(WAIT).on_wait(move |waiting| {
        if waiting.held_by.is_some() {
            seen.notify_one();
        }
    });
    let mut waiter = tokio::spawn(async move {
        let granted = request.acquire().await?;
        Ok::<_, Error>((granted, SystemClock.now()))
    });
    tokio::select! {
        () = waits.notified() => {}
        done = &mut waiter => {
            drop(done.map_err(|error| panicked(&error))??);
            return Err(Error::new(ErrorKind::Lost, "the key was granted while it was held"));
        }
    }
    let released = SystemClock.now();
    guard.release().await?;
    let (granted, at) = waiter.await.map_err(|error| panicked(&error))??;
    Ok((granted, nanos(at.since(released))))
}

/// Many tasks acquire and release; task n has key n modulo `keys`.
pub(super) async fn many(
    locks: &Locks,
    tasks: usize,
    keys: usize,
    length: Duration,
) -> Result<Sample> {
    let start = SystemClock.now();
    let mut all = JoinSet::new();
    for task in 0..tasks {
        all.spawn(cycles(locks.clone(), format!("many-{keys}-{}", task % keys), start + length));
    }
    let mut times = Vec::new();
    while let Some(done) = all.join_next().await {
        times.extend(done.map_err(|error| panicked(&error))??);
    }
    Ok(Sample::new(times, SystemClock.now().since(start)))
}

fn panicked(error: &tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a task has ended: {error}"))
}

fn since(moment: Moment) -> u64 {
    nanos(SystemClock.now().since(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn everything_can_be_measured() {
        let locks = Locks::open("memory:").await.unwrap();
        // Two that share a store in this process stand for two connections.
        let other = locks.clone();
        let samples = [
            round_trip(&locks, LENGTH).await.unwrap(),
            cycle(&locks, LENGTH).await.unwrap(),
            hand_off(&locks, &other, LENGTH).await.unwrap(),
            many(&locks, 8, 1, LENGTH).await.unwrap(),
            many(&locks, 4, 4, LENGTH).await.unwrap(),
        ];
        for sample in samples {
            assert!(sample.count() > 0 && sample.per_second() > 0.0);
            assert!(sample.permille(500) <= sample.permille(990));
            assert!(sample.permille(990) <= sample.max());
        }
        assert!(!locks.is_locked("hand-off").await.unwrap());
    }
}

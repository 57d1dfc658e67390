//! A live lease is prolonged; a dead one stays dead; a loss is told.

use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::{ErrorKind, LostReason};

use super::{Subject, group, ms};
use crate::wait::{bounded, sleep, until};

group!("renewal":
    keep_alive_outlives_the_ttl,
    a_renewal_never_revives,
    a_renewal_never_shortens,
    a_forced_release_is_told_to_the_holder,
    the_longest_hold_is_kept,
    work_is_stopped_when_the_lock_is_gone,
);

const TTL: Duration = ms(1200);

async fn keep_alive_outlives_the_ttl(subject: Subject) -> Result<()> {
    let (locks, other) = (subject.locks().await?, subject.locks().await?);
    let guard = locks.lock("k").ttl(TTL).acquire().await?;
    for _ in 0..6 {
        sleep(TTL / 2).await;
        let second = other.lock("k").try_acquire().await?;
        ensure!(second.is_none() || !guard.is_held(), "granted although it is held");
        ensure!(guard.is_held(), "lost although it was kept alive");
    }
    guard.release().await?;
    Ok(())
}

async fn a_renewal_never_revives(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let lease = locks.lock("k").ttl(TTL).acquire().await?.detach();
    until("the lease to end", TTL * 10, || async { Ok(!locks.is_locked("k").await?) }).await?;
    let renewed = locks.renew("k", &lease.owner, ms(5000)).await;
    ensure!(renewed.is_err_and(|e| e.kind() == ErrorKind::NotFound), "revived after expiry");
    let lease = locks.lock("k").acquire().await?.detach();
    locks.release("k", &lease.owner).await?;
    let renewed = locks.renew("k", &lease.owner, ms(5000)).await;
    ensure!(renewed.is_err_and(|e| e.kind() == ErrorKind::NotFound), "revived after release");
    ensure!(!locks.is_locked("k").await?, "a refused renewal left a lock behind");
    Ok(())
}

async fn a_renewal_never_shortens(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let lease = locks.lock("k").ttl(ms(60_000)).acquire().await?.detach();
    let renewed = locks.renew("k", &lease.owner, TTL).await?;
    ensure!(renewed.remaining > ms(30_000), "cut down to {:?}", renewed.remaining);
    locks.release("k", &lease.owner).await?;
    Ok(())
}

async fn a_forced_release_is_told_to_the_holder(subject: Subject) -> Result<()> {
    let (one, two) = (subject.locks().await?, subject.locks().await?);
    let guard = one.lock("k").ttl(TTL).acquire().await?;
    let evicted = two.force_release("k", "conformance").await?;
    ensure!(evicted.is_some_and(|s| s.fence == guard.fence()), "evicted another");
    ensure!(two.force_release("k", "conformance").await?.is_none(), "evicted twice");
    let reason = bounded("the holder to be told", TTL, guard.lost()).await?;
    ensure!(reason == LostReason::Refused, "{reason:?}");
    ensure!(!guard.is_held(), "told, and still believes");
    let next = two.lock("k").acquire().await?;
    ensure!(next.fence() > guard.fence(), "the fence did not grow");
    Ok(())
}

async fn the_longest_hold_is_kept(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let guard = locks.lock("k").ttl(TTL).max_hold(TTL * 2).acquire().await?;
    let reason = bounded("the longest hold to end", TTL * 3, guard.lost()).await?;
    ensure!(reason == LostReason::MaxHold, "{reason:?}");
    Ok(())
}

async fn work_is_stopped_when_the_lock_is_gone(subject: Subject) -> Result<()> {
    let (one, two) = (subject.locks().await?, subject.locks().await?);
    let request = one.lock("k").ttl(TTL);
    let work = tokio::spawn(async move { request.run(async |_| sleep(TTL * 20).await).await });
    until("the work to begin", ms(5000), || async { two.is_locked("k").await.map_err(Into::into) })
        .await?;
    two.force_release("k", "conformance").await?;
    let outcome = bounded("the work to be stopped", TTL * 2, work).await??;
    ensure!(outcome.is_err_and(|e| e.kind() == ErrorKind::Lost), "the work went on");
    Ok(())
}

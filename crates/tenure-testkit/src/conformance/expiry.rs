//! A lease ends with its ttl, and not before.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure::{ErrorKind, Guard, LostReason, Operation};

use super::{Subject, group, ms};
use crate::faults::Fault;
use crate::wait::{bounded, until};

group!("expiry":
    a_lease_ends_with_its_ttl_and_not_before,
    belief_ends_before_the_key_is_granted_again,
    belief_counts_from_the_question_not_from_the_answer,
    a_grant_that_comes_too_late_is_given_back,
    an_expired_lease_is_gone_from_status_and_list,
);

const TTL: Duration = ms(2000);

async fn short_lived(subject: &Subject) -> Result<Guard> {
    let locks = subject.locks().await?;
    Ok(locks.lock("k").ttl(TTL).keep_alive(false).acquire().await?)
}

async fn a_lease_ends_with_its_ttl_and_not_before(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let before = SystemClock.now();
    std::mem::forget(short_lived(&subject).await?);
    let second = locks.lock("k").wait(TTL * 7 / 2).acquire().await?;
    let after = SystemClock.now().since(before);
    ensure!(after >= TTL, "granted again after {after:?}, before the ttl of {TTL:?}");
    ensure!(second.is_held());
    Ok(())
}

async fn belief_ends_before_the_key_is_granted_again(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let first = short_lived(&subject).await?;
    ensure!(first.is_held() && first.remaining() < TTL, "belief as long as the ttl");
    let second = locks.lock("k").wait(TTL * 5).acquire().await?;
    ensure!(!first.is_held(), "two believe at once");
    let reason = bounded("the first to be told", ms(5000), first.lost()).await?;
    ensure!(reason == LostReason::Expired, "{reason:?}");
    let error = first.release().await.err().context("released a lost lock")?;
    let overrun = error.overrun().context("no overrun told")?;
    ensure!(overrun.live_fence == Some(second.fence()), "{overrun:?}");
    Ok(())
}

async fn belief_counts_from_the_question_not_from_the_answer(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.next(Operation::Acquire, Fault::SlowReply(TTL / 2));
    let guard = locks.lock("k").ttl(TTL).keep_alive(false).acquire().await?;
    ensure!(guard.remaining() <= TTL / 2, "believes for {:?} more", guard.remaining());
    let second = subject.locks().await?.lock("k").wait(TTL * 5).acquire().await?;
    ensure!(!guard.is_held() && second.is_held(), "two believe at once");
    Ok(())
}

async fn a_grant_that_comes_too_late_is_given_back(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.next(Operation::Acquire, Fault::SlowReply(TTL * 19 / 20));
    match locks.lock("k").ttl(TTL).try_acquire().await {
        // Where the store was asked again, what it granted then may have come in time.
        Ok(Some(late)) => {
            ensure!(late.remaining() > TTL / 2, "handed out with {:?} left", late.remaining());
            late.release().await?;
        }
        Ok(None) => bail!("held by nobody"),
        Err(error) => {
            let kinds = [ErrorKind::Unavailable, ErrorKind::Unknown];
            ensure!(kinds.contains(&error.kind()), "refused otherwise: {error}");
        }
    }
    faults.next(Operation::Acquire, Fault::SlowReply(TTL * 2));
    let guard = locks.lock("k").ttl(TTL).wait(TTL * 5).acquire().await?;
    ensure!(guard.remaining() > TTL / 2, "only {:?} left", guard.remaining());
    Ok(())
}

async fn an_expired_lease_is_gone_from_status_and_list(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    std::mem::forget(short_lived(&subject).await?);
    until("the lease to end", TTL * 10, || async { Ok(!locks.is_locked("k").await?) }).await?;
    if subject.capabilities().await?.lists {
        let listed: Vec<_> = futures_util::StreamExt::collect(locks.list("")).await;
        ensure!(listed.is_empty(), "{listed:?}");
    }
    Ok(())
}

//! A process that dies frees its locks by the ttl, and takes no fence with it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::clock::{Clock, SystemClock};

use super::{Subject, group, ms};
use crate::role::{Process, Role};

group!("crash":
    a_killed_holder_is_taken_over_by_its_ttl,
    a_grant_outlives_the_process_that_got_it,
);

/// A whole number of seconds, because some stores can keep no other: they round it up.
const TTL: Duration = ms(2000);

/// A process that holds `k`; `None` where the store is this process's own, which is asserted.
async fn holder(subject: &Subject) -> Result<Option<(Process, u64)>> {
    let shared = subject.capabilities().await?.shared;
    ensure!(shared == subject.url().is_some(), "a shared store has a URL, a local one has none");
    let Some(url) = subject.url() else { return Ok(None) };
    let mut process = Process::start(&Role::Hold { url: url.into(), key: "k".into(), ttl: TTL })?;
    let fence = process.line("held ").await?.parse().context("no fence")?;
    Ok(Some((process, fence)))
}

async fn a_killed_holder_is_taken_over_by_its_ttl(subject: Subject) -> Result<()> {
    let Some((mut process, fence)) = holder(&subject).await? else { return Ok(()) };
    let locks = subject.locks().await?;
    ensure!(locks.lock("k").try_acquire().await?.is_none(), "granted to two processes");
    process.kill()?;
    let killed = SystemClock.now();
    let guard = locks.lock("k").wait(TTL * 4).acquire().await?;
    let took = SystemClock.now().since(killed);
    ensure!(took <= TTL + ms(1000), "taken over only {took:?} after the death");
    ensure!(guard.fence().get() > fence, "fence {} after {fence}", guard.fence());
    Ok(())
}

async fn a_grant_outlives_the_process_that_got_it(subject: Subject) -> Result<()> {
    let Some((mut process, fence)) = holder(&subject).await? else { return Ok(()) };
    process.kill()?;
    let status = subject.locks().await?.status("k").await?;
    let seen = status.map(|status| status.fence.get());
    ensure!(seen == Some(fence), "the grant with fence {fence} is gone: {seen:?}");
    Ok(())
}

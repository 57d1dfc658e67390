//! Fences only grow.

use anyhow::{Result, ensure};
use tenure::{Fence, Locks};

use super::{Subject, group, ms};

group!("fencing":
    grows_across_release,
    grows_across_expiry,
    grows_across_force,
    grows_across_a_new_connection,
    a_refused_claim_and_a_renewal_leave_it_alone,
);

async fn next(locks: &Locks) -> Result<Fence> {
    let guard = locks.lock("k").wait(ms(10_000)).acquire().await?;
    let fence = guard.fence();
    guard.release().await?;
    Ok(fence)
}

async fn grows_across_release(subject: Subject) -> Result<()> {
    let both = [subject.locks().await?, subject.locks().await?];
    let mut last = Fence::new(0);
    for n in 0..20 {
        let fence = next(&both[n % 2]).await?;
        ensure!(fence > last, "{fence} after {last}");
        last = fence;
    }
    Ok(())
}

async fn grows_across_expiry(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let first = locks.lock("k").ttl(ms(200)).keep_alive(false).acquire().await?;
    let second = next(&locks).await?;
    ensure!(second > first.fence(), "{second} after {}", first.fence());
    Ok(())
}

async fn grows_across_force(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let first = locks.lock("k").acquire().await?;
    locks.force_release("k", "conformance").await?;
    let second = next(&locks).await?;
    ensure!(second > first.fence(), "{second} after {}", first.fence());
    Ok(())
}

async fn grows_across_a_new_connection(subject: Subject) -> Result<()> {
    let first = next(&subject.locks().await?).await?;
    let second = next(&subject.locks().await?).await?;
    ensure!(second > first, "{second} after {first}");
    Ok(())
}

async fn a_refused_claim_and_a_renewal_leave_it_alone(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let guard = locks.lock("k").acquire().await?;
    ensure!(locks.lock("k").try_acquire().await?.is_none(), "granted twice");
    let renewed = locks.renew("k", guard.owner(), ms(60_000)).await?;
    ensure!(renewed.fence == guard.fence(), "a renewal changed the fence");
    let seen = locks.status("k").await?.map(|status| status.fence);
    ensure!(seen == Some(guard.fence()), "status says {seen:?}");
    Ok(())
}

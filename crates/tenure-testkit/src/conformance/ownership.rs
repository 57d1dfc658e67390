//! Only the owner of the very grant renews and releases it.

use anyhow::{Context, Result, ensure};
use tenure::claim::{Grant, Reentry, Released, Renewal, Renewed};
use tenure::{ErrorKind, Fence, Owner};

use super::{Subject, group, ms};

group!("ownership":
    another_owner_can_neither_renew_nor_release,
    a_detached_lease_is_released_by_another_connection,
    the_same_owner_gets_the_same_grant,
    the_same_owner_is_refused_when_asked_to_be,
    an_earlier_grant_of_the_same_owner_is_not_this_one,
    a_second_release_finds_nothing,
);

async fn another_owner_can_neither_renew_nor_release(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let guard = locks.lock("k").acquire().await?;
    let thief = Owner::parse("a thief")?;
    let renewed = locks.renew("k", &thief, ms(5000)).await;
    ensure!(renewed.is_err_and(|e| e.kind() == ErrorKind::WrongOwner), "renewed by another");
    let released = locks.release("k", &thief).await;
    ensure!(released.is_err_and(|e| e.kind() == ErrorKind::WrongOwner), "released by another");
    ensure!(locks.is_locked("k").await?, "the lock is gone");
    guard.release().await?;
    Ok(())
}

async fn a_detached_lease_is_released_by_another_connection(subject: Subject) -> Result<()> {
    let (one, two) = (subject.locks().await?, subject.locks().await?);
    let lease = one.lock("k").acquire().await?.detach();
    ensure!(one.is_locked("k").await?, "detaching released it");
    let renewed = two.renew("k", &lease.owner, ms(60_000)).await?;
    ensure!(renewed.fence == lease.fence, "renewing made another grant");
    two.release("k", &lease.owner).await?;
    ensure!(!one.is_locked("k").await?, "still locked");
    Ok(())
}

async fn the_same_owner_gets_the_same_grant(subject: Subject) -> Result<()> {
    let (one, two) = (subject.locks().await?, subject.locks().await?);
    let owner = Owner::parse("worker-7")?;
    let first = one.lock("k").owner(owner.clone()).acquire().await?;
    let again = two.lock("k").owner(owner).try_acquire().await?.context("refused its own lock")?;
    ensure!(again.fence() == first.fence(), "another fence for the same grant");
    again.release().await?;
    ensure!(first.release().await.is_err_and(|e| e.kind() == ErrorKind::Lost), "released twice");
    Ok(())
}

async fn the_same_owner_is_refused_when_asked_to_be(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let owner = Owner::parse("worker-7")?;
    let request = locks.lock("k").owner(owner).reentry(Reentry::Refuse);
    let held = request.acquire().await?;
    ensure!(request.try_acquire().await?.is_none(), "granted again");
    ensure!(held.is_held() && locks.is_locked("k").await?, "the refusal cost the lock");
    Ok(())
}

async fn an_earlier_grant_of_the_same_owner_is_not_this_one(subject: Subject) -> Result<()> {
    let (locks, store) = (subject.locks().await?, subject.store().await?);
    let owner = Owner::parse("worker-7")?;
    let request = locks.lock("k").owner(owner.clone());
    let first = request.acquire().await?;
    let old = first.fence();
    first.release().await?;
    let _second = request.acquire().await?;
    let stored = stored_key(&*store).await?;
    let stale = Grant { key: stored, owner, fence: Some(old) };
    let released = store.release(&stale).await?;
    ensure!(matches!(released, Released::NotHeld(Some(_))), "a stale release: {released:?}");
    let renewed = store.renew(&Renewal { grant: stale, ttl: ms(5000) }).await?;
    ensure!(matches!(renewed, Renewed::Lost(Some(_))), "a stale renewal: {renewed:?}");
    ensure!(locks.is_locked("k").await?, "the successor's lock is gone");
    Ok(())
}

async fn a_second_release_finds_nothing(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let lease = locks.lock("k").acquire().await?.detach();
    locks.release("k", &lease.owner).await?;
    let again = locks.release("k", &lease.owner).await;
    ensure!(again.is_err_and(|e| e.kind() == ErrorKind::NotFound), "released twice");
    let _other = locks.lock("k").acquire().await?;
    let late = locks.release("k", &lease.owner).await;
    ensure!(late.is_err_and(|e| e.kind() == ErrorKind::WrongOwner), "freed the successor");
    ensure!(lease.fence > Fence::new(0), "a fence of zero");
    Ok(())
}

/// The one key that the store holds, as it is written there.
async fn stored_key(store: &dyn tenure::Store) -> Result<tenure::Key> {
    let query = tenure::claim::ListQuery { prefix: String::new(), after: None, limit: 2 };
    let page = store.list(&query).await?;
    ensure!(page.items.len() == 1, "expected one lease: {page:?}");
    Ok(page.items[0].key.clone())
}

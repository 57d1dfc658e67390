//! What the store did not answer is found out, adopted or undone; down is never held.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tenure::claim::Reentry;
use tenure::{ErrorKind, LockRequest, Locks, LostReason, Operation, Owner, Retry};

use super::{Subject, group, ms};
use crate::faults::{Fault, Faults};
use crate::wait::{bounded, sleep, until};

group!("ambiguity":
    a_lost_reply_to_acquire_is_adopted,
    a_lost_reply_that_cannot_be_read_back_is_undone,
    a_write_that_lands_late_is_undone,
    a_waiter_goes_on_after_a_lost_reply,
    a_late_write_behind_a_detached_lease_is_undone,
    a_late_write_behind_another_guard_is_undone,
    a_dropped_acquire_is_undone,
    an_acquire_that_hangs_ends_with_its_wait_and_is_undone,
    a_lost_reply_does_not_get_around_a_refusal,
    a_lost_reply_leaves_what_its_owner_handed_over_alone,
    a_late_write_behind_a_refusal_is_undone,
    a_waiter_that_refuses_reentry_finds_what_it_was_granted,
    a_cancelled_acquire_leaves_its_owners_guard_alone,
    a_doubt_leaves_what_its_owners_guard_gives_back_alone,
    a_repeated_acquire_is_one_grant,
    a_repeated_acquire_without_reentry_is_one_grant,
    a_lost_reply_to_release_leaves_the_key_free,
    a_lost_reply_to_renew_costs_nothing,
    a_renewal_that_hangs_costs_nothing,
    renewals_that_fail_are_told_in_time,
    renewals_that_hang_are_told_in_time,
    a_store_that_is_down_is_not_a_held_key,
    a_failed_read_is_not_a_free_key,
);

const TTL: Duration = ms(1200);
/// Far longer than undoing takes, and far shorter than the usual ttl of 30 s.
const SOON: Duration = ms(8000);

async fn becomes_free(locks: &Locks) -> Result<()> {
    until("the key to be free again", SOON, || async { Ok(!locks.is_locked("k").await?) }).await
}

async fn a_lost_reply_to_acquire_is_adopted(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    for fault in [Fault::ErrorAfter, Fault::HangAfter] {
        faults.next(Operation::Acquire, fault);
        let guard = locks.lock("k").try_acquire().await?.context("taken for another's lock")?;
        let seen = subject.locks().await?.status("k").await?.context("not held")?;
        ensure!(seen.fence == guard.fence() && guard.is_held(), "{seen:?}");
        guard.release().await?;
        locks.flush().await;
    }
    ensure!(faults.struck(Operation::Acquire) == 2, "no fault struck");
    Ok(())
}

async fn a_lost_reply_that_cannot_be_read_back_is_undone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    faults.next(Operation::Inspect, Fault::ErrorBefore);
    let error = locks.lock("k").try_acquire().await.err().context("granted without a word")?;
    ensure!(error.kind() == ErrorKind::Unknown && error.retry() == Retry::Unknown, "{error}");
    becomes_free(&subject.locks().await?).await
}

async fn a_write_that_lands_late_is_undone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let other = subject.locks().await?;
    faults.next(Operation::Acquire, Fault::Late);
    let error = locks.lock("k").try_acquire().await.err().context("granted without a word")?;
    ensure!(error.kind() == ErrorKind::Unknown, "{error}");
    lands_late_and_is_undone(&faults).await?;
    becomes_free(&other).await
}

/// Lets the late write land after some looks that found nothing.
async fn lands_late_and_is_undone(faults: &Faults) -> Result<()> {
    let looked = faults.answers(Operation::Inspect);
    until("the late write to be looked for", SOON, || async {
        Ok(faults.answers(Operation::Inspect) >= looked + 2)
    })
    .await?;
    let undone = faults.answers(Operation::Release);
    faults.arrive().await?;
    until("the late write to be undone", SOON, || async {
        Ok(faults.answers(Operation::Release) > undone)
    })
    .await?;
    Ok(())
}

async fn a_waiter_goes_on_after_a_lost_reply(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    faults.next(Operation::Inspect, Fault::ErrorBefore);
    let guard = locks.lock("k").wait(SOON).acquire().await?;
    ensure!(guard.is_held(), "granted, but not believed");
    guard.release().await?;
    becomes_free(&subject.locks().await?).await
}

async fn a_late_write_behind_a_detached_lease_is_undone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let other = subject.locks().await?;
    faults.next(Operation::Acquire, Fault::Late);
    let lease = locks.lock("k").wait(SOON).acquire().await?.detach();
    until("the late write to be looked for", SOON, || async {
        Ok(faults.answers(Operation::Inspect) >= 4)
    })
    .await?;
    let standing = other.status("k").await?.context("what was handed over was given back")?;
    ensure!(standing.fence == lease.fence, "{standing:?}");
    other.release("k", &lease.owner).await?;
    lands_late_and_is_undone(&faults).await?;
    becomes_free(&other).await
}

async fn a_late_write_behind_another_guard_is_undone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let request = locks.lock("k").owner(Owner::parse("worker-7")?);
    let held = request.acquire().await?;
    faults.next(Operation::Acquire, Fault::Late);
    let again = request.acquire().await?;
    ensure!(again.fence() == held.fence(), "two grants: {held:?} and {again:?}");
    drop(again.detach());
    held.release().await?;
    lands_late_and_is_undone(&faults).await?;
    becomes_free(&subject.locks().await?).await
}

async fn a_dropped_acquire_is_undone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.next(Operation::Acquire, Fault::Delay(ms(200)));
    let request = locks.lock("k");
    let given_up = bounded("nothing", ms(50), request.acquire()).await;
    ensure!(given_up.is_err(), "granted too soon to be dropped");
    bounded("what was dropped to be given back", SOON, locks.flush()).await?;
    ensure!(faults.calls(Operation::Release) > 0, "it was given up before it was asked for");
    ensure!(!subject.locks().await?.is_locked("k").await?, "flushed, and still locked");
    Ok(())
}

async fn an_acquire_that_hangs_ends_with_its_wait_and_is_undone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    faults.always(Operation::Inspect, Fault::Hang);
    let request = locks.lock("k").wait(ms(300));
    let outcome = bounded("the wait to end", ms(1500), request.acquire()).await?;
    let error = outcome.err().context("granted without a word")?;
    ensure!(error.retry() != Retry::Never && error.kind() != ErrorKind::TimedOut, "{error}");
    faults.heal();
    becomes_free(&subject.locks().await?).await
}

/// An owner that is used again, and yet holds the key by one acquire at a time.
fn strict(locks: &Locks) -> Result<LockRequest> {
    Ok(locks.lock("k").owner(Owner::parse("worker-7")?).reentry(Reentry::Refuse))
}

async fn a_lost_reply_does_not_get_around_a_refusal(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let request = strict(&locks)?;
    let held = request.acquire().await?;
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    let again = request.try_acquire().await;
    ensure!(!matches!(again, Ok(Some(_))), "granted again: {again:?}");
    drop(again);
    sleep(ms(200)).await;
    ensure!(held.is_held() && locks.is_locked("k").await?, "the refusal cost the lock");
    Ok(())
}

async fn a_lost_reply_leaves_what_its_owner_handed_over_alone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let lease = strict(&locks)?.acquire().await?.detach();
    let again = strict(&locks)?.ttl(TTL);
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    ensure!(again.try_acquire().await?.is_none(), "granted to its owner once more");
    faults.always(Operation::Inspect, Fault::ErrorBefore);
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    let error = again.try_acquire().await.err().context("an answer out of nothing")?;
    ensure!(error.kind() == ErrorKind::Unknown, "{error}");
    faults.heal();
    bounded("the cleanup to end", SOON, locks.flush()).await?;
    let standing = locks.status("k").await?.context("what was handed over was given back")?;
    ensure!(standing.fence == lease.fence && standing.ttl == lease.ttl, "{standing:?}");
    Ok(())
}

async fn a_late_write_behind_a_refusal_is_undone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let other = subject.locks().await?;
    let lease = strict(&locks)?.acquire().await?.detach();
    faults.next(Operation::Acquire, Fault::Late);
    ensure!(strict(&locks)?.try_acquire().await?.is_none(), "granted to its owner once more");
    other.release("k", &lease.owner).await?;
    lands_late_and_is_undone(&faults).await?;
    becomes_free(&other).await
}

async fn a_waiter_that_refuses_reentry_finds_what_it_was_granted(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    faults.next(Operation::Inspect, Fault::ErrorBefore);
    let guard = strict(&locks)?.wait(SOON).acquire().await?;
    let seen = subject.locks().await?.status("k").await?.context("not held")?;
    ensure!(seen.fence == guard.fence() && guard.is_held(), "{seen:?}");
    guard.release().await?;
    becomes_free(&subject.locks().await?).await
}

async fn a_cancelled_acquire_leaves_its_owners_guard_alone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let request = locks.lock("k").owner(Owner::parse("worker-7")?);
    let held = request.acquire().await?;
    faults.next(Operation::Acquire, Fault::SlowReply(ms(100)));
    let given_up = bounded("nothing", ms(20), request.acquire()).await;
    ensure!(given_up.is_err(), "granted too soon to be dropped");
    bounded("the cleanup to end", SOON, locks.flush()).await?;
    ensure!(held.is_held() && locks.is_locked("k").await?, "it cost its owner the lock");
    Ok(())
}

async fn a_doubt_leaves_what_its_owners_guard_gives_back_alone(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let request = locks.lock("k").owner(Owner::parse("worker-7")?);
    let held = request.acquire().await?;
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    faults.next(Operation::Inspect, Fault::ErrorBefore);
    let error = request.try_acquire().await.err().context("an answer out of nothing")?;
    ensure!(error.kind() == ErrorKind::Unknown, "{error}");
    // While this is on its way, it is looked whether the other question has come to anything.
    let looks = faults.answers(Operation::Inspect);
    faults.next(Operation::Release, Fault::Delay(ms(400)));
    held.release().await.context("it was told that it had lost what it gave back")?;
    ensure!(faults.answers(Operation::Inspect) > looks, "nobody looked");
    becomes_free(&subject.locks().await?).await
}

async fn a_repeated_acquire_is_one_grant(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    granted_once(&subject, &faults, locks.lock("k")).await
}

async fn a_repeated_acquire_without_reentry_is_one_grant(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    granted_once(&subject, &faults, strict(&locks)?.wait(SOON)).await
}

async fn granted_once(subject: &Subject, faults: &Faults, request: LockRequest) -> Result<()> {
    faults.next(Operation::Acquire, Fault::Duplicate);
    let guard = request.acquire().await?;
    let seen = subject.locks().await?.status("k").await?.context("not held")?;
    ensure!(seen.fence == guard.fence(), "two grants: {seen:?} and {guard:?}");
    guard.release().await?;
    becomes_free(&subject.locks().await?).await
}

async fn a_lost_reply_to_release_leaves_the_key_free(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    for fault in [Fault::ErrorAfter, Fault::ErrorBefore, Fault::Late] {
        let guard = locks.lock("k").wait(SOON).acquire().await?;
        faults.next(Operation::Release, fault);
        let error = guard.release().await.err().context("released without a word")?;
        ensure!(error.retry() != Retry::Never, "{error}");
        becomes_free(&subject.locks().await?).await?;
        bounded("the cleanup to end", SOON, locks.flush()).await?;
        bounded("the late release", SOON, faults.arrive()).await??;
    }
    Ok(())
}

async fn a_lost_reply_to_renew_costs_nothing(subject: Subject) -> Result<()> {
    survives_renewal_faults(subject, Fault::ErrorAfter).await
}

async fn a_renewal_that_hangs_costs_nothing(subject: Subject) -> Result<()> {
    survives_renewal_faults(subject, Fault::Hang).await
}

async fn survives_renewal_faults(subject: Subject, fault: Fault) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let ttl = ms(900);
    let guard = locks.lock("k").ttl(ttl).acquire().await?;
    faults.next(Operation::Renew, fault);
    sleep(ttl * 2).await;
    ensure!(faults.struck(Operation::Renew) == 1, "no renewal was struck");
    ensure!(guard.is_held(), "one bad renewal cost the lock");
    guard.release().await?;
    Ok(())
}

async fn renewals_that_fail_are_told_in_time(subject: Subject) -> Result<()> {
    loss_is_told(subject, Fault::ErrorBefore).await
}

async fn renewals_that_hang_are_told_in_time(subject: Subject) -> Result<()> {
    loss_is_told(subject, Fault::Hang).await
}

async fn loss_is_told(subject: Subject, fault: Fault) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let other = subject.locks().await?;
    faults.always(Operation::Renew, fault);
    let guard = locks.lock("k").ttl(TTL).acquire().await?;
    let next = other.lock("k").wait(TTL * 10);
    tokio::select! {
        biased;
        reason = guard.lost() => ensure!(reason == LostReason::Expired, "{reason:?}"),
        second = next.acquire() => {
            let _second = second?;
            bail!("granted to another before the holder was told");
        }
    }
    ensure!(!guard.is_held(), "told, and still believes");
    let second = next.acquire().await?;
    ensure!(second.fence() > guard.fence() && !guard.is_held(), "two believe");
    Ok(())
}

async fn a_store_that_is_down_is_not_a_held_key(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    faults.always(Operation::Acquire, Fault::ErrorBefore);
    let tried =
        locks.lock("k").try_acquire().await.err().context("a store that is down granted")?;
    ensure!(tried.kind() == ErrorKind::Unavailable, "{tried}");
    let waited = locks.lock("k").wait(ms(200)).acquire().await.err().context("granted")?;
    ensure!(waited.kind() == ErrorKind::Unavailable, "down was called held: {waited}");
    let mut entered = false;
    let ran = locks.lock("k").wait(ms(100)).run(async |_| entered = true).await;
    ensure!(ran.is_err() && !entered, "the work ran without the lock");
    faults.heal();
    locks.lock("k").acquire().await?.release().await?;
    Ok(())
}

async fn a_failed_read_is_not_a_free_key(subject: Subject) -> Result<()> {
    let (locks, faults) = subject.faulty().await?;
    let guard = locks.lock("k").acquire().await?;
    faults.always(Operation::Inspect, Fault::ErrorBefore);
    ensure!(locks.is_locked("k").await.is_err(), "an error became an answer");
    ensure!(locks.lock("k").try_acquire().await?.is_none(), "granted twice");
    ensure!(guard.is_held(), "a failed read cost the lock");
    Ok(())
}

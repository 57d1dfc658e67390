//! Bad input is refused with the field, the limit and the size; nothing is lost.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::{ErrorKind, Excess, KeyPolicy, Limits, Locks};

use super::{Subject, group, ms};

group!("input":
    bad_keys_are_refused,
    bad_durations_are_refused_or_clamped,
    a_force_needs_a_reason,
    another_key_scheme_is_refused,
    hashed_keys_do_not_show_in_the_store,
);

async fn bad_keys_are_refused(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    for bad in ["", "a\0b", "a\nb", &"x".repeat(513)] {
        let error = locks.lock(bad).try_acquire().await.err().context("taken")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error}");
        let size = bad.len().to_string();
        let text = error.to_string();
        ensure!(text.contains("key") && text.contains(&size), "says too little: {text}");
        ensure!(locks.status(bad).await.is_err(), "{bad:?}");
        ensure!(locks.force_release(bad, "test").await.is_err(), "{bad:?}");
    }
    let limits = Limits { key_bytes: 1024, ..Limits::default() };
    let long = subject.locks_with(Locks::builder().limits(limits)).await?;
    let longest = "ü".repeat(512);
    let held = long.lock(&longest).acquire().await;
    let limit = subject.capabilities().await?.key_bytes_max;
    // With room for the namespace.
    if limit < longest.len() + 64 {
        let error = held.err().context("taken in spite of the store's own limit")?;
        let says_it = error.to_string().contains(&limit.to_string());
        ensure!(error.kind() == ErrorKind::Invalid && says_it, "{error}");
        return Ok(());
    }
    ensure!(long.is_locked(&longest).await?);
    held?.release().await?;
    Ok(())
}

async fn bad_durations_are_refused_or_clamped(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    for ttl in [Duration::ZERO, ms(1), Duration::MAX] {
        let refused = locks.lock("k").ttl(ttl).try_acquire().await;
        let error = refused.err().context("an absurd ttl was taken")?;
        ensure!(error.kind() == ErrorKind::Invalid && error.to_string().contains("ttl"), "{error}");
    }
    let limits = Limits { excess: Excess::Clamp, ..Limits::default() };
    let clamping = subject.locks_with(Locks::builder().limits(limits.clone())).await?;
    let guard = clamping.lock("k").ttl(Duration::MAX).acquire().await?;
    ensure!(guard.ttl() <= limits.ttl_max, "{:?}", guard.ttl());
    ensure!(guard.ttl() == clamping.lock("k").ttl(Duration::MAX).effective_ttl()?);
    guard.release().await?;
    Ok(())
}

async fn a_force_needs_a_reason(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let guard = locks.lock("k").acquire().await?;
    for bad in ["", "   ", "a\u{1b}[2J", &"x".repeat(1025)] {
        let refused = locks.force_release("k", bad).await;
        ensure!(refused.is_err_and(|e| e.kind() == ErrorKind::Invalid), "{bad:?}");
    }
    ensure!(guard.is_held() && locks.is_locked("k").await?, "forced without a reason");
    Ok(())
}

async fn another_key_scheme_is_refused(subject: Subject) -> Result<()> {
    let _plain = subject.locks().await?;
    let hashed = KeyPolicy::hashed("a secret of the right size")?;
    let refused = subject.locks_with(Locks::builder().key_policy(hashed.clone())).await;
    let error = refused.err().context("two schemes in one namespace")?;
    let error = error.downcast::<tenure::Error>()?;
    ensure!(error.kind() == ErrorKind::Mismatch, "{error}");
    let apart = Locks::builder().namespace("hashed").key_policy(hashed);
    subject.locks_with(apart).await?;
    Ok(())
}

async fn hashed_keys_do_not_show_in_the_store(subject: Subject) -> Result<()> {
    let policy = KeyPolicy::hashed("a secret of the right size")?;
    let builder = || Locks::builder().namespace("hashed").key_policy(policy.clone());
    let (one, two) = (subject.locks_with(builder()).await?, subject.locks_with(builder()).await?);
    let guard = one.lock("customer-4711").acquire().await?;
    ensure!(two.lock("customer-4711").try_acquire().await?.is_none(), "excludes nobody");
    if subject.capabilities().await?.lists {
        let query = tenure::claim::ListQuery { prefix: String::new(), after: None, limit: 10 };
        let page = subject.store().await?.list(&query).await?;
        let shows = page.items.iter().any(|status| status.key.as_str().contains("4711"));
        ensure!(page.items.len() == 1 && !shows, "{page:?}");
    }
    guard.release().await?;
    Ok(())
}

//! One holder per key at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use tenure::Locks;

use super::{Subject, group, ms};
use crate::wait::sleep;

group!("exclusion":
    a_held_key_is_refused_and_says_who_holds_it,
    keys_are_independent,
    namespaces_are_independent,
    many_contend_and_one_holds,
);

async fn a_held_key_is_refused_and_says_who_holds_it(subject: Subject) -> Result<()> {
    let (one, two) = (subject.locks().await?, subject.locks().await?);
    let guard = one.lock("k").holder("the first").acquire().await?;
    for locks in [&one, &two] {
        ensure!(locks.lock("k").try_acquire().await?.is_none(), "granted twice");
        let status = locks.status("k").await?.context("held, but no status")?;
        ensure!(status.fence == guard.fence() && status.key.as_str() == "k", "{status:?}");
        ensure!(status.holder.as_str().ends_with("the first"), "{status:?}");
        ensure!(status.remaining <= status.ttl, "{status:?}");
    }
    guard.release().await?;
    ensure!(!two.is_locked("k").await?, "still locked after release");
    let _next = two.lock("k").try_acquire().await?.context("refused although free")?;
    Ok(())
}

async fn keys_are_independent(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let long = "x".repeat(512);
    let keys = ["a", "a/b", "a%2Fb", "a:b", "a.b", "A", "a ", "ä", "a*", "a>", "🔒", "{a}", &long];
    let mut guards = Vec::new();
    for key in keys {
        let guard = locks.lock(key).try_acquire().await?;
        guards.push(guard.with_context(|| format!("{key:?} is taken for another key"))?);
    }
    for (key, guard) in keys.iter().zip(guards) {
        ensure!(locks.status(key).await?.is_some_and(|s| s.fence == guard.fence()), "{key:?}");
        guard.release().await?;
    }
    Ok(())
}

async fn namespaces_are_independent(subject: Subject) -> Result<()> {
    let store = subject.store().await?;
    let open = |name| Locks::builder().namespace(name).open_on(Arc::clone(&store));
    let (one, two) = (open("one").await?, open("two").await?);
    let _held = one.lock("k").acquire().await?;
    let other = two.lock("k").try_acquire().await?;
    ensure!(other.is_some(), "refused by another namespace's lock");
    Ok(())
}

async fn many_contend_and_one_holds(subject: Subject) -> Result<()> {
    let shared = [subject.locks().await?, subject.locks().await?];
    let inside = Arc::new(AtomicUsize::new(0));
    let highest = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let locks = shared[n % 2].clone();
            let (inside, highest) = (Arc::clone(&inside), Arc::clone(&highest));
            tokio::spawn(async move {
                for _ in 0..6 {
                    let guard = locks.lock("k").wait(ms(30_000)).acquire().await?;
                    ensure!(inside.fetch_add(1, Ordering::SeqCst) == 0, "two at once");
                    let before = highest.swap(guard.fence().get(), Ordering::SeqCst);
                    ensure!(before < guard.fence().get(), "fence {before} was not the smaller");
                    sleep(ms(1)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await?;
                }
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

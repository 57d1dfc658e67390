//! What stands can be seen, without the owner.

use anyhow::{Result, ensure};
use futures_util::{StreamExt, TryStreamExt};
use tenure::{ErrorKind, Locks, Status};

use super::{Subject, group, ms};

group!("listing":
    lists_what_stands_in_order,
    pages_without_gaps,
    a_free_key_has_no_status,
    a_status_is_of_now,
    no_listing_shows_an_owner,
);

async fn keys(locks: &Locks, prefix: &str) -> tenure::Result<Vec<String>> {
    locks.list(prefix).map_ok(|status| status.key.to_string()).try_collect().await
}

async fn lists_what_stands_in_order(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let mut guards = Vec::new();
    for key in ["job/b", "job/a", "jobs", "job", "other/ü", "job/a/1"] {
        guards.push(locks.lock(key).acquire().await?);
    }
    if !subject.capabilities().await?.lists {
        let refused = keys(&locks, "").await;
        ensure!(refused.is_err_and(|e| e.kind() == ErrorKind::Unsupported), "listed after all");
        return Ok(());
    }
    ensure!(keys(&locks, "job/").await? == ["job/a", "job/a/1", "job/b"]);
    ensure!(keys(&locks, "other/").await? == ["other/ü"]);
    ensure!(keys(&locks, "none").await?.is_empty());
    ensure!(keys(&locks, "").await?.len() == 6);
    drop(guards.swap_remove(1));
    locks.flush().await;
    ensure!(keys(&locks, "job/").await? == ["job/a/1", "job/b"]);
    Ok(())
}

async fn pages_without_gaps(subject: Subject) -> Result<()> {
    if !subject.capabilities().await?.lists {
        return Ok(());
    }
    let locks = subject.locks().await?;
    let wanted: Vec<_> = (0..300).map(|n| format!("k{n:03}")).collect();
    let mut guards = Vec::new();
    for key in &wanted {
        guards.push(locks.lock(key).ttl(ms(60_000)).keep_alive(false).acquire().await?);
    }
    ensure!(keys(&locks, "k").await? == wanted, "gaps or repeats");
    // More than a page of them in front: a store that keeps released keys must look behind them.
    let last = guards.split_off(290);
    for guard in guards {
        guard.release().await?;
    }
    ensure!(keys(&locks, "k").await? == wanted[290..], "released ones hide those behind them");
    drop(last);
    Ok(())
}

async fn a_free_key_has_no_status(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    ensure!(locks.status("k").await?.is_none() && !locks.is_locked("k").await?);
    locks.lock("k").acquire().await?.release().await?;
    ensure!(locks.status("k").await?.is_none() && !locks.is_locked("k").await?);
    Ok(())
}

async fn a_status_is_of_now(subject: Subject) -> Result<()> {
    let (locks, looker) = (subject.locks().await?, subject.locks().await?);
    let told = || async { anyhow::Ok(looker.status("k").await?.map(|status| status.fence)) };
    ensure!(told().await?.is_none(), "a fresh key is held");
    for round in 0..3 {
        let guard = locks.lock("k").acquire().await?;
        let held = told().await?;
        ensure!(held == Some(guard.fence()), "round {round}: {held:?}, not {}", guard.fence());
        guard.release().await?;
        let free = told().await?;
        ensure!(free.is_none(), "round {round}: {free:?} after the release");
    }
    Ok(())
}

async fn no_listing_shows_an_owner(subject: Subject) -> Result<()> {
    let locks = subject.locks().await?;
    let guard = locks.lock("k").acquire().await?;
    let secret = guard.owner().expose();
    let mut shown = format!("{:?} {:?} {guard:?}", locks.status("k").await?, locks);
    if subject.capabilities().await?.lists {
        let listed: Vec<tenure::Result<Status>> = locks.list("").collect().await;
        shown.push_str(&format!("{listed:?}"));
    }
    let refused = locks.lock("k").wait(ms(0)).acquire().await;
    shown.push_str(&format!("{refused:?}"));
    ensure!(!shown.contains(&secret), "the owner shows in: {shown}");
    Ok(())
}

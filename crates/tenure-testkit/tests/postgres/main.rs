//! What is special to the `postgres` store, on real servers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod certificates;
mod clock;
mod damage;
mod hosts;
mod opening;
mod replicated;
mod sessions;
mod silence;
mod speed;
mod sweeping;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Reentry, Released, Renewal, Renewed,
};
use tenure::clock::SystemClock;
use tenure::random::SystemRandom;
use tenure::stores::postgres::{PostgresOptions, PostgresStore};
use tenure::{Error, Fence, Holder, Key, Owner, Store};
use tenure_testkit::servers::postgres::Postgres;
use tenure_testkit::servers::{Kind, fresh_room, kinds};
use tenure_testkit::wait::{bounded, until};

const SOON: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(30);

fn kind() -> Kind {
    kinds().into_iter().find(|kind| kind.name == "postgres").unwrap()
}

/// The URL of an empty room on the server that the tests of this file share.
fn room() -> String {
    kind().shared().unwrap().url(fresh_room(), None)
}

async fn open(url: &str) -> Result<Arc<PostgresStore>> {
    Ok(PostgresOptions::new(url)?.open(Arc::new(SystemClock)).await?)
}

async fn refusal(url: &str) -> Error {
    match bounded("the refusal", SOON, tenure::stores::open(url, Arc::new(SystemClock))).await {
        Ok(Err(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

fn claim(key: &str, holder: &str) -> Claim {
    Claim {
        key: Key::new(key).unwrap(),
        owner: Owner::generate(&SystemRandom).unwrap(),
        ttl: TTL,
        holder: Holder::new(holder).unwrap(),
        reentry: Reentry::Adopt,
    }
}

async fn granted(store: &dyn Store, claim: &Claim) -> Result<Grant> {
    match store.try_acquire(claim).await? {
        Attempt::Granted(lease) => {
            Ok(Grant { key: lease.key, owner: lease.owner, fence: Some(lease.fence) })
        }
        Attempt::Held(status) => anyhow::bail!("held by {}", status.holder),
    }
}

/// Every verb once; the fence of the last grant.
async fn cycle(store: &dyn Store) -> Result<Fence> {
    let first = claim("t1/cycle/ä'\\\"", "one");
    let grant = granted(store, &first).await?;
    let other = store.try_acquire(&claim(first.key.as_str(), "two")).await?;
    ensure!(matches!(other, Attempt::Held(status) if status.holder.as_str() == "one"));
    let renewed = store.renew(&Renewal { grant: grant.clone(), ttl: TTL * 2 }).await?;
    ensure!(matches!(renewed, Renewed::Renewed(lease) if lease.remaining > TTL));
    let seen = store.inspect(&first.key).await?.context("not seen")?;
    ensure!(Some(seen.fence) == grant.fence && seen.owner == first.owner);
    let query = ListQuery { prefix: "t1/cycle/".into(), after: None, limit: 5 };
    ensure!(store.list(&query).await?.items.len() == 1);
    ensure!(matches!(store.release(&grant).await?, Released::Released(_)));
    ensure!(matches!(store.release(&grant).await?, Released::NotHeld(None)));
    let again = granted(store, &first).await?;
    ensure!(again.fence > grant.fence, "{again:?} after {grant:?}");
    store
        .force_release(&Eviction::new(first.key, "a test")?)
        .await?
        .context("nothing was forced")?;
    again.fence.context("no fence")
}

/// A release by `other` wakes a watch on `store`.
async fn wakes(store: &dyn Store, other: &dyn Store) -> Result<()> {
    let claim = claim("t1/wake/k", "other");
    let grant = granted(other, &claim).await?;
    let mut watch = store.watch(&claim.key).await?;
    other.release(&grant).await?;
    bounded("the watch to wake", SOON, watch.changed()).await
}

/// Sweeps until `count` rows are gone: a sweep gives way to whoever uses the table, such as the
/// server's own vacuum.
async fn sweeps(store: &PostgresStore, count: u64) -> Result<()> {
    let swept = AtomicU64::new(0);
    until("the rows to be swept", SOON, || async {
        let more = store.sweep(Duration::ZERO).await?;
        Ok(swept.fetch_add(more, Ordering::Relaxed) + more >= count)
    })
    .await?;
    let more = store.sweep(Duration::ZERO).await?;
    let swept = swept.into_inner() + more;
    ensure!(swept == count, "{swept} rows were swept, and not {count}");
    Ok(())
}

/// Its children outlive a killed server for a moment, and keep another from starting.
async fn start_again(server: &Postgres) -> Result<()> {
    until("the server to start again", SOON, || async {
        let started = server.server().start_again();
        Ok(started.inspect_err(|error| println!("not yet: {error}")).is_ok())
    })
    .await
}

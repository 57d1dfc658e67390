//! Poolers, crashes of the server, wake-ups, and what is left behind.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::claim::Renewal;
use tenure::store::Class;
use tenure::{ErrorKind, Key, Store};
use tenure_testkit::servers::postgres::{Pooled, Postgres};
use tenure_testkit::servers::{Service, fresh_room};
use tenure_testkit::wait::{bounded, until};

use crate::{SOON, TTL, claim, cycle, granted, open, room, start_again, wakes};

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_transaction_pooler_it_works_and_says_that_it_polls() -> Result<()> {
    let pooled = tokio::task::spawn_blocking(|| Pooled::start(&[])).await??;
    let url = pooled.postgres().url(fresh_room(), Some(pooled.address()));
    let mut stores = Vec::new();
    for _ in 0..4 {
        let store = open(&url).await?;
        ensure!(!store.info().capabilities.wakes, "a pooler passes no notification on");
        let finding = store.info().findings.iter().find(|finding| finding.topic == "listen");
        ensure!(finding.is_some_and(|f| f.text.contains("pooler")), "{finding:?}");
        stores.push(store);
    }
    cycle(&*stores[0]).await?;
    crate::sweeping::one_shot_keys(&stores, Duration::from_secs(2), false).await?;
    let sneaky = open(&format!("{url}&prepare=true")).await?;
    // Told to prepare where names do not last, it finds out and goes on without.
    for _ in 0..20 {
        cycle(&*sneaky).await?;
        cycle(&*stores[1]).await?;
    }
    let direct = pooled.postgres().url_for("postgres", "postgres");
    let direct = direct.replace(':', "%3A").replace('/', "%2F");
    let hearing = open(&format!("{url}&listen_url={direct}")).await?;
    ensure!(hearing.info().capabilities.wakes, "it can listen at the server itself");
    wakes(&*hearing, &*stores[2]).await
}

/// With `synchronous_commit` off a crash takes the last commits along; not those of the store.
#[tokio::test]
async fn grants_are_synced_where_commits_are_not() -> Result<()> {
    let server = Postgres::start(&["-c", "synchronous_commit=off", "-c", "wal_writer_delay=10s"])?;
    let url = server.url(1, None);
    let store = open(&url).await?;
    ensure!(store.info().class == Class::Fenced, "{:?}", store.info().findings);
    let claim = claim("t1/synced", "holder");
    let grant = granted(&*store, &claim).await?;
    store.renew(&Renewal { grant: grant.clone(), ttl: TTL * 10 }).await?;
    server.server().kill()?;
    start_again(&server).await?;
    let seen = open(&url).await?.inspect(&claim.key).await?.context("the grant is gone")?;
    ensure!(Some(seen.fence) == grant.fence && seen.remaining > TTL * 5, "{seen:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_comes_back_and_wakes_again() -> Result<()> {
    let server = Postgres::start(&[])?;
    let url = server.url(1, None);
    let (one, two) = (open(&url).await?, open(&url).await?);
    let claim = claim("t1/kept", "holder");
    let grant = granted(&*one, &claim).await?;
    let mut watch = two.watch(&claim.key).await?;
    server.server().kill()?;
    bounded("the watch to wake when its connection breaks", SOON, watch.changed()).await?;
    let error = two.inspect(&claim.key).await.err().context("read from a dead server")?;
    ensure!(error.kind() == ErrorKind::Unavailable, "{error}");
    start_again(&server).await?;
    until("the pool to recover", SOON, || async { Ok(two.inspect(&claim.key).await.is_ok()) })
        .await?;
    let seen = two.inspect(&claim.key).await?.context("the grant is gone")?;
    ensure!(Some(seen.fence) == grant.fence);
    until("the listener to recover", SOON, || async {
        Ok(two.watch(&Key::new("t1/other")?).await.is_ok())
    })
    .await?;
    // Rung once more when it listens again, and then by the release.
    bounded("the watch to wake after the reconnection", SOON, watch.changed()).await?;
    one.release(&grant).await?;
    bounded("the watch to wake by the release", SOON, watch.changed()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_store_leaves_no_connection() -> Result<()> {
    let server = Postgres::start(&[])?;
    let count = || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure'";
        server.sql(sql)
    };
    let store = open(&server.url(1, None)).await?;
    let _watch = store.watch(&Key::new("t1/k")?).await?;
    ensure!(count()? != "0");
    drop(store);
    until("the connections to end", SOON, || async { Ok(count()? == "0") }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_watches_come_and_go() -> Result<()> {
    let url = room();
    let (one, two) = (open(&url).await?, open(&url).await?);
    for round in 0..3 {
        for number in 0..100 {
            one.watch(&Key::new(&format!("t1/{round}/{number}"))?).await?;
        }
        wakes(&*one, &*two).await?;
    }
    Ok(())
}

//! Rows that arrive without the sequence that their fences came from: a logical replica takes over.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::error::Chain;
use tenure::{ErrorKind, Fence, Store};
use tenure_testkit::servers::Service;
use tenure_testkit::servers::postgres::Postgres;
use tenure_testkit::wait::until;

use crate::{SOON, claim, granted, open, refusal, sweeps};

/// Takes the key and gives it back; the fence.
async fn fence(store: &dyn Store, key: &str) -> Result<Fence> {
    let grant = granted(store, &claim(key, "replicated")).await?;
    store.release(&grant).await?;
    grant.fence.context("no fence")
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_on_a_logical_replica_and_its_sequence_must_be_set() -> Result<()> {
    let old = Postgres::start(&["-c", "wal_level=logical"])?;
    let new = Postgres::start(&[])?;
    let (before, running) = (open(&old.url(1, None)).await?, open(&new.url(1, None)).await?);
    for _ in 0..3 {
        fence(&*before, "t1/swept").await?;
    }
    let swept = fence(&*before, "t1/swept").await?;
    sweeps(&before, 1).await?;
    let stands = fence(&*before, "t1/stands").await?;
    old.sql("CREATE PUBLICATION switchover FOR ALL TABLES")?;
    let port = old.server().address().port();
    new.sql(&format!(
        "CREATE SUBSCRIPTION switchover
            CONNECTION 'host=127.0.0.1 port={port} user=postgres dbname=postgres'
            PUBLICATION switchover"
    ))?;
    until("the rows to arrive", SOON, || async {
        let rows = "SELECT (SELECT count(*) FROM room_1.lease)
            + (SELECT count(*) FROM room_1.lease_meta WHERE name = 'floor')";
        Ok(new.sql(rows)? == "2")
    })
    .await?;
    new.sql("DROP SUBSCRIPTION switchover")?;
    // Who has it open is not asked to open it again.
    let again = fence(&*running, "t1/swept").await?;
    ensure!(again > swept, "a key whose row was swept: {again} after {swept}");
    let again = fence(&*running, "t1/stands").await?;
    ensure!(again > stands, "a key whose row arrived: {again} after {stands}");
    // Swept once more, on the new server, where the sequence is still behind.
    sweeps(&running, 2).await?;
    let last = fence(&*running, "t1/stands").await?;
    ensure!(last > again, "{last} after {again}");
    let error = refusal(&new.url(1, None)).await;
    let text = Chain(&error).to_string();
    ensure!(error.kind() == ErrorKind::Mismatch && text.contains("behind"), "{text}");
    let (_, advice) = text.split_once(":\n").context("no statement in the text")?;
    new.sql(advice)?;
    let store = open(&new.url(1, None)).await?;
    let first = fence(&*store, "t1/never seen").await?;
    ensure!(first > last, "{first} after {last}");
    Ok(())
}

#[tokio::test]
async fn rows_alone_tell_that_the_sequence_lies_behind() -> Result<()> {
    let server = Postgres::start(&[])?;
    let url = server.url(1, None);
    let store = open(&url).await?;
    let before = fence(&*store, "t1/k").await?;
    server.sql("ALTER SEQUENCE room_1.lease_fence RESTART")?;
    let error = refusal(&url).await;
    ensure!(error.kind() == ErrorKind::Mismatch, "{}", Chain(&error));
    server.sql(&format!("SELECT setval('room_1.lease_fence', {before})"))?;
    sweeps(&*open(&url).await?, 1).await?;
    server.sql("ALTER SEQUENCE room_1.lease_fence RESTART")?;
    let error = refusal(&url).await;
    ensure!(error.kind() == ErrorKind::Mismatch, "the sweep took the evidence along: {error}");
    ensure!(store.sweep(Duration::ZERO).await? == 0);
    Ok(())
}

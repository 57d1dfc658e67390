//! What opening refuses, what it finds, and what it makes.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tenure::clock::SystemClock;
use tenure::error::Chain;
use tenure::store::Class;
use tenure::stores::postgres::PostgresOptions;
use tenure::{ErrorKind, Store};
use tenure_testkit::servers::Service;
use tenure_testkit::servers::postgres::{Postgres, as_user, binary, run};
use tenure_testkit::wait::until;

use crate::{SOON, cycle, open, refusal, room, sweeps, wakes};

#[tokio::test(flavor = "multi_thread")]
async fn ten_open_a_fresh_schema_at_once() -> Result<()> {
    let url = room();
    let opening: Vec<_> = (0..10)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { open(&url).await })
        })
        .collect();
    for opened in opening {
        opened.await??;
    }
    cycle(&*open(&url).await?).await.map(drop)
}

#[tokio::test]
async fn a_standby_is_refused_and_lowers_its_primary() -> Result<()> {
    let primary = Arc::new(Postgres::start(&[])?);
    let store = open(&primary.url(1, None)).await?;
    ensure!(store.info().class == Class::Fenced, "{:?}", store.info().findings);
    let standby = {
        let primary = Arc::clone(&primary);
        tokio::task::spawn_blocking(move || {
            Postgres::start_on(&["-c", "hot_standby=on"], |data| {
                let mut copy = as_user(&binary("pg_basebackup")?);
                copy.args(["--no-sync", "-R", "-X", "stream", "-c", "fast", "-d"]);
                run(copy.arg(primary.url_for("postgres", "postgres")).arg("-D").arg(data))
            })
        })
        .await??
    };
    let error = refusal(&standby.url(1, None)).await;
    ensure!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("standby"));
    until("the standby to follow", SOON, || async {
        Ok(primary.sql("SELECT count(*) FROM pg_stat_replication")? == "1")
    })
    .await?;
    let hosts = format!("{},{}", standby.server().address(), primary.server().address());
    let url = format!("postgres://postgres@{hosts}/postgres?schema=room_1");
    let store = open(&url).await?;
    cycle(&*store).await?;
    let lowered = store.info().findings.iter().any(|f| f.topic == "synchronous_standby_names");
    ensure!(lowered && store.info().class == Class::Efficiency, "{:?}", store.info().findings);
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
    primary.sql("SELECT pg_reload_conf()")?;
    until("the primary to wait for its standby", SOON, || async {
        Ok(open(&url).await?.info().class == Class::Fenced)
    })
    .await
}

#[tokio::test]
async fn start_up_failures_say_what_to_do() -> Result<()> {
    let server = Postgres::start(&[])?;
    server.sql("CREATE ROLE locked LOGIN PASSWORD 'right'")?;
    let rules = "host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    std::fs::write(server.server().folder().join("data/pg_hba.conf"), rules)?;
    server.sql("SELECT pg_reload_conf()")?;
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")?;
    server.sql(
        "CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on",
    )?;
    server.sql("CREATE SCHEMA foreign_one; CREATE TABLE foreign_one.lease (a int)")?;
    server.sql(&PostgresOptions::new("postgres:?schema=later")?.setup_sql())?;
    server.sql("COMMENT ON TABLE later.lease IS 'tenure leases, format 2'")?;
    let url = |user: &str, database: &str| server.url_for(user, database);
    let postgres = url("postgres", "postgres");
    let port = tenure_testkit::servers::free_port()?;
    for (url, kind, says) in [
        (url("locked:wrong", "postgres"), ErrorKind::Denied, "password"),
        (url("locked", "postgres"), ErrorKind::Denied, "PGPASSWORD"),
        (url("postgres", "missing"), ErrorKind::Invalid, "CREATE DATABASE"),
        (url("postgres", "latin"), ErrorKind::Unsupported, "UTF8"),
        (url("reader", "postgres"), ErrorKind::Unavailable, "default_transaction_read_only"),
        (format!("{postgres}?schema=foreign_one"), ErrorKind::Mismatch, "another schema"),
        (format!("{postgres}?schema=later"), ErrorKind::Unsupported, "another version"),
        (format!("{postgres}?sslmode=require"), ErrorKind::Denied, "TLS"),
        (format!("postgres://127.0.0.1:{port}/x"), ErrorKind::Unavailable, "host and port"),
    ] {
        let error = refusal(&url).await;
        let text = Chain(&error).to_string();
        ensure!(error.kind() == kind && text.contains(says), "{:?}: {text}", error.kind());
        ensure!(!text.contains("wrong"), "{text}");
    }
    let right = format!("{}?schema=room_1", url("locked:right", "postgres"));
    let error = refusal(&right).await;
    ensure!(error.to_string().contains("CREATE SCHEMA"), "{error}");
    Ok(())
}

#[tokio::test]
async fn what_the_refusal_says_to_run_is_enough() -> Result<()> {
    let server = Postgres::start(&[])?;
    server.sql("CREATE ROLE \"app user\" LOGIN")?;
    let url = server.url_for("app%20user", "postgres");
    let options = PostgresOptions::new(&url)?.table("Some \"schema\"", "locks")?;
    let opened = || async { options.clone().open(Arc::new(SystemClock)).await };
    let error = opened().await.err().context("opened without rights")?;
    let text = error.to_string();
    ensure!(error.kind() == ErrorKind::Denied, "{text}");
    let (_, advice) = text.split_once(":\n").context("no statements in the text")?;
    ensure!(advice == options.setup_sql() + &options.grant_sql("app user"), "{advice}");
    server.sql(&options.setup_sql())?;
    let error = opened().await.err().context("opened without grants")?;
    let (_, advice) = error
        .to_string()
        .split_once(":\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .context("no grants in the text")?;
    ensure!(error.kind() == ErrorKind::Denied && advice == options.grant_sql("app user"));
    server.sql(&advice)?;
    let store = opened().await?;
    cycle(&*store).await?;
    sweeps(&store, 1).await?;
    wakes(&*store, &*opened().await?).await
}

#[tokio::test]
async fn what_the_url_leaves_out_can_be_said_in_code() -> Result<()> {
    let server = Postgres::start(&[])?;
    server.sql("CREATE ROLE locked LOGIN PASSWORD 'right'")?;
    server.sql("CREATE DATABASE other OWNER locked")?;
    let options = PostgresOptions::new(&format!("postgres://{}", server.server().address()))?
        .credentials("locked", "right")
        .database("other")
        .application_name("in code")
        .session_options("-c search_path=pg_temp")
        .connect_timeout(SOON);
    let store = options.open(Arc::new(SystemClock)).await?;
    cycle(&*store).await?;
    let seen = "SELECT DISTINCT usename, datname FROM pg_stat_activity
        WHERE application_name = 'in code'";
    ensure!(server.sql(seen)? == "locked|other", "{}", server.sql(seen)?);
    Ok(())
}

#[test]
fn the_page_shows_what_is_run() -> Result<()> {
    let page = include_str!("../../../tenure/src/stores/postgres/mod.rs");
    let shown = page.split("```sql\n").nth(1).and_then(|rest| rest.split("//! ```").next());
    let shown: Vec<_> = shown.context("no statements")?.lines().collect();
    let shown: Vec<_> = shown.iter().map(|line| line.trim_start_matches("//!").trim()).collect();
    let options = PostgresOptions::new("postgres:")?;
    let run = format!("{}\n{}", options.setup_sql(), options.grant_sql("app"));
    let run: Vec<_> = run.lines().map(str::trim).collect();
    ensure!(shown == run, "{shown:#?} {run:#?}");
    Ok(())
}

#[tokio::test]
async fn settings_that_lose_data_lower_it() -> Result<()> {
    let server = Postgres::start(&["-c", "fsync=off", "-c", "full_page_writes=off"])?;
    let store = open(&server.url(1, None)).await?;
    let topics: Vec<_> = store.info().findings.iter().map(|finding| &*finding.topic).collect();
    ensure!(topics.contains(&"fsync") && topics.contains(&"full_page_writes"), "{topics:?}");
    ensure!(store.info().class == Class::Efficiency);
    server.sql("ALTER TABLE room_1.lease SET UNLOGGED")?;
    let store = open(&server.url(1, None)).await?;
    ensure!(store.info().findings.iter().any(|finding| finding.topic == "relpersistence"));
    Ok(())
}

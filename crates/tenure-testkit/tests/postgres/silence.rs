//! A server that takes what is sent and says nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tenure::claim::Attempt;
use tenure::{ErrorKind, Key, Store};
use tenure_testkit::servers::Service;
use tenure_testkit::servers::postgres::Postgres;
use tenure_testkit::wait::{bounded, sleep, until};

use crate::{SOON, claim, granted, open, wakes};

/// The server's ends of a store's connections, stopped where they stand as long as this lives.
struct Stopped(Vec<Pid>);

impl Stopped {
    fn all(server: &Postgres) -> Result<Self> {
        let pids = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tenure'";
        let pids = server.sql(pids)?;
        let pid = |line: &str| Pid::from_raw(line.parse().ok()?);
        let stopped = Self(pids.lines().map(pid).collect::<Option<_>>().context("no pid")?);
        stopped.signal(Signal::STOP)?;
        Ok(stopped)
    }

    /// That which takes new connections.
    fn door(server: &Postgres) -> Result<Self> {
        let pid = server.server().pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let stopped = Self(vec![pid.context("no pid")?]);
        stopped.signal(Signal::STOP)?;
        Ok(stopped)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        self.0.iter().try_for_each(|&pid| Ok(kill_process(pid, signal)?))
    }

    /// Lets them go on, and waits until they have noticed that nobody listens any more.
    async fn end(self, server: &Postgres) -> Result<()> {
        let pids: Vec<_> = self.0.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
        drop(self);
        let left =
            format!("SELECT count(*) FROM pg_stat_activity WHERE pid IN ({})", pids.join(","));
        until("the connections to end", SOON, || async { Ok(server.sql(&left)? == "0") }).await
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // One that has ended meanwhile needs it no more.
        drop(self.signal(Signal::CONT));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_costs_the_connection_and_a_claim_that_was_not_sent_never_is() -> Result<()> {
    let server = Postgres::start(&[])?;
    let url = server.url(1, None);
    let store = open(&url.replace("connections=4", "connections=1")).await?;
    granted(&*store, &claim("t1/before", "warm")).await?;
    let (stopped, door) = (Stopped::all(&server)?, Stopped::door(&server)?);
    let (sent, waiting) = (claim("t1/sent", "sent"), claim("t1/waiting", "waiting"));
    let key = Key::new("t1/watched")?;
    let answers = async {
        tokio::join!(store.try_acquire(&sent), store.try_acquire(&waiting), store.watch(&key))
    };
    let (sent, not_sent, watched) = bounded("three answers", SOON, answers).await?;
    let kind = |error: Option<tenure::Error>| error.map(|error| error.kind());
    ensure!(kind(sent.err()) == Some(ErrorKind::Unknown), "it was sent");
    ensure!(kind(not_sent.err()) == Some(ErrorKind::Unavailable), "it waited for a connection");
    ensure!(kind(watched.err()) == Some(ErrorKind::Unavailable), "nobody listens");
    drop(door);
    ensure!(bounded("an answer", SOON, store.inspect(&waiting.key)).await??.is_none());
    until("the listener to recover", SOON, || async { Ok(store.watch(&key).await.is_ok()) })
        .await?;
    stopped.end(&server).await?;
    let ghost = store.inspect(&waiting.key).await?;
    ensure!(ghost.is_none(), "granted to someone who had given up: {ghost:?}");
    wakes(&*store, &*open(&url).await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_after_silence_gets_a_connection_of_its_own() -> Result<()> {
    let server = Postgres::start(&[])?;
    let url = server.url(1, None);
    let store = open(&url.replace("connections=4", "connections=2")).await?;
    let warm = ["t1/one", "t1/two"].map(|key| claim(key, "warm"));
    let (one, two) = tokio::join!(granted(&*store, &warm[0]), granted(&*store, &warm[1]));
    one.and(two)?;
    let all =
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure'")?;
    ensure!(all == "3", "two for statements and one to listen on, and not {all}");
    let stopped = Stopped::all(&server)?;
    let first = claim("t1/first", "first");
    let silent = tokio::spawn({
        let (store, first) = (Arc::clone(&store), first.clone());
        async move { store.try_acquire(&first).await }
    });
    // By then it is suspect, and so is the other, which nobody has used since.
    sleep(Duration::from_secs(3)).await;
    granted(&*store, &claim("t1/next", "next")).await.context("not answered")?;
    ensure!(!silent.is_finished(), "an answer may still come");
    drop(stopped);
    let answer = bounded("the late answer", SOON, silent).await???;
    ensure!(matches!(answer, Attempt::Granted(_)), "it was not lost");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_keeps_nobody_from_another() -> Result<()> {
    let server = Postgres::start(&[])?;
    let url = server.url(1, None);
    let store = open(&url.replace("connections=4", "connections=1")).await?;
    granted(&*store, &claim("t1/before", "warm")).await?;
    let stopped = Stopped::all(&server)?;
    let (first, next) = (claim("t1/first", "first"), claim("t1/next", "next"));
    let mut silent = std::pin::pin!(store.try_acquire(&first));
    tokio::select! {
        biased;
        answer = &mut silent => anyhow::bail!("it came first: {answer:?}"),
        next = granted(&*store, &next) => next.context("kept waiting")?,
    };
    drop(stopped);
    let answer = bounded("the late answer", SOON, silent).await??;
    ensure!(matches!(answer, Attempt::Granted(_)), "it was not lost");
    Ok(())
}

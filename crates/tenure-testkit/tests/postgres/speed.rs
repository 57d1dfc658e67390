//! What a lock costs.

use anyhow::{Result, ensure};
use tenure::Store;
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::servers::Service;
use tenure_testkit::servers::postgres::Postgres;
use tenure_testkit::wait::until;
use tokio_postgres::NoTls;

use crate::{SOON, claim, cycle, granted, open, room};

#[tokio::test]
async fn a_cycle_is_two_round_trips() -> Result<()> {
    let server = Postgres::start(&["-c", "log_min_duration_statement=0"])?;
    let store =
        open(&format!("{}&connections=1", server.url(1, None).replace("&connections=4", "")))
            .await?;
    let log = server.server().folder().join("tenure-test.log");
    let count =
        |what: &str| -> Result<usize> { Ok(std::fs::read_to_string(&log)?.matches(what).count()) };
    granted(&*store, &claim("t1/a", "warm")).await?;
    cycle(&*store).await?;
    let before = (count(" ms  parse ")?, count(" ms  execute ")?, count(" ms  statement: ")?);
    for number in 0..10 {
        let grant = granted(&*store, &claim(&format!("t1/c{number}"), "cycle")).await?;
        store.release(&grant).await?;
    }
    until("the log to be written", SOON, || async { Ok(count(" ms  execute ")? >= before.1 + 20) })
        .await?;
    let after = (count(" ms  parse ")?, count(" ms  execute ")?, count(" ms  statement: ")?);
    ensure!(after == (before.0, before.1 + 20, before.2), "{before:?} then {after:?}");
    Ok(())
}

/// How much longer a cycle takes than two statements by hand: half of the time the network and the
/// disk decide, so each is measured in turn, and the middle of many is compared.
#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_takes_no_longer_than_two_statements_by_hand() -> Result<()> {
    let url = room();
    let store = open(&url).await?;
    let (config, _) = url.split_once('?').unwrap();
    let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
    tokio::spawn(connection);
    let table = "CREATE TABLE by_hand (key text PRIMARY KEY, owner text, fence bigint, deadline \
                 timestamptz) WITH (fillfactor = 50)";
    client.batch_execute(table).await?;
    let take = "INSERT INTO by_hand AS t VALUES ($1, $2, 1, clock_timestamp() + interval '30 s') \
                ON CONFLICT (key) DO UPDATE SET owner = $2, fence = t.fence + 1, \
                deadline = excluded.deadline WHERE t.owner IS NULL RETURNING fence";
    let free = "UPDATE by_hand SET owner = NULL WHERE key = $1 AND owner = $2 RETURNING fence";
    let (take, free) = (client.prepare(take).await?, client.prepare(free).await?);
    let mut ratio = f64::MAX;
    // Once in three is enough: the machine has other work.
    for _ in 0..3 {
        let (mut hand, mut ours) = (Vec::new(), Vec::new());
        for round in 0..400 {
            let key = format!("t1/ratio/{}", round % 50);
            let start = SystemClock.now();
            client.query_one(&take, &[&key, &"owner"]).await?;
            client.query_one(&free, &[&key, &"owner"]).await?;
            let middle = SystemClock.now();
            let grant = granted(&*store, &claim(&key, "ratio")).await?;
            store.release(&grant).await?;
            hand.push(middle.since(start));
            ours.push(SystemClock.now().since(middle));
        }
        hand.sort();
        ours.sort();
        ratio = ratio.min(ours[200].as_secs_f64() / hand[200].as_secs_f64());
        println!("by hand {:?}, ours {:?}", hand[200], ours[200]);
    }
    ensure!(ratio <= 1.25, "{ratio:.2} times as long as by hand");
    Ok(())
}

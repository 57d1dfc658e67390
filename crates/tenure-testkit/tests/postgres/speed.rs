//! What a lock costs.

use anyhow::{Result, ensure};
use tenure::Store;
use tenure_testkit::servers::Service;
use tenure_testkit::servers::postgres::Postgres;
use tenure_testkit::wait::until;

use crate::{SOON, claim, cycle, granted, open};

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

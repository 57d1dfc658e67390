//! What is found out about a server before it is trusted.

use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::ErrorKind;
use tenure::error::Chain;
use tenure::store::Class;

use crate::standin::{Fate, Standin};
use crate::{open, refusal, s3rver, s3rver_url};

pub(crate) async fn a_server_that_ignores_conditions_is_refused() -> Result<()> {
    let server = tokio::task::spawn_blocking(|| s3rver(None)).await??;
    for probe in ["full", "quick"] {
        let more = format!("&allow_http=true&probe={probe}");
        let error = refusal(&s3rver_url("http", &server, &more)).await?;
        ensure!(error.kind() == ErrorKind::Unsupported, "{}", Chain(&error));
        ensure!(error.to_string().contains("ignores If-None-Match: two creates"), "{error}");
    }
    Ok(())
}

/// The server is made for this test, and stands for stores such as s3s-fs, which is no package.
pub(crate) async fn a_server_that_lets_two_through_at_once_is_refused() -> Result<()> {
    for _ in 0..5 {
        let server = Standin::with_gap(Duration::from_millis(2)).await?;
        let error = refusal(&server.s3("")).await?;
        ensure!(error.kind() == ErrorKind::Unsupported, "{}", Chain(&error));
        ensure!(error.to_string().contains("not atomically: of 12"), "{error}");
        // One at a time it does nothing wrong, which is not enough for the first class.
        let info = open(&server.s3("&probe=quick")).await?.info().clone();
        let told = info.findings.iter().any(|f| f.text.contains("was not tried"));
        ensure!(told && info.class == Class::Efficiency, "{:?}", info.findings);
    }
    let right = Standin::start().await?;
    ensure!(open(&right.s3("")).await?.info().class == Class::Fenced, "a good store is class F");
    Ok(())
}

/// One write at a time, as where a limit holds the others off: nothing was raced, right or wrong.
pub(crate) async fn a_server_that_lets_nobody_race_is_not_said_to_have_been_raced() -> Result<()> {
    let slow = Fate::Refused(503, "SlowDown");
    let one_by_one = [Fate::Made; 5];
    let round = [vec![Fate::Made], vec![slow; 11]].concat();
    for (rounds, says, class) in
        [(1, "one by one and at once", Class::Fenced), (6, "could not be tried", Class::Efficiency)]
    {
        let server = Standin::start().await?;
        server.next(one_by_one.into_iter().chain(round.repeat(rounds)));
        let info = open(&server.s3("")).await?.info().clone();
        let told = info.findings.iter().any(|finding| finding.text.contains(says));
        ensure!(told && info.class == class, "{:?}", info.findings);
    }
    Ok(())
}

/// That there was no room for a write says nothing of its condition.
pub(crate) async fn a_server_that_is_too_busy_to_refuse_is_asked_again() -> Result<()> {
    for (busy, word) in [(Fate::Refused(503, "SlowDown"), "S3"), (Fate::Refused(429, ""), "any")] {
        for update in [false, true] {
            let server = Standin::start().await?;
            let good = if update { vec![Fate::Made; 3] } else { vec![Fate::Made] };
            server.next([good.clone(), vec![busy, busy, Fate::Forced]].concat());
            let error = refusal(&server.s3("")).await?;
            ensure!(error.kind() == ErrorKind::Unsupported, "{word}: {}", Chain(&error));
            ensure!(error.to_string().contains("ignores If-"), "{error}");
            let server = Standin::start().await?;
            server.next([good, vec![busy; 20]].concat());
            let error = refusal(&server.s3("")).await?;
            ensure!(error.kind() == ErrorKind::Unavailable, "{word}: {}", Chain(&error));
        }
    }
    Ok(())
}

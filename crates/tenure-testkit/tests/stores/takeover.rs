//! Two processes contend for one key; the one that holds it is killed. The other has it a second
//! after the ttl at the latest, and not before the death.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_testkit::role::{Process, Role};
use tenure_testkit::servers::{Kind, fresh_room};
use tenure_testkit::wait::{bounded, sleep};

use crate::{Idea, Load, Outcome, shared};

pub(crate) const IDEA: Idea = Idea {
    name: "takeover",
    load: Load::Waits,
    show: |kind| Box::pin(show(kind, Process::start)),
    control: (|kind| Box::pin(show(kind, Process::start_careless)), "two held the key"),
};

const TTL: Duration = Duration::from_secs(2);
/// How far over the ttl the takeover may be.
const SLACK: Duration = Duration::from_secs(1);
const JUST_AFTER: Duration = Duration::from_millis(50);
const ROUNDS: usize = 3;

async fn show(kind: Kind, contender: fn(&Role) -> Result<Process>) -> Result<Outcome> {
    let service = shared(kind).await?;
    let role = Role::Hold { url: service.url(fresh_room(), None), key: "k".into(), ttl: TTL };
    let mut holder = Process::start(&role)?;
    let mut last = fence(&mut holder).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUNDS {
        let mut next = contender(&role)?;
        // Through a few renewals, so that it is the keeping alive that keeps the other out; and
        // just after one, of which the other may not know yet.
        sleep(TTL * 5 / 3 + JUST_AFTER).await;
        holder.kill()?;
        let killed = SystemClock.now();
        let took = granted_after(&mut next, killed, &mut last).await?;
        ensure!(took <= TTL + SLACK, "taken over only {took:?} after the death, ttl {TTL:?}");
        slowest = slowest.max(took);
        holder = next;
    }
    Ok(Outcome::Passed(format!("{ROUNDS} takeovers, the slowest {slowest:?} after the death")))
}

/// How long after the death of its predecessor a process holds the key.
async fn granted_after(next: &mut Process, killed: Moment, last: &mut u64) -> Result<Duration> {
    let early = bounded("nothing", Duration::from_millis(1), next.next()).await;
    ensure!(early.is_err(), "two held the key: {early:?}");
    let fence = fence(next).await?;
    ensure!(fence > *last, "fence {fence} after {last}");
    *last = fence;
    Ok(SystemClock.now().since(killed))
}

async fn fence(process: &mut Process) -> Result<u64> {
    process.line("held ").await?.parse().context("no fence")
}

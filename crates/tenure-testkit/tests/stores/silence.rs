//! The network falls silent under held locks, for longer than their ttl, and nobody is told: no
//! close, no reset. Every guard stops to believe before another process is granted its key. Then
//! the network carries new connections again, while the old ones stay silent for good: the store
//! answers by itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure::planted::Bug;
use tenure::{Guard, Locks, Operation};
use tenure_testkit::faults::{Fault, Faults};
use tenure_testkit::proxy::Proxy;
use tenure_testkit::servers::{Kind, fresh_room};
use tenure_testkit::wait::{bounded, sleep, until};
use tokio::task::JoinSet;

use crate::{Idea, Load, NO_SERVER, Outcome, own, shared};

pub(crate) const IDEA: Idea = Idea {
    name: "silence",
    load: Load::Waits,
    show: |kind| Box::pin(show(kind)),
    control: (|kind| Box::pin(untold(kind)), "believed in after"),
};

const HELD: usize = 10;
const TTL: Duration = Duration::from_secs(3);
/// How long the silence lasts, at the least.
const SILENT: Duration = Duration::from_secs(5);
const TAKEN_WITHIN: Duration = Duration::from_secs(15);
const RECOVERY_MAX: Duration = Duration::from_secs(30);

async fn show(kind: Kind) -> Result<Outcome> {
    let service = shared(kind).await?;
    let Some(server) = service.server() else { return Ok(NO_SERVER) };
    let (room, proxy) = (fresh_room(), Proxy::start(server.address(), 1).await?);
    let holder = Locks::open(&service.url(room, Some(proxy.address()))).await?;
    let other = Locks::open(&service.url(room, None)).await?;
    suffer(&holder, &other, || proxy.half_open(), || proxy.pass_anew()).await
}

/// Guards that are never told.
async fn untold(kind: Kind) -> Result<Outcome> {
    let service = own(kind).await?;
    let url = service.url(fresh_room(), None);
    let faults = Faults::new(tenure::stores::open(&url, Arc::new(SystemClock)).await?);
    let builder = Locks::builder().plant(Bug::SilentLoss);
    let holder = builder.open_on(Arc::new(faults.clone())).await?;
    let other = Locks::open(&url).await?;
    let silent = || faults.always(Operation::Renew, Fault::Hang);
    suffer(&holder, &other, silent, || faults.heal()).await
}

fn key(n: usize) -> String {
    format!("held-{n}")
}

async fn suffer(
    holder: &Locks,
    other: &Locks,
    begin: impl FnOnce(),
    end: impl FnOnce(),
) -> Result<Outcome> {
    let mut guards = Vec::new();
    for n in 0..HELD {
        guards.push(holder.lock(&key(n)).ttl(TTL).acquire().await?);
    }
    let guards = Arc::new(guards);
    begin();
    let silent_until = SystemClock.now() + SILENT;
    bounded("every key to be taken over", TAKEN_WITHIN, take_all(other, &guards)).await??;
    SystemClock.sleep_until(silent_until).await;
    end();
    let healed = SystemClock.now();
    until("the store to answer again", RECOVERY_MAX, || async {
        sleep(Duration::from_millis(20)).await;
        Ok(holder.status(&key(0)).await.is_ok())
    })
    .await?;
    let took = SystemClock.now().since(healed);
    for guard in &*guards {
        let next = holder.lock(guard.key().as_str()).wait(RECOVERY_MAX).acquire().await?;
        ensure!(next.fence() > guard.fence(), "fence {} after {}", next.fence(), guard.fence());
    }
    Ok(Outcome::Passed(format!("{HELD} guards were told; answered {took:.1?} after the silence")))
}

/// Takes every key as soon as it can be had, and looks at that moment who believes in it.
async fn take_all(other: &Locks, guards: &Arc<Vec<Guard>>) -> Result<()> {
    let mut takers = JoinSet::new();
    for n in 0..HELD {
        let (request, guards) = (other.lock(&key(n)).ttl(TTL), Arc::clone(guards));
        takers.spawn(async move {
            let taken = request.acquire().await.with_context(|| key(n))?;
            let (old, new) = (guards[n].fence(), taken.fence());
            ensure!(!guards[n].is_held(), "fence {old} was believed in after {new} was granted");
            ensure!(new > old, "fence {new} after {old}");
            Ok(taken.release().await?)
        });
    }
    while let Some(taken) = takers.join_next().await {
        taken??;
    }
    Ok(())
}

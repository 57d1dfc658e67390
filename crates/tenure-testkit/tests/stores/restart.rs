//! The server is killed and started again while fifty locks are held and another process tries to
//! take them all the time.
//!
//! No guard believes at a moment at which the other process knew of its own grant, and no fence
//! goes back; after a short outage every guard goes on. That holds for stores of class E as well:
//! the machine goes on, and what a server has written is still there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure::{Guard, Locks};
use tenure_testkit::role::{Process, Role};
use tenure_testkit::servers::{Kind, Server, Service, fresh_room};
use tenure_testkit::wait::{bounded, sleep};

use crate::{Idea, Load, NO_SERVER, Outcome, own};

pub(crate) const IDEA: Idea = Idea {
    name: "restart",
    load: Load::Waits,
    show: |kind| Box::pin(show(kind)),
    control: (|kind| Box::pin(robbed(kind)), "was believed in for"),
};

const HELD: usize = 50;
const TTL: Duration = Duration::from_secs(8);
const AWAY: Duration = Duration::from_secs(1);
/// An outage that a guard must get over: it renews every third of the ttl.
const SHORT: Duration = Duration::from_secs(2);

async fn show(kind: Kind) -> Result<Outcome> {
    let service = own(kind).await?;
    if service.server().is_none() {
        return Ok(NO_SERVER);
    }
    let held = Held::new(&service.url(fresh_room(), None), Process::start).await?;
    sleep(TTL / 5).await;
    let killed = SystemClock.now();
    let signal = service.hardest_end();
    with_server(&service, move |server| server.end(signal)).await?;
    sleep(AWAY).await;
    with_server(&service, Server::start_again).await?;
    let outage = SystemClock.now().since(killed);
    // By then every guard was renewed after the outage, or has stopped to believe.
    sleep(TTL + Duration::from_secs(1)).await;
    let (kept, lost, taken) = held.settle().await?;
    ensure!(
        kept == HELD || outage > SHORT,
        "{lost} of {HELD} guards did not get over an outage of {outage:?}"
    );
    Ok(Outcome::Passed(format!("away for {outage:?}: {kept} kept, {lost} told, {taken} taken")))
}

/// Does something slow with the server.
async fn with_server(
    service: &Arc<dyn Service>,
    work: impl FnOnce(&Server) -> Result<()> + Send + 'static,
) -> Result<()> {
    let service = Arc::clone(service);
    tokio::task::spawn_blocking(move || work(service.server().context("no server")?)).await?
}

/// Without any restart, the other process just takes what is held.
async fn robbed(kind: Kind) -> Result<Outcome> {
    let service = own(kind).await?;
    let held = Held::new(&service.url(fresh_room(), None), Process::start_careless).await?;
    sleep(TTL / 5).await;
    held.settle().await?;
    Ok(Outcome::Passed("nothing was found".to_owned()))
}

/// Fifty guards, when each last believed, and the process that is after them.
struct Held {
    locks: Locks,
    guards: Arc<Vec<Guard>>,
    beliefs: Arc<Vec<AtomicU64>>,
    stop: Arc<AtomicBool>,
    robber: Process,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn key(n: usize) -> String {
    format!("held-{n}")
}

impl Held {
    async fn new(url: &str, start: fn(&Role) -> Result<Process>) -> Result<Self> {
        let locks = Locks::open(url).await?;
        let mut guards = Vec::new();
        for n in 0..HELD {
            guards.push(locks.lock(&key(n)).ttl(TTL).acquire().await?);
        }
        let guards = Arc::new(guards);
        let beliefs: Arc<Vec<_>> = Arc::new((0..HELD).map(|_| AtomicU64::new(0)).collect());
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::spawn({
            let (guards, beliefs) = (Arc::clone(&guards), Arc::clone(&beliefs));
            let stop = Arc::clone(&stop);
            move || note_beliefs(&guards, &beliefs, &stop)
        });
        let prefix = key(0).trim_end_matches('0').to_owned();
        let role = Role::Rob { url: url.to_owned(), prefix, count: HELD, ttl: TTL };
        let mut robber = start(&role)?;
        robber.line("ready").await?;
        Ok(Self { locks, guards, beliefs, stop, robber })
    }

    /// Every guard holds what the store says it holds, or was told that it is lost; whatever was
    /// taken was no longer believed in. Afterwards every key can be had again. Returns how many
    /// were kept, lost and taken.
    async fn settle(mut self) -> Result<(usize, usize, usize)> {
        let taken = self.takeovers().await?;
        let mut fences: Vec<u64> = self.guards.iter().map(|guard| guard.fence().get()).collect();
        for (n, fence, at) in &taken {
            let (before, believed) = (fences[*n], self.beliefs[*n].load(Ordering::SeqCst));
            ensure!(*fence > before, "{}: fence {fence} after {before}", key(*n));
            ensure!(
                believed < *at,
                "{}: fence {before} was believed in for {:?} after fence {fence} was granted",
                key(*n),
                Duration::from_nanos(believed - at)
            );
            fences[*n] = *fence;
        }
        let kept = self.kept().await?;
        self.stop.store(true, Ordering::SeqCst);
        // The last to let go of a guard gives its lease back.
        drop(std::mem::take(&mut self.guards));
        again(&self.locks, &fences).await?;
        Ok((kept, HELD - kept, taken.len()))
    }

    /// How many guards hold what the store says they hold; all others were told.
    async fn kept(&self) -> Result<usize> {
        let mut kept = 0;
        for (n, guard) in self.guards.iter().enumerate() {
            let seen = self.locks.status(&key(n)).await?.map(|status| status.fence);
            if guard.is_held() {
                let fence = guard.fence();
                ensure!(seen == Some(fence), "{} believes in {fence}, not {seen:?}", key(n));
                kept += 1;
            } else {
                bounded("a guard to be told", Duration::from_secs(2), guard.lost()).await?;
            }
        }
        Ok(kept)
    }

    /// What the robber took: which, with which fence, when.
    async fn takeovers(&mut self) -> Result<Vec<(usize, u64, u64)>> {
        self.robber.kill()?;
        let mut taken = Vec::new();
        while let Some(line) = self.robber.next().await? {
            let mut words = line.split(' ').skip(1);
            let mut word = || words.next().with_context(|| format!("a short line: {line}"));
            let number = word()?.trim_start_matches("held-").parse()?;
            taken.push((number, word()?.parse()?, word()?.parse()?));
        }
        Ok(taken)
    }
}

/// Each key can be had again, with a higher fence.
async fn again(locks: &Locks, fences: &[u64]) -> Result<()> {
    for (n, last) in fences.iter().enumerate() {
        let guard = locks.lock(&key(n)).wait(TTL * 3).acquire().await?;
        let fence = guard.fence().get();
        ensure!(fence > *last, "{}: fence {fence} after {last}", key(n));
    }
    Ok(())
}

/// Asks every guard all the time, and notes the latest question that was answered with yes.
#[expect(clippy::disallowed_methods, reason = "a thread of its own, so that no runtime delays it")]
fn note_beliefs(guards: &[Guard], beliefs: &[AtomicU64], stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        for (guard, belief) in guards.iter().zip(beliefs) {
            let asked = SystemClock.now().as_nanos();
            if guard.is_held() {
                belief.store(asked, Ordering::SeqCst);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

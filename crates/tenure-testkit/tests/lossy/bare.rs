//! The engine on every store with a server, over a network that loses replies, without anything
//! that asks again in between: here it meets outcomes that are really unknown.
//!
//! What an operation comes to is then anybody's guess. What is held to is what is promised all the
//! same: no guard believes when another is granted the key, fences grow, and nothing stays locked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Failed, Trial};
use tenure::planted::Bug;
use tenure::{Error, ErrorKind, Guard, Locks};
use tenure_testkit::proxy::{Flow, Proxy};
use tenure_testkit::servers::{Kind, fresh_room, kinds};
use tenure_testkit::wait::{sleep, until};
use tokio::task::JoinSet;

const KEYS: usize = 3;
/// As many [`Locks`], each like a process of its own, with as many tasks each.
const PROCESSES: usize = 2;
const TASKS: usize = 3;
const ROUNDS: usize = 25;
const LOSS: u64 = 60;
const TTL: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(3);
/// From the end of a ttl until everyone has seen it.
const SLACK: Duration = Duration::from_secs(2);

pub(crate) fn trials() -> Vec<Trial> {
    let control = Trial::test("control::an_assumed_grant_is_found_out", an_assumed_grant);
    let bare = kinds().into_iter().map(|kind| {
        Trial::test(format!("{}::bare", kind.name), move || {
            run(kind, None).map_err(|error| Failed::from(format!("{error:?}")))
        })
    });
    std::iter::once(control).chain(bare).collect()
}

fn an_assumed_grant() -> Result<(), Failed> {
    let kind = *kinds().first().ok_or("no store with a server")?;
    let Err(found) = run(kind, Some(Bug::AssumedGrant)) else {
        return Err("a grant without the store's word passed".into());
    };
    println!("found out: {found:#}");
    let text = format!("{found:#}");
    let is_found = ["two at once", "the fence did not grow"].iter().any(|said| text.contains(said));
    if is_found { Ok(()) } else { Err("for another reason".into()) }
}

fn run(kind: Kind, bug: Option<Bug>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(under_loss(kind, bug));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn under_loss(kind: Kind, bug: Option<Bug>) -> Result<()> {
    let service = tokio::task::spawn_blocking(move || kind.shared()).await??;
    let Some(server) = service.server() else { return Ok(()) };
    let (room, proxy) = (fresh_room(), Proxy::start(server.address(), super::base_seed()).await?);
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        let builder = Locks::builder().operation_timeout(TTL);
        let builder = bug.into_iter().fold(builder, tenure::LocksBuilder::plant);
        processes.push(builder.open(&service.url(room, Some(proxy.address()))).await?);
    }
    let scene = Arc::new(Scene::default());
    proxy.replies(Flow::LoseSome(LOSS));
    let mut tasks = JoinSet::new();
    for (n, locks) in processes.iter().cycle().take(PROCESSES * TASKS).enumerate() {
        tasks.spawn(Arc::clone(&scene).work(locks.clone(), n));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    proxy.pass();
    for locks in &processes {
        locks.flush().await;
    }
    let lost = proxy.lost();
    scene.is_left_free(&Locks::open(&service.url(room, None)).await?).await?;
    let [granted, failed] = [&scene.granted, &scene.failed].map(|n| n.load(Ordering::Relaxed));
    println!("{} bare: {granted} granted, {failed} failed, {lost} replies lost", kind.name);
    ensure!(granted > 0 && lost > 0, "nothing was put to the test");
    Ok(())
}

/// What everyone knows of every key.
#[derive(Default)]
struct Scene {
    keys: [Mutex<Seen>; KEYS],
    granted: AtomicU64,
    failed: AtomicU64,
}

#[derive(Default)]
struct Seen {
    fence: u64,
    believer: Option<Arc<Guard>>,
}

fn key(n: usize) -> String {
    format!("k{n}")
}

impl Scene {
    async fn work(self: Arc<Self>, locks: Locks, task: usize) -> Result<()> {
        for round in 0..ROUNDS {
            let n = (task + round) % KEYS;
            let request = locks.lock(&key(n)).ttl(TTL).wait(WAIT);
            match request.acquire().await {
                Ok(guard) => self.enter(n, guard)?.leave(&locks, round).await?,
                Err(error) => self.excuse(&error)?,
            }
        }
        Ok(())
    }

    fn enter(&self, n: usize, guard: Guard) -> Result<Stay<'_>> {
        self.granted.fetch_add(1, Ordering::Relaxed);
        let guard = Arc::new(guard);
        let mut seen = self.seen(n);
        let other = seen.believer.replace(Arc::clone(&guard));
        let fence = guard.fence().get();
        ensure!(other.is_none_or(|other| !other.is_held()), "{}: two at once", key(n));
        ensure!(fence > seen.fence, "the fence did not grow: {fence} after {}", seen.fence);
        seen.fence = fence;
        drop(seen);
        Ok(Stay { scene: self, n, guard })
    }

    /// A failure that the network can be blamed for.
    fn excuse(&self, error: &Error) -> Result<()> {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let is_excused = matches!(
            error.kind(),
            ErrorKind::Unknown | ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Lost
        );
        ensure!(is_excused, "blamed on something else: {error}");
        Ok(())
    }

    /// After a flush nothing is left, and whoever has to see a lease unchanged for its ttl has.
    async fn is_left_free(&self, truth: &Locks) -> Result<()> {
        for n in 0..KEYS {
            let free = || async { Ok(!truth.is_locked(&key(n)).await?) };
            until("the key to be free", TTL + SLACK, free).await.context("it stays locked")?;
            let guard = truth.lock(&key(n)).try_acquire().await?.context("it stays locked")?;
            let last = self.seen(n).fence;
            ensure!(guard.fence().get() > last, "the fence did not grow: {last} was given");
            guard.release().await?;
        }
        Ok(())
    }

    fn seen(&self, n: usize) -> std::sync::MutexGuard<'_, Seen> {
        self.keys[n].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A grant in use.
struct Stay<'a> {
    scene: &'a Scene,
    n: usize,
    guard: Arc<Guard>,
}

impl Stay<'_> {
    /// In every way there is, in turn.
    async fn leave(self, locks: &Locks, round: usize) -> Result<()> {
        sleep(Duration::from_millis(1)).await;
        let Self { scene, n, guard } = self;
        let fence = guard.fence().get();
        let mine = {
            let mut seen = scene.seen(n);
            if seen.fence == fence { seen.believer.take() } else { None }
        };
        drop(mine);
        let Some(guard) = Arc::into_inner(guard) else { return Ok(()) };
        match round % 3 {
            0 => drop(guard),
            1 => guard.release().await.or_else(|error| scene.excuse(&error))?,
            _ => {
                let lease = guard.detach();
                match locks.release(lease.key.as_str(), &lease.owner).await {
                    // It may have been released before its reply was lost, or have ended.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) if error.kind() == ErrorKind::WrongOwner => {}
                    outcome => outcome.or_else(|error| scene.excuse(&error))?,
                }
            }
        }
        Ok(())
    }
}

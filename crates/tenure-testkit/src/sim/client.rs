//! A client process: it opens the locks on its side of the network and its workers do all that a
//! caller can do with them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tenure::claim::Reentry;
use tenure::clock::{Clock, within};
use tenure::{Backoff, Error, ErrorKind, Guard, LockRequest, Locks, Owner, Store};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::check::Phase;
use super::clock::{Node, SimClock, nanos};
use super::counters::Count;
use super::message::{KEYS, key_name};
use super::mutant::Mutant;
use super::net::SimNet;
use super::trace::Step;
use super::world::World;

/// The ttls that workers ask for.
pub(crate) const TTLS_MS: [u64; 5] = [400, 700, 1000, 1500, 3000];
/// The longest of them.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(3);
const WORKERS: u64 = 2;
/// How long after the end of all faults a living client may need to finish.
const FINISH_MAX: Duration = Duration::from_secs(60);

/// One process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) seat: usize,
    pub(crate) node: Arc<Node>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) locks: Locks,
    /// One flush at a time: the engine wakes several of them in any order.
    flushing: Mutex<()>,
}

impl Client {
    /// Opens the locks, however long that takes; `None` when the settings are refused.
    pub(crate) async fn open(world: &Arc<World>, seat: usize) -> Option<Arc<Self>> {
        let (node, clock) = world.sit_down(seat);
        let clock = Arc::new(clock);
        let net = Arc::new(SimNet::new(Arc::clone(world), seat, Arc::clone(&node)));
        loop {
            let store: Arc<dyn Store> = Arc::<SimNet>::clone(&net);
            let error = match Self::settings(world, &clock, seat).open_on(store).await {
                Ok(locks) => {
                    let world = Arc::clone(world);
                    let flushing = Mutex::default();
                    return Some(Arc::new(Self { world, seat, node, clock, locks, flushing }));
                }
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Invalid {
                world.violation(&format!("client {seat} did not open: {error}"));
                return None;
            }
            clock.sleep_until(clock.now() + Duration::from_millis(100)).await;
        }
    }

    fn settings(world: &Arc<World>, clock: &Arc<SimClock>, seat: usize) -> tenure::LocksBuilder {
        let poll = if world.plan.mutant == Some(Mutant::NoFallbackPoll) {
            Backoff { base: Duration::from_secs(3600), cap: Duration::from_secs(3600), jitter: 0.5 }
        } else {
            Backoff { base: Duration::from_millis(100), cap: Duration::from_secs(1), jitter: 0.5 }
        };
        let settings = Locks::builder()
            .clock(Arc::<SimClock>::clone(clock))
            .random(Arc::<super::dice::Dice>::clone(&world.dice))
            .holder(&format!("c{seat}"))
            .default_ttl(TTL_MAX)
            .operation_timeout(world.dice.millis(200, 900))
            .outage_max(Duration::from_secs(4))
            .poll(poll);
        match world.plan.mutant {
            Some(Mutant::Engine(bug)) => settings.plant(bug),
            _ => settings,
        }
    }

    /// A pause of this process's own making.
    pub(crate) async fn nap(&self, span: Duration) {
        self.clock.sleep_until(self.clock.now() + span).await;
    }
}

/// The processes that sit on one seat, one after the other, until the world is healed and the last
/// of them has finished.
pub(crate) async fn sit(world: Arc<World>, seat: usize) {
    loop {
        let mut workers = JoinSet::new();
        let living = live(&world, seat, &mut workers);
        let node = tokio::select! {
            biased;
            () = living => return,
            node = death(&world, seat) => node,
        };
        // What the process held is gone with it: no cleanup gets through to anyone.
        debug_assert!(node.is_dead());
        workers.abort_all();
        drop(workers);
        world.timeline.sleep(world.dice.millis(50, 2500)).await;
        if world.is_healed() {
            return;
        }
    }
}

async fn death(world: &World, seat: usize) -> Arc<Node> {
    let node = world.node(seat);
    node.died().await;
    node
}

async fn live(world: &Arc<World>, seat: usize, workers: &mut JoinSet<()>) {
    let Some(client) = Client::open(world, seat).await else { return };
    for _ in 0..WORKERS {
        let [shared, strict] = [(); 2].map(|()| Owner::generate(&*world.dice).ok());
        let worker = Worker { client: Arc::clone(&client), shared, strict };
        workers.spawn(worker.work());
    }
    world.until_healed().await;
    let ended = world.timeline.within(FINISH_MAX, async {
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                world.violation(&format!("a worker of client {seat} failed: {error}"));
            }
        }
    });
    if !ended.await {
        return world.violation(&format!("a worker of client {seat} did not end after healing"));
    }
    if !world.timeline.within(FINISH_MAX, client.locks.flush()).await {
        world.violation(&format!("flush of client {seat} did not return after healing"));
    }
}

/// One task of a client.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) client: Arc<Client>,
    /// An owner of the caller's choice, used again and again.
    pub(crate) shared: Option<Owner>,
    /// Another one, which holds a key by one acquire at a time.
    pub(crate) strict: Option<Owner>,
}

/// Whose an acquire is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owning {
    /// An owner of its own.
    Alone,
    /// One that is used again and again, and given what it holds already.
    Shared,
    /// One that is used again and again, and refused what it holds already.
    Strict,
}

/// One acquire of a worker.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) number: u64,
    pub(crate) key: usize,
    pub(crate) ttl: Duration,
    /// It ends by itself, even if nobody ends it.
    pub(crate) is_bounded: bool,
    pub(crate) owning: Owning,
    pub(crate) request: LockRequest,
}

impl Worker {
    async fn work(self) {
        let world = &self.client.world;
        while !world.is_healed() {
            match world.dice.below(100) {
                0..62 => self.acquire().await,
                62..74 => self.run().await,
                74..84 => self.cancel().await,
                84..88 => self.force().await,
                88..94 => self.status().await,
                _ => self.list().await,
            }
            self.client.nap(world.dice.millis(0, 400)).await;
        }
    }

    /// A new acquire with random terms.
    fn attempt(&self) -> Attempt {
        let Client { world, seat, locks, .. } = &*self.client;
        let dice = &world.dice;
        let key = usize::try_from(dice.below(KEYS as u64)).unwrap_or(0);
        let ttl = Duration::from_millis(dice.pick(&TTLS_MS));
        let number = world.checker().number();
        let mut request = locks.lock(&key_name(key)).ttl(ttl);
        if dice.chance(900) {
            request =
                request.wait(if dice.chance(250) { Duration::ZERO } else { dice.millis(50, 4000) });
        }
        let mut is_bounded = false;
        if dice.chance(200) {
            request = request.keep_alive(false);
            is_bounded = true;
        } else if dice.chance(150) {
            request = request.max_hold(ttl.mul_f64(0.5) + dice.millis(0, 2000));
            is_bounded = true;
        }
        let owning = match dice.below(100) {
            0..15 if world.plan.chosen_owners => Owning::Shared,
            15..30 if world.plan.chosen_owners => Owning::Strict,
            _ => Owning::Alone,
        };
        let owner = match owning {
            Owning::Alone => None,
            Owning::Shared => self.shared.clone(),
            Owning::Strict => self.strict.clone(),
        };
        if let Some(owner) = owner {
            request = request.owner(owner);
        }
        if owning == Owning::Strict {
            request = request.reentry(Reentry::Refuse);
        }
        let mut checker = world.checker();
        checker.step(Step::Began { seat: *seat, attempt: number, key });
        // Two acquires that share an owner cannot be told apart, so those are not followed.
        if owning != Owning::Shared {
            checker.began(number, nanos(ttl));
        }
        request = request.holder(&number.to_string());
        Attempt { number, key, ttl, is_bounded, owning, request }
    }

    async fn acquire(&self) {
        let attempt = self.attempt();
        match attempt.request.acquire().await {
            Ok(guard) => self.hold(&attempt, guard).await,
            Err(error) => self.failed(&attempt, &error).await,
        }
    }

    async fn cancel(&self) {
        let attempt = self.attempt();
        let world = &self.client.world;
        let limit = world.dice.millis(0, 600);
        match within(&*self.client.clock, limit, attempt.request.acquire()).await {
            Ok(Ok(guard)) => self.hold(&attempt, guard).await,
            Ok(Err(error)) => self.failed(&attempt, &error).await,
            Err(_) => {
                world.count(Count::AcquireCancelled);
                self.over(&attempt, "cancelled").await;
            }
        }
    }

    async fn run(&self) {
        let attempt = self.attempt();
        let world = &self.client.world;
        let span = attempt.ttl.mul_f64(0.2) + world.dice.millis(0, 2500);
        let work = async |guard: &Guard| self.work_under(&attempt, guard, span).await;
        match attempt.request.run(work).await {
            Ok(()) => {
                world.count(Count::RunFinished);
                self.over(&attempt, "run finished").await;
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                world.count(Count::RunStopped);
                self.over(&attempt, "run stopped").await;
            }
            Err(error) => self.failed(&attempt, &error).await,
        }
    }

    async fn failed(&self, attempt: &Attempt, error: &Error) {
        let world = &self.client.world;
        match error.kind() {
            ErrorKind::Held => world.count(Count::AcquireHeld),
            ErrorKind::TimedOut => world.count(Count::AcquireTimedOut),
            ErrorKind::Unavailable => world.count(Count::AcquireUnavailable),
            ErrorKind::Unknown => world.count(Count::AcquireUnknown),
            _ => world.violation(&format!("an acquire failed in an odd way: {error}")),
        }
        self.over(attempt, "failed").await;
    }

    /// The acquire is over, and nothing of it may stay locked. Now and then that is put to the
    /// test at once.
    pub(crate) async fn over(&self, attempt: &Attempt, how: &'static str) {
        let Client { world, seat, locks, flushing, .. } = &*self.client;
        world.step(Step::Ended { seat: *seat, attempt: attempt.number, how });
        world.ended(attempt.number, Phase::Over);
        if world.dice.chance(400) {
            let _turn = flushing.lock().await;
            locks.flush().await;
            world.flushed(attempt.number);
        }
    }

    async fn force(&self) {
        let Client { world, locks, .. } = &*self.client;
        let key = key_name(usize::try_from(world.dice.below(KEYS as u64)).unwrap_or(0));
        // Whom it evicted, and whether it was answered, is counted where it happens.
        let _ = locks.force_release(&key, "simulated").await;
    }

    async fn status(&self) {
        let Client { world, locks, .. } = &*self.client;
        let key = usize::try_from(world.dice.below(KEYS as u64)).unwrap_or(0);
        if locks.status(&key_name(key)).await.is_ok() {
            world.count(Count::StatusRead);
        }
    }

    async fn list(&self) {
        let Client { world, locks, .. } = &*self.client;
        let listed = locks.list("k").collect::<Vec<_>>().await;
        if listed.iter().all(Result::is_ok) {
            world.count(Count::Listed);
        }
    }
}

//! The deterministic simulation: the engine as it ships, in a world where everything goes wrong.
//!
//! One seed is one run. Three client processes with two workers each fight for a few keys through
//! the public API of [`tenure::Locks`]. Their store is behind a network that loses, delays,
//! reorders and repeats messages; processes are stopped and crash; the server is stopped, crashes
//! and loses what it had not synced; every clock has its own zero and its own rate. Time is
//! simulated and all chance comes from the seed, so the same seed is the same run, step by step.
//!
//! | file | what it is |
//! |---|---|
//! | `dice` | all chance |
//! | `clock` | true time, processes, and their clocks |
//! | `message`, `net` | questions and answers, and their way |
//! | `server` | the store's side: the one rule on a map, with syncs and crashes |
//! | `client`, `hold` | what callers do |
//! | `faults` | what goes wrong |
//! | `check` | what must hold at every step |
//! | `world` | all of it together |
//! | `counters` | that it really happened |
//! | `mutant` | bugs to plant, to prove that they are found |

mod check;
mod client;
mod clock;
mod counters;
mod dice;
mod faults;
mod hold;
mod message;
mod mutant;
mod net;
mod server;
mod trace;
mod world;

use std::sync::Arc;
use std::time::Duration;

pub use counters::{Count, Counters};
pub(crate) use dice::Dice;
pub use mutant::Mutant;

use client::{Client, TTL_MAX};
use message::{KEYS, key_name};
use world::{SEATS, World};

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Requests and replies are lost, repeated, delayed and refused.
    pub network: bool,
    /// Clients are cut off for a while.
    pub partitions: bool,
    /// Client processes are stopped and go on.
    pub client_stops: bool,
    /// Client processes die and others take their place.
    pub client_crashes: bool,
    /// The server process is stopped and goes on.
    pub server_stops: bool,
    /// The server's machine crashes and comes back without what was not synced.
    pub server_crashes: bool,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What may go wrong.
    pub faults: Faults,
    /// The bug that is planted.
    pub mutant: Option<Mutant>,
    /// Whether workers also acquire with an owner that they use again and again.
    pub chosen_owners: bool,
    /// For how long faults strike, in simulated time.
    pub span: Duration,
    /// Whether the report has the trace as text.
    pub trace: bool,
}

impl Default for Plan {
    /// Everything goes wrong, and no bug is planted.
    fn default() -> Self {
        let faults = Faults {
            network: true,
            partitions: true,
            client_stops: true,
            client_crashes: true,
            server_stops: true,
            server_crashes: true,
        };
        let span = Duration::from_secs(12);
        Self { faults, mutant: None, chosen_owners: true, span, trace: false }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What must hold and did not; empty for a good run.
    pub violations: Vec<String>,
    /// How often each thing happened.
    pub counters: Counters,
    /// How many steps it took.
    pub steps: u64,
    /// A digest of every step and its time: equal for equal runs.
    pub trace_hash: u64,
    /// The trace as text, if the plan asked for it.
    pub trace: Vec<String>,
}

/// Runs one seed.
#[must_use]
pub fn simulate(seed: u64, plan: &Plan) -> Report {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Report::failed(&format!("no runtime: {error}")),
    };
    runtime.block_on(async {
        let world = Arc::new(World::new(seed, *plan));
        play(&world).await;
        let log = &world.checker().log;
        Report {
            violations: log.violations.clone(),
            counters: log.counters.clone(),
            steps: log.steps,
            trace_hash: log.hash(),
            trace: log.lines.clone(),
        }
    })
}

impl Report {
    fn failed(why: &str) -> Self {
        Self {
            violations: vec![why.into()],
            counters: Counters::default(),
            steps: 0,
            trace_hash: 0,
            trace: Vec::new(),
        }
    }
}

/// Faults for a while; then everything heals, and everything must come to a good end.
async fn play(world: &Arc<World>) {
    let clients: Vec<_> =
        (0..SEATS).map(|seat| tokio::spawn(client::sit(Arc::clone(world), seat))).collect();
    tokio::spawn(faults::strike(Arc::clone(world)));
    world.timeline.sleep(world.plan.span).await;
    world.heal();
    for client in clients {
        if let Err(error) = client.await {
            world.violation(&format!("a client failed: {error}"));
        }
    }
    take_all(world).await;
}

/// Whatever was left locked has ended by itself: a fresh client gets every key.
async fn take_all(world: &Arc<World>) {
    let Some(client) = Client::open(world, SEATS).await else { return };
    let bound = TTL_MAX + Duration::from_secs(2);
    for key in 0..KEYS {
        let request = client.locks.lock(&key_name(key)).ttl(TTL_MAX).wait(bound);
        match request.acquire().await {
            Ok(guard) => {
                let fence = guard.fence().get();
                world.checker().got(key, fence, guard.owner());
                let released = guard.release().await;
                // A force-release from before the healing may still have been on its way.
                if let Err(error) = released
                    && !world.checker().is_forced(fence)
                {
                    world.violation(&format!("after healing, k{key} was not released: {error}"));
                }
            }
            Err(error) => world.violation(&format!("after healing, k{key} was not free: {error}")),
        }
    }
}

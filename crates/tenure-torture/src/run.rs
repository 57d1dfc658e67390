//! One run: one store, its server, its workers, and everything that goes wrong meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::Finding;
use tenure::clock::{Clock, SystemClock};
use tenure::store::{Class, Timing};
use tenure::{Locks, Retry};
use tenure_testkit::faketime;
use tenure_testkit::proxy::Proxy;
use tenure_testkit::servers::{Service, fresh_room};

use crate::arena::{Arena, clean_after};
use crate::case::Case;
use crate::clockwork;
use crate::demand::{Demand, Reached};
use crate::fault::{Aim, Blow, Kind, Struck};
use crate::fleet::{Fleet, Plan};
use crate::job::{NAMESPACE, Style, TTL_LONG, nanos, sink};
use crate::judge::{Judgement, judge, left_over};
use crate::merge::{self, Lines};
use crate::nemesis::{self, Menu};
use crate::sink::{ROLE, SinkJob};
use crate::subject::Subject;
use crate::tally::Tally;
use crate::tether;

/// Into how many parts the network between workers and server is divided.
const LINKS: usize = 3;

const TICK: Duration = Duration::from_millis(10);

/// By how much this process has to be late for that to count.
const LATE_MIN: Duration = Duration::from_millis(20);

/// How many times its length a run may go on until it has come to what it must.
const LENGTHS_MAX: u32 = 3;

/// What the server said, beside the history.
pub(crate) const SERVER_LOG: &str = "server.log";

/// How long the sink may take to start.
const SINK_MAX: Duration = Duration::from_secs(20);

/// How long workers may take to end when their time is over.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// What is to be tried out.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) subject: Subject,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) tasks: u64,
    pub(crate) keys: u64,
    /// The kinds of faults, of those that are possible here.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) style: Style,
    pub(crate) planted: Option<String>,
    pub(crate) operation_timeout: Duration,
    /// What it has to come to; it goes on until it has, within a bound.
    pub(crate) demand: Option<Demand>,
}

impl Order {
    /// Everything, on this store.
    pub(crate) fn new(subject: Subject, length: Duration, seed: u64) -> Self {
        Self {
            subject,
            length,
            seed,
            workers: 12,
            tasks: 10,
            keys: 100,
            kinds: Kind::ALL.to_vec(),
            style: Style::Mixed,
            planted: None,
            operation_timeout: Duration::from_millis(1500),
            demand: None,
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) order: Order,
    pub(crate) version: String,
    pub(crate) class: Class,
    pub(crate) findings: Vec<Finding>,
    pub(crate) struck: Vec<Struck>,
    pub(crate) started: u64,
    pub(crate) judgement: Judgement,
    /// For how long the workers worked.
    pub(crate) fought: Duration,
    /// From the first worker to the verdict.
    pub(crate) took: Duration,
    pub(crate) judged_in: Duration,
    /// Where the history is.
    pub(crate) folder: PathBuf,
}

#[cfg(test)]
impl Outcome {
    /// An outcome for tests: of one fault and nothing found.
    pub(crate) fn sample(order: Order) -> Self {
        let (kind, target) = (Kind::WorkerPause, "worker 1".to_owned());
        Self {
            version: "Sample 4.47".to_owned(),
            class: order.subject.class,
            findings: Vec::new(),
            struck: vec![Struck { kind, target, link: None, begin: 1, end: 2 }],
            started: 12,
            judgement: Judgement::default(),
            fought: order.length,
            took: Duration::ZERO,
            judged_in: Duration::ZERO,
            folder: PathBuf::new(),
            order,
        }
    }
}

/// Tries out a store. The history stays where the outcome says; it is for the caller to keep.
pub(crate) async fn run(order: Order) -> Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("tenure-torture-").tempdir()?.keep();
    let told = format!("seed {}, history {}", order.seed, folder.display());
    run_in(order, folder).await.context(told)
}

async fn run_in(order: Order, folder: PathBuf) -> Result<Outcome> {
    let subject = order.subject;
    let service = tokio::task::spawn_blocking(move || subject.start()).await??;
    let version = subject.version(&*service)?;
    let job = SinkJob { parent: tether::own_id(), folder: folder.clone() };
    let mut sink_process = tether::start(ROLE, &job, &[]).await?;
    let latest = SystemClock.now() + SINK_MAX;
    while !sink(&folder).exists() {
        let ended = sink_process.try_wait()?;
        ensure!(ended.is_none() && SystemClock.now() < latest, "the sink does not listen");
        SystemClock.sleep_until(SystemClock.now() + TICK).await;
    }
    let room = fresh_room();
    let url = service.url(room, None);
    let locks = open(&url, TTL_LONG / 3).await?;
    let start = SystemClock.now();
    let probe = match subject.recovers {
        true => Some(open(&url, order.operation_timeout).await?),
        false => None,
    };
    let (mut arena, menu) = set_up(&order, service, room, probe, &folder).await?;
    let Fought { lags, length } = fight(&order, &mut arena, &menu, &folder).await?;
    let left = left_over(&locks, order.keys).await.context("the store is gone in the end")?;
    let Arena { struck, fleet, service, .. } = arena;
    drop(sink_process);
    if let Some(server) = service.server() {
        tokio::task::block_in_place(|| clean_after(server, || server.kill()))?;
        fs::copy(server.log(), folder.join(SERVER_LOG)).context("the log of the server")?;
    }
    let (judging, started) = (SystemClock.now(), fleet.started());
    let case = Case {
        store: subject.name.to_owned(),
        patience: order.operation_timeout,
        is_observed: locks.store().timing == Timing::Observer,
        wakes: locks.store().capabilities.wakes,
        links: fleet.links,
        lags,
        left,
        stuck: fleet.stuck,
    };
    case.save(&folder)?;
    let judgement = tokio::task::block_in_place(|| judge(&case, &folder))?;
    let now = SystemClock.now();
    Ok(Outcome {
        order,
        version,
        class: locks.store().class,
        findings: locks.store().findings.clone(),
        started,
        judgement,
        fought: length,
        took: now.since(start),
        judged_in: now.since(judging),
        struck,
        folder,
    })
}

async fn open(url: &str, patience: Duration) -> Result<Locks> {
    let mut tries = 0;
    loop {
        let builder = Locks::builder().shared(true).namespace(NAMESPACE).default_ttl(TTL_LONG);
        match builder.operation_timeout(patience).open(url).await {
            Err(error) if error.retry() != Retry::Never && tries < 5 => tries += 1,
            opened => return Ok(opened?),
        }
    }
}

async fn set_up(
    order: &Order,
    service: Arc<dyn Service>,
    room: u32,
    probe: Option<Locks>,
    folder: &Path,
) -> Result<(Arena, Menu)> {
    let mut links = Vec::new();
    let mut urls = vec![service.url(room, None)];
    let server = service.server();
    let steps = server.is_some_and(|server| clockwork::is_steppable(server.folder()));
    let is_possible = |kind: &Kind| match kind {
        Kind::ServerClockStep => steps,
        kind => server.is_some() || kind.aim() == Aim::Worker,
    };
    let kinds: Vec<Kind> = order.kinds.iter().copied().filter(is_possible).collect();
    if let Some(address) = service.address() {
        for number in 0..LINKS {
            links.push(Proxy::start(address, order.seed ^ number as u64).await?);
        }
        urls = links.iter().map(|link| service.url(room, Some(link.address()))).collect();
    }
    let moves_clocks = kinds.iter().any(|kind| matches!(kind, Kind::ClockRate | Kind::ClockStep));
    let plan = Plan {
        urls,
        folder: folder.to_owned(),
        workers: order.workers,
        tasks: order.tasks,
        keys: order.keys,
        seed: order.seed,
        until: SystemClock.now(),
        style: order.style,
        planted: order.planted.clone(),
        operation_timeout: order.operation_timeout,
        // Work that is run under a lock says that it goes on a moment after it was let go on.
        rates: if order.style == Style::Run { [1000; 3] } else { order.subject.rates },
        faketime: moves_clocks.then(faketime::library).transpose()?,
    };
    let menu = Menu { kinds, links: links.len(), start_max: order.subject.start_max };
    let fleet = Fleet::new(plan)?;
    Ok((Arena::new(service, links, fleet, probe, folder)?, menu))
}

/// What is to be told of a fight besides what was written down.
#[derive(Debug, Default)]
struct Fought {
    /// When this process was late, and by how much.
    lags: Vec<(u64, u64)>,
    length: Duration,
}

/// Lets the workers work and the nemesis strike, and goes on for as long as that has not come to
/// what it must, by a quarter of the length at a time.
async fn fight(order: &Order, arena: &mut Arena, menu: &Menu, folder: &Path) -> Result<Fought> {
    let mut fought = Fought::default();
    let mut length = order.length;
    for round in 0.. {
        let blows = nemesis::plan(order.seed.wrapping_add(round), length, menu);
        fought.lags.extend(fight_round(length, arena, &blows).await?);
        fought.length += length;
        length = order.length / 4;
        let is_over = fought.length + length > order.length * LENGTHS_MAX;
        let Some(demand) = order.demand.filter(|_| !is_over) else { break };
        let reached = tokio::task::block_in_place(|| reached(folder, arena.struck.len()))?;
        if demand.missed(reached).is_empty() {
            break;
        }
    }
    Ok(fought)
}

/// What a run has come to so far.
fn reached(folder: &Path, faults: usize) -> Result<Reached> {
    let Lines { records, deeds, .. } = merge::read(folder)?;
    Ok(Reached::new(&records, &Tally::new(&records, &deeds), faults))
}

/// One stretch of that; says when this process was late, and by how much.
async fn fight_round(
    length: Duration,
    arena: &mut Arena,
    blows: &[Blow],
) -> Result<Vec<(u64, u64)>> {
    let start = SystemClock.now();
    let end = start + length;
    arena.fleet.start(end).await?;
    let mut blows = blows.iter().peekable();
    let mut lags = Vec::new();
    loop {
        let next = SystemClock.now() + TICK;
        SystemClock.sleep_until(next).await;
        let now = SystemClock.now();
        let late = now.since(next);
        if late >= LATE_MIN {
            lags.push((now.as_nanos(), nanos(late)));
        }
        if now >= end {
            break;
        }
        while let Some(blow) = blows.next_if(|blow| start + blow.at <= now) {
            arena.strike(blow)?;
        }
        arena.tend().await?;
    }
    arena.heal_all().await?;
    arena.fleet.dismiss(SystemClock.now() + DRAIN_MAX).await?;
    Ok(lags)
}

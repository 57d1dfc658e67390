//! A worker: many tasks that take locks and write under them, and write down all that they do.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use tenure::clock::{Clock, Moment, SystemClock, within};
use tenure::error::Chain;
use tenure::{Event, EventKind, Locks, Observer, Retry, Store, stores};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::clockwork;
use crate::deed::Done;
use crate::dice::Dice;
use crate::job::{self, Job, NAMESPACE, TTL_LONG, nanos};
use crate::log::Log;
use crate::planted::Planted;
use crate::sink::Client;
use crate::skew::SkewedClock;
use crate::tether;
use crate::tries::Tries;
use crate::turn::Turn;
use crate::witness::Witness;

/// The first word of a worker's command line.
pub(crate) const ROLE: &str = "--torture-worker";

const FLUSH_MAX: Duration = Duration::from_secs(5);

/// What all tasks of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) job: Job,
    pub(crate) locks: Locks,
    pub(crate) log: Arc<Log>,
    pub(crate) tries: Arc<Tries>,
    pub(crate) witness: Arc<Witness>,
    pub(crate) sink: Client,
    claims: AtomicU64,
}

impl Shared {
    /// The number of the next claim: no two of a worker are the same.
    pub(crate) fn next_claim(&self) -> u64 {
        self.claims.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Works, if this process was started as a worker.
pub(crate) fn part() -> Option<ExitCode> {
    let job = tether::job::<Job>(ROLE)?;
    Some(tether::exit(&job.and_then(start)))
}

fn start(job: Job) -> Result<()> {
    tether::hold_to(job.parent)?;
    let complaint = job::complaint(&job.folder, job.worker);
    end_with_panics(complaint.clone());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(work(job));
    if let Err(error) = &outcome {
        fs::write(complaint, format!("{error:#}"))?;
    }
    outcome
}

/// A panic anywhere, also in a task that nobody waits for, ends this process, which is a failure of
/// the run.
fn end_with_panics(complaint: PathBuf) {
    std::panic::set_hook(Box::new(move |panic| {
        let _ = fs::write(&complaint, panic.to_string());
        std::process::abort();
    }));
}

async fn work(job: Job) -> Result<()> {
    let until = Moment::from_nanos(job.until);
    let log = Arc::new(Log::open(&job.folder, job.worker)?);
    let tries = Tries::new(Arc::clone(&log));
    let Some(locks) = open(&job, &log, &tries, until).await? else { return Ok(()) };
    let witness = Witness::start(Arc::clone(&log));
    let sink = Client::connect(&job.folder).await?;
    let claims = AtomicU64::new(0);
    let shared = Arc::new(Shared { job, locks, log, tries, witness, sink, claims });
    let mut tasks = JoinSet::new();
    for task in 0..shared.job.tasks {
        let dice = Dice::part(shared.job.seed, shared.job.worker << 16 | task);
        let mut turn = Turn::new(Arc::clone(&shared), dice);
        tasks.spawn(async move {
            while SystemClock.now() < until {
                turn.take(until.since(SystemClock.now())).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let _ = within(&SystemClock, FLUSH_MAX, shared.locks.flush()).await;
    Ok(())
}

/// The locks; `None` when the store could not be reached before the time was over.
///
/// One whose wall clock jumps may be refused for that, where requests are signed with the time of
/// day, until it jumps back.
async fn open(
    job: &Job,
    log: &Arc<Log>,
    tries: &Arc<Tries>,
    until: Moment,
) -> Result<Option<Locks>> {
    while SystemClock.now() < until {
        match open_once(job, log, tries).await {
            Ok(locks) => return Ok(Some(locks)),
            Err(error) if error.retry() == Retry::Never && !clockwork::is_stepping() => {
                bail!("{}", Chain(&error))
            }
            Err(_) => SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(50)).await,
        }
    }
    Ok(None)
}

async fn open_once(job: &Job, log: &Arc<Log>, tries: &Arc<Tries>) -> tenure::Result<Locks> {
    let planted = job.planted.as_deref().and_then(Planted::named);
    let clock = planted.and_then(Planted::clock);
    let clock = clock.unwrap_or_else(|| Arc::new(SkewedClock::new(job.rate)));
    let store: Arc<dyn Store> = stores::open(&job.url, Arc::clone(&clock)).await?;
    let builder = Locks::builder()
        .clock(clock)
        .shared(true)
        .namespace(NAMESPACE)
        .default_ttl(TTL_LONG)
        .observer(Arc::new(Renewals(Arc::clone(log))))
        .operation_timeout(job.operation_timeout);
    let (builder, store) = match planted {
        Some(planted) => planted.plant(builder, store, tries),
        None => (builder, tries.around(store)),
    };
    builder.open_on(store).await
}

/// Writes down every renewal, the moment it is answered.
#[derive(Debug)]
struct Renewals(Arc<Log>);

impl Observer for Renewals {
    fn saw(&self, event: &Event) {
        if let EventKind::Renewed { fence, took } = event.kind {
            let done = Done::Renewed { fence: fence.get(), took: nanos(took) };
            // A log that cannot be written ends the worker with its next claim.
            let _ = self.0.did(0, event.key.as_str(), done);
        }
    }
}

//! `tenure verify`: workers on the user's own store, killed and paused, and a verdict on what they
//! saw.
//!
//! ```text
//! verify ── fleet ──▶ workers (processes) ──▶ folder: histories, sinks ──▶ tenure-check ──▶ report
//! ```

mod args;
mod fleet;
mod folder;
mod report;
mod worker;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tenure::store::Timing;
use tenure::{ErrorKind, Locks, Operation};
use tenure_check::history::{Answer, Claim};
use tenure_check::{Checker, History, Losses, Options, Violation, check};

pub(crate) use args::VerifyArgs;
use fleet::{Deeds, Fleet, Plan};
use report::Report;
use worker::ORPHAN_MAX;
pub(crate) use worker::{WORKER, work};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::style::Style;
use crate::{answer, open, scratch, store_url};

const TICK: Duration = Duration::from_millis(10);

/// How long a worker may take to end after its time is over, besides two of its ttl.
const END_MAX: Duration = Duration::from_secs(5);

/// Tries out the store.
pub(crate) async fn verify(args: &VerifyArgs) -> Result<Exit, Failure> {
    // Workers are killed and the folder is gone when this ends.
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        signal = signals.end() => Ok(Exit::of_signal(signal)),
        outcome = try_out(args) => outcome,
    }
}

async fn try_out(args: &VerifyArgs) -> Result<Exit, Failure> {
    let url = store_url::resolve(args.place.url.as_deref())?;
    let namespace = scratch::namespace("verify")?;
    let store = open::store(&args.place, args.output.verbose).await?;
    let locks = scratch::locks(store, &namespace, args.ttl).await?;
    probe(&locks, args.ttl).await?;
    let mut folder = Scratch::create(&namespace)?;
    let plan = Plan {
        url: url.as_str().to_owned(),
        namespace,
        folder: folder.path.clone(),
        workers: args.workers,
        keys: args.keys,
        ttl: args.ttl,
        until: SystemClock.now() + args.length(),
    };
    let mut fleet = Fleet::start(plan).await?;
    let lag = attend(args, &mut fleet).await?;
    let deeds = fleet.deeds;
    drop(fleet);
    let left = left_over(&locks, args).await;
    conclude(args, &locks, &mut folder, deeds, lag, left)
}

/// Whether the store grants anything at all with this ttl. What becomes of the grant is for the
/// workers to find out.
async fn probe(locks: &Locks, ttl: Duration) -> Result<(), Failure> {
    let unusable = |error: tenure::Error| {
        let failure = Failure::of_error(&error.during(Operation::Open));
        failure.instead_of(Exit::NotAcquired, Exit::Store.code())
    };
    let guard = locks.lock("probe").ttl(ttl).wait(ttl).acquire().await.map_err(unusable)?;
    match guard.release().await {
        Err(error) if error.kind() != ErrorKind::Lost => Err(unusable(error)),
        _ => Ok(()),
    }
}

/// Keeps the workers going until the time is over; says how late this process was at the worst.
async fn attend(args: &VerifyArgs, fleet: &mut Fleet) -> Result<Duration, Failure> {
    let progress = Progress::new(args.output.quiet);
    let (start, length) = (SystemClock.now(), args.length());
    let end = start + length;
    let mut lag = Duration::ZERO;
    loop {
        let next = SystemClock.now() + TICK;
        SystemClock.sleep_until(next).await;
        lag = lag.max(SystemClock.now().since(next));
        if SystemClock.now() >= end {
            break;
        }
        fleet.tend().await?;
        let Deeds { started, kills, pauses } = fleet.deeds;
        let text = format!("{started} workers started, {kills} killed, {pauses} paused");
        progress.show(SystemClock.now().since(start).div_duration_f64(length), &text);
    }
    fleet.dismiss(end + args.ttl * 2 + END_MAX).await?;
    Ok(lag)
}

/// The keys that are held although every lease must have ended.
async fn left_over(locks: &Locks, args: &VerifyArgs) -> Result<Vec<String>, Failure> {
    let latest = SystemClock.now() + args.ttl + ORPHAN_MAX;
    let mut left: Vec<String> = (0..args.keys).map(|n| worker::key(n.into())).collect();
    loop {
        let is_last = SystemClock.now() >= latest;
        let mut held = Vec::new();
        for key in left {
            if locks.is_locked(&key).await.map_err(|error| Failure::of_error(&error))? {
                held.push(key);
            }
        }
        left = held;
        if left.is_empty() || is_last {
            return Ok(left);
        }
        SystemClock.sleep_until(SystemClock.now() + TICK * 2).await;
    }
}

/// What a key that was left over comes to: the last who could renew it is gone.
fn overdue(key: &str, ttl: Duration) -> Violation {
    let text = format!("it is still held {:?} after the last worker ended", ttl + ORPHAN_MAX);
    let at = SystemClock.now().as_nanos();
    Violation { checker: Checker::Waiters, key: key.to_owned(), text, at }
}

fn options(locks: &Locks, history: &History, lag: Duration) -> Options {
    let failed = |claim: &Claim| matches!(claim.answer, Answer::Failed { .. });
    let has_failed = history.claims.iter().any(failed);
    Options {
        // Workers on a machine that is busy are late, and that is no fault of the store.
        slack: ORPHAN_MAX + lag * 2,
        losses: if has_failed { Losses::AtAnyTime } else { Losses::Never },
        is_observed: locks.store().timing == Timing::Observer,
        ..Options::default()
    }
}

fn conclude(
    args: &VerifyArgs,
    locks: &Locks,
    folder: &mut Scratch,
    deeds: Deeds,
    lag: Duration,
    left: Result<Vec<String>, Failure>,
) -> Result<Exit, Failure> {
    let read = folder::read_all(&folder.path)
        .map_err(|error| Failure::caused(Exit::Internal, "the histories cannot be read", &error))?;
    let history = History::new(read.records);
    if !history.claims.iter().any(|claim| claim.grant().is_some()) {
        let text = "no worker was granted a lock: there is nothing to judge";
        return Err(Failure::new(Exit::Store, text));
    }
    let mut verdict = check(&history, &options(locks, &history, lag));
    let left = match left {
        Ok(left) => left,
        // What the workers saw says more than that the store is away by now.
        Err(_) if !verdict.is_good() => Vec::new(),
        Err(failure) => return Err(failure),
    };
    verdict.violations.extend(left.iter().map(|key| overdue(key, args.ttl)));
    folder.keep = !verdict.is_good();
    let report = Report {
        args,
        store: locks.store(),
        history: &history,
        verdict: &verdict,
        deeds,
        torn: read.torn,
        left: &left,
        kept: folder.keep.then_some(folder.path.as_path()),
    };
    let printed = if args.output.json {
        answer::json(&report.json())
    } else {
        answer::raw(&format!("{}\n", report.lines(Style::of(&io::stdout())).join("\n")))
    };
    answer::heard_or_not(printed)?;
    Ok(if verdict.is_good() { Exit::SUCCESS } else { Exit::No })
}

/// The folder of one run: it goes with this value, unless it is to be kept.
#[derive(Debug)]
struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    fn create(name: &str) -> Result<Self, Failure> {
        let path = folder::create(name).map_err(|error| {
            Failure::caused(Exit::Internal, "no temporary folder can be made", &error)
        })?;
        Ok(Self { path, keep: false })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

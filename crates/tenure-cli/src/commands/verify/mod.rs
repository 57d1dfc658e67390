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
use tenure::{Locks, Operation};
use tenure_check::history::Answer;
use tenure_check::{History, Options, check};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) use args::VerifyArgs;
use fleet::{Deeds, Fleet, Plan};
use report::Report;
pub(crate) use worker::part;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::style::Style;
use crate::{answer, scratch};

const TICK: Duration = Duration::from_millis(10);

/// How long a worker may take to end after its time is over, besides two of its ttl.
const END_MAX: Duration = Duration::from_secs(5);

/// Tries out the store.
pub(crate) async fn verify(args: &VerifyArgs) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        biased;
        exit = interrupts.next() => Ok(exit),
        outcome = try_out(args) => outcome,
    }
}

async fn try_out(args: &VerifyArgs) -> Result<Exit, Failure> {
    let url = args.scratch.url()?;
    let namespace = scratch::namespace("verify");
    let store = args.scratch.open(args.output.verbose).await?;
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
    let left = left_over(&locks, args).await?;
    let exit = conclude(args, &locks, &mut folder, deeds, lag, &left)?;
    Ok(exit)
}

/// Whether the store grants anything at all with this ttl.
async fn probe(locks: &Locks, ttl: Duration) -> Result<(), Failure> {
    let opened = |error: tenure::Error| Failure::of_error(&error.during(Operation::Open));
    let guard = locks.lock("probe").ttl(ttl).wait(ttl).acquire().await.map_err(opened)?;
    guard.release().await.map_err(opened)
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
    let latest = SystemClock.now() + args.ttl + Duration::from_secs(1);
    let mut left: Vec<String> = (0..args.keys).map(|n| worker::key(n.into())).collect();
    loop {
        let mut held = Vec::new();
        for key in left {
            if locks.is_locked(&key).await.map_err(|error| Failure::of_error(&error))? {
                held.push(key);
            }
        }
        left = held;
        if left.is_empty() || SystemClock.now() >= latest {
            return Ok(left);
        }
        SystemClock.sleep_until(SystemClock.now() + TICK * 2).await;
    }
}

fn conclude(
    args: &VerifyArgs,
    locks: &Locks,
    folder: &mut Scratch,
    deeds: Deeds,
    lag: Duration,
    left: &[String],
) -> Result<Exit, Failure> {
    let read = folder::read_all(&folder.path)
        .map_err(|error| Failure::caused(Exit::Internal, "the histories cannot be read", &error))?;
    let history = History::new(read.records);
    if !history.claims.iter().any(|claim| claim.grant().is_some()) {
        let text = "no worker was granted a lock: there is nothing to judge";
        return Err(Failure::new(Exit::Store, text));
    }
    let failed =
        |claim: &tenure_check::history::Claim| matches!(claim.answer, Answer::Failed { .. });
    let usual = Options::default();
    let options = Options {
        // Workers on a machine that is busy are late, and that is no fault of the store.
        slack: usual.slack + lag * 2,
        is_lossy: history.claims.iter().any(failed),
        ..usual
    };
    let verdict = check(&history, &options);
    folder.keep = !verdict.is_good();
    let report = Report {
        args,
        store: locks.store(),
        history: &history,
        verdict: &verdict,
        deeds,
        torn: read.torn,
        left,
        kept: folder.keep.then_some(folder.path.as_path()),
    };
    if args.output.json {
        answer::json(&report.json())?;
    } else {
        for line in report.lines(Style::of(&io::stdout())) {
            answer::raw(&format!("{line}\n"))?;
        }
    }
    Ok(if verdict.is_good() { Exit::SUCCESS } else { Exit::Command(1) })
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

/// What tells this process to end: workers are killed and the folder is gone when it does.
struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Interrupts {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::caused(Exit::Internal, "signals cannot be listened to", &error)
            })
        };
        Ok(Self { int: listen(SignalKind::interrupt())?, term: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Exit {
        use rustix::process::Signal;
        tokio::select! {
            _ = self.int.recv() => Exit::of_signal(Signal::INT),
            _ = self.term.recv() => Exit::of_signal(Signal::TERM),
        }
    }
}

//! `tenure run`: a command under a lock, from the first question to the last answer.

mod args;
mod child;
pub(crate) mod held;
pub(crate) mod note;
mod offspring;
mod once;
pub(crate) mod settle;
pub(crate) mod tether;
mod vigil;
pub(crate) mod warden;

use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tenure::{Guard, LockRequest, Locks};

pub(crate) use args::RunArgs;
use held::Job;
use note::note;
use once::{Period, Turn};
use settle::{let_go, settle, ttl_min};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::open;
use crate::signals::Signals;
use crate::spans::span;
use crate::waiting::{acquire, say_holding};

/// Runs the command under the lock.
pub(crate) async fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let work = async |locks: &Locks, signals: &mut Signals| run_on(locks, args, signals).await;
    let outcome = open::using(&args.store, args.output.verbose, args.ttl, work).await;
    match (outcome, args.conflict_exit_code) {
        (Err(failure), Some(code)) => Err(failure.instead_of(Exit::NotAcquired, code)),
        (outcome, _) => outcome,
    }
}

async fn run_on(locks: &Locks, args: &RunArgs, signals: &mut Signals) -> Result<Exit, Failure> {
    check(locks, args)?;
    let request = request(locks, args);
    let guard = match acquire(locks, &args.key, request, &args.output, signals).await? {
        Ok(guard) => guard,
        Err(signal) => return Ok(Exit::of_signal(signal)),
    };
    let granted = SystemClock.now();
    if args.output.verbose || args.output.json {
        say_holding(&guard);
    }
    let period = match begin(locks, args, &guard).await {
        Ok(Turn::Ours(period)) => period,
        Ok(Turn::Over(last)) => {
            let_go(guard).await;
            return last.skip(&args.key, args.output.quiet);
        }
        Err(failure) => {
            let_go(guard).await;
            return Err(failure);
        }
    };
    let term = args.max_hold.map_or(args.ttl, |longest| longest.min(args.ttl));
    let job = Job { command: &args.command, term, on_lost: args.on_lost };
    let ended = job.run(&guard, signals).await;
    if let Some(period) = period {
        period.end(&ended, &guard).await;
    }
    let held = SystemClock.now().since(granted);
    settle(locks, guard, ended, args.at_least.and_then(|least| least.checked_sub(held))).await
}

/// Whether the store keeps a lease for as long as it may have to: before anything is run, and not
/// when it is to be kept.
fn check(locks: &Locks, args: &RunArgs) -> Result<(), Failure> {
    let longest = locks.store().capabilities.ttl_max.min(open::TTL_MAX);
    for (option, length, least) in [
        ("--once-per", args.once_per, ttl_min(locks)),
        ("--at-least", args.at_least, Duration::ZERO),
    ] {
        if length.is_some_and(|length| length < least || length > longest) {
            let (name, least, longest) = (locks.store().name, span(least), span(longest));
            let text = format!("{option} must be {least} to {longest} on this store ({name})");
            let advice = "of a tenure server, ttl_max under [limits] is the most";
            return Err(Failure::new(Exit::Usage, text).advise(advice));
        }
    }
    if args.once_per.is_some() {
        Period::check(locks, &args.key)?;
    }
    Ok(())
}

/// The period that the job is to be run once in, if there is one.
async fn begin(locks: &Locks, args: &RunArgs, guard: &Guard) -> Result<Turn, Failure> {
    match args.once_per {
        Some(length) => Period::begin(locks, guard, length, args.retry_failed).await,
        None => Ok(Turn::Ours(None)),
    }
}

fn request(locks: &Locks, args: &RunArgs) -> LockRequest {
    let mut request = locks.lock(args.key.as_str()).ttl(args.ttl);
    if let Some(wait) = args.wait.limit() {
        request = request.wait(wait);
    }
    if let Some(longest) = args.max_hold {
        request = request.max_hold(longest);
    }
    match note(&args.command) {
        Some(note) => request.holder(&note),
        None => request,
    }
}

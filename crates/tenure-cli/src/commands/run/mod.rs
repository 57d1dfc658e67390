//! `tenure run`: a command under a lock, from the first question to the last answer.

mod args;
mod child;
pub(crate) mod held;
pub(crate) mod note;
mod offspring;
mod once;
pub(crate) mod tether;
pub(crate) mod warden;

use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tenure::error::Chain;
use tenure::{Guard, LockRequest, Locks};

pub(crate) use args::RunArgs;
use held::{Ended, Job, give_back, let_go};
use note::note;
use once::{Period, Turn};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::waiting::{acquire, say_holding};
use crate::{open, say};

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

/// The period that the job is to be run once in, if there is one.
async fn begin(locks: &Locks, args: &RunArgs, guard: &Guard) -> Result<Turn, Failure> {
    match args.once_per {
        Some(length) => Period::begin(locks, guard.key(), length, args.retry_failed).await,
        None => Ok(Turn::Ours(None)),
    }
}

/// What becomes of the lock after the command's end, and of this process.
async fn settle(
    locks: &Locks,
    guard: Guard,
    ended: Result<Ended, Failure>,
    least: Option<Duration>,
) -> Result<Exit, Failure> {
    match (ended, least) {
        (Ok(Ended::Itself(exit)), Some(left)) if guard.is_held() => {
            leave(locks, guard, left).await;
            Ok(exit)
        }
        (Ok(Ended::Itself(exit)), _) => give_back(guard).await.map(|()| exit),
        (Ok(Ended::Lost(failure)), _) => {
            let_go(guard).await;
            Err(failure)
        }
        (Ok(Ended::Remains(failure)), _) => {
            let _ = guard.detach();
            Err(failure)
        }
        (Err(failure), _) => {
            // That the command did not run says more than what became of the lock.
            let _ = give_back(guard).await;
            Err(failure)
        }
    }
}

/// Leaves the lock to the store for the rest of the least time.
async fn leave(locks: &Locks, guard: Guard, left: Duration) {
    let lease = guard.detach();
    if let Err(error) = locks.renew(lease.key.as_str(), &lease.owner, left).await {
        say::error(&format_args!(
            "warning: the lock may end before --at-least is over: {}",
            Chain(&error)
        ));
    }
}

fn request(locks: &Locks, args: &RunArgs) -> LockRequest {
    let mut request = locks.lock(args.key.as_str()).ttl(args.ttl);
    if let Some(wait) = args.wait() {
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

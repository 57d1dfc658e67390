//! `tenure run`: a command under a lock, from the first question to the last answer.

mod args;
mod child;
pub(crate) mod held;
pub(crate) mod note;
mod offspring;
mod once;
pub(crate) mod signals;
pub(crate) mod tether;
pub(crate) mod waiting;

use tenure::clock::{Clock, Moment, SystemClock, within};
use tenure::error::Chain;
use tenure::{Guard, LockRequest, Locks};

pub(crate) use args::RunArgs;
pub(crate) use held::FLUSH_MAX;
use held::{Ended, Job, give_back, let_go};
use note::note;
use once::{Period, Turn};
pub(crate) use signals::Signals;
pub(crate) use waiting::{acquire, say_holding};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::{open, say};

/// Runs the command under the lock.
pub(crate) async fn run(args: &RunArgs) -> Result<Exit, Failure> {
    // Before anything is asked of the store: a signal must not leave a lock behind.
    let mut signals = Signals::listen()?;
    let locks = tokio::select! {
        biased;
        locks = open::locks(&args.store, args.output.verbose, args.ttl) => locks?,
        signal = signals.next() => return Ok(Exit::of_signal(signal)),
    };
    let outcome = run_on(&locks, args, &mut signals).await;
    // What it does not manage, the ttl does.
    let _ = within(&SystemClock, FLUSH_MAX, locks.flush()).await;
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
    // The guard cannot have been granted later than this.
    let granted = SystemClock.now();
    if args.output.verbose || args.output.json {
        say_holding(&guard);
    }
    let Some(length) = args.once_per else {
        return run_under(locks, args, guard, granted, signals).await;
    };
    match Period::begin(locks, &args.key, length, args.retry_failed).await {
        Ok(Turn::Ours(period)) => {
            let outcome = run_under(locks, args, guard, granted, signals).await;
            period.end(&outcome).await;
            outcome
        }
        Ok(Turn::Over(last)) => {
            let_go(guard).await;
            last.skip(&args.key, args.output.quiet)
        }
        Err(failure) => {
            let_go(guard).await;
            Err(failure)
        }
    }
}

/// The command, and what becomes of the lock afterwards.
async fn run_under(
    locks: &Locks,
    args: &RunArgs,
    guard: Guard,
    granted: Moment,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let term = args.max_hold.map_or(args.ttl, |longest| longest.min(args.ttl));
    let job = Job { command: &args.command, term, on_lost: args.on_lost };
    match job.run(&guard, signals).await {
        Ok(Ended::Itself(exit)) => end(locks, args, guard, granted).await.map(|()| exit),
        Ok(Ended::Lost(failure)) => {
            let_go(guard).await;
            Err(failure)
        }
        Err(failure) => {
            // That the command did not run says more than what became of the lock.
            let _ = give_back(guard).await;
            Err(failure)
        }
    }
}

/// Gives the lock back, or leaves it to the store for the rest of the least time.
async fn end(locks: &Locks, args: &RunArgs, guard: Guard, granted: Moment) -> Result<(), Failure> {
    let held = SystemClock.now().since(granted);
    let Some(left) = args.at_least.and_then(|least| least.checked_sub(held)) else {
        return give_back(guard).await;
    };
    if !guard.is_held() {
        return give_back(guard).await;
    }
    let lease = guard.detach();
    if let Err(error) = locks.renew(lease.key.as_str(), &lease.owner, left).await {
        say::error(&format_args!(
            "warning: the lock may end before --at-least is over: {}",
            Chain(&error)
        ));
    }
    Ok(())
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

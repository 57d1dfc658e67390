//! `tenure run`: a command under a lock, from the first question to the last answer.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tenure::clock::{Clock, SystemClock, within};
use tenure::error::Chain;
use tenure::{ErrorKind, Guard, LockRequest, Locks, LostReason, Waiting};

use crate::child::{Child, Stopped};
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::say;
use crate::signals::Signals;
use crate::store_url;

/// How long the end of this process may wait for what is still to be given back.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// How long before the end of belief a command that does not stop is killed, at the most.
const KILL_AHEAD_MAX: Duration = Duration::from_secs(1);

/// How many characters of a command's name others see.
const NOTE_MAX: usize = 64;

/// How the command ended.
enum Ended {
    /// By itself; this is how.
    Itself(Exit),
    /// Because the lock was about to be lost, or was.
    Lost(LostReason, Stopped),
}

/// Runs the command under the lock.
pub(crate) async fn run(args: &RunArgs) -> Result<Exit, Failure> {
    // Before anything is asked of the store: a signal must not leave a lock behind.
    let mut signals = Signals::listen()?;
    let locks = tokio::select! {
        biased;
        locks = open(args) => locks?,
        signal = signals.next() => return Ok(Exit::of_signal(signal)),
    };
    let outcome = run_on(&locks, args, &mut signals).await;
    // What it does not manage, the ttl does.
    let _ = within(&SystemClock, FLUSH_MAX, locks.flush()).await;
    outcome
}

async fn open(args: &RunArgs) -> Result<Locks, Failure> {
    let url = store_url::resolve(args.store.store.as_deref())?;
    if args.output.verbose {
        say::progress(&format_args!("store {}", url.label()));
    }
    let mut builder = Locks::builder().default_ttl(args.ttl).shared(true);
    if let Some(namespace) = &args.store.namespace {
        builder = builder.namespace(namespace.as_str());
    }
    builder.open(url.as_str()).await.map_err(|error| Failure::of_error(&error))
}

async fn run_on(locks: &Locks, args: &RunArgs, signals: &mut Signals) -> Result<Exit, Failure> {
    let guard = match acquire(locks, args, signals).await? {
        Ok(guard) => guard,
        Err(signal) => return Ok(Exit::of_signal(signal)),
    };
    if args.output.verbose {
        let (key, fence) = (guard.key(), guard.fence());
        say::progress(&format_args!("holding {key:?} (fence {fence})"));
    }
    match run_under(&guard, args, signals).await {
        Ok(Ended::Itself(exit)) => give_back(guard).await.map(|()| exit),
        Ok(Ended::Lost(reason, stopped)) => {
            let failure = lost(&guard, reason, stopped);
            // It may not have come to the loss; then the next need not wait for the ttl.
            let _ = within(&SystemClock, FLUSH_MAX, guard.release()).await;
            Err(failure)
        }
        Err(failure) => {
            // That the command did not run says more than what became of the lock.
            let _ = give_back(guard).await;
            Err(failure)
        }
    }
}

/// Waits for the lock, or for a signal to end.
async fn acquire(
    locks: &Locks,
    args: &RunArgs,
    signals: &mut Signals,
) -> Result<Result<Guard, Signal>, Failure> {
    let request = request(locks, args);
    tokio::select! {
        biased;
        guard = request.acquire() => guard.map(Ok).map_err(|error| not_acquired(&error)),
        signal = signals.next() => Ok(Err(signal)),
    }
}

fn request(locks: &Locks, args: &RunArgs) -> LockRequest {
    let mut request = locks.lock(args.key.as_str()).ttl(args.ttl);
    if let Some(wait) = args.wait() {
        request = request.wait(wait);
    }
    if let Some(note) = args.command.first().and_then(|program| note(program)) {
        request = request.holder(&note);
    }
    if !args.output.quiet {
        request = request.on_wait(show);
    }
    request
}

/// The command's name, for others to see. Its arguments may be secret.
fn note(program: &OsStr) -> Option<String> {
    let name = Path::new(program).file_name()?.to_string_lossy();
    Some(name.chars().filter(|c| !c.is_control()).take(NOTE_MAX).collect())
}

fn show(waiting: &Waiting) {
    if let Some(status) = &waiting.held_by {
        say::progress(&format_args!(
            "waiting for {:?}: held by {} (fence {})",
            waiting.key, status.holder, status.fence
        ));
    }
}

fn not_acquired(error: &tenure::Error) -> Failure {
    let failure = Failure::of_error(error);
    match error.kind() {
        ErrorKind::Held => failure.advise("use --wait to wait for it"),
        ErrorKind::TimedOut => failure.advise("use a longer --wait, or none to wait without end"),
        _ => failure,
    }
}

/// The command from start to end, while the guard holds.
async fn run_under(guard: &Guard, args: &RunArgs, signals: &mut Signals) -> Result<Ended, Failure> {
    let mut child = Child::start(&args.command, guard)?;
    loop {
        tokio::select! {
            biased;
            status = child.ended() => return Ok(Ended::Itself(Exit::of_command(status?))),
            reason = guard.ending(args.ttl / 4) => {
                let stopped = child.stop(too_late(guard, args.ttl, reason)).await;
                return Ok(Ended::Lost(reason, stopped));
            }
            signal = signals.next() => child.pass_on(signal),
        }
    }
}

/// Returns when a command that was told to stop must be killed: a little before belief ends, so
/// that it is gone by then.
///
/// A lock that was taken away leaves no such time. The command still gets that little, to put
/// things in order: the loss was found only with a renewal, so it is small beside what has passed.
async fn too_late(guard: &Guard, ttl: Duration, reason: LostReason) {
    let ahead = (ttl / 10).min(KILL_AHEAD_MAX);
    if reason == LostReason::Refused {
        SystemClock.sleep_until(SystemClock.now() + ahead).await;
    } else {
        guard.ending(ahead).await;
    }
}

/// Gives the lock back after the command's end. A store that fails now changes nothing about what
/// the command did, so that is a warning; that the lock was gone before is a failure.
async fn give_back(guard: Guard) -> Result<(), Failure> {
    match guard.release().await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Lost => Err(Failure::of_error(&error)
            .advise("the command ran to its end, the last of it without the lock")),
        Err(error) => {
            say::error(&format_args!(
                "warning: the lock was not given back and ends with its ttl: {}",
                Chain(&error)
            ));
            Ok(())
        }
    }
}

fn lost(guard: &Guard, reason: LostReason, stopped: Stopped) -> Failure {
    let (key, fence) = (guard.key(), guard.fence());
    let why = match reason {
        LostReason::Refused => "it was released by force, or ended and went to another",
        _ => "it could not be renewed in time",
    };
    let how = match stopped {
        Stopped::Terminated => "the command was stopped with SIGTERM",
        Stopped::Killed => "the command was killed with SIGKILL",
    };
    let text = format!("the lock {key:?} (fence {fence}) was lost: {why}; {how}");
    Failure::new(Exit::Lost, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_is_the_name_and_no_argument() {
        let note = |text: &str| note(OsStr::new(text));
        assert_eq!(note("/usr/bin/pg_dump"), Some("pg_dump".into()));
        assert_eq!(note("a\u{1b}b"), Some("ab".into()));
        assert_eq!(note(&"x".repeat(500)).map(|note| note.len()), Some(NOTE_MAX));
        assert_eq!(note("/"), None);
    }
}
